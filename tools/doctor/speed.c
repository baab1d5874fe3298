/* Measures the speed of a device; see the header. */
#include "tools/doctor/speed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"
#include "device/device.h"
#include "measure/peak.h"
#include "ops/ops.h"
#include "tuff.h"

enum { HEAD_WIDTH = 64, CHAIN = 100 };
/* Runs are enqueued together until they take that long, so that starting and waiting hardly count. */
#define MIN_SECONDS 0.004
enum { MAX_TOGETHER = 64, MIN_TURNS = 5 };

typedef struct timing {
    tuff_device *device;
    double seconds; /* for each measurement */
    char *failure;
    size_t failure_size;
} timing;

static void note_failure(const timing *self, const char *subject)
{
    if (!self->failure[0])
        snprintf(self->failure, self->failure_size, "%s: %.200s", subject, tuff_error());
}

/* Runs a peak kernel repeatedly for the given time; returns the best rate. */
static double measure_peak(const timing *self, peak_kind kind, const char *subject)
{
    peak *kernel = NULL;
    uint64_t best = 0;
    tuff_status status = tuff__peak_create(self->device, kind, &kernel);
    if (status == TUFF_OK)
        status = tuff__peak_run(kernel, 1);
    for (const uint64_t begin = tuff__nanoseconds(); status == TUFF_OK && tuff__seconds_since(begin) < self->seconds;) {
        uint64_t took = 0;
        status = tuff__peak_time(kernel, &took);
        best = status == TUFF_OK && took > 0 && (best == 0 || took < best) ? took : best;
    }
    const double rate = best > 0 ? tuff__peak_work(kernel) / (double)best * 1e9 : 0;
    if (status != TUFF_OK)
        note_failure(self, subject);
    tuff__peak_destroy(kernel);
    return rate;
}

static tuff_status run_together(const timing *self, tuff_plan *plan, int together, double *seconds)
{
    const uint64_t start = tuff__nanoseconds();
    for (int i = 0; i < together; i++)
        TRY(tuff_plan_run(plan));
    TRY(tuff_device_wait(self->device));
    *seconds = tuff__seconds_since(start) / together;
    return TUFF_OK;
}

/* Returns the seconds of one run of a plan, the best of MIN_TURNS or more measurements until the time that began at
   `begin` is over. Each enqueues `together` runs, or, if that is 0, as many as take MIN_SECONDS, then
   waits. */
static double measure_plan(const timing *self, uint64_t begin, tuff_plan *plan, int together, const char *subject)
{
    double best = 0, took = 0;
    tuff_status status = run_together(self, plan, 1, &took);
    if (status == TUFF_OK && together == 0) {
        status = run_together(self, plan, 1, &took); /* the first run also waits for what compiling left to do */
        together = took * MAX_TOGETHER < MIN_SECONDS ? MAX_TOGETHER : 1 + (int)(MIN_SECONDS / took);
    }
    for (int turn = 0; status == TUFF_OK && (turn < MIN_TURNS || tuff__seconds_since(begin) < self->seconds); turn++) {
        status = run_together(self, plan, together, &took);
        best = status == TUFF_OK && (best == 0 || took < best) ? took : best;
    }
    if (status != TUFF_OK)
        note_failure(self, subject);
    return status == TUFF_OK ? best : 0;
}

/* Fills an input with small numbers. */
static tuff_status fill(tuff_plan *plan, const char *name, tuff_dtype dtype, int64_t count)
{
    enum { PERIOD = 101 };
    const size_t size = tuff_dtype_size(dtype), period = PERIOD * size, total = (size_t)count * size;
    double numbers[PERIOD];
    char *values = malloc(total > period ? total : period);
    if (!values)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < PERIOD; i++)
        numbers[i] = (double)(i * 37 % PERIOD) / PERIOD - 0.5;
    tuff__from_double(dtype, numbers, PERIOD, values);
    for (size_t at = period; at < total; at++)
        values[at] = values[at - period];
    const tuff_status status = tuff_plan_write(plan, name, values, total);
    free(values);
    return status;
}

typedef struct work {
    const char *subject; /* for messages */
    tuff_tensor *(*build)(tuff_tensor *const *x, int links);
    int links;  /* above 0: the length of a chain, which is not fused */
    int inputs; /* up to 3 */
    tuff_shape shapes[3];
    tuff_dtype dtype;
    int together; /* as in measure_plan */
} work;

/* Compiles a work, and times it. Compiling counts as time for the measurement: it takes long on some drivers. Returns
   the seconds of a run; 0 if that failed. */
