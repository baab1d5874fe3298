/* AdamW over as many parameters as GPT-2 small has, with gradients already in memory and without clipping. The minimum
   memory traffic is four slabs read and three written, in one dispatch per slab. */
#include "tools/bench/training.h"

#include "base/alloc.h"
#include "train/train.h"
#include "tuff/profile.h"

enum { TENSORS = 48, COLUMNS = 768, ROWS = 3376, QUICK_ROWS = 8, PART = 1 << 20 };

static tuff_status make_parameters(bench_training *self, int64_t rows)
{
    char names[TENSORS][16];
    tuff_parameter_spec specs[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof names[i], "w%d", i);
        specs[i] = (tuff_parameter_spec){.name = names[i], .shape = TUFF_SHAPE(rows, COLUMNS)};
    }
    self->model.parameters = tuff_parameters_create(self->device, specs, TENSORS);
    return self->model.parameters ? TUFF_OK : tuff_last_status();
}

/* Fills an array with arbitrary values, part by part. */
static tuff_status fill(tuff_array *array, const float *values)
{
    const int64_t count = tuff_shape_count(tuff_array_shape(array));
    for (int64_t at = 0; at < count; at += PART) {
        const int64_t part = count - at < PART ? count - at : PART;
        tuff_array *view = tuff_array_view(array, at, TUFF_SHAPE(part));
        const tuff_status status =
            view ? tuff_array_write(view, values, (size_t)part * sizeof *values) : tuff_last_status();
        tuff_array_destroy(view);
        TRY(status);
    }
    return TUFF_OK;
}

static tuff_status fill_all(const bench_training *self)
{
    float *values = tuff__alloc(PART * sizeof *values);
    if (!values)
        return TUFF_E_OOM_HOST;
    bench_fill(values, PART, 3);
    tuff_status status = TUFF_OK;
    for (int i = 0; i < self->model.parameters->slab_count && status == TUFF_OK; i++) {
        status = fill(self->model.parameters->slabs[i].array, values);
        if (status == TUFF_OK)
            status = fill(self->optimizer->gradient_ranges[i].accumulated, values);
    }
    tuff__free(values);
    return status;
}

/* The update of an accumulated step reads gradients that are already in memory. */
static tuff_status make_plan(bench_training *self)
{
    const tuff_optimizer_options options = {.learning_rate = 1e-3, .weight_decay = 0.1, .accumulate = 2};
    self->optimizer = tuff_optimizer_create(self->model.parameters, &options);
    self->graph = self->optimizer ? tuff_graph_create(self->device) : NULL;
    if (!self->graph)
        return tuff_last_status();
    TRY(tuff_optimizer_update(self->optimizer, self->graph, NULL));
    self->plan =
        tuff_compile(self->graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
    return self->plan ? fill_all(self) : tuff_last_status();
}

tuff_status bench_adamw_add(bench *self, bench_work *work)
{
    bench_training *made = bench_update_begin(self, work, &(bench_job){.batch = 0}, "tuff");
    tuff_plan_info info;
    if (!made)
        return tuff_last_status();
    TRY(make_parameters(made, self->quick ? QUICK_ROWS : ROWS));
    TRY(make_plan(made));
    TRY(tuff_plan_describe(made->plan, &info));
    bench_add_fact(work, "slabs", made->model.parameters->slab_count, "");
    bench_add_fact(work, "dispatches", (double)info.dispatch_count, "");
    return TUFF_OK;
}

int64_t bench_adamw_parameters(const bench *self)
{
    return (int64_t)TENSORS * COLUMNS * (self->quick ? QUICK_ROWS : ROWS);
}
