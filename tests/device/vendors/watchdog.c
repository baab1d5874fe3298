/* A GPU whose driver kills submissions after two seconds: no submission takes too long however wrong the predictions
   are, the results equal those without pacing, and measurements correct the predictions. */
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
#include "configured_plan.h"
#include "each_device.h"
#include "slow_gpu.h"
#include "tuff.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#include "device/state.h"

enum { ROWS = 1024, WIDTH = 512, STEPS = 3 };

/* w becomes w - 0.01 · gradient of mean((gelu(x · w) - x)²). */
static tuff_plan *compile_step(tuff_device *device, tuff_array *w)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, WIDTH)), *weights = tuff_array_tensor(graph, w);
    tuff_tensor *error = tuff_sub(tuff_gelu(tuff_matmul(x, weights)), x), *gradient = NULL;
    tuff_tensor *loss = tuff_mean(tuff_mul(error, error), (int[]){0, 1}, 2, false);
    assert_int_equal(tuff_gradients(loss, &weights, 1, &gradient), TUFF_OK);
    tuff_assign(graph, w, tuff_sub(weights, tuff_mul(gradient, tuff_constant(graph, TUFF_F32, 0.01))));
    tuff_output(graph, "loss", loss);
    const tuff_tune_options tuning = {.mode = TUFF_TUNE_OFF};
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.tuning = &tuning});
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return plan;
}

static float x_values[ROWS * WIDTH], w_values[WIDTH * WIDTH];

static void train(tuff_device *device, float *weights, int *submissions)
{
    float loss, first = 0;
    for (int i = 0; i < ROWS * WIDTH; i++)
        x_values[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    for (int i = 0; i < WIDTH * WIDTH; i++)
        w_values[i] = (float)(i * 29 % 97) / 970 - 0.05f;
    tuff_array *w = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(WIDTH, WIDTH));
    assert_non_null(w);
    assert_int_equal(tuff_array_write(w, w_values, sizeof w_values), TUFF_OK);
    tuff_plan *plan = compile_step(device, w);
    for (int i = 0; i < STEPS; i++) {
        const int before = slow_gpu.submissions;
        if (tuff_plan_write(plan, "x", x_values, sizeof x_values) || tuff_plan_run(plan) ||
            tuff_plan_read(plan, "loss", &loss, sizeof loss))
            fail_msg("%s", tuff_error());
        submissions[i] = slow_gpu.submissions - before;
        first = i == 0 ? loss : first;
    }
    assert_true(loss < first);
    assert_int_equal(tuff_array_read(w, weights, sizeof w_values), TUFF_OK);
    tuff_plan_destroy(plan);
    tuff_array_destroy(w);
}

static float limited[WIDTH * WIDTH], plain[WIDTH * WIDTH];

static void a_slow_gpu_with_a_watchdog_trains(void **state)
{
    (void)state;
    int submissions[STEPS], unlimited[STEPS];
    tuff_device *device = slow_gpu_open("opencl");
    if (!device)
        skip();
    slow_gpu.slowness = INITIAL_TIME_SCALE;
    train(device, limited, submissions);
    assert_false(slow_gpu.is_dead);
    print_message("  longest submission %.2f s; %d to %d submissions per step\n", slow_gpu.longest / SECOND,
                  submissions[0], submissions[STEPS - 1]);
    assert_true(slow_gpu.longest > 0.1 * SECOND && slow_gpu.longest <= 0.55 * SECOND);
    assert_true(submissions[STEPS - 1] >= 2);
    /* Without the limit, submissions take longer than a second. */
    tuff_device_wait(device);
    device->handle->predictor.is_on = false;
    slow_gpu.longest = 0;
    train(device, plain, unlimited);
    assert_true(slow_gpu.longest > 1 * SECOND);
    assert_memory_equal(limited, plain, sizeof limited);
    assert_int_equal(slow_gpu.callbacks, 0);
    slow_gpu_close(device);
}

/* The prediction is far off, and measured times correct it in both directions. Until then it may be wrong by that
   factor, and by no more. */
