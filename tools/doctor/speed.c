/* Measures the speed of a device; see the header. */
#include "tools/doctor/speed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"
#include "device/device.h"
#include "measure/peak.h"
#include "tuff.h"

/* Fractions of the peak that the kernels are known to reach on the devices that were measured or counted:
   bench/results. */
#define MATMUL_SHARE 0.5
#define ATTENTION_SHARE 0.25

enum { HEADS = 8, HEAD_WIDTH = 64, CHAIN = 100 };

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

/* Returns the seconds of one run of a plan, the best of several measurements. Each enqueues `together` runs, then
   waits. */
static double measure_plan(const timing *self, tuff_plan *plan, int together, const char *subject)
{
    double best = 0;
    tuff_status status = tuff_plan_run(plan);
    if (status == TUFF_OK)
        status = tuff_device_wait(self->device);
    for (const uint64_t begin = tuff__nanoseconds();
         status == TUFF_OK && (best == 0 || tuff__seconds_since(begin) < self->seconds);) {
        const uint64_t start = tuff__nanoseconds();
        for (int i = 0; i < together && status == TUFF_OK; i++)
            status = tuff_plan_run(plan);
        if (status == TUFF_OK)
            status = tuff_device_wait(self->device);
        const double took = tuff__seconds_since(start) / together;
        best = best == 0 || took < best ? took : best;
    }
    if (status != TUFF_OK)
        note_failure(self, subject);
    return status == TUFF_OK ? best : 0;
}

/* Fills an input with small numbers. */
static tuff_status fill(tuff_plan *plan, const char *name, int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values);
    if (!values)
        return TUFF_E_OOM_HOST;
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    const tuff_status status = tuff_plan_write(plan, name, values, (size_t)count * sizeof *values);
    free(values);
    return status;
}

/* Compiles what build makes of inputs of one shape, and times it. Returns seconds; 0 if that failed. */
static double measure_graph(const timing *self, tuff_tensor *(*build)(tuff_tensor *const *x, int links), int links,
                            int inputs, tuff_shape shape, int together, const char *subject)
{
    static const char *const names[] = {"a", "b", "c"};
    tuff_tensor *x[3] = {NULL};
    tuff_graph *graph = tuff_graph_create(self->device);
    for (int i = 0; graph && i < inputs; i++)
        x[i] = tuff_input(graph, names[i], TUFF_F32, shape);
    if (graph)
        tuff_output(graph, "y", build(x, links));
    const tuff_tune_options tuning = {.mode = TUFF_TUNE_OFF};
    const tuff_compile_options options = {.tuning = &tuning, .fuse = links > 0 ? TUFF_FUSE_NONE : TUFF_FUSE_ALL};
    tuff_plan *plan = graph ? tuff_compile(graph, &options) : NULL;
    tuff_status status = plan ? TUFF_OK : tuff_last_status();
    for (int i = 0; i < inputs && status == TUFF_OK; i++)
        status = fill(plan, names[i], tuff_shape_count(shape));
    if (status != TUFF_OK)
        note_failure(self, subject);
    const double seconds = status == TUFF_OK ? measure_plan(self, plan, together, subject) : 0;
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
    const tuff_shape shape = TUFF_SHAPE(16);
    const double one = measure_graph(self, build_chain, 1, 1, shape, 1, "one kernel");
    const double many = measure_graph(self, build_chain, CHAIN, 1, shape, 4, "a chain of kernels");
    out->submission = one;
    out->launch = many > one ? (many - one) / (CHAIN - 1) : 0;
}

static void measure_kernels(const timing *self, bool is_cpu, doctor_speed *out)
{
    const int side = is_cpu ? 512 : 2048, length = is_cpu ? 256 : 1024;
    const double product = 2.0 * side * side * side, pairs = 4.0 * HEADS * HEAD_WIDTH * length * length;
    const double matmul = measure_graph(self, build_matmul, 0, 2, TUFF_SHAPE(side, side), 2, "a matmul");
    const double attention =
        measure_graph(self, build_attention, 0, 3, TUFF_SHAPE(1, length, HEADS, HEAD_WIDTH), 2, "an attention");
    out->matmul_side = side;
    out->attention_length = length;
    out->matmul = matmul > 0 ? product / matmul : 0;
    out->attention = attention > 0 ? pairs / attention : 0;
    out->matmul_predicted = MATMUL_SHARE * out->operations;
    out->attention_predicted = ATTENTION_SHARE * out->operations;
}

void doctor_measure(tuff_device *device, double seconds, doctor_speed *out, char *failure, size_t failure_size)
{
    enum { MEASUREMENTS = 6 };
    tuff_device_info info;
    const timing self = {device, seconds / MEASUREMENTS, failure, failure_size};
    *out = (doctor_speed){0};
    failure[0] = 0;
    if (tuff_device_describe(device, &info) != TUFF_OK || info.device_class == TUFF_DEVICE_REFERENCE)
        return;
    out->operations = measure_peak(&self, PEAK_OPERATIONS, "multiply-adds");
    out->bytes = measure_peak(&self, PEAK_BYTES, "a copy");
    measure_launches(&self, out);
    measure_kernels(&self, info.device_class == TUFF_DEVICE_CPU, out);
}
