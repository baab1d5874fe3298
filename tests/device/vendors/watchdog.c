/* A GPU whose driver kills submissions after two seconds and that is a hundred times slower than the cost model
   predicts: it trains, no submission takes more than about half a second, and the weights equal those without pacing. A
   CPU driver computes; a simulated clock defines how long it takes. */
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

#include "configured_plan.h"
#include "each_device.h"
#include "tuff.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#include "device/state.h"

#define SECOND 1e9

enum { EVENTS = 4096, KERNELS = 1024 };

/* The simulated device; times in nanoseconds. */
static struct {
    double now, busy; /* the clock, and the time at which the device finishes its submissions */
    double collected; /* time of the launches since the last flush */
    double slowness;  /* ratio of real to predicted time */
    double longest;   /* longest submission */
    int submissions;  /* submissions with launches */
    cl_event last;    /* the event that was polled last; `asked`: polls in a row since the last launch */
    int asked;
    int callbacks; /* callbacks that were requested */
    bool is_dead;  /* the watchdog killed a submission */
} device_clock;

static struct {
    cl_event event;
    double end; /* negative: not submitted */
} events[EVENTS];
static int event_count;

/* Predicted seconds per group of each kernel. */
static struct {
    cl_kernel kernel;
    double seconds;
} kernels[KERNELS];
static int kernel_count;

static opencl_api truth;
static const driver *real;

/* The commands of the recording in progress, whose kernels are created in this order. */
static struct {
    const command *commands;
    int count, at;
} making;

static uint64_t simulated_time(void)
{
    return (uint64_t)device_clock.now;
}

static tuff_status create_recording(driver_device *device, const command *commands, int count, bool timed,
                                    driver_recording **out)
{
    making.commands = commands;
    making.count = count;
    making.at = 0;
    const tuff_status status = real->recording_create(device, commands, count, timed, out);
    making.commands = NULL;
    return status;
}

static cl_kernel CL_API_CALL create_kernel(cl_program from, const char *name, cl_int *error)
{
    cl_kernel made = truth.CreateKernel(from, name, error);
    if (!making.commands)
        return made;
    while (making.at < making.count && making.commands[making.at].kind != COMMAND_DISPATCH)
        making.at++;
    assert_true(making.at < making.count && kernel_count < KERNELS);
    const command *work = &making.commands[making.at++];
    kernels[kernel_count].kernel = made;
    kernels[kernel_count++].seconds = work->seconds / (double)work->group_count;
    return made;
}

static double group_time(cl_kernel kernel)
{
    for (int i = kernel_count - 1; i >= 0; i--)
        if (kernels[i].kernel == kernel)
            return kernels[i].seconds * device_clock.slowness * SECOND;
    return 0;
}

static void note_event(const cl_event *event)
{
    if (!event)
        return;
    assert_true(event_count < EVENTS);
    events[event_count].event = *event;
    events[event_count++].end = -1;
}

static double *end_of(cl_event event)
{
    for (int i = event_count - 1; i >= 0; i--)
        if (events[i].event == event)
            return &events[i].end;
    return NULL;
}

static cl_int CL_API_CALL enqueue(cl_command_queue queue, cl_kernel kernel, cl_uint axes, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint count, const cl_event *list,
                                 cl_event *event)
{
    device_clock.asked = 0;
    const cl_int error = truth.EnqueueNDRangeKernel(queue, kernel, axes, offset, global, local, count, list, event);
    device_clock.collected += group_time(kernel) * (double)(*global / *local);
    note_event(event);
    return error;
}

static cl_int CL_API_CALL mark(cl_command_queue queue, cl_uint count, const cl_event *list, cl_event *event)
{
    const cl_int error = truth.EnqueueMarkerWithWaitList(queue, count, list, event);
    note_event(event);
    return error;
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
    const double cost = device_clock.collected;
    device_clock.busy = (device_clock.busy > device_clock.now ? device_clock.busy : device_clock.now) + cost;
    device_clock.longest = cost > device_clock.longest ? cost : device_clock.longest;
    device_clock.submissions += cost > 0;
    device_clock.is_dead |= cost > 2 * SECOND;
    device_clock.collected = 0;
    for (int i = 0; i < event_count; i++)
        if (events[i].end < 0)
            events[i].end = device_clock.busy;
    return truth.Flush(queue);
}

