/* Gradients against central finite differences, in double on the float64 reference: every differentiable op of ops.def
   with the cases of the op suite, and every composite. For each op a planted sign error must be detected. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "exec/reference.h"
#include "tools/verify/suite.h"
#include "tuff/ops.h"

#define STEP 1e-6
#define ABSOLUTE 1e-6
#define RELATIVE 1e-6
#define MAX_ELEMENTS 400

static tuff_device *device;

/* A case with its operands' values. */
typedef struct problem {
    const suite_case *tested;
    double *values[SUITE_MAX_OPERANDS];
    double *weights; /* upstream gradient, one for each element of the result */
    int64_t result_count;
} problem;

static int64_t operand_count(const problem *probe, int operand)
{
    return tuff_shape_count(probe->tested->operands[operand].shape);
}

static bool is_varied(const problem *probe, int operand)
{
    return operand < probe->tested->operand_count && tuff__dtype_is_float(probe->tested->operands[operand].dtype);
}

/* Builds the case's graph without its view, which matters to kernels only. */
static tuff_graph *build(const suite_case *one, tuff_tensor **operands, tuff_tensor **result)
{
    static const char *const names[SUITE_MAX_OPERANDS] = {"x", "y", "z", "w"};
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    for (int i = 0; i < one->operand_count; i++)
        operands[i] = tuff_input(graph, names[i], one->operands[i].dtype, one->operands[i].shape);
    *result = one->build(one, graph, operands);
    if (tuff_graph_status(graph) != TUFF_OK)
        fail_msg("%s: %s", tuff__op_info(one->op)->name, tuff_graph_error(graph));
    return graph;
}

static void write_values(const problem *probe, reference_plan *plan)
{
    static const char *const names[SUITE_MAX_OPERANDS] = {"x", "y", "z", "w"};
    for (int i = 0; i < probe->tested->operand_count; i++)
        assert_int_equal(tuff__reference_write_double(plan, names[i], probe->values[i]), TUFF_OK);
}

/* Returns the weighted sum of the result as a scalar. It avoids the tested op: with the gradients of that op negated,
   an even number of its nodes would hide the error. */
