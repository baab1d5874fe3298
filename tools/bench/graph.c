/* A graph file as a work: compiled as the file says, tuned, and unfused, with the same random values in inputs and
   arrays. Implementations must agree on the first float output of the first run; later runs continue from what earlier
   ones left in arrays. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "ops/ops.h"
#include "tools/bench/plan.h"
#include "tools/model/known_plans.h"

typedef struct bench_file {
    model_plans plans;
    float *first; /* output after the first run */
    int64_t count;
    double compile_seconds;
} bench_file;

static tuff_status file_run(void *object, int count, bench_sample *sample)
{
    bench_file *self = object;
    tuff_plan *plan = self->plans.items[0].plan;
    (void)sample;
    for (int i = 0; i < count; i++)
        TRY(tuff_plan_run(plan));
    return tuff_plan_wait(plan);
}

static tuff_status file_read(void *object, float *values, int64_t count)
{
    const bench_file *self = object;
    memcpy(values, self->first, (size_t)count * sizeof *values);
    return TUFF_OK;
}

static void file_destroy(void *object)
{
    bench_file *self = object;
    if (!self)
        return;
    model_plans_destroy(&self->plans);
    tuff__free(self->first);
    tuff__free(self);
}

/* Keeps the output as f32. If any value is not finite, count is 0 and nothing is compared. */
static tuff_status read_output(bench_file *self, int index, const tuff_plan_value *output)
{
    const int64_t count = tuff_shape_count(output->shape);
    void *bytes = tuff__alloc((size_t)output->size);
    double *values = tuff__calloc((size_t)count + 1, sizeof *values);
    self->first = tuff__calloc((size_t)count + 1, sizeof *self->first);
    tuff_status status = bytes && values && self->first ? TUFF_OK : TUFF_E_OOM_HOST;
    if (status == TUFF_OK)
        status = tuff_plan_read_at(self->plans.items[0].plan, index, 0, bytes, (size_t)output->size);
    if (status == TUFF_OK) {
        bool is_finite = true;
        tuff__to_double(output->dtype, bytes, count, values);
        for (int64_t i = 0; i < count; i++) {
            self->first[i] = (float)values[i];
            is_finite = is_finite && isfinite(values[i]);
        }
        self->count = is_finite ? count : 0;
    }
    tuff__free(values);
    tuff__free(bytes);
    return status;
}

static tuff_status first_run(bench_file *self)
{
    tuff_plan *plan = self->plans.items[0].plan;
    TRY(model_plan_write(&self->plans, 0));
    TRY(file_run(self, 1, NULL));
    for (int i = 0; i < tuff_plan_output_count(plan); i++) {
        tuff_plan_value output;
        TRY(tuff_plan_output_at(plan, i, &output));
        if (tuff__dtype_is_float(output.dtype))
            return read_output(self, i, &output);
    }
    return TUFF_OK;
}

static tuff_status add_file(bench *self, bench_work *work, const char *name, const tuff_compile_options *options,
                            bench_file **out)
{
    bench_implementation *item = bench_add(work, BENCH_TUFF, name);
    bench_file *made = item ? tuff__calloc(1, sizeof *made) : NULL;
    if (!made)
        return tuff_last_status();
    item->self = made;
    item->run = file_run;
    item->read = file_read;
    item->destroy = file_destroy;
    const uint64_t begin = tuff__nanoseconds();
    const model_options description = {
        .file = self->graph, .precision = self->precision, .has_precision = self->has_precision};
    TRY(model_plans_open(self->device, &description, options, &made->plans));
    made->compile_seconds = tuff__seconds_since(begin);
    *out = made;
    return first_run(made);
}

static tuff_status add_facts(bench_work *work, const bench_file *fused, const bench_file *unfused)
{
    bench_add_fact(work, "compile", fused->compile_seconds, "s");
    TRY(bench_plan_pair_facts(work, fused->plans.items[0].plan, unfused->plans.items[0].plan));
    work->result_count = fused->count < unfused->count ? fused->count : unfused->count;
    if (work->result_count == 0)
        bench_add_fact(work, "outputs compared", 0, "");
    return TUFF_OK;
}

static tuff_status add_tuned(bench *self, bench_work *work, const bench_file *baseline)
{
    bench_file *tuned;
    tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    if (self->tune.mode < TUFF_TUNE_QUICK)
        return TUFF_OK;
    tuning_apply(&self->tune, &options);
    const tuff_status status = add_file(self, work, "tuff, tuned", &options, &tuned);
    if (status != TUFF_OK)
        return status;
    (void)tuning_end(&self->tune, tuned->plans.items[0].plan);
    bench_add_fact(work, "compile, tuned", tuned->compile_seconds, "s");
    return bench_plan_compare(work, baseline->plans.items[0].plan, tuned->plans.items[0].plan);
}

static tuff_status add_forms(bench *self, bench_work *work)
{
    bench_file *fused, *unfused;
    const tuff_compile_options baseline = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}},
                               plain = {.fuse = TUFF_FUSE_NONE};
    TRY(add_file(self, work, "tuff", &baseline, &fused));
    TRY(add_tuned(self, work, fused));
    TRY(add_file(self, work, "tuff, unfused", &plain, &unfused));
    if (fused->plans.file_precision != TUFF_PRECISION_F32)
        work->tolerance = NARROW_TOLERANCE;
    return add_facts(work, fused, unfused);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

tuff_status bench_graph(bench *self)
{
    bench_work work;
    if (!self->graph || !bench_begin(self, &work, "graph", "%s", base_name(self->graph)))
        return TUFF_OK;
    return bench_run_work(self, &work, add_forms(self, &work));
}