static void predictions_follow_what_is_measured(void **state)
{
    (void)state;
    int submissions[STEPS];
    tuff_device *device = slow_gpu_open("opencl");
    if (!device)
        skip();
    slow_gpu.slowness = 3 * INITIAL_TIME_SCALE;
    train(device, limited, submissions);
    assert_true(submissions[STEPS - 1] > submissions[0]);
    assert_true(slow_gpu.longest <= 3 * MAX_SUBMISSION_SECONDS * SECOND);
    slow_gpu.longest = 0;
    train(device, limited, submissions);
    print_message("  longest submission %.2f s, later %.2f s\n", 3 * MAX_SUBMISSION_SECONDS, slow_gpu.longest / SECOND);
    assert_true(slow_gpu.longest <= 1.1 * MAX_SUBMISSION_SECONDS * SECOND);
    slow_gpu.longest = 0;
    slow_gpu.slowness = 0.1;
    train(device, limited, submissions);
    print_message("  on a fast device %d, then %d submissions per step\n", submissions[0], submissions[STEPS - 1]);
    assert_true(submissions[STEPS - 1] <= 2);
    assert_true(slow_gpu.longest <= 0.5 * SECOND);
    assert_false(slow_gpu.is_dead);
    slow_gpu_close(device);
}

/* CLBlast, of which only the calls count. */
static int products;

static int count_product(int layout, int a_form, int b_form, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                         size_t a_start, size_t a_line, cl_mem b, size_t b_start, size_t b_line, float beta, cl_mem c,
                         size_t c_start, size_t c_line, cl_command_queue *queue, cl_event *event)
{
    (void)layout, (void)a_form, (void)b_form, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)a_start;
    (void)a_line, (void)b, (void)b_start, (void)b_line, (void)beta, (void)c_start, (void)c_line;
    const float zero = 0;
    products++;
    return tuff__cl.EnqueueFillBuffer(*queue, c, &zero, sizeof zero, 0, sizeof zero, 0, NULL, event);
}

static int clear_nothing(void)
{
    return 0;
}

static void run_product(tuff_device *device)
{
    const tuff_tune_options tuning = {.mode = TUFF_TUNE_OFF};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, WIDTH));
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(WIDTH, WIDTH));
    tuff_output(graph, "y", tuff_matmul(x, w));
    tuff_plan *plan =
        tuff_compile(graph, &(tuff_compile_options){.tuning = &tuning, .matmul_library = TUFF_MATMUL_CLBLAST});
    if (!plan || tuff_plan_write(plan, "x", x_values, sizeof x_values) ||
        tuff_plan_write(plan, "w", w_values, sizeof w_values) || tuff_plan_run(plan) || tuff_device_wait(device))
        fail_msg("%s", tuff_error());
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

/* A library's product is submitted as a whole, so a long one is left to tuff's kernels, until the device is known to be
   fast enough. */
static void long_products_are_not_left_to_a_library(void **state)
{
    (void)state;
    tuff_device *device = slow_gpu_open("opencl");
    if (!device)
        skip();
    (void)tuff__device_library_unavailable_reason(device); /* loads it */
    const clblast_api installed = tuff__clblast;
    int unused = 0;
    memcpy(&tuff__clblast.sgemv, &(void *){&unused}, sizeof(void *)); /* never called */
    memcpy(&tuff__clblast.sgemm_batched, &(void *){&unused}, sizeof(void *));
    memcpy(&tuff__clblast.override, &(void *){&unused}, sizeof(void *));
    tuff__clblast.sgemm = count_product;
    tuff__clblast.clear_cache = clear_nothing;
    products = 0;
    slow_gpu.slowness = INITIAL_TIME_SCALE;
    run_product(device);
    assert_int_equal(products, 0);
    assert_true(slow_gpu.submissions >= 2);
    assert_true(slow_gpu.longest <= MAX_SUBMISSION_SECONDS * SECOND);
    device->handle->predictor.scale = 4;
    run_product(device);
    assert_int_equal(products, 1);
    device->handle->predictor.scale = INITIAL_TIME_SCALE;
    device->handle->predictor.is_on = false; /* a card without a watchdog */
    run_product(device);
    assert_int_equal(products, 2);
    slow_gpu_close(device);
    tuff__clblast = installed;
}

