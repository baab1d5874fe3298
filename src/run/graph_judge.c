/* What a search is told about ways to fuse a graph, by running all of it. */
#include <stdio.h>

#include "base/log.h"
#include "run/graph_key.h"
#include "run/tuner_parts.h"
#include "run/whole.h"
#include "tune/guard.h"

enum { TOO_DEAR = 8 };

struct graph_judge {
    subject *of;
    stage *on;
    double usual_cost; /* as foreseen; what is foreseen to cost so many times as much is not run at all */
    whole *slots[SEARCH_SLOTS];
    program **kept; /* of the usual plan: its kernels are the candidates of keys next */
    int kept_count;
};

static bool is_over(void *state)
{
    const tuner *of = ((graph_judge *)state)->of->of;
    return of->stopped || of->lost || tuff__nanoseconds() >= of->limit;
}

static verdict lower_graph(void *state, const choice *what, lowering *out)
{
    graph_judge *self = state;
    whole_form made;
    const tuff_status status = tuff__stage_foresee(self->on, what, &made);
    if (status == TUFF_E_LIMIT)
        return VERDICT_INVALID;
    if (status != TUFF_OK)
        return tuff__judge_verdict(self->of->of, status);
    *out = (lowering){.program = made.kernels, .group_items = 1, .consulted = made.found, .cost = made.cost};
    if (tuff__choice_count(what) == 0)
        self->usual_cost = made.cost;
    if (made.cost > TOO_DEAR * self->usual_cost) {
        (void)FAIL(TUFF_E_UNSUPPORTED, "tune: it is foreseen to take far longer than the usual");
        return VERDICT_INVALID;
    }
    choice tried = *what;
    tuff__choice_trim(&tried, &made.found);
    return tuff__judge_bars(self->of, &tried) ? VERDICT_BARRED : VERDICT_GOOD;
}

/* Each program, and each launch of a first run, is a step of its own to those who watch, and who ask to stop. */
static bool may_go_on(void *user)
{
    const graph_judge *self = user;
    atomic_store(&tuff__tune_step_begin, tuff__nanoseconds());
    return tuff__tuner_shows_progress(self->of) && !is_over((void *)self);
}

/* What there was no time for is as if there were no room for it: nothing is held against it. */
static verdict compile_graph(void *state, const contender *who)
{
    graph_judge *self = state;
    tuner *of = self->of->of;
    const uint64_t begin = tuff__nanoseconds();
    tuff_status status = tuff__judge_announce(self->of, who, JOURNAL_FIRST_RUN, true);
    if (status == TUFF_OK)
        status = tuff__whole_create(self->on, &who->what, &self->slots[who->slot]);
    const bool no_time = status == TUFF_E_TIMEOUT && is_over(self);
    tuff__judge_leave(of);
    of->stats.compiles++;
    of->stats.compile_nanoseconds += tuff__nanoseconds() - begin;
    return no_time ? VERDICT_ROOM : tuff__judge_verdict(of, status);
}

static verdict sample_graph(void *state, const contender *who, int count, uint64_t limit, uint64_t *nanoseconds)
{
    graph_judge *self = state;
    tuner *of = self->of->of;
    const uint64_t begin = tuff__nanoseconds();
    tuff_status status = tuff__judge_announce(self->of, who, JOURNAL_BENCH, false);
    if (status == TUFF_OK)
        status = tuff__whole_time(self->slots[who->slot], count, limit, nanoseconds);
    tuff__judge_leave(of);
    of->stats.launches += (uint64_t)count;
    of->stats.sample_nanoseconds += tuff__nanoseconds() - begin;
    if (status == TUFF_OK && tuff__choice_count(&who->what) == 0)
        self->of->default_nanoseconds = nanoseconds[0];
    return tuff__judge_verdict(of, status);
}

static tuff_status check(const graph_judge *self, const contender *who, char *wrong, size_t size, bool *same)
{
    whole *one = self->slots[who->slot];
    *same = true;
    TRY(tuff__judge_announce(self->of, who, JOURNAL_VERIFY, false));
    TRY(tuff__whole_check(one, tuff__choice_count(&who->what) == 0, wrong, size));
    return wrong[0] == '\0' ? tuff__whole_repeat(one, same) : TUFF_OK;
}

/* Kernels are looked at task by task when their keys are measured; here it is what lies between them. */
static verdict verify_graph(void *state, const contender *who, bool thorough)
{
    graph_judge *self = state;
    tuner *of = self->of->of;
    char wrong[128] = "";
    bool same;
    if (thorough)
        return VERDICT_GOOD; /* every shape of the graph is in it */
    const uint64_t begin = tuff__nanoseconds();
    const tuff_status status = check(self, who, wrong, sizeof wrong, &same);
    tuff__judge_leave(of);
    of->stats.verify_nanoseconds += tuff__nanoseconds() - begin;
    if (status != TUFF_OK)
        return tuff__judge_verdict(of, status);
    if (wrong[0] == '\0' && same)
        return VERDICT_GOOD;
    (void)FAIL(TUFF_E_NUMERIC, "tune: %s", same ? wrong : "two runs of the graph differ");
    return same ? VERDICT_WRONG : VERDICT_RACE;
}

static void release_graph(void *state, const contender *who)
{
    graph_judge *self = state;
    if (tuff__choice_count(&who->what) == 0 && self->kept == NULL)
        tuff__whole_give_programs(self->slots[who->slot], &self->kept, &self->kept_count);
    tuff__whole_destroy(self->slots[who->slot]);
    self->slots[who->slot] = NULL;
}

judge tuff__graph_judge_of(graph_judge *self)
{
    return (judge){.state = self,
                   .lower = lower_graph,
                   .compile = compile_graph,
                   .sample = sample_graph,
                   .verify = verify_graph,
                   .release = release_graph,
                   .is_over = is_over};
}

tuff_status tuff__graph_judge_create(subject *of, graph_judge **out)
{
    tuner *self = of->of;
    graph_judge *made = tuff__calloc(1, sizeof *made);
    *out = NULL;
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    made->of = of;
    const stage_guard guard = {may_go_on, made};
    const tuff_status status = tuff__stage_create(self->source, tuff__tuner_bench(self), self->options,
                                                  tuff__judge_room(self), &guard, &made->on);
    if (status != TUFF_OK) {
        tuff__free(made);
        return status;
    }
    *out = made;
    return TUFF_OK;
}

void tuff__graph_judge_destroy(graph_judge *self)
{
    if (self == NULL)
        return;
    tuner *of = self->of->of;
    tuff__tuner_keep_programs(of, self->kept, self->kept_count);
    tuff__stage_destroy(self->on);
    tuff__free(self);
}
