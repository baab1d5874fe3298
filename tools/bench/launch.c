/* The cost of a dispatch that does almost no work: alone and in a chain of 100, with one wait after many runs, with a
   wait after each, and the part that the host spends in submitting the recorded commands. */
#include "tools/bench/plan.h"

static void build_links(bench_plan *self, const void *problem)
{
    const int *count = problem;
    tuff_tensor *x = bench_input(self, TUFF_F32, TUFF_SHAPE(16), 1);
    for (int i = 0; i < *count; i++)
        x = tuff_sin(x);
    self->result = x;
}

static tuff_status add_forms(bench *self, bench_work *work, int links)
{
    TRY(bench_plan_add(self, work, "one wait for many", TUFF_FUSE_NONE, build_links, &links));
    TRY(bench_plan_facts(work));
    TRY(bench_plan_add(self, work, "a wait after each", TUFF_FUSE_NONE, build_links, &links));
    ((bench_plan *)work->items[work->count - 1].self)->waits = true;
    TRY(bench_plan_add(self, work, "submission alone", TUFF_FUSE_NONE, build_links, &links));
    ((bench_plan *)work->items[work->count - 1].self)->only_submits = true;
    return TUFF_OK;
}

tuff_status bench_launch(bench *self)
{
    static const int links[] = {1, 100};
    for (int i = 0; i < 2; i++) {
        bench_work work;
        if (bench_begin(self, &work, "launch", "%s", i == 0 ? "one dispatch" : "a chain of 100"))
            TRY(bench_run_work(self, &work, add_forms(self, &work, links[i])));
    }
    return TUFF_OK;
}