/* A device is lost while parts of a launch are pending. The recording is destroyed before the program, and the program
   before the device: nothing may still point to the program. */
static void a_lost_device_forgets_its_programs(void **state)
{
    (void)state;
    tuff_device *device = slow_gpu_open("opencl");
    if (!device)
        skip();
    driver_device *handle = device->handle;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "y", tuff_exp(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, WIDTH))));
    const tuff_tune_options tuning = {.mode = TUFF_TUNE_OFF};
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.tuning = &tuning});
    tuff_graph_destroy(graph);
    assert_non_null(plan);
    handle->predictor.scale = 1e9; /* so that every launch is split */
    assert_int_equal(tuff_plan_write(plan, "x", x_values, sizeof x_values), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    int parts = 0;
    for (int i = 0; i < PENDING_COUNT; i++)
        parts += handle->pending[i].submission.own.seconds > 0;
    assert_true(parts > 1);
    device->lost = true;
    tuff_plan_destroy(plan);
    for (int i = 0; i < PENDING_COUNT; i++)
        assert_null(handle->pending[i].submission.own.scale);
    device->lost = false;
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    slow_gpu_close(device);
}

/* Groups that share blocks of a product may run in many dispatches: a later one adds their sums, with the same bits. */
static void shared_blocks_may_run_in_parts(void **state)
{
    (void)state;
    enum { TERMS = 509, SIDE = 70 }; /* no number of parts divides the terms */
    static float whole[SIDE * SIDE], parts[SIDE * SIDE];
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    tune_config config;
    tuff_device *device = slow_gpu_open("opencl");
    if (!device)
        skip();
    slow_gpu.slowness = 1;
    slow_gpu.is_dead = false;
    device->info.compute_units = 5; /* nine blocks: five whole ones, and four for five groups */
    device->info.vendor_id = 0;     /* Intel counts engines */
    assert_int_equal(tuff__config_parse("task.family=2;matmul_local.block_rows=32;matmul_local.block_columns=32;"
                                        "matmul_local.thread_rows=4;matmul_local.thread_columns=4;"
                                        "matmul_local.sharers=1",
                                        &config),
                     TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SIDE, TERMS));
    tuff_output(graph, "y", tuff_matmul(x, tuff_permute(x, (int[]){1, 0})));
    tuff_plan *plan = compile_configured(graph, &options, TASK_MATMUL, &config);
    assert_non_null(plan);
    assert_true(uses_body(plan, "matmul_join"));
    for (int i = 0; i < ROWS * WIDTH; i++)
        x_values[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    assert_int_equal(tuff_plan_write(plan, "x", x_values, SIDE * TERMS * sizeof(float)), TUFF_OK);
    device->handle->predictor.scale = 1e9; /* so that every launch is split */
    const int before = slow_gpu.submissions;
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "y", parts, sizeof parts), TUFF_OK);
    assert_true(slow_gpu.submissions - before > 4);
    device->handle->predictor.is_on = false;
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "y", whole, sizeof whole), TUFF_OK);
    assert_memory_equal(parts, whole, sizeof whole);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    slow_gpu_close(device);
}

/* Reports to a predictor one submission of these shares on an idle queue that took so many seconds. */
static void report_submission(time_predictor *self, const work_share *shares, int count, double seconds)
{
    submission_record submission = {.shares = shares, .count = count};
    tuff__predictor_submitted(self, &submission, true);
    slow_gpu.now += seconds * SECOND;
    tuff__predictor_ended(self, &submission, true);
}

static int simulate_clock(void **state)
{
    (void)state;
    tuff__predictor_clock = slow_gpu_time;
    slow_gpu.now = SECOND;
    return 0;
}

static int restore_clock(void **state)
{
    (void)state;
    tuff__predictor_clock = tuff__nanoseconds;
    return 0;
}

