/* A small GPT trains on GPUs whose driver kills submissions after two seconds and that are about a hundred times slower
   than the cost model predicts, some kernels more and some less: from the first submission on none takes more than a
   second, and losses and gradients equal those without pacing. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include "each_device.h"
#include "slow_gpu.h"
#include "tools/model/graphs.h"
#include "tuff.h"

enum { BATCH = 4, CONTEXT = 32, WIDTH = 64, VOCABULARY = 31, STEPS = 4, LAYERS = 2 };
/* The kernels count as so many times longer than the model says: some must be split, and each group still takes less
   than a submission. */
#define WORK 150
#define LONGEST_WAIT UINT64_C(240000000000) /* ns; drivers compile a kernel when it first runs */

typedef float step_report[3]; /* loss, norm of the gradients, learning rate */

static void run_steps(tuff_plan *plan, step_report *reports)
{
    int32_t windows[BATCH * (CONTEXT + 1)];
    for (int i = 0; i < BATCH * (CONTEXT + 1); i++)
        windows[i] = i * 7 % VOCABULARY;
    for (int step = 0; step < STEPS; step++) {
        const int before = slow_gpu.submissions;
        if (tuff_plan_write(plan, "windows", windows, sizeof windows) || tuff_plan_run(plan) ||
            tuff_plan_read(plan, "report", reports[step], sizeof *reports))
            fail_msg("step %d: %s", step, tuff_error());
        print_message("  loss %.4f, %d submissions, longest until now %.2f s\n", (double)reports[step][0],
                      slow_gpu.submissions - before, slow_gpu.longest / SECOND);
    }
}

static void train(tuff_device *device, step_report *reports)
{
    const model_config config = {
        .layers = LAYERS, .heads = 2, .width = WIDTH, .context = CONTEXT, .vocabulary = VOCABULARY};
    const tuff_optimizer_options rule = model_optimizer_options(1e-2, STEPS);
    const tuff_compile_options options = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    language_model model;
    assert_int_equal(model_create(device, &config, &model), TUFF_OK);
    assert_int_equal(model_initialize(&model, 1), TUFF_OK);
    tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &rule);
    assert_non_null(optimizer);
    tuff_graph *graph = train_graph(device, &model, optimizer, BATCH);
    tuff_plan *plan = tuff_compile(graph, &options);
    if (!plan)
        fail_msg("%s", tuff_error());
    run_steps(plan, reports);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_optimizer_destroy(optimizer);
    model_destroy(&model);
}

static void train_on(const char *api)
{
    step_report limited[STEPS], plain[STEPS];
    tuff_device *device = slow_gpu_open(api);
    if (!device)
        skip();
    tuff__device_set_timeout(device, LONGEST_WAIT);
    assert_true(slow_gpu_predictor(device)->is_on);
    slow_gpu.slowness = INITIAL_TIME_SCALE;
    slow_gpu.is_uneven = true;
    slow_gpu.work = WORK;
    train(device, limited);
    print_message("  longest group: %.2f s as predicted at first\n", slow_gpu.group * INITIAL_TIME_SCALE);
    assert_true(slow_gpu.group * INITIAL_TIME_SCALE <= MAX_SUBMISSION_SECONDS);
    assert_true(slow_gpu.longest > 0.5 * SECOND && slow_gpu.longest <= 1 * SECOND);
    assert_false(slow_gpu.is_dead);
    assert_true(limited[STEPS - 1][0] < limited[0][0]);
    /* Another plan on the same device uses what was learned. */
    slow_gpu.longest = 0;
    train(device, plain);
    assert_true(slow_gpu.longest <= 1 * SECOND);
    assert_memory_equal(limited, plain, sizeof limited);
    /* Without the limit the device is lost, except that this clock only counts. */
    slow_gpu.longest = 0;
    slow_gpu.is_mild = true;
    slow_gpu_predictor(device)->is_on = false;
    train(device, plain);
    assert_true(slow_gpu.longest > 2 * SECOND);
    assert_memory_equal(limited, plain, sizeof limited);
    slow_gpu_close(device);
}

static void a_gpt_trains_on_opencl(void **state)
{
    (void)state;
    train_on("opencl");
}

static void a_gpt_trains_on_vulkan(void **state)
{
    (void)state;
    train_on("vulkan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_gpt_trains_on_opencl, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(a_gpt_trains_on_vulkan, use_empty_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
