/* What a step of tuff train that gets no line costs the host: no memory is asked for, and nothing is read from the
   device. The time of the thread is printed. */
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
#include "tools/train/progress.h"
#include "tools/train/step_profile.h"
#include "tools/train/text.h"

enum { BATCH = 4, CONTEXT = 32, WARM_STEPS = 40, STEPS = 60, MOST_ROUNDS = 10 };

static const model_config config = {
    .form = MODEL_GPT, .layers = 2, .heads = 2, .width = 32, .context = CONTEXT, .vocabulary = 256};

typedef struct run {
    tuff_plan *plan;
    corpus text;
    progress progress;
    step_profile profile;
    int64_t done;
} run;

/* As tools/train/train.c has it, for a line every million steps. */
static void step(run *self)
{
    static int32_t windows[BATCH * (CONTEXT + 1)];
    corpus_batch(&self->text, 1, self->done, BATCH, CONTEXT + 1, windows);
    assert_int_equal(tuff_plan_write(self->plan, "windows", windows, sizeof windows), TUFF_OK);
    assert_int_equal(step_profile_run(&self->profile, self->plan, self->done + 1), TUFF_OK);
    self->done++;
    assert_false(progress_is_due(&self->progress, self->done));
}

static double thread_seconds(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The requests for memory of a round of steps, which reads nothing. */
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

/* The host runs ahead of the device, and what is on its way takes memory, which is kept: more than before is asked for
   only where the host runs further ahead than ever. */
static void check_steps(tuff_device *device, run *self)
{
    int rounds = 0;
    for (int i = 0; i < WARM_STEPS; i++)
        step(self);
    assert_int_equal(tuff_plan_wait(self->plan), TUFF_OK);
    while (rounds < MOST_ROUNDS && run_round(device, self) > 0)
        rounds++;
    assert_true(rounds < MOST_ROUNDS);
}

static void check_device(tuff_device *device)
{
    static unsigned char bytes[4096];
    language_model model;
    run self = {.text = {.bytes = bytes, .size = sizeof bytes}, .profile = {.wanted = true}};
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
    step_profile_finish(&self.profile, self.plan);
    assert_true(self.profile.taken || self.profile.absence[0]);
    step_profile_free(&self.profile);
    tuff_plan_destroy(self.plan);
    tuff_graph_destroy(graph);
    tuff_optimizer_destroy(optimizer);
    model_destroy(&model);
}

static void a_step_without_a_line_asks_for_nothing(void **state)
{
    (void)state;
    for_each_api(check_device);
}

/* Before the first call of the library, which is told once where its memory comes from. */
static int begin(void **state)
{
    failing_memory_begin(0, false);
    return use_fresh_cache(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_without_a_line_asks_for_nothing)};
    return cmocka_run_group_tests(tests, begin, drop_cache);
}
