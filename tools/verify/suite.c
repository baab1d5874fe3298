/* The op suite's runner. Each case is built twice, for the device and for the reference device, run on the same values,
   and compared element by element. Error bars depend on the primitive: ulps of f32 for elementwise ops, twice the
   carried first-order bound for sums, none for copies and integers; storage in f16 and bf16 adds its own rounding. */
#include "tools/verify/suite.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/reference.h"
#include "tuff/ops.h"

#define EDGE_COUNT 13

/* A case as a graph on one device. */
typedef struct execution {
    const suite_case *test;
    tuff_device *device;
    tuff_graph *graph;
    tuff_array *array; /* operand of ARRAY, target of ASSIGN */
    tuff_dtype dtype;  /* of the result */
    int64_t count;     /* elements of the result */
} execution;

/* The parameters of a comparison. */
typedef struct comparison {
    const suite_case *test;
    tuff_dtype dtype;
    bool keeps_denormals;
} comparison;

static double edge_value(tuff_dtype dtype, int index)
{
    static const double signed_edges[EDGE_COUNT] = {0,          1,     -1,     2, -2, 7, 2147483647, -2147483648.0,
                                                    2147483646, 65535, -65536, 3, 100};
    static const double unsigned_edges[EDGE_COUNT] = {0,          1,          2,     3,     7,   4294967295, 4294967294,
                                                      2147483648, 2147483647, 65535, 65536, 100, 5};
    const double largest = dtype == TUFF_F16 ? 65504 : dtype == TUFF_BF16 ? ldexp(255, 120) : FLT_MAX;
    const double normal = dtype == TUFF_F16 ? ldexp(1, -14) : FLT_MIN;
    const double denormal = dtype == TUFF_F16 ? ldexp(1, -24) : dtype == TUFF_BF16 ? ldexp(1, -133) : ldexp(1, -149);
    const double float_edges[EDGE_COUNT] = {NAN, INFINITY, -INFINITY, 0,        -0.0,      1,     -1,
                                            0.5, largest,  -largest,  denormal, -denormal, normal};
    if (tuff__dtype_is_float(dtype))
        return float_edges[index];
    return dtype == TUFF_BOOL                      ? index % 2
           : dtype == TUFF_U32 || dtype == TUFF_U8 ? unsigned_edges[index]
                                                   : signed_edges[index];
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static double random_value(const suite_operand *operand, uint32_t *state)
{
    const double unit = (double)(next_random(state) >> 8) / 16777216;
    if (tuff__dtype_is_float(operand->dtype))
        return operand->low + (operand->high - operand->low) * unit;
    if (operand->dtype == TUFF_BOOL)
        return next_random(state) >> 8 & 1;
    const double low = operand->dtype == TUFF_U32 || operand->dtype == TUFF_U8 ? fmax(operand->low, 0) : operand->low;
    return floor(low + (operand->high - low + 1) * unit);
}

double *suite_values(const suite_case *test, int operand, uint32_t seed)
{
    static const int divisors[SUITE_MAX_OPERANDS] = {EDGE_COUNT, 1, 5, 1};
    const suite_operand *from = &test->operands[operand];
    const int64_t count = tuff_shape_count(from->shape);
    double *values = tuff__calloc((size_t)count, sizeof *values);
    uint32_t state = seed * 2654435761u + (uint32_t)test->op * 40503u + (uint32_t)operand * 9176u + 1;
    for (int i = 0; i < 8; i++)
        next_random(&state);
    const int64_t edges = from->fill == FILL_EDGES ? count : from->fill == FILL_MIXED ? EDGE_COUNT * EDGE_COUNT : 0;
    for (int64_t i = 0; values && i < count; i++) {
        const double value =
            i < edges ? edge_value(from->dtype, (int)(i / divisors[operand] % EDGE_COUNT)) : random_value(from, &state);
        values[i] = tuff__round_to(from->dtype, value);
    }
    return values;
}

/* Whether an op moves elements and so must keep every bit. */
static bool moves_bits(op_code op)
{
    return op == OP_WHERE || op == OP_GATHER || op == OP_INPUT || op == OP_ARRAY || op == OP_ASSIGN ||
           op == OP_CONSTANT || op == OP_PAD || op == OP_CONCAT || tuff__op_is_view(op);
}

/* Whether the denormal results of an op are exact on every device that keeps denormals. */
static bool keeps_denormal_results(op_code op)
{
    return moves_bits(op) || op == OP_NEG || op == OP_ABS || op == OP_FLOOR || op == OP_ADD || op == OP_SUB ||
           op == OP_MUL || op == OP_MAX || op == OP_MIN;
}

static const char *operand_name(int operand)
{
    static const char *const names[SUITE_MAX_OPERANDS] = {"x", "y", "z", "w"};
    return names[operand];
}

static tuff_tensor *permuted_input(tuff_graph *graph, const char *name, tuff_dtype dtype, tuff_shape shape)
{
    tuff_shape stored = shape;
    int order[TUFF_MAX_RANK] = {0};
    for (int axis = 0; axis < shape.rank; axis++) {
        order[axis] = shape.rank - 1 - axis;
        stored.extent[axis] = shape.extent[order[axis]];
    }
    return tuff_permute(tuff_input(graph, name, dtype, stored), order);
}

static tuff_tensor *flipped_input(tuff_graph *graph, const char *name, tuff_dtype dtype, tuff_shape shape)
{
    int64_t start[TUFF_MAX_RANK] = {0}, stop[TUFF_MAX_RANK], step[TUFF_MAX_RANK];
    for (int axis = 0; axis < TUFF_MAX_RANK; axis++) {
        start[axis] = axis < shape.rank ? shape.extent[axis] - 1 : 0;
        stop[axis] = step[axis] = -1;
    }
    return tuff_slice(tuff_input(graph, name, dtype, shape), start, stop, step);
}

static tuff_tensor *operand_tensor(const execution *run, int operand)
{
    const suite_operand *from = &run->test->operands[operand];
    if (run->test->op == OP_ARRAY)
        return tuff_array_tensor(run->graph, run->array);
    switch (run->test->view) {
    case VIEW_PERMUTED:
        return permuted_input(run->graph, operand_name(operand), from->dtype, from->shape);
    case VIEW_FLIPPED:
        return flipped_input(run->graph, operand_name(operand), from->dtype, from->shape);
    case VIEW_NONE:
        break;
    }
    return tuff_input(run->graph, operand_name(operand), from->dtype, from->shape);
}

static void destroy_execution(execution *run)
{
    tuff_graph_destroy(run->graph);
    tuff_array_destroy(run->array);
    *run = (execution){0};
}

/* Builds the case's graph, with the output "result". */
static tuff_status create_execution(const suite_case *test, tuff_device *device, execution *run)
{
    tuff_tensor *operands[SUITE_MAX_OPERANDS] = {NULL};
    *run = (execution){.test = test, .device = device, .graph = tuff_graph_create(device)};
    if (!run->graph)
        return tuff_last_status();
    if (test->op == OP_ARRAY || test->op == OP_ASSIGN) {
        run->array = tuff_array_create(device, test->operands[0].dtype, test->operands[0].shape);
        if (!run->array)
            return tuff_last_status();
    }
    for (int i = 0; i < test->operand_count; i++)
        operands[i] = operand_tensor(run, i);
    tuff_tensor *result = test->build(test, run->graph, operands);
    if (test->op == OP_ASSIGN)
        result = tuff_assign(run->graph, run->array, result);
    tuff_output(run->graph, "result", result);
    run->dtype = tuff_tensor_dtype(result);
    run->count = tuff_shape_count(tuff_tensor_shape(result));
    return tuff_graph_status(run->graph);
}

tuff_status suite_with_plan(tuff_device *device, const suite_case *test, const tuff_compile_options *options,
                            tuff_status (*use)(void *state, const tuff_plan *plan), void *state)
{
    execution run;
    tuff_plan *plan = NULL;
    tuff_status status = create_execution(test, device, &run);
    if (status == TUFF_OK) {
        plan = tuff_compile(run.graph, options);
        status = plan ? use(state, plan) : tuff_last_status();
    }
    tuff_plan_destroy(plan);
    destroy_execution(&run);
    return status;
}

typedef tuff_status (*input_writer)(void *plan, const char *name, const void *data, size_t size);

static tuff_status write_to_plan(void *plan, const char *name, const void *data, size_t size)
{
    return tuff_plan_write(plan, name, data, size);
}

static tuff_status write_to_reference(void *plan, const char *name, const void *data, size_t size)
{
    return tuff__reference_write(plan, name, data, size);
}

/* Writes the values of an operand, in its dtype, to a plan or to the case's array. */
static tuff_status write_operand(const execution *run, int operand, const double *values, input_writer write,
                                 void *plan)
{
    const suite_operand *to = &run->test->operands[operand];
    const int64_t count = tuff_shape_count(to->shape);
    const size_t size = (size_t)count * tuff_dtype_size(to->dtype);
    void *data = tuff__alloc(size);
    if (!data)
        return TUFF_E_OOM_HOST;
    tuff__from_double(to->dtype, values, count, data);
    const tuff_status status = run->test->op == OP_ARRAY ? tuff_array_write(run->array, data, size)
                                                         : write(plan, operand_name(operand), data, size);
    tuff__free(data);
    return status;
}

static tuff_status write_operands(const execution *run, double *const *values, input_writer write, void *plan)
{
    for (int i = 0; i < run->test->operand_count; i++)
        TRY(write_operand(run, i, values[i], write, plan));
    return TUFF_OK;
}

/* Computes the values and error bounds of the case in float64. */
static tuff_status run_reference(execution *run, double *const *inputs, double *values, double *bounds)
{
    reference_plan *plan = NULL;
    TRY(tuff__reference_create(run->graph, &plan));
    run->graph = NULL;
    tuff__reference_enable_bounds(plan, true);
    tuff_status status = write_operands(run, inputs, write_to_reference, plan);
    if (status == TUFF_OK)
        status = tuff__reference_run(plan);
    if (status == TUFF_OK)
        status = tuff__reference_read_double(plan, "result", values);
    if (status == TUFF_OK)
        status = tuff__reference_read_bounds(plan, "result", bounds);
    tuff__reference_destroy(plan);
    return status;
}

/* Checks that an assigned array holds the same as the plan's output. */
static tuff_status check_assigned_array(const execution *run, const void *output, size_t size)
{
    if (run->test->op != OP_ASSIGN)
        return TUFF_OK;
    void *stored = tuff__alloc(size);
    tuff_status status = stored ? tuff_array_read(run->array, stored, size) : TUFF_E_OOM_HOST;
    if (status == TUFF_OK && memcmp(stored, output, size) != 0)
        status = FAIL(TUFF_E_NUMERIC, "assign: the array differs from the output");
    tuff__free(stored);
    return status;
}

static tuff_status read_result(const execution *run, tuff_plan *plan, double *values)
{
    const size_t size = (size_t)run->count * tuff_dtype_size(run->dtype);
    void *data = tuff__alloc(size);
    tuff_status status = data ? tuff_plan_read(plan, "result", data, size) : TUFF_E_OOM_HOST;
    if (status == TUFF_OK)
        status = check_assigned_array(run, data, size);
    if (status == TUFF_OK)
        tuff__to_double(run->dtype, data, run->count, values);
    tuff__free(data);
    return status;
}

static tuff_status run_device(execution *run, const tuff_compile_options *options, double *const *inputs,
                              double *values)
{
    tuff_plan *plan = tuff_compile(run->graph, options);
    if (!plan)
        return tuff_last_status();
    tuff_status status = write_operands(run, inputs, write_to_plan, plan);
    if (status == TUFF_OK)
        status = tuff_plan_run(plan);
    if (status == TUFF_OK)
        status = read_result(run, plan, values);
    tuff_plan_destroy(plan);
    return status;
}

/* Distance between neighbouring f32 values at value. */
static double unit_in_last_place(double value)
{
    return value == 0 || !isfinite(value) || fabs(value) < FLT_MIN ? ldexp(1, -149) : ldexp(1, ilogb(value) - 23);
}

static bool is_sum(op_code op)
{
    return tuff__op_is_materialized(op) && op != OP_REDUCE_MAX;
}

static double tolerance_of(const suite_case *test, bool keeps_denormals, double reference, double bound)
{
    const op_info *info = tuff__op_info(test->op);
    double tolerance = 2 * bound;
    if (tuff__op_has_text(test->op) && isfinite(reference)) {
        const double relative = info->ulps * ldexp(1, -24) * fabs(reference);
        tolerance = info->ulps * unit_in_last_place(reference) + 2 * fmax(bound - relative, 0);
    }
    if (fabs(reference) < 2 * (double)FLT_MIN && !(keeps_denormals && keeps_denormal_results(test->op)))
        tolerance += (double)FLT_MIN;
    /* up to a thousand terms may each be flushed to zero */
    return is_sum(test->op) && !keeps_denormals ? tolerance + 1024 * (double)FLT_MIN : tolerance;
}

/* Largest rounding error of storing value: half the distance between neighbours in the narrow dtype. */
static double storage_rounding(tuff_dtype dtype, double value)
{
    if (dtype == TUFF_F32 || value == 0 || !isfinite(value))
        return 0;
    const int least = dtype == TUFF_F16 ? -14 : -126, fraction = dtype == TUFF_F16 ? 10 : 7;
    const int exponent = ilogb(value) < least ? least : ilogb(value);
    return ldexp(1, exponent - fraction - 1);
}

/* Whether a sum may overflow. If the magnitudes of its terms add up to more than f32 holds, infinities of both signs
   may meet, depending on the kernel's order: then any result is accepted. A bound is at least 2^-24 of the
   magnitudes. */
static bool may_overflow(op_code op, double bound)
{
    return is_sum(op) && ldexp(bound, 24) >= (double)FLT_MAX;
}

double suite_error_ratio(const suite_case *test, tuff_dtype dtype, bool keeps_denormals, double got, double reference,
                         double bound)
{
    if (isnan(got) != isnan(reference) && !may_overflow(test->op, bound))
        return INFINITY;
    if (isnan(got))
        return 0;
    if (!tuff__dtype_is_float(dtype))
        return got == reference ? 0 : INFINITY;
    if (moves_bits(test->op))
        return got == reference && signbit(got) == signbit(reference) ? 0 : INFINITY;
    if (may_overflow(test->op, bound))
        return 0;
    const double tolerance = tolerance_of(test, keeps_denormals, reference, bound);
    if (got < tuff__round_to(dtype, reference - tolerance) || got > tuff__round_to(dtype, reference + tolerance))
        return INFINITY;
    if (!isfinite(got) || !isfinite(reference) || got == reference)
        return 0;
    const double ratio = fabs(got - reference) / (tolerance + storage_rounding(dtype, reference));
    return dtype == TUFF_F32 ? ratio : fmin(ratio, 1);
}

/* Whether ops.h leaves the result open for this argument, as for sines of large numbers. */
static bool is_unspecified(const suite_case *test, double *const *inputs, int64_t i)
{
    if ((test->op != OP_SIN && test->op != OP_COS) || !inputs[0])
        return false;
    return isfinite(inputs[0][i]) && fabs(inputs[0][i]) > 1e5;
}

static void describe_failure(const comparison *rule, double *const *inputs, int64_t i, const double numbers[3],
                             suite_result *result)
{
    char operands[128] = "";
    size_t used = 0;
    /* With broadcasting or a view, the operands have other elements at this index. */
    const bool aligned = tuff__op_has_text(rule->test->op) && rule->test->view == VIEW_NONE &&
                         tuff_shape_equal(rule->test->operands[0].shape, rule->test->operands[1].shape);
    for (int operand = 0; aligned && operand < rule->test->operand_count; operand++)
        if (inputs[operand] && i < tuff_shape_count(rule->test->operands[operand].shape) && used < sizeof operands)
            used += (size_t)snprintf(operands + used, sizeof operands - used, " %s = %.9g", operand_name(operand),
                                     inputs[operand][i]);
    snprintf(result->failure, sizeof result->failure,
             "%s %s, case %d, first operand %s: element %lld is %.9g, expected %.9g within %.3g%s", rule->test->name,
             tuff_dtype_name(rule->test->dtype), result->case_count, SHAPE_TEXT(rule->test->operands[0].shape),
             (long long)i, numbers[0], numbers[1], numbers[2], operands);
}

static void compare(const comparison *rule, double *const *inputs, const double *got, const double *values,
                    const double *bounds, int64_t count, suite_result *result)
{
    for (int64_t i = 0; i < count; i++) {
        if (is_unspecified(rule->test, inputs, i))
            continue;
        const double ratio =
            suite_error_ratio(rule->test, rule->dtype, rule->keeps_denormals, got[i], values[i], bounds[i]);
        result->element_count++;
        result->worst = fmax(result->worst, ratio);
        if (ratio <= 1)
            continue;
        if (result->failure_count++ == 0)
            describe_failure(
                rule, inputs, i,
                (double[]){got[i], values[i], tolerance_of(rule->test, rule->keeps_denormals, values[i], bounds[i])},
                result);
    }
}

/* Replaces denormal inputs by 0, for devices that flush denormals. */
static void flush_denormals(const suite_case *test, double *const *inputs)
{
    for (int operand = 0; operand < test->operand_count; operand++) {
        const int64_t count = tuff_shape_count(test->operands[operand].shape);
        for (int64_t i = 0; tuff__dtype_is_float(test->operands[operand].dtype) && i < count; i++)
            if (fabs(inputs[operand][i]) < (double)FLT_MIN)
                inputs[operand][i] = 0;
    }
}

/* All memory of a case, freed together. */
typedef struct workspace {
    execution device, reference;
    double *inputs[SUITE_MAX_OPERANDS];
    double *got, *values, *bounds;
} workspace;

static void release(workspace *space)
{
    destroy_execution(&space->device);
    destroy_execution(&space->reference);
    for (int i = 0; i < SUITE_MAX_OPERANDS; i++)
        tuff__free(space->inputs[i]);
    tuff__free(space->got);
    tuff__free(space->values);
    tuff__free(space->bounds);
}

static tuff_status fill(workspace *space, const suite_case *test, uint32_t seed, bool keeps_denormals)
{
    const size_t count = (size_t)space->device.count;
    space->got = tuff__calloc(count, sizeof(double));
    space->values = tuff__calloc(count, sizeof(double));
    space->bounds = tuff__calloc(count, sizeof(double));
    bool complete = space->got && space->values && space->bounds;
    for (int i = 0; i < test->operand_count; i++)
        complete = (space->inputs[i] = suite_values(test, i, seed)) && complete;
    if (complete && !keeps_denormals && !moves_bits(test->op))
        flush_denormals(test, space->inputs);
    return complete ? TUFF_OK : TUFF_E_OOM_HOST;
}

static double largest_of(const suite_case *test, const workspace *space, int operand)
{
    double largest = 0;
    for (int64_t i = 0; i < tuff_shape_count(test->operands[operand].shape); i++)
        largest = fmax(largest, fabs(space->inputs[operand][i]));
    return largest;
}

/* Bounds the sum of what the attention weights in one result multiply. Over the keys, weights add up to 1 (without
   softmax they are scores); over the queries each is at most 1. Upstream gradients are results, and so no larger than
   values; gradients of scores are weights times differences of two sums over products of these. Dropout enlarges
   both. */
static double reach_of_weights(const suite_case *test, const workspace *space)
{
    enum { DROPPED = 16, STEEP = 4, MORE = 3 };
    const int64_t *q = test->operands[0].shape.extent, *v = test->operands[2].shape.extent;
    const double values = largest_of(test, space, 2), uses = (double)(q[1] * (q[2] / v[2]));
    const double scale = (test->parameter & STEEP ? 5 : 1) * (test->parameter & DROPPED ? MORE : 1);
    const double score_gradients = 2 * scale * (double)v[3] * values * values;
    switch (test->op) {
    case OP_ATTENTION_DQ:
        return score_gradients * largest_of(test, space, 1);
    case OP_ATTENTION_DK:
        return score_gradients * largest_of(test, space, 0) * uses;
    case OP_ATTENTION_DV:
        return values * uses * (test->parameter & DROPPED ? MORE : 1);
    default:
        return values;
    }
}

/* Attention of f16 or bf16 operands on matrix units rounds every weight to that dtype; on NVIDIA's this applies to
   gradients too. */
static void allow_narrow_weights(const suite_case *test, const tuff_device_info *info, workspace *space)
{
    const tuff_dtype dtype = test->dtype;
    const bool on_units =
        info->cooperative_matrix != 0 && (dtype == TUFF_F16 || (dtype == TUFF_BF16 && info->matrix_bf16));
    const bool is_gradient = test->op == OP_ATTENTION_DQ || test->op == OP_ATTENTION_DK || test->op == OP_ATTENTION_DV;
    if (!on_units || (test->op != OP_ATTENTION && !(is_gradient && info->cooperative_matrix == TUFF_MATRIX_NVIDIA)))
        return;
    const double reach = reach_of_weights(test, space);
    for (int64_t i = 0; i < space->device.count; i++)
        space->bounds[i] += reach * (dtype == TUFF_F16 ? 0x1p-12 : 0x1p-9);
}

static tuff_status run_case(tuff_device *device, tuff_device *reference, const suite_case *test,
                            const suite_options *options, suite_result *result)
{
    workspace space = {0};
    tuff_device_info info;
    TRY(tuff_device_describe(device, &info));
    const bool keeps = info.device_class == TUFF_DEVICE_REFERENCE || (info.proved && info.proved_denormals);
    tuff_status status = create_execution(test, device, &space.device);
    if (status == TUFF_OK)
        status = create_execution(test, reference, &space.reference);
    if (status == TUFF_OK)
        status = fill(&space, test, options->seed, keeps);
    if (status == TUFF_OK)
        status = run_device(&space.device, &options->compile, space.inputs, space.got);
    if (status == TUFF_OK)
        status = run_reference(&space.reference, space.inputs, space.values, space.bounds);
    if (status == TUFF_OK) {
        const comparison rule = {test, space.device.dtype, keeps};
        allow_narrow_weights(test, &info, &space);
        compare(&rule, space.inputs, space.got, space.values, space.bounds, space.device.count, result);
    }
    release(&space);
    return status;
}

/* Counts a case that could not run as one failed element. */
static void note_failure(const suite_case *test, suite_result *result)
{
    result->worst = INFINITY;
    if (result->failure_count++ == 0)
        snprintf(result->failure, sizeof result->failure, "%s %s, case %d, first operand %s: %.200s", test->name,
                 tuff_dtype_name(test->dtype), result->case_count, SHAPE_TEXT(test->operands[0].shape), tuff_error());
}

void suite_run_case(tuff_device *device, const suite_case *test, const suite_options *options, suite_result *result)
{
    const suite_options defaults = {0};
    tuff_device *reference = tuff_device_open("reference");
    if (!reference || run_case(device, reference, test, options ? options : &defaults, result) != TUFF_OK)
        note_failure(test, result);
    tuff_device_close(reference);
    result->case_count++;
}

bool suite_run(tuff_device *device, op_code op, tuff_dtype dtype, const suite_options *options, suite_result *result)
{
    suite_case test;
    if (!suite_case_at(op, dtype, 0, &test))
        return false;
    *result = (suite_result){.op = op, .dtype = dtype};
    for (int index = 0; suite_case_at(op, dtype, index, &test); index++)
        if ((options && options->thorough) || suite_is_in_short_suite(op, dtype, index))
            suite_run_case(device, &test, options, result);
    return true;
}