static tuff_tensor *weigh(const suite_case *one, tuff_tensor *result, tuff_tensor *weights)
{
    static const int axes[TUFF_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int64_t count = tuff_shape_count(tuff_tensor_shape(result));
    if (one->op == OP_MATMUL)
        return tuff_sum(tuff_mul(result, tuff_reshape(weights, tuff_tensor_shape(result))), axes,
                        tuff_tensor_shape(result).rank, false);
    tuff_tensor *row = tuff_reshape(result, TUFF_SHAPE(1, count));
    return tuff_reshape(tuff_matmul(row, tuff_reshape(weights, TUFF_SHAPE(count, 1))), TUFF_SCALAR);
}

/* Computes the gradients that tuff_gradients derives, for all operands that have one. */
static void derive(const problem *probe, double *const *gradients)
{
    static const char *const names[SUITE_MAX_OPERANDS] = {"gx", "gy", "gz", "gw"};
    tuff_tensor *operands[SUITE_MAX_OPERANDS] = {NULL}, *wrt[SUITE_MAX_OPERANDS], *made[SUITE_MAX_OPERANDS], *result;
    int indices[SUITE_MAX_OPERANDS], count = 0;
    tuff_graph *graph = build(probe->tested, operands, &result);
    tuff_tensor *weights = tuff_input(graph, "weights", tuff_tensor_dtype(result), TUFF_SHAPE(probe->result_count));
    tuff_tensor *target = weigh(probe->tested, result, weights);
    for (int i = 0; i < probe->tested->operand_count; i++)
        if (is_varied(probe, i)) {
            indices[count] = i;
            wrt[count++] = operands[i];
        }
    assert_int_equal(tuff_gradients(target, wrt, count, made), TUFF_OK);
    for (int i = 0; i < count; i++) {
        assert_true(tuff_shape_equal(tuff_tensor_shape(made[i]), tuff_tensor_shape(wrt[i])));
        assert_int_equal(tuff_tensor_dtype(made[i]), tuff_tensor_dtype(wrt[i]));
        tuff_output(graph, names[i], made[i]);
    }
    reference_plan *plan;
    assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
    write_values(probe, plan);
    assert_int_equal(tuff__reference_write_double(plan, "weights", probe->weights), TUFF_OK);
    assert_int_equal(tuff__reference_run(plan), TUFF_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(tuff__reference_read_double(plan, names[i], gradients[indices[i]]), TUFF_OK);
    tuff__reference_destroy(plan);
}

static void run_forward(const problem *probe, reference_plan *plan, double *result)
{
    write_values(probe, plan);
    assert_int_equal(tuff__reference_run(plan), TUFF_OK);
    assert_int_equal(tuff__reference_read_double(plan, "result", result), TUFF_OK);
}

/* Returns the numeric derivative with respect to one element. Differences are taken per result before they are
   summed, because large results would hide the derivatives of small ones. With an index out of range, gather returns
   NaN for any element: its derivative is 0. */
static double derivative(const problem *probe, reference_plan *plan, double *element, double *above, double *below)
{
    /* An assigned value is rounded to f32. As assign is linear, a large step is exact enough despite the rounding. */
    const double at = *element, step = probe->tested->op == OP_ASSIGN ? 0.015625 : STEP;
    double sum = 0;
    *element = at + step;
    run_forward(probe, plan, above);
    *element = at - step;
    run_forward(probe, plan, below);
    *element = at;
    for (int64_t i = 0; i < probe->result_count; i++)
        if (!isnan(above[i]) || !isnan(below[i]))
            sum += probe->weights[i] * ((above[i] - below[i]) / (2 * step));
    return sum;
}

/* Returns the largest difference of derived and numeric gradients relative to the tolerance: at most 1 if they
   agree. */
static double disagreement(problem *probe, double *const *gradients)
{
    tuff_tensor *operands[SUITE_MAX_OPERANDS] = {NULL}, *result;
    double *above = tuff__calloc((size_t)probe->result_count, sizeof *above);
    double *below = tuff__calloc((size_t)probe->result_count, sizeof *below), worst = 0;
    tuff_graph *graph = build(probe->tested, operands, &result);
    tuff_output(graph, "result", result);
    reference_plan *plan;
    assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
    for (int operand = 0; operand < probe->tested->operand_count; operand++)
        for (int64_t i = 0; is_varied(probe, operand) && i < operand_count(probe, operand); i++) {
            const double numeric = derivative(probe, plan, &probe->values[operand][i], above, below);
            const double error = fabs(gradients[operand][i] - numeric) / (ABSOLUTE + RELATIVE * fabs(numeric));
            worst = isnan(error) ? INFINITY : fmax(worst, error);
        }
    tuff__reference_destroy(plan);
    tuff__free(above);
    tuff__free(below);
    return worst;
}

static void open_problem(problem *probe, const suite_case *from, double **gradients)
{
    tuff_tensor *operands[SUITE_MAX_OPERANDS] = {NULL}, *result;
    *probe = (problem){.tested = from};
    tuff_graph *graph = build(from, operands, &result);
    probe->result_count = tuff_shape_count(tuff_tensor_shape(result));
    tuff_graph_destroy(graph);
    probe->weights = tuff__calloc((size_t)probe->result_count, sizeof(double));
    assert_non_null(probe->weights);
    for (int64_t i = 0; i < probe->result_count; i++)
        probe->weights[i] = 1 + 0.25 * (double)(i % 7);
    for (int i = 0; i < from->operand_count; i++) {
        probe->values[i] = suite_values(from, i, 5);
        gradients[i] = tuff__calloc((size_t)operand_count(probe, i), sizeof(double));
        assert_true(probe->values[i] && gradients[i]);
    }
}

static void close_problem(problem *probe, double **gradients)
{
    for (int i = 0; i < SUITE_MAX_OPERANDS; i++) {
        tuff__free(probe->values[i]);
        tuff__free(gradients[i]);
    }
    tuff__free(probe->weights);
}

static double check(const suite_case *from)
{
    problem probe;
    double *gradients[SUITE_MAX_OPERANDS] = {NULL};
    open_problem(&probe, from, gradients);
    derive(&probe, gradients);
    const double worst = disagreement(&probe, gradients);
    close_problem(&probe, gradients);
    return worst;
}

/* Whether finite differences can compute the gradients of a case, in reasonable time. */
static bool is_checkable(const suite_case *one)
{
    bool varies = false;
    for (int i = 0; i < one->operand_count; i++) {
        if (one->operands[i].fill != FILL_RANDOM || tuff_shape_count(one->operands[i].shape) > MAX_ELEMENTS)
            return false;
        varies =
            varies || (tuff__dtype_is_float(one->operands[i].dtype) && tuff_shape_count(one->operands[i].shape) > 0);
    }
    if (one->op == OP_CAST)
        return one->parameter == TUFF_F32;
    return varies && one->view == VIEW_NONE && one->op != OP_INPUT && one->op != OP_ARRAY;
}

/* For ASSIGN, which passes its value through, the suite's builder creates no node; this one does. */
static tuff_array *assigned;

static tuff_tensor *build_assign(const suite_case *one, tuff_graph *graph, tuff_tensor *const *operands)
{
    (void)one;
    return tuff_assign(graph, assigned, operands[0]);
}

/* The gradient of a cast is only tested for casts to f32, hence from f16. */
static bool checkable_case(op_code op, int index, suite_case *one, bool *more)
{
    *more = suite_case_at(op, op == OP_CAST ? TUFF_F16 : TUFF_F32, index, one);
    if (*more && op == OP_ASSIGN)
        one->build = build_assign;
    return *more && is_checkable(one);
}

static bool is_differentiable(op_code op)
{
    static const op_code without[] = {OP_FLOOR,        OP_LESS,         OP_EQUAL,         OP_AND,
                                      OP_OR,           OP_INPUT,        OP_ARRAY,         OP_CONSTANT,
                                      OP_IOTA,         OP_RANDOM,       OP_ATTENTION_LSE, OP_ATTENTION_DQ,
                                      OP_ATTENTION_DK, OP_ATTENTION_DV, OP_ATTENTION_DB,  OP_FINITE};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        if (op == without[i])
            return false;
    return true;
}

static void each_op_agrees_with_finite_differences(void **state)
{
    (void)state;
    for (op_code op = 0; op < OP_COUNT; op++) {
        int checked = 0;
        bool more = is_differentiable(op);
        for (int index = 0; more; index++) {
            suite_case one;
            if (!checkable_case(op, index, &one, &more))
                continue;
            const double worst = check(&one);
            if (!(worst <= 1))
                fail_msg("%s, case %d: the gradient is off by %g times the tolerance", tuff__op_info(op)->name, index,
                         worst);
            checked++;
        }
        if (is_differentiable(op) && checked == 0)
            fail_msg("%s: no case was checked", tuff__op_info(op)->name);
    }
}

static void a_planted_sign_error_is_caught_for_each_op(void **state)
{
    (void)state;
    for (op_code op = 0; op < OP_COUNT; op++) {
        bool caught = !is_differentiable(op), more = !caught;
        tuff__mutated_gradient = op;
        for (int index = 0; more && !caught; index++) {
            suite_case one;
            caught = checkable_case(op, index, &one, &more) && !(check(&one) <= 1);
        }
        tuff__mutated_gradient = OP_COUNT;
        if (!caught)
            fail_msg("%s: a sign error in its gradient is not detected", tuff__op_info(op)->name);
    }
}

static void each_composite_agrees_with_finite_differences(void **state)
{
    (void)state;
    suite_case one;
    for (int index = 0; suite_composite_at(index, TUFF_F32, &one); index++) {
        const double worst = check(&one);
        if (!(worst <= 1))
            fail_msg("%s: the gradient is off by %g times the tolerance", one.name, worst);
    }
}

static int open_device(void **state)
{
    (void)state;
    device = tuff_device_open("reference");
    assigned = device ? tuff_array_create(device, TUFF_F32, TUFF_SHAPE(33)) : NULL;
    return assigned ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    tuff_array_destroy(assigned);
    tuff_device_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_op_agrees_with_finite_differences),
        cmocka_unit_test(a_planted_sign_error_is_caught_for_each_op),
        cmocka_unit_test(each_composite_agrees_with_finite_differences),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