/* Repeated polling counts as waiting: the clock advances to the event's end. */
static void pass_time(cl_event event, double end)
{
    enum { PATIENCE = 32 };
    device_clock.asked = event == device_clock.last ? device_clock.asked + 1 : 0;
    device_clock.last = event;
    if (device_clock.asked > PATIENCE && end > device_clock.now)
        device_clock.now = end;
}

static cl_int CL_API_CALL tell_event(cl_event event, cl_event_info question, size_t size, void *out, size_t *needed)
{
    const double *end = end_of(event);
    cl_int state = CL_RUNNING;
    if (end)
        pass_time(event, *end);
    if (device_clock.is_dead)
        state = CL_OUT_OF_RESOURCES;
    else if (!end || (*end >= 0 && *end <= device_clock.now))
        return truth.GetEventInfo(event, question, size, out, needed);
    memcpy(out, &state, sizeof state);
    return CL_SUCCESS;
}

/* A GPU's driver may deliver callbacks late, so that none should be requested. */
static cl_int CL_API_CALL refuse_callback(cl_event event, cl_int state,
                                          void(CL_CALLBACK *call)(cl_event, cl_int, void *), void *user)
{
    (void)event, (void)state, (void)call, (void)user;
    device_clock.callbacks++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    for (int i = 0; i < event_count; i++)
        if (events[i].event == event) {
            events[i] = events[--event_count];
            break;
        }
    return truth.ReleaseEvent(event);
}

/* Reports a GPU with one compute unit. */
static cl_int CL_API_CALL tell_device(cl_device_id id, cl_device_info question, size_t size, void *out, size_t *needed)
{
    const cl_int error = truth.GetDeviceInfo(id, question, size, out, needed);
    const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    const cl_uint one = 1;
    if (error == CL_SUCCESS && out && question == CL_DEVICE_TYPE)
        memcpy(out, &gpu, sizeof gpu);
    if (error == CL_SUCCESS && out && question == CL_DEVICE_MAX_COMPUTE_UNITS)
        memcpy(out, &one, sizeof one);
    return error;
}

static void install(void)
{
    truth = tuff__cl;
    tuff__cl.GetDeviceInfo = tell_device;
    tuff__cl.CreateKernel = create_kernel;
    tuff__cl.EnqueueNDRangeKernel = enqueue;
    tuff__cl.EnqueueMarkerWithWaitList = mark;
    tuff__cl.Flush = flush;
    tuff__cl.GetEventInfo = tell_event;
    tuff__cl.SetEventCallback = refuse_callback;
    tuff__cl.ReleaseEvent = release_event;
    tuff__predictor_clock = simulated_time;
}

static void restore(void)
{
    tuff__cl = truth;
    tuff__predictor_clock = tuff__nanoseconds;
}

/* Opens PoCL presented as a GPU; returns NULL if it is missing. */
static tuff_device *open_gpu(void)
{
    if (tuff_device_unavailable_reason("opencl"))
        return NULL;
    install();
    tuff_device *device = tuff_device_open("opencl:pocl");
    if (!device) {
        restore();
        return NULL;
    }
    assert_int_equal(tuff__device_info(device)->device_class, TUFF_DEVICE_GPU_INTEGRATED);
    assert_true(device->handle->predictor.is_on);
    real = device->driver;
    device->driver_override = *real;
    device->driver_override.recording_create = create_recording;
    device->driver = &device->driver_override;
    return device;
}

