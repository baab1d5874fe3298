/* Two threads, each with graphs and plans of its own, share a device. Each computes correct results in every round,
   whatever the other does; ThreadSanitizer (cmake -DTUFF_SANITIZE=thread) finds no data race in the library. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include "device/state.h"
#include "each_device.h"
#include "exec/plan.h"
#include "tuff.h"

enum { THREADS = 2, ROUNDS = 12, RUNS = 3, LARGEST = 24 };

/* A thread's plans, and its first error. */
typedef struct worker {
    tuff_device *device;
    int number;
    char failure[256];
} worker;

static tuff_status note(worker *self, const char *subject)
{
    if (!self->failure[0])
        snprintf(self->failure, sizeof self->failure, "thread %d: %s: %.180s", self->number, subject, tuff_error());
    return TUFF_E_USAGE;
}

/* total := total + row sums of x · x, exact in f32 for small integers. One thread subtracts a constant, so that some
   programs are shared and some are not. */
static tuff_graph *build_graph(const worker *self, int64_t rows, tuff_array *total)
{
    tuff_graph *graph = tuff_graph_create(self->device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(rows, rows));
    tuff_tensor *product = tuff_matmul(x, x);
    if (self->number == 1)
        product = tuff_sub(product, tuff_constant(graph, TUFF_F32, 1));
    tuff_tensor *sum = tuff_sum(product, (int[]){1}, 1, false);
    tuff_output(graph, "total", tuff_assign(graph, total, tuff_add(tuff_array_tensor(graph, total), sum)));
    return graph;
}

/* x is diagonal with elements `value`, so that each row of its square sums to value squared. */
static tuff_status run_rounds(worker *self, tuff_plan *plan, int64_t rows, float value)
{
    float x[LARGEST * LARGEST] = {0}, total[LARGEST];
    for (int64_t i = 0; i < rows; i++)
        x[i * rows + i] = value;
    if (tuff_plan_write(plan, "x", x, (size_t)(rows * rows) * sizeof *x) != TUFF_OK)
        return note(self, "write");
    for (int run = 1; run <= RUNS; run++) {
        const float expected = (float)run * (value * value - (self->number == 1 ? (float)rows : 0));
        if (tuff_plan_run(plan) != TUFF_OK ||
            tuff_plan_read(plan, "total", total, (size_t)rows * sizeof *total) != TUFF_OK)
            return note(self, "run");
        for (int64_t i = 0; i < rows; i++)
            if (total[i] != expected)
                return note(self, "wrong result");
    }
    return TUFF_OK;
}

static tuff_status do_round(worker *self, int round)
{
    const int64_t rows = 5 + (round * 7 + self->number * 3) % (LARGEST - 5);
    tuff_array *total = tuff_array_create(self->device, TUFF_F32, TUFF_SHAPE(rows));
    tuff_graph *graph = build_graph(self, rows, total);
    tuff_plan *plan = tuff_compile(graph, NULL);
    tuff_graph_destroy(graph);
    const tuff_status status = plan ? run_rounds(self, plan, rows, (float)(round + 2)) : note(self, "compile");
    tuff_plan_destroy(plan);
    tuff_array_destroy(total);
    return status;
}

static void *work(void *context)
{
    worker *self = context;
    for (int round = 0; round < ROUNDS && !self->failure[0]; round++)
        do_round(self, round);
    return NULL;
}

static void run_threads(void *(*job)(void *worker), tuff_device *device)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.device = device, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, job, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_string_equal(workers[i].failure, "");
}

static void work_together(tuff_device *device)
{
    run_threads(work, device);
}

static void two_threads_share_a_device(void **state)
{
    (void)state;
    for_drawn_devices(work_together);
}

/* One thread writes and reads arrays whose elements are all equal, while the other runs a plan that reads one and adds
   to the other: neither ever sees a partial update. */
enum { LENGTH = 1 << 16, SHARED_RUNS = 24 };
static tuff_array *source, *counter;
static tuff_plan *adder;
static atomic_bool has_run;

static bool is_uniform(const float *values)
{
    for (int i = 1; i < LENGTH; i++)
        if (values[i] != values[0])
            return false;
    return true;
}

