/* Differential tests of graphs: see the header. The reference runs the graph as built, so that no part of the compiler
   is involved. */
#include <inttypes.h>
#include "differential.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/rewrite/simplify.h"
#include "exec/reference.h"
#include "tools/model/random.h"

tuff_tensor *ranged_input(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, double low, double high)
{
    char name[64];
    int before = 0; /* inputs: the number of nodes depends on the device */
    for (int i = 0; i < graph->node_count; i++)
        before += graph->nodes[i]->op == OP_INPUT;
    snprintf(name, sizeof name, "%d:%.17g:%.17g", before, low, high);
    return tuff_input(graph, name, dtype, shape);
}

tuff_tensor *float_input(tuff_graph *graph, tuff_shape shape)
{
    return ranged_input(graph, TUFF_F32, shape, -1, 1);
}

void add_output(tuff_graph *graph, tuff_tensor *tensor)
{
    char name[16];
    snprintf(name, sizeof name, "out%d", graph->output_count);
    tuff_output(graph, name, tensor);
}

void add_with_gradients(tuff_graph *graph, tuff_tensor *value, tuff_tensor *const *wrt, int count)
{
    tuff_tensor *gradients[DIFFERENTIAL_MAX];
    int axes[TUFF_MAX_RANK];
    const tuff_shape shape = tuff_tensor_shape(value);
    for (int i = 0; i < shape.rank; i++)
        axes[i] = i;
    add_output(graph, value);
    if (count == 0)
        return;
    tuff_tensor *target = tuff_sum(tuff_tanh(value), axes, shape.rank, false);
    if (tuff_gradients(target, wrt, count, gradients) != TUFF_OK)
        fail_msg("gradients: %s", tuff_error());
    for (int i = 0; i < count; i++)
        add_output(graph, gradients[i]);
}

/* Fills an input with random elements from the range that its name contains. */
static void draw_input(differential *self, const tuff_tensor *input, const char *name, uint64_t seed)
{
    const int index = self->input_count++;
    double low = 0, high = 0;
    assert_true(index < DIFFERENTIAL_MAX);
    assert_int_equal(sscanf(name, "%*d:%lf:%lf", &low, &high), 2);
    const int64_t count = tuff_shape_count(input->shape);
    const uint64_t key = random_key(seed, name);
    double *values = calloc((size_t)count + 1, sizeof *values);
    self->inputs[index].size = (size_t)count * tuff_dtype_size(input->dtype);
    self->inputs[index].data = calloc(1, self->inputs[index].size + 1);
    assert_non_null(values);
    assert_non_null(self->inputs[index].data);
    for (int64_t i = 0; i < count; i++) {
        const double unit = random_uniform(key, (uint64_t)i);
        values[i] =
            tuff__dtype_is_float(input->dtype) ? low + (high - low) * unit : floor(low + (high - low + 1) * unit);
    }
    tuff__from_double(input->dtype, values, count, self->inputs[index].data);
    snprintf(self->inputs[index].name, sizeof self->inputs[index].name, "%s", name);
    free(values);
}

static tuff_graph *build_graph(const differential *self, tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    self->build(graph, self->context);
    if (tuff_graph_status(graph) != TUFF_OK)
        fail_msg("%s: %s", self->name, tuff_graph_error(graph));
    return graph;
}

static void read_expected(differential *self, const reference_plan *plan, const graph_output *output)
{
    const int index = self->output_count++;
    assert_true(index < DIFFERENTIAL_MAX);
    const int64_t count = tuff_shape_count(output->tensor->shape);
    snprintf(self->outputs[index].name, sizeof self->outputs[index].name, "%s", output->name);
    self->outputs[index].dtype = output->tensor->dtype;
    self->outputs[index].count = count;
    self->outputs[index].values = calloc((size_t)count + 1, sizeof(double));
    self->outputs[index].bounds = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(self->outputs[index].values);
    assert_non_null(self->outputs[index].bounds);
    assert_int_equal(tuff__reference_read_double((reference_plan *)plan, output->name, self->outputs[index].values),
                     TUFF_OK);
    assert_int_equal(tuff__reference_read_bounds((reference_plan *)plan, output->name, self->outputs[index].bounds),
                     TUFF_OK);
}

/* Whether the bounds are narrow compared to the tensor's largest element; within wide bounds nearly anything would
   pass. */
