/* The cost on the host of a step of tuff train that prints no line: no allocation and no read from the device, even
   with all options of an optimizer. The thread's time is printed; in a thorough run, which trains a GPT of 6 layers of
   384, it must be at most 2 % of the step. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/thread.h"
#include "each_device.h"
#include "failing_memory.h"
#include "tools/model/graphs.h"
#include "tools/train/batches.h"
#include "tools/train/progress.h"
#include "tools/train/step_graphs.h"
#include "tools/train/step_profile.h"
#include "tools/train/text.h"

enum { BATCH = 4, CONTEXT = 32, WARM_STEPS = 40, STEPS = 60, MAX_ROUNDS = 10 };

static const model_config config = {
    .form = MODEL_GPT, .layers = 2, .heads = 2, .width = 32, .context = CONTEXT, .vocabulary = 256};

typedef struct run {
    tuff_plan *plan;
    corpus text;
    progress progress;
    step_profile profile;
    int64_t done;
} run;

/* As in tools/train/train.c, with a line every million steps. */
static void step(run *self)
{
    static int32_t windows[BATCH * (CONTEXT + 1)];
    corpus_batch(&self->text, 1, self->done, BATCH, CONTEXT + 1, windows);
    assert_int_equal(tuff_plan_write(self->plan, "windows", windows, sizeof windows), TUFF_OK);
    step_profile_begin(&self->profile, self->done + 1, false);
    assert_int_equal(step_profile_run(&self->profile, self->plan, STEP_BATCH), TUFF_OK);
    self->done++;
    assert_false(progress_is_due(&self->progress, self->done));
}

static double thread_seconds(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns the allocations of a round of steps, which must read nothing. */
static int64_t run_round(tuff_device *device, run *self)
{
    tuff_device_counters before, after;
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    failing_memory_rearm(0, false);
    const double host = thread_seconds();
    const uint64_t begin = tuff__nanoseconds();
    for (int i = 0; i < STEPS; i++)
        step(self);
    const int64_t requests = failing_memory_requests();
    const double host_seconds = thread_seconds() - host;
    assert_int_equal(tuff_plan_wait(self->plan), TUFF_OK);
    const double seconds = (double)(tuff__nanoseconds() - begin) * 1e-9;
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    print_message("  a step takes %.3f ms, of which the thread works %.3f ms\n", 1e3 * seconds / STEPS,
                  1e3 * host_seconds / STEPS);
    assert_int_equal(after.reads, before.reads);
    assert_int_equal(after.submissions - before.submissions, STEPS);
    return requests;
}

/* The host runs ahead of the device, and pending steps need memory, which is kept: it allocates more only when it runs
   further ahead than before. */
static void check_steps(tuff_device *device, run *self)
{
    int rounds = 0;
    for (int i = 0; i < WARM_STEPS; i++)
        step(self);
    assert_int_equal(tuff_plan_wait(self->plan), TUFF_OK);
    while (rounds < MAX_ROUNDS && run_round(device, self) > 0)
        rounds++;
    assert_true(rounds < MAX_ROUNDS);
}

static void check_device(tuff_device *device)
{
    static unsigned char bytes[4096];
    language_model model;
    run self = {.text = {.bytes = bytes, .size = sizeof bytes}, .profile = {.wanted = true, .batches = 1}};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i % 251);
    assert_int_equal(model_create(device, &config, &model), TUFF_OK);
    assert_int_equal(model_initialize(&model, 1), TUFF_OK);
    const tuff_optimizer_options options = model_optimizer_options(1e-3, 1000);
    tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &options);
    tuff_graph *graph = train_graph(device, &model, optimizer, BATCH);
    self.plan = tuff_compile(graph, NULL);
    if (!self.plan)
        fail_msg("%s", tuff_error());
    progress_begin(&self.progress, 0, 1 << 20, 1 << 20, BATCH * CONTEXT, 1 << 20);
    check_steps(device, &self);
    step_profile_finish(&self.profile, (tuff_plan *const[STEP_PLANS]){[STEP_BATCH] = self.plan});
    assert_true(self.profile.has_kernels || self.profile.missing_reason[0]);
    step_profile_free(&self.profile);
    tuff_plan_destroy(self.plan);
    tuff_graph_destroy(graph);
    tuff_optimizer_destroy(optimizer);
    model_destroy(&model);
}

/* Loss scaling, clipping, a schedule, accumulation, an average, and windows from a loader. */
typedef struct whole_run {
    language_model model;
    tuff_optimizer *optimizer;
    corpus text;
    batches batches;
    tuff_plan *plan, *update;
    progress progress;
    int64_t done;
    int steps; /* between two lines */
    double step_seconds, share;
} whole_run;

enum { PARTS = 2 };

static tuff_plan *compile(tuff_graph *graph)
{
    tuff_plan *plan = graph ? tuff_compile(graph, NULL) : NULL;
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return plan;
}