static void run_adder(worker *self, float *values, size_t size)
{
    for (int run = 0; run < SHARED_RUNS && !self->failure[0]; run++)
        if (tuff_plan_run(adder) != TUFF_OK || tuff_plan_read(adder, "read", values, size) != TUFF_OK)
            note(self, "run");
        else if (!is_uniform(values))
            note(self, "a run saw part of what was written");
}

static void move_arrays(worker *self, float *values, size_t size)
{
    for (int round = 0; !atomic_load(&has_run) && !self->failure[0]; round++) {
        for (int i = 0; i < LENGTH; i++)
            values[i] = (float)round;
        if (tuff_array_write(source, values, size) != TUFF_OK || tuff_array_read(counter, values, size) != TUFF_OK)
            note(self, "move");
        else if (!is_uniform(values))
            note(self, "part of what a run assigned");
    }
}

static void *move_or_run(void *context)
{
    worker *self = context;
    const size_t size = LENGTH * sizeof(float);
    float *values = malloc(size);
    if (!values)
        note(self, "memory");
    else if (self->number == 0)
        run_adder(self, values, size);
    else
        move_arrays(self, values, size);
    if (self->number == 0)
        atomic_store(&has_run, true);
    free(values);
    return NULL;
}

static void share_arrays(tuff_device *device)
{
    source = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(LENGTH));
    counter = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(LENGTH));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *one = tuff_constant(graph, TUFF_F32, 1);
    tuff_output(graph, "read", tuff_neg(tuff_array_tensor(graph, source)));
    tuff_assign(graph, counter, tuff_add(tuff_array_tensor(graph, counter), one));
    adder = tuff_compile(graph, NULL);
    assert_non_null(adder);
    atomic_store(&has_run, false);
    run_threads(move_or_run, device);
    tuff_plan_destroy(adder);
    tuff_graph_destroy(graph);
    tuff_array_destroy(source);
    tuff_array_destroy(counter);
}

static void arrays_are_seen_whole(void **state)
{
    (void)state;
    for_drawn_devices(share_arrays);
}

static void *add_ones(void *context)
{
    worker *self = context;
    tuff_graph *graph = tuff_graph_create(self->device);
    tuff_assign(graph, counter, tuff_add(tuff_array_tensor(graph, counter), tuff_constant(graph, TUFF_F32, 1)));
    tuff_plan *plan = tuff_compile(graph, NULL);
    for (int run = 0; run < SHARED_RUNS && !self->failure[0]; run++)
        if (plan == NULL || tuff_plan_run(plan) != TUFF_OK)
            note(self, "run");
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return NULL;
}

static void count_together(tuff_device *device)
{
    static float values[LENGTH];
    counter = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(LENGTH));
    run_threads(add_ones, device);
    assert_int_equal(tuff_array_read(counter, values, sizeof values), TUFF_OK);
    for (int i = 0; i < LENGTH; i++)
        if (values[i] != THREADS * SHARED_RUNS)
            fail_msg("element %d is %g after %d runs", i, (double)values[i], THREADS * SHARED_RUNS);
    tuff_array_destroy(counter);
}

static void no_update_is_lost(void **state)
{
    (void)state;
    for_each_device(count_together);
}

/* A plan that samples keeps a repacked copy of the weights, and another thread's plan assigns weights and bias. That
   plan's submission is held until the sampling thread has asked for a run, which then has to see both as assigned. */
enum { WEIGHTS = 64, SAMPLES = 16 };
static const driver *real_driver;
static tuff_plan *sampling;
static atomic_bool holds, is_held, is_asked;

static tuff_status hold_submission(driver_device *device, driver_recording *recorded)
{
    if (atomic_exchange(&holds, false)) {
        atomic_store(&is_held, true);
        while (!atomic_load(&is_asked))
            tuff__sleep(1000000);
        tuff__sleep(30000000); /* for the other thread to get as far as it can */
    }
    return real_driver->submit(device, recorded);
}

static void *sample(void *context)
{
    worker *self = context;
    while (!atomic_load(&is_held))
        tuff__sleep(1000000);
    atomic_store(&is_asked, true);
    if (tuff_plan_run(sampling) != TUFF_OK)
        note(self, "run");
    return NULL;
}