static double measure_work(const timing *self, const work *one)
{
    static const char *const names[] = {"a", "b", "c"};
    const uint64_t begin = tuff__nanoseconds();
    tuff_tensor *x[3] = {NULL};
    tuff_graph *graph = tuff_graph_create(self->device);
    for (int i = 0; graph && i < one->inputs; i++)
        x[i] = tuff_input(graph, names[i], one->dtype, one->shapes[i]);
    if (graph)
        tuff_output(graph, "y", one->build(x, one->links));
    const tuff_tune_options tuning = {.mode = TUFF_TUNE_OFF};
    const tuff_compile_options options = {.tuning = &tuning, .fuse = one->links > 0 ? TUFF_FUSE_NONE : TUFF_FUSE_ALL};
    tuff_plan *plan = graph ? tuff_compile(graph, &options) : NULL;
    tuff_status status = plan ? TUFF_OK : tuff_last_status();
    for (int i = 0; i < one->inputs && status == TUFF_OK; i++)
        status = fill(plan, names[i], one->dtype, tuff_shape_count(one->shapes[i]));
    if (status != TUFF_OK)
        note_failure(self, one->subject);
    const double seconds = status == TUFF_OK ? measure_plan(self, begin, plan, one->together, one->subject) : 0;
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return seconds;
}

static tuff_tensor *build_chain(tuff_tensor *const *x, int links)
{
    tuff_tensor *y = x[0];
    for (int i = 0; i < links; i++)
        y = tuff_sin(y);
    return y;
}

static tuff_tensor *build_matmul(tuff_tensor *const *x, int links)
{
    (void)links;
    return tuff_matmul(x[0], x[1]);
}

static tuff_tensor *build_attention(tuff_tensor *const *x, int links)
{
    (void)links;
    return tuff_attention(x[0], x[1], x[2], NULL);
}

static void measure_launches(const timing *self, doctor_speed *out)
{
    work chain = {"one kernel", build_chain, 1, 1, {TUFF_SHAPE(16)}, TUFF_F32, 1};
    const double one = measure_work(self, &chain);
    chain.subject = "a chain of kernels";
    chain.links = CHAIN;
    chain.together = 4;
    const double many = measure_work(self, &chain);
    out->submission = one;
    out->launch = many > one ? (many - one) / (CHAIN - 1) : 0;
}

/* The slowest driver, SwiftShader, computes 0.3 GFLOP/s; all works together must take seconds there, and on large cards
   must fill all units. */
static doctor_sizes choose_sizes(double operations)
{
    const doctor_sizes slow = {.matmul = 256, .row = 2048, .batch = 1, .heads = 8, .length = 128},
                       cpu = {.matmul = 512, .row = 4096, .batch = 1, .heads = 8, .length = 256},
                       small = {.matmul = 2048, .row = 4096, .batch = 1, .heads = 16, .length = 1024},
                       large = {.matmul = 4096, .row = 4096, .batch = 4, .heads = 16, .length = 2048};
    return operations >= 5e12 ? large : operations >= 5e11 ? small : operations >= 5e10 ? cpu : slow;
}

/* Returns operations per second; 0 if that failed. */
static double measure_matmul(const timing *self, int side, tuff_dtype dtype, const char *subject)
{
    const tuff_shape shape = TUFF_SHAPE(side, side);
    const work one = {subject, build_matmul, 0, 2, {shape, shape}, dtype, 0};
    const double seconds = measure_work(self, &one);
    return seconds > 0 ? 2.0 * side * side * side / seconds : 0;
}

static double measure_attention(const timing *self, const doctor_sizes *sizes, tuff_dtype dtype, const char *subject)
{
    const tuff_shape shape = TUFF_SHAPE(sizes->batch, sizes->length, sizes->heads, HEAD_WIDTH);
    const work one = {subject, build_attention, 0, 3, {shape, shape, shape}, dtype, 0};
    const double seconds = measure_work(self, &one), pairs = (double)sizes->length * sizes->length;
    return seconds > 0 ? 4.0 * sizes->batch * sizes->heads * HEAD_WIDTH * pairs / seconds : 0;
}

/* Returns the bytes of the matrix per second. */
static double measure_row(const timing *self, int side)
{
    const work one = {
        "a row times a matrix", build_matmul, 0, 2, {TUFF_SHAPE(1, side), TUFF_SHAPE(side, side)}, TUFF_F32, 0};
    const double seconds = measure_work(self, &one);
    return seconds > 0 ? 4.0 * side * side / seconds : 0;
}