static void a_pause_says_little(void **state)
{
    (void)state;
    time_predictor self;
    time_scale scale = 0;
    const work_share tiny = {&scale, 1e-6}, ordinary = {&scale, 0.01}, twice[] = {{&scale, 0}, {&scale, 0.01}};
    tuff__predictor_init(&self, true);
    /* The machine stalled for ten seconds during a kernel of a microsecond: other kernels are not slow for that. */
    report_submission(&self, &tiny, 1, 10);
    assert_true(self.scale <= INITIAL_TIME_SCALE && scale > INITIAL_TIME_SCALE);
    /* Work that is long enough counts, within bounds. */
    scale = 0;
    report_submission(&self, &ordinary, 1, 1e4);
    assert_true(self.scale > INITIAL_TIME_SCALE && self.scale <= MAX_TIME_SCALE);
    assert_int_equal(tuff__predictor_parts(&self, &ordinary, 1 << 20), MAX_DISPATCH_PARTS);
    assert_int_equal(tuff__predictor_parts(&self, &ordinary, 7), 7);
    /* A share without work says nothing about other shares of its program. */
    scale = 100;
    report_submission(&self, twice, 2, 2);
    assert_true(scale > 150 && scale < 250);
    /* On a shared queue the measured time may include others' work: it is only an upper bound. */
    self.is_shared = true;
    scale = 100;
    report_submission(&self, &ordinary, 1, 10);
    assert_true(scale == 100);
    report_submission(&self, &ordinary, 1, 0.5);
    assert_true(scale < 100);
}

static void no_part_is_too_long(void **state)
{
    (void)state;
    time_predictor self;
    time_scale scale = 1;
    tuff__predictor_init(&self, true);
    for (uint64_t groups = 1; groups < 60; groups++)
        for (double seconds = 0.1; seconds < 30; seconds += 0.1) {
            const work_share whole = {&scale, seconds};
            const uint64_t parts = tuff__predictor_parts(&self, &whole, groups), size = (groups + parts - 1) / parts;
            assert_true(parts >= 1 && parts <= groups);
            assert_true(size == 1 || (double)size / (double)groups * seconds <= 1.0001 * MAX_SUBMISSION_SECONDS);
            assert_true((double)parts <= 2 * seconds / MAX_SUBMISSION_SECONDS + 1);
        }
}

/* Nobody knows how the time of a submission is divided among its programs. */
static void fast_programs_hide_no_slow_one(void **state)
{
    (void)state;
    time_predictor self;
    time_scale fast = 0, slow = 0;
    const work_share both[] = {{&fast, 0.004}, {&slow, 0.0005}}, alone = {&slow, 0.002}, fresh = {NULL, 0.002};
    tuff__predictor_init(&self, true);
    for (int i = 0; i < 20; i++)
        report_submission(&self, both, 2, 0.004 * 30 + 0.0005 * 200);
    /* At most the whole submission was the slow one's, and predictions may be half of the real time. */
    assert_true(tuff__predictor_seconds(&self, &alone) >= 0.49 * 0.002 * 200);
    assert_true(fast < 0.6 * INITIAL_TIME_SCALE);
    /* New programs are not assumed to be as fast as the fastest. */
    for (int i = 0; i < 20; i++)
        report_submission(&self, both, 1, 0.004 * 30);
    assert_true(fast > 29 && fast < 32);
    assert_true(tuff__predictor_seconds(&self, &fresh) >= 0.49 * 0.002 * 200);
    /* What is repeated in a submission counts as a whole. */
    const work_share twice[] = {{&fast, 0.004}, {&fast, 0.004}};
    for (int i = 0; i < 20; i++)
        report_submission(&self, twice, 2, 0.008 * 10);
    assert_true(fast > 9.5 && fast < 10.6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_pause_says_little, simulate_clock, restore_clock),
        cmocka_unit_test_setup_teardown(no_part_is_too_long, simulate_clock, restore_clock),
        cmocka_unit_test_setup_teardown(fast_programs_hide_no_slow_one, simulate_clock, restore_clock),
        cmocka_unit_test_setup_teardown(a_lost_device_forgets_its_programs, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(a_slow_gpu_with_a_watchdog_trains, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(long_products_are_not_left_to_a_library, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(predictions_follow_what_is_measured, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(shared_blocks_may_run_in_parts, use_empty_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
