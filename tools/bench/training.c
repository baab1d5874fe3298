/* Training steps as implementations. They use the tool's own model, optimizer and graph, so that the times are those of
   tuff train. */
#include "tools/bench/training.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "tools/model/graphs.h"

/* The job of the published figures, that of tuff train without options, and, on discrete GPUs only as it would take
   minutes elsewhere, a GPT-2 small over bytes. */
bool bench_job_at(const bench *self, int index, bench_job *out)
{
    static const bench_job jobs[] = {
        {{.form = MODEL_GPT, .layers = 6, .heads = 6, .width = 384, .context = 256, .vocabulary = 256}, 4},
        {{.form = MODEL_GPT, .layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256}, 8},
        {{.form = MODEL_GPT, .layers = 12, .heads = 12, .width = 768, .context = 1024, .vocabulary = 256}, 8}};
    static const bench_job quick = {
        {.form = MODEL_GPT, .layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 256}, 2};
    const int all = (int)(sizeof jobs / sizeof *jobs);
    const int count = self->quick ? 1 : self->info.device_class == TUFF_DEVICE_GPU_DISCRETE ? all : all - 1;
    if (index >= count)
        return false;
    *out = self->quick ? quick : jobs[index];
    return true;
}

const char *bench_job_text(const bench_job *job, char *buffer, size_t size)
{
    const model_config *config = &job->config;
    snprintf(buffer, size, "%dx%d H%d T%d B%d", (int)config->layers, (int)config->width, (int)config->heads,
             (int)config->context, (int)job->batch);
    return buffer;
}

/* The rate is constant, so that all steps are alike. */
tuff_optimizer_options bench_optimizer_options(void)
{
    return (tuff_optimizer_options){
        .kind = TUFF_ADAMW, .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1, .clip_norm = 1};
}

int32_t *bench_windows(const bench_job *job, size_t *size)
{
    const int64_t count = job->batch * (job->config.context + 1);
    *size = (size_t)count * sizeof(int32_t);
    int32_t *windows = tuff__alloc(*size);
    for (int64_t i = 0; windows && i < count; i++)
        windows[i] = (int32_t)((bench_value(5, i) + 1) * 0.5f * (float)job->config.vocabulary);
    return windows;
}

static void training_destroy(void *object)
{
    bench_training *self = object;
    if (!self)
        return;
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    tuff_optimizer_destroy(self->optimizer);
    model_destroy(&self->model);
    for (int i = 0; i < self->view_count; i++)
        tuff_array_destroy(self->views[i]);
    tuff_array_destroy(self->gradients);
    tuff__free(self->windows);
    tuff__free(self);
}

/* The time includes the host's part of a step: it writes the next windows as tuff train does. */
static tuff_status training_run(void *object, int count, bench_sample *sample)
{
    bench_training *self = object;
    (void)sample;
    for (int i = 0; i < count; i++) {
        TRY(tuff_plan_write(self->plan, "windows", self->windows, self->windows_size));
        TRY(tuff_plan_run(self->plan));
    }
    return tuff_plan_wait(self->plan);
}

static tuff_status training_read(void *object, float *values, int64_t count)
{
    const bench_training *self = object;
    for (int64_t i = 0; i < count; i++)
        values[i] = self->losses[i];
    return TUFF_OK;
}

static tuff_status make_model(bench_training *self)
{
    const tuff_optimizer_options options = bench_optimizer_options();
    TRY(model_create(self->device, &self->job.config, &self->model));
    TRY(model_initialize(&self->model, 1));
    self->optimizer = tuff_optimizer_create(self->model.parameters, &options);
    return self->optimizer ? TUFF_OK : tuff_last_status();
}

static tuff_status compile(bench_training *self, const tuff_compile_options *options)
{
    tuff_device_counters before, after;
    TRY(tuff_device_counters_get(self->device, &before));
    const uint64_t begin = tuff__nanoseconds();
    self->plan = self->graph ? tuff_compile(self->graph, options) : NULL;
    self->compile_seconds = tuff__seconds_since(begin);
    TRY(tuff_device_counters_get(self->device, &after));
    self->fresh_programs = after.programs_compiled - before.programs_compiled;
    return self->plan ? TUFF_OK : tuff_last_status();
}

