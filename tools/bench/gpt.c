/* A training step of the GPT models of bench_job_at: fused, unfused, and in plain C with OpenMP. Also reports counts of
   the plan, the share of the step spent inside kernels, and the host's time. */
#define _POSIX_C_SOURCE 200809L

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tools/bench/plan.h"
#include "tools/bench/training.h"
#include "tools/model/graphs.h"
#if TUFF_WITH_PLAIN_GPT
#include "bench/plain_gpt.h"
#endif

/* Counts the multiply-adds of the matrices (forward and twice that for backward) and of the causal half of attention
   (forward and two and a half times that for backward). */
static double step_operations(const bench_job *job)
{
    const model_config *config = &job->config;
    const double tokens = (double)(job->batch * config->context), width = (double)config->width;
    const double layers = (double)config->layers, vocabulary = (double)config->vocabulary;
    const double matrices = 3 * 2 * tokens * (layers * 12 * width * width + vocabulary * width);
    return matrices + 3.5 * 2 * tokens * (double)config->context * width * layers;
}

#if TUFF_WITH_PLAIN_GPT
typedef struct plain_training {
    plain_gpt *model;
    int32_t *windows;
    float losses[BENCH_LOSSES];
} plain_training;

static tuff_status plain_run(void *object, int count, bench_sample *sample)
{
    plain_training *self = object;
    (void)sample;
    for (int i = 0; i < count; i++)
        plain_gpt_step(self->model, self->windows);
    return TUFF_OK;
}

static tuff_status plain_read(void *object, float *values, int64_t count)
{
    const plain_training *self = object;
    for (int64_t i = 0; i < count; i++)
        values[i] = self->losses[i];
    return TUFF_OK;
}

static void plain_destroy(void *object)
{
    plain_training *self = object;
    if (!self)
        return;
    plain_gpt_destroy(self->model);
    tuff__free(self->windows);
    tuff__free(self);
}

/* Copies the model's initial weights. */
static tuff_status copy_parameters(tuff_device *device, plain_gpt *to, const model_config *config)
{
    language_model model;
    tuff_status status = model_create(device, config, &model);
    if (status == TUFF_OK)
        status = model_initialize(&model, 1);
    for (int i = 0; status == TUFF_OK && i < tuff_parameters_count(model.parameters); i++) {
        const char *name = NULL;
        size_t count = 0;
        tuff_array *array = tuff_parameters_at(model.parameters, i, &name);
        float *into = plain_gpt_parameter(to, name, &count);
        if (!into || count * sizeof *into != tuff_array_size(array))
            status = FAIL(TUFF_E_SHAPE, "bench: the plain C form has no parameter \"%s\" of that size", name);
        else
            status = tuff_array_read(array, into, count * sizeof *into);
    }
    model_destroy(&model);
    return status;
}

static plain_gpt *create_plain(const bench_job *job)
{
    const model_config *config = &job->config;
    const tuff_optimizer_options rule = bench_optimizer_options();
    return plain_gpt_create(&(plain_gpt_options){.layers = (int)config->layers,
                                                 .heads = (int)config->heads,
                                                 .width = (int)config->width,
                                                 .context = (int)config->context,
                                                 .vocabulary = (int)config->vocabulary,
                                                 .batch = (int)job->batch,
                                                 .learning_rate = (float)rule.learning_rate,
                                                 .beta1 = (float)rule.beta1,
                                                 .beta2 = (float)rule.beta2,
                                                 .epsilon = 1e-8f,
                                                 .weight_decay = (float)rule.weight_decay,
                                                 .clip_norm = (float)rule.clip_norm});
}

static tuff_status add_plain(bench *self, bench_work *work, const bench_job *job)
{
    size_t size = 0;
    bench_implementation *item = bench_add(work, BENCH_PEER, "plain C, OpenMP");
    plain_training *made = item ? tuff__calloc(1, sizeof *made) : NULL;
    if (!made)
        return tuff_last_status();
    item->self = made;
    item->run = plain_run;
    item->read = plain_read;
    item->destroy = plain_destroy;
    made->model = create_plain(job);
    made->windows = bench_windows(job, &size);
    if (!made->model || !made->windows)
        return FAIL(TUFF_E_OOM_HOST, "bench: out of memory for the plain C form");
    TRY(copy_parameters(self->device, made->model, &job->config));
    for (int i = 0; i < BENCH_LOSSES; i++)
        made->losses[i] = plain_gpt_step(made->model, made->windows);
    return TUFF_OK;
}
#endif