static void close_gpu(tuff_device *device)
{
    device->driver = real;
    tuff_device_close(device);
    restore();
}

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
        const int before = device_clock.submissions;
        if (tuff_plan_write(plan, "x", x_values, sizeof x_values) || tuff_plan_run(plan) ||
            tuff_plan_read(plan, "loss", &loss, sizeof loss))
            fail_msg("%s", tuff_error());
        submissions[i] = device_clock.submissions - before;
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
    tuff_device *device = open_gpu();
    if (!device)
        skip();
    device_clock.longest = 0;
    device_clock.slowness = INITIAL_TIME_SCALE;
    train(device, limited, submissions);
    assert_false(device_clock.is_dead);
    print_message("  longest submission %.2f s; %d to %d submissions per step\n", device_clock.longest / SECOND,
                  submissions[0], submissions[STEPS - 1]);
    assert_true(device_clock.longest > 0.1 * SECOND && device_clock.longest <= 0.55 * SECOND);
    assert_true(submissions[STEPS - 1] >= 2);
    /* Without the limit, submissions take longer than a second. */
    tuff_device_wait(device);
    device->handle->predictor.is_on = false;
    device_clock.longest = 0;
    train(device, plain, unlimited);
    assert_true(device_clock.longest > 1 * SECOND);
    assert_memory_equal(limited, plain, sizeof limited);
    assert_int_equal(device_clock.callbacks, 0);
    close_gpu(device);
}

/* The prediction is far off, and measured times correct it in both directions. */
static void predictions_follow_what_is_measured(void **state)
{
    (void)state;
    int submissions[STEPS];
    tuff_device *device = open_gpu();
    if (!device)
        skip();
    device_clock.longest = 0;
    device_clock.slowness = 3 * INITIAL_TIME_SCALE;
    device_clock.is_dead = false;
    train(device, limited, submissions);
    assert_true(submissions[STEPS - 1] > submissions[0]);
    device_clock.longest = 0;
    device_clock.slowness = 0.1;
    train(device, limited, submissions);
    print_message("  on a fast device %d, then %d submissions per step\n", submissions[0], submissions[STEPS - 1]);
    assert_true(submissions[STEPS - 1] <= 2);
    assert_true(device_clock.longest <= 0.5 * SECOND);
    close_gpu(device);
}

/* A device is lost while parts of a launch are pending. The recording is destroyed before the program, and the program
   before the device: nothing may still point to the program. */
static void a_lost_device_forgets_its_programs(void **state)
{
    (void)state;
    tuff_device *device = open_gpu();
    if (!device)
        skip();
    driver_device *handle = device->handle;
    device_clock.slowness = 1;
    device_clock.is_dead = false;
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
    close_gpu(device);
}

/* Groups that share blocks of a product may run in many dispatches: a later one adds their sums, with the same bits. */
static void shared_blocks_may_run_in_parts(void **state)
{
    (void)state;
    enum { TERMS = 509, SIDE = 70 }; /* no number of parts divides the terms */
    static float whole[SIDE * SIDE], parts[SIDE * SIDE];
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    tune_config config;
    tuff_device *device = open_gpu();
    if (!device)
        skip();
    device_clock.slowness = 1;
    device_clock.is_dead = false;
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
    const int before = device_clock.submissions;
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "y", parts, sizeof parts), TUFF_OK);
    assert_true(device_clock.submissions - before > 4);
    device->handle->predictor.is_on = false;
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "y", whole, sizeof whole), TUFF_OK);
    assert_memory_equal(parts, whole, sizeof whole);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    close_gpu(device);
}

/* Reports to a predictor one submission of these shares on an idle queue that took so many seconds. */
static void report_submission(time_predictor *self, const work_share *shares, int count, double seconds)
{
    submission_record submission = {.shares = shares, .count = count};
    tuff__predictor_submitted(self, &submission, true);
    device_clock.now += seconds * SECOND;
    tuff__predictor_ended(self, &submission, true);
}

static void a_pause_says_little(void **state)
{
    (void)state;
    time_predictor self;
    time_scale scale = 0;
    const work_share tiny = {&scale, 1e-6}, ordinary = {&scale, 0.01}, twice[] = {{&scale, 0}, {&scale, 0.01}};
    tuff__predictor_clock = simulated_time;
    device_clock.now = SECOND;
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
    tuff__predictor_clock = tuff__nanoseconds;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_says_little),
        cmocka_unit_test_setup_teardown(a_lost_device_forgets_its_programs, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(a_slow_gpu_with_a_watchdog_trains, use_empty_cache, drop_cache),
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