static tuff_status first_steps(bench_training *self)
{
    float report[3]; /* loss, norm, rate */
    self->windows = bench_windows(&self->job, &self->windows_size);
    if (!self->windows)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < BENCH_LOSSES; i++) {
        TRY(training_run(self, 1, NULL));
        TRY(tuff_plan_read(self->plan, "report", report, sizeof report));
        self->losses[i] = report[0];
    }
    return TUFF_OK;
}

static bench_training *add(bench *self, bench_work *work, const bench_job *job, const char *name)
{
    bench_implementation *item = bench_add(work, BENCH_TUFF, name);
    bench_training *made = item ? tuff__calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    made->device = self->device;
    made->job = *job;
    item->self = made;
    item->destroy = training_destroy;
    return made;
}

tuff_status bench_training_add(bench *self, bench_work *work, const bench_job *job, const char *name,
                               const tuff_compile_options *options, bench_training **out)
{
    bench_training *made = add(self, work, job, name);
    if (!made)
        return tuff_last_status();
    work->items[work->count - 1].run = training_run;
    work->items[work->count - 1].read = training_read;
    work->result_count = BENCH_LOSSES;
    TRY(make_model(made));
    made->graph = train_graph(made->device, &made->model, made->optimizer, made->job.batch);
    TRY(compile(made, options));
    if (out)
        *out = made;
    return first_steps(made);
}

static tuff_status update_run(void *object, int count, bench_sample *sample)
{
    bench_training *self = object;
    (void)sample;
    for (int i = 0; i < count; i++)
        TRY(tuff_plan_run(self->plan));
    return tuff_plan_wait(self->plan);
}

bench_training *bench_update_begin(bench *self, bench_work *work, const bench_job *job, const char *name)
{
    bench_training *made = add(self, work, job, name);
    if (made)
        work->items[work->count - 1].run = update_run;
    return made;
}

/* Adds the sum of parameter · gradient to the loss; its gradient with respect to the parameter is the array of
   gradients. */
static tuff_status add_term(bench_training *self, int index, int64_t *offset, tuff_tensor **loss)
{
    tuff_array *parameter = tuff_parameters_at(self->model.parameters, index, NULL);
    const tuff_shape shape = tuff_array_shape(parameter);
    const int axes[] = {0, 1};
    if (self->view_count == (int)(sizeof self->views / sizeof *self->views))
        return FAIL(TUFF_E_LIMIT, "bench: the model has too many parameters");
    tuff_array *view = tuff_array_view(self->gradients, *offset, shape);
    if (!view)
        return tuff_last_status();
    self->views[self->view_count++] = view;
    *offset += tuff_shape_count(shape);
    tuff_tensor *product = tuff_mul(tuff_array_tensor(self->graph, parameter), tuff_array_tensor(self->graph, view));
    tuff_tensor *term = tuff_sum(product, axes, shape.rank, false);
    *loss = *loss ? tuff_add(*loss, term) : term;
    return TUFF_OK;
}

static tuff_status fill_gradients(bench_training *self, int64_t count)
{
    float *values = tuff__alloc((size_t)count * sizeof *values);
    if (!values)
        return TUFF_E_OOM_HOST;
    bench_fill(values, count, 3);
    self->gradients = tuff_array_create(self->device, TUFF_F32, TUFF_SHAPE(count));
    const tuff_status status = self->gradients
                                   ? tuff_array_write(self->gradients, values, (size_t)count * sizeof *values)
                                   : tuff_last_status();
    tuff__free(values);
    return status;
}

tuff_status bench_update_add(bench *self, bench_work *work, const bench_job *job, const char *name, tuff_fuse_mode fuse)
{
    bench_training *made = bench_update_begin(self, work, job, name);
    tuff_tensor *loss = NULL;
    int64_t offset = 0;
    if (!made)
        return tuff_last_status();
    TRY(make_model(made));
    TRY(fill_gradients(made, model_parameter_count(&made->job.config)));
    made->graph = tuff_graph_create(made->device);
    if (!made->graph)
        return tuff_last_status();
    tuff_graph_step(made->graph, tuff_optimizer_counter(made->optimizer));
    for (int i = 0; i < tuff_parameters_count(made->model.parameters); i++)
        TRY(add_term(made, i, &offset, &loss));
    TRY(tuff_optimizer_apply(made->optimizer, loss, NULL));
    return compile(made, &(tuff_compile_options){.fuse = fuse, .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
}