/* Processor time of this thread: the host's work for a step, without waiting. */
static double thread_seconds(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static tuff_status add_host_time(const bench *self, bench_work *work, bench_training *training)
{
    const bench_implementation item = work->items[0];
    const int steps = self->quick ? 3 : 10;
    const double thread = thread_seconds();
    const uint64_t begin = tuff__nanoseconds();
    TRY(item.run(training, steps, NULL));
    const double wall = tuff__seconds_since(begin) / steps;
    const double host = (thread_seconds() - thread) / steps;
    bench_add_fact(work, "host time a step", host, "s");
    bench_add_fact(work, "host time of the step", host / wall * 100, "%");
    return TUFF_OK;
}

/* Share of a run's time spent inside kernels, by timestamps: the median of three runs. */
static tuff_status add_kernel_share(bench_work *work, bench_training *training)
{
    double shares[3];
    for (int i = 0; i < 3; i++) {
        uint64_t whole, inside;
        TRY(tuff_plan_run_timed(training->plan, &whole, &inside));
        shares[i] = (double)inside / (double)whole;
    }
    const double low = shares[0] < shares[1] ? shares[0] : shares[1],
                 high = shares[0] < shares[1] ? shares[1] : shares[0];
    const double median = shares[2] < low ? low : shares[2] > high ? high : shares[2];
    bench_add_fact(work, "inside kernels", median * 100, "%");
    return TUFF_OK;
}

static tuff_status add_tuned(bench *self, bench_work *work, const bench_job *job, const bench_training *baseline)
{
    bench_training *tuned;
    tuff_compile_options options = {.fuse = TUFF_FUSE_ALL, .precision = (tuff_precision)self->precision};
    if (self->tune.mode < TUFF_TUNE_QUICK)
        return TUFF_OK;
    tuning_apply(&self->tune, &options);
    TRY(bench_training_add(self, work, job, "tuff, tuned", &options, &tuned));
    (void)tuning_end(&self->tune, tuned->plan);
    bench_add_fact(work, "compile, tuned", tuned->compile_seconds, "s");
    return bench_plan_compare(work, baseline->plan, tuned->plan);
}

static tuff_status add_forms(bench *self, bench_work *work, const bench_job *job)
{
    bench_training *fused, *unfused;
    const tuff_precision precision = (tuff_precision)self->precision;
    const tuff_compile_options baseline = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF},
                                           .precision = precision},
                               plain = {.fuse = TUFF_FUSE_NONE, .precision = precision};
    TRY(bench_training_add(self, work, job, "tuff", &baseline, &fused));
    bench_add_fact(work, "compile", fused->compile_seconds, "s");
    bench_add_fact(work, "programs compiled for it, not from the cache", (double)fused->fresh_programs, "");
    TRY(add_tuned(self, work, job, fused));
    TRY(bench_training_add(self, work, job, "tuff, unfused", &plain, &unfused));
#if TUFF_WITH_PLAIN_GPT
    if (self->info.device_class != TUFF_DEVICE_GPU_DISCRETE)
        TRY(add_plain(self, work, job));
#endif
    TRY(bench_plan_pair_facts(work, fused->plan, unfused->plan));
    if (strcmp(self->info.selector, "reference") == 0)
        return TUFF_OK;
    TRY(add_host_time(self, work, fused));
    return add_kernel_share(work, fused);
}

tuff_status bench_gpt(bench *self)
{
    bench_job job;
    for (int i = 0; bench_job_at(self, i, &job); i++) {
        bench_work work;
        if (!bench_begin(self, &work, "gpt", "step %s", JOB_TEXT(&job)))
            continue;
        work.operations = step_operations(&job);
        TRY(bench_run_work(self, &work, add_forms(self, &work, &job)));
    }
    return TUFF_OK;
}