void doctor_measure(tuff_device *device, double seconds, const doctor_sizes *sizes, doctor_speed *out, char *failure,
                    size_t failure_size)
{
    tuff_device_info info;
    *out = (doctor_speed){0};
    failure[0] = 0;
    if (tuff_device_describe(device, &info) != TUFF_OK || info.device_class == TUFF_DEVICE_REFERENCE)
        return;
    const bool has_16_bits = doctor_has_16_bits(&info);
    const timing self = {device, seconds / (has_16_bits ? 10 : 7), failure, failure_size};
    out->operations = measure_peak(&self, PEAK_OPERATIONS, "multiply-adds");
    out->bytes = measure_peak(&self, PEAK_BYTES, "a copy");
    measure_launches(&self, out);
    out->sizes = sizes ? *sizes : choose_sizes(out->operations);
    out->rates[DOCTOR_MATMUL] = measure_matmul(&self, out->sizes.matmul, TUFF_F32, "a matmul");
    out->rates[DOCTOR_ATTENTION] = measure_attention(&self, &out->sizes, TUFF_F32, "an attention");
    out->rates[DOCTOR_ROW] = measure_row(&self, out->sizes.row);
    if (!has_16_bits)
        return;
    out->rates[DOCTOR_MATMUL_F16] = measure_matmul(&self, out->sizes.matmul, TUFF_F16, "a matmul in f16");
    out->rates[DOCTOR_MATMUL_BF16] = measure_matmul(&self, out->sizes.matmul, TUFF_BF16, "a matmul in bf16");
    out->rates[DOCTOR_ATTENTION_F16] = measure_attention(&self, &out->sizes, TUFF_F16, "an attention in f16");
}

/* Ends a line. Returns 1 if it is slow. */
static int write_verdict(text *out, double measured, double predicted)
{
    const bool is_slow = doctor_judge(measured, predicted) == DOCTOR_SLOW;
    tuff__text_add(out, "%s\n", is_slow ? ": SLOW" : "");
    return is_slow;
}

static int write_f32(text *out, const char *subject, const char *unit, double rate, double predicted)
{
    if (rate <= 0)
        return 0;
    tuff__text_add(out, "  %-37s %9.1f %s", subject, rate * 1e-9, unit);
    if (predicted > 0)
        tuff__text_add(out, ", %.2f of the %.1f predicted", rate / predicted, predicted * 1e-9);
    return write_verdict(out, rate, predicted);
}

/* f32: the rate of the same work. predicted: how many times as fast this one should be. */
static int write_16_bits(text *out, const char *dtype, double rate, double f32, double predicted)
{
    if (rate <= 0)
        return 0;
    const double ratio = f32 > 0 ? rate / f32 : 0;
    tuff__text_add(out, "  the same, %-27s %9.1f GFLOP/s", dtype, rate * 1e-9);
    if (ratio > 0)
        tuff__text_add(out, ", %.2f times f32, %.2f predicted", ratio, predicted);
    return write_verdict(out, ratio, predicted);
}

int doctor_write_speed(const doctor_speed *speed, const doctor_prediction *predicted, text *out)
{
    const doctor_sizes *sizes = &speed->sizes;
    const double *rates = speed->rates;
    char subject[96];
    int slow = 0;
    tuff__text_add(out, "  %-37s %9.1f GFLOP/s\n", "multiply-adds, f32", speed->operations * 1e-9);
    tuff__text_add(out, "  %-37s %9.1f GB/s\n", "copy, read and write", speed->bytes * 1e-9);
    tuff__text_add(out, "  %-37s %9.1f us, %.1f us more for each further kernel\n", "one kernel, until it ends",
                   speed->submission * 1e6, speed->launch * 1e6);
    snprintf(subject, sizeof subject, "matmul %d x %d x %d, f32", sizes->matmul, sizes->matmul, sizes->matmul);
    slow += write_f32(out, subject, "GFLOP/s", rates[DOCTOR_MATMUL], predicted->matmul * speed->operations);
    slow += write_16_bits(out, "f16", rates[DOCTOR_MATMUL_F16], rates[DOCTOR_MATMUL], predicted->matmul_f16);
    slow += write_16_bits(out, "bf16", rates[DOCTOR_MATMUL_BF16], rates[DOCTOR_MATMUL], predicted->matmul_bf16);
    snprintf(subject, sizeof subject, "attention T %d, %d heads of %d, f32", sizes->length, sizes->batch * sizes->heads,
             HEAD_WIDTH);
    slow += write_f32(out, subject, "GFLOP/s", rates[DOCTOR_ATTENTION], predicted->attention * speed->operations);
    slow += write_16_bits(out, "f16", rates[DOCTOR_ATTENTION_F16], rates[DOCTOR_ATTENTION], predicted->attention_f16);
    snprintf(subject, sizeof subject, "1 x %d x %d, f32", sizes->row, sizes->row);
    slow += write_f32(out, subject, "GB/s", rates[DOCTOR_ROW], predicted->row * speed->bytes);
    return slow;
}