static bool has_narrow_bounds(const differential *self)
{
    int64_t wide = 0, all = 0;
    for (int i = 0; i < self->output_count; i++) {
        double largest = 1e-3;
        for (int64_t k = 0; k < self->outputs[i].count; k++)
            if (isfinite(self->outputs[i].values[k]))
                largest = fmax(largest, fabs(self->outputs[i].values[k]));
        for (int64_t k = 0; k < self->outputs[i].count; k++)
            wide += self->outputs[i].bounds[k] > 1e-2 * largest;
        all += self->outputs[i].count;
    }
    if (wide * 10 > all)
        print_message("%s: %" PRId64 " of %" PRId64 " bounds are too wide to mean anything\n", self->name, wide, all);
    return wide * 10 <= all;
}

static bool prepare(differential *self, uint64_t seed)
{
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    tuff_graph *built = build_graph(self, device);
    tuff_graph *graph = tuff__simplify(built, true);
    reference_plan *plan = NULL;
    assert_non_null(graph);
    assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
    tuff__reference_enable_bounds(plan, true);
    if (self->precision != TUFF_PRECISION_F32)
        tuff__reference_set_storage(plan, self->precision == TUFF_PRECISION_F16 ? TUFF_F16 : TUFF_BF16);
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_INPUT) {
            draw_input(self, &graph->nodes[i]->outputs[0], graph->nodes[i]->attributes.name, seed);
            assert_int_equal(tuff__reference_write(plan, self->inputs[self->input_count - 1].name,
                                                   self->inputs[self->input_count - 1].data,
                                                   self->inputs[self->input_count - 1].size),
                             TUFF_OK);
        }
    assert_int_equal(tuff__reference_run(plan), TUFF_OK);
    for (int i = 0; i < graph->output_count; i++)
        read_expected(self, plan, &graph->outputs[i]);
    tuff__reference_destroy(plan);
    tuff_graph_destroy(built);
    tuff_device_close(device);
    return self->precision != TUFF_PRECISION_F32 || has_narrow_bounds(self);
}

bool differential_prepare(differential *self, const char *name, graph_builder build, const void *context, uint64_t seed)
{
    *self = (differential){.name = name, .build = build, .context = context};
    return prepare(self, seed);
}

void differential_create_mixed(differential *self, const char *name, graph_builder build, const void *context,
                               uint64_t seed, tuff_precision precision)
{
    *self = (differential){.name = name, .build = build, .context = context, .precision = precision};
    assert_true(prepare(self, seed));
}

void differential_create(differential *self, const char *name, graph_builder build, const void *context, uint64_t seed)
{
    assert_true(differential_prepare(self, name, build, context, seed));
}

void differential_destroy(differential *self)
{
    for (int i = 0; i < self->input_count; i++)
        free(self->inputs[i].data);
    for (int i = 0; i < self->output_count; i++) {
        free(self->outputs[i].values);
        free(self->outputs[i].bounds);
    }
    *self = (differential){.name = NULL};
}

double differential_ratio(tuff_dtype dtype, double got, double value, double bound)
{
    if (isnan(got) || isnan(value))
        return isnan(got) && isnan(value) ? 0 : INFINITY;
    if (!tuff__dtype_is_float(dtype))
        return got == value ? 0 : INFINITY;
    const double bar = 2 * bound + (double)FLT_MIN;
    if (got < tuff__round_to(dtype, value - bar) || got > tuff__round_to(dtype, value + bar))
        return fmax(fabs(got - value) / bar, 1.001);
    return fmin(fabs(got - value) / bar, 1);
}

static int64_t report_failure(const differential *self, tuff_device *device, const tuff_compile_options *options,
                              const char *subject)
{
    tuff_device_info info;
    static const char *const families[] = {"", ", register", ", local", ", subgroup", ", cooperative"};
    static const char *const precisions[] = {"", ", f16", ", bf16"};
    const tuff_compile_options defaults = {.fuse = TUFF_FUSE_ALL};
    options = options ? options : &defaults;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    print_message("%s on %s%s%s%s: %s\n", self->name, info.selector,
                  options->fuse == TUFF_FUSE_NONE ? ", unfused" : ", fused", families[options->family],
                  precisions[options->precision], subject);
    return 1;
}