static void open_whole(tuff_device *device, const model_config *of, whole_run *self)
{
    const run_settings settings = {.model = *of, .batch = BATCH, .seed = 1};
    const tuff_loss_scaling scaling = {.initial = 1024};
    tuff_optimizer_options options = model_optimizer_options(1e-3, 100000);
    options.clip_norm = 1;
    options.accumulate = PARTS;
    options.average_decay = 0.999;
    options.loss_scaling = &scaling;
    assert_int_equal(model_create(device, of, &self->model), TUFF_OK);
    assert_int_equal(model_initialize(&self->model, 1), TUFF_OK);
    self->optimizer = tuff_optimizer_create(self->model.parameters, &options);
    assert_non_null(self->optimizer);
    assert_int_equal(batches_open(&self->batches, device, &self->text, &settings, 1, TUFF_UPLOAD_DEFAULT), TUFF_OK);
    self->plan = compile(accumulate_graph(device, &self->batches, &self->model, self->optimizer));
    self->update = compile(update_graph(device, self->optimizer, LOG_NO_NORMS));
    progress_begin(&self->progress, 0, 1 << 20, 1 << 20, (int64_t)BATCH * of->context * PARTS, self->steps);
}

static void close_whole(whole_run *self)
{
    tuff_plan_destroy(self->update);
    tuff_plan_destroy(self->plan);
    batches_close(&self->batches);
    tuff_optimizer_destroy(self->optimizer);
    model_destroy(&self->model);
}

static void whole_step(whole_run *self)
{
    for (int part = 0; part < PARTS; part++) {
        assert_int_equal(batches_next(&self->batches, self->plan), TUFF_OK);
        assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
    }
    assert_int_equal(tuff_plan_run(self->update), TUFF_OK);
    self->done++;
}

/* Runs the steps up to a line, and the line itself, for which the host may read. Records the time and the thread's
   share of it. */
static int64_t run_to_line(tuff_device *device, whole_run *self)
{
    tuff_device_counters before, after;
    step_report report;
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    failing_memory_rearm(0, false);
    const double host = thread_seconds();
    const uint64_t begin = tuff__nanoseconds();
    do
        whole_step(self);
    while (!progress_is_due(&self->progress, self->done));
    const int64_t requests = failing_memory_requests();
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(tuff_plan_read(self->update, "report", &report, sizeof report), TUFF_OK);
    assert_int_equal(tuff_optimizer_check(self->optimizer), TUFF_OK);
    const double host_seconds = thread_seconds() - host, seconds = (double)(tuff__nanoseconds() - begin) * 1e-9;
    assert_true(report.loss > 0 && report.loss < 10);
    assert_int_equal(after.reads, before.reads);
    self->share = host_seconds / seconds;
    self->step_seconds = seconds / self->steps;
    print_message("  everything on: a step takes %.3f ms, of which the thread works %.3f ms, %.2f %%\n",
                  1e3 * seconds / self->steps, 1e3 * host_seconds / self->steps, 100 * self->share);
    return requests;
}

static void check_everything(tuff_device *device, const model_config *of, int steps, double limit)
{
    static unsigned char bytes[4096];
    whole_run self = {.text = {.bytes = bytes, .size = sizeof bytes}, .steps = steps};
    enum { SLOW = 20 }; /* seconds of a step above which one line is enough */
    int rounds = 0;
    double least;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i % 251);
    open_whole(device, of, &self);
    (void)run_to_line(device, &self);
    least = self.share;
    while (self.step_seconds < SLOW && rounds < MAX_ROUNDS && run_to_line(device, &self) > 0)
        rounds++;
    least = self.share < least ? self.share : least;
    assert_true(rounds < MAX_ROUNDS);
    assert_true(least <= limit);
    close_whole(&self);
}

static void check_small(tuff_device *device)
{
    check_everything(device, &config, STEPS, 1);
}

static void check_large(tuff_device *device)
{
    const model_config large = {
        .form = MODEL_GPT, .layers = 6, .heads = 6, .width = 384, .context = 128, .vocabulary = 256};
    check_everything(device, &large, 2, 0.02);
}

static void a_step_without_a_line_asks_for_nothing(void **state)
{
    (void)state;
    for_drawn_api(1, check_device);
}

static void nor_does_one_with_everything(void **state)
{
    (void)state;
    for_drawn_api(0, check_small);
}

static void the_host_has_little_to_do(void **state)
{
    (void)state;
    if (!is_thorough())
        skip();
    for_each_api(check_large);
}

/* Must precede the first call of the library, whose allocator can be set only then. */
static int begin(void **state)
{
    failing_memory_begin(0, false);
    return use_fresh_cache(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_without_a_line_asks_for_nothing),
                                       cmocka_unit_test(nor_does_one_with_everything),
                                       cmocka_unit_test(the_host_has_little_to_do)};
    return cmocka_run_group_tests(tests, begin, drop_cache);
}