static void assign_while_sampling(tuff_plan *assigning, tuff_device *device)
{
    static float results[SAMPLES * WEIGHTS];
    worker sampler = {.device = device};
    pthread_t thread;
    device->driver_override = *device->driver;
    device->driver_override.submit = hold_submission;
    real_driver = device->driver;
    device->driver = &device->driver_override;
    atomic_store(&is_held, false);
    atomic_store(&is_asked, false);
    atomic_store(&holds, true);
    assert_int_equal(pthread_create(&thread, NULL, sample, &sampler), 0);
    assert_int_equal(tuff_plan_run(assigning), TUFF_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    device->driver = real_driver;
    assert_string_equal(sampler.failure, "");
    assert_int_equal(tuff_plan_read(sampling, "y", results, sizeof results), TUFF_OK);
    for (int i = 0; i < SAMPLES * WEIGHTS; i++)
        if (results[i] != 2 * WEIGHTS + 1)
            fail_msg("element %d is %g, expected %d", i, (double)results[i], 2 * WEIGHTS + 1);
}

static void share_weights(tuff_device *device)
{
    static float ones[WEIGHTS * WEIGHTS];
    for (int i = 0; i < WEIGHTS * WEIGHTS; i++)
        ones[i] = 1;
    tuff_array *weights = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(WEIGHTS, WEIGHTS));
    tuff_array *bias = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(WEIGHTS));
    assert_int_equal(tuff_array_write(weights, ones, sizeof ones), TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device), *step = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SAMPLES, WEIGHTS));
    tuff_tensor *turned = tuff_permute(tuff_array_tensor(graph, weights), (int[]){1, 0});
    tuff_output(graph, "y", tuff_add(tuff_matmul(x, turned), tuff_array_tensor(graph, bias)));
    tuff_tensor *one = tuff_constant(step, TUFF_F32, 1);
    tuff_assign(step, weights, tuff_add(tuff_array_tensor(step, weights), one));
    tuff_assign(step, bias, tuff_add(tuff_array_tensor(step, bias), one));
    tuff_plan *assigning = tuff_compile(step, NULL);
    sampling = tuff_compile(graph, NULL);
    assert_non_null(assigning);
    assert_non_null(sampling);
    assert_int_equal(tuff_plan_write(sampling, "x", ones, SAMPLES * WEIGHTS * sizeof *ones), TUFF_OK);
    assert_int_equal(tuff_plan_run(sampling), TUFF_OK);
    if (sampling->executable.setup != NULL)
        assign_while_sampling(assigning, device);
    else
        leave_out_device("it keeps no copy of the weights");
    tuff_plan_destroy(sampling);
    tuff_plan_destroy(assigning);
    tuff_graph_destroy(graph);
    tuff_graph_destroy(step);
    tuff_array_destroy(weights);
    tuff_array_destroy(bias);
}

static void runs_see_all_that_another_plan_assigned(void **state)
{
    (void)state;
    for_drawn_drivers(share_weights);
}

/* Each thread opens, closes and lists devices while the other does the same. */
static void *open_and_close(void *context)
{
    worker *self = context;
    for (int round = 0; round < 3 && !self->failure[0]; round++)
        for (int i = 0; i < tuff_device_count() && !self->failure[0]; i++) {
            tuff_device_info info;
            if (tuff_device_describe_at(i, &info) != TUFF_OK || !(self->device = tuff_device_open(info.selector))) {
                note(self, "open");
                return NULL;
            }
            do_round(self, round);
            tuff_device_close(self->device);
        }
    return NULL;
}

static void devices_open_and_close_side_by_side(void **state)
{
    (void)state;
    run_threads(open_and_close, NULL);
}

/* Errors belong to the thread that caused them. */
static void *fail_quietly(void *context)
{
    worker *self = context;
    char name[16];
    snprintf(name, sizeof name, "nowhere%d", self->number);
    for (int i = 0; i < 200 && !self->failure[0]; i++)
        if (tuff_device_open(name) || !strstr(tuff_error(), name))
            note(self, "another thread's error");
    return NULL;
}

static void errors_are_of_the_thread(void **state)
{
    (void)state;
    run_threads(fail_quietly, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_of_the_thread),
        cmocka_unit_test(two_threads_share_a_device),
        cmocka_unit_test(arrays_are_seen_whole),
        cmocka_unit_test(no_update_is_lost),
        cmocka_unit_test(runs_see_all_that_another_plan_assigned),
        cmocka_unit_test(devices_open_and_close_side_by_side),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