static int64_t compare(const differential *self, int index, const unsigned char *bytes, tuff_device *device,
                       const tuff_compile_options *options)
{
    const int64_t count = self->outputs[index].count;
    int64_t failures = 0;
    double *got = calloc((size_t)count + 1, sizeof *got);
    assert_non_null(got);
    tuff__to_double(self->outputs[index].dtype, bytes, count, got);
    for (int64_t i = 0; i < count; i++) {
        const double value = self->outputs[index].values[i], bound = self->outputs[index].bounds[i];
        char line[160];
        if (differential_ratio(self->outputs[index].dtype, got[i], value, bound) <= 1)
            continue;
        snprintf(line, sizeof line, "%s[%lld of %lld] is %.9g, not %.9g within %.3g", self->outputs[index].name,
                 (long long)i, (long long)count, got[i], value, 2 * bound);
        if (failures++ == 0)
            report_failure(self, device, options, line);
    }
    free(got);
    return failures;
}

/* Bounds of 16-bit plans are wide because rounding errors seldom add up as they may. Checks that the root mean square
   of the errors is small, too, relative to that of the values. */
static bool is_close_on_average(const differential *self, int index, const unsigned char *bytes, tuff_device *device,
                                const tuff_compile_options *options)
{
    enum { ROUNDINGS = 16 };
    const int64_t count = self->outputs[index].count;
    const double unit = self->precision == TUFF_PRECISION_F16 ? 0x1p-11 : 0x1p-8;
    double errors = 0, values = 0, *got = calloc((size_t)count + 1, sizeof *got);
    char line[160];
    assert_non_null(got);
    tuff__to_double(self->outputs[index].dtype, bytes, count, got);
    for (int64_t i = 0; i < count; i++) {
        errors += (got[i] - self->outputs[index].values[i]) * (got[i] - self->outputs[index].values[i]);
        values += self->outputs[index].values[i] * self->outputs[index].values[i];
    }
    free(got);
    if (sqrt(errors) <= ROUNDINGS * unit * sqrt(values))
        return true;
    snprintf(line, sizeof line, "%s is off by %.2g of its norm, more than %.2g", self->outputs[index].name,
             sqrt(errors / values), ROUNDINGS * unit);
    report_failure(self, device, options, line);
    return false;
}

static size_t output_size(const differential *self, int index)
{
    return (size_t)self->outputs[index].count * tuff_dtype_size(self->outputs[index].dtype);
}

static tuff_status write_inputs(const differential *self, tuff_plan *plan)
{
    for (int i = 0; i < self->input_count; i++)
        TRY(tuff_plan_write(plan, self->inputs[i].name, self->inputs[i].data, self->inputs[i].size));
    return TUFF_OK;
}

static tuff_status run_and_read(const differential *self, tuff_plan *plan, unsigned char *bytes)
{
    TRY(tuff_plan_run(plan));
    for (int i = 0; i < self->output_count; i++) {
        TRY(tuff_plan_read(plan, self->outputs[i].name, bytes, output_size(self, i)));
        bytes += output_size(self, i);
    }
    return TUFF_OK;
}

unsigned char *differential_bytes(const differential *self, tuff_device *device, const tuff_compile_options *options,
                                  int runs, size_t *size)
{
    *size = 0;
    for (int i = 0; i < self->output_count; i++)
        *size += output_size(self, i);
    unsigned char *bytes = calloc(2, *size + 1), *again = bytes + *size;
    assert_non_null(bytes);
    tuff_graph *graph = build_graph(self, device);
    tuff_plan *plan = self->compile ? self->compile(graph, options) : tuff_compile(graph, options);
    bool good = plan && write_inputs(self, plan) == TUFF_OK && run_and_read(self, plan, bytes) == TUFF_OK;
    for (int i = 1; i < runs && good; i++) {
        good = run_and_read(self, plan, again) == TUFF_OK;
        if (good && memcmp(bytes, again, *size) != 0)
            fail_msg("%s: run %d gave different bits", self->name, i);
    }
    if (!good)
        report_failure(self, device, options, tuff_error());
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    if (good)
        return bytes;
    free(bytes);
    return NULL;
}

int64_t differential_run(const differential *self, tuff_device *device, const tuff_compile_options *options)
{
    size_t size, at = 0;
    int64_t failures = 0;
    unsigned char *bytes = differential_bytes(self, device, options, 1, &size);
    if (!bytes)
        return 1;
    for (int i = 0; i < self->output_count; i++) {
        failures += compare(self, i, bytes + at, device, options);
        if (self->precision != TUFF_PRECISION_F32)
            failures += !is_close_on_average(self, i, bytes + at, device, options);
        at += output_size(self, i);
    }
    free(bytes);
    return failures;
}
