/* Gradients against central finite differences, in double on the float64 reference: every differentiable op of ops.def
   through the cases of the op suite, every composite, and for every op the proof that a planted sign error is
   caught. */
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
#define ABSOLUTE 1e-5
#define RELATIVE 1e-3
#define MOST_ELEMENTS 400

static tuff_device *device;

/* A case, its values, and the elements of its result. */
typedef struct problem {
    const suite_case *of;
    double *values[SUITE_MAX_OPERANDS];
    double *weights; /* upstream gradient, one for each element of the result */
    int64_t result_count;
} problem;

static int64_t operand_count(const problem *of, int operand)
{
    return tuff_shape_count(of->of->operands[operand].shape);
}

static bool is_varied(const problem *of, int operand)
{
    return operand < of->of->operand_count && tuff__dtype_is_float(of->of->operands[operand].dtype);
}

/* The case's graph, without its view: that is the kernels' affair. */
static tuff_graph *build(const suite_case *of, tuff_tensor **operands, tuff_tensor **result)
{
    static const char *const names[SUITE_MAX_OPERANDS] = {"x", "y", "z", "w"};
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    for (int i = 0; i < of->operand_count; i++)
        operands[i] = tuff_input(graph, names[i], of->operands[i].dtype, of->operands[i].shape);
    *result = of->build(of, graph, operands);
    if (tuff_graph_status(graph) != TUFF_OK)
        fail_msg("%s: %s", tuff__op_info(of->op)->name, tuff_graph_error(graph));
    return graph;
}

static void write_values(const problem *of, reference_plan *plan)
{
    static const char *const names[SUITE_MAX_OPERANDS] = {"x", "y", "z", "w"};
    for (int i = 0; i < of->of->operand_count; i++)
        assert_int_equal(tuff__reference_write_double(plan, names[i], of->values[i]), TUFF_OK);
}

/* The weighted sum of the result as a scalar, made of ops other than the one under test: where that one's gradients are
   negated, an even number of its nodes would hide it. */
static tuff_tensor *weigh(const suite_case *of, tuff_tensor *result, tuff_tensor *weights)
{
    static const int axes[TUFF_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int64_t count = tuff_shape_count(tuff_tensor_shape(result));
    if (of->op == OP_MATMUL)
        return tuff_sum(tuff_mul(result, tuff_reshape(weights, tuff_tensor_shape(result))), axes,
                        tuff_tensor_shape(result).rank, false);
    tuff_tensor *row = tuff_reshape(result, TUFF_SHAPE(1, count));
    return tuff_reshape(tuff_matmul(row, tuff_reshape(weights, TUFF_SHAPE(count, 1))), TUFF_SCALAR);
}

/* The gradients that tuff_gradients derives, for all operands that have one. */
static void derive(const problem *of, double *const *gradients)
{
    static const char *const names[SUITE_MAX_OPERANDS] = {"gx", "gy", "gz", "gw"};
    tuff_tensor *operands[SUITE_MAX_OPERANDS] = {NULL}, *with[SUITE_MAX_OPERANDS], *made[SUITE_MAX_OPERANDS], *result;
    int indices[SUITE_MAX_OPERANDS], count = 0;
    tuff_graph *graph = build(of->of, operands, &result);
    tuff_tensor *weights = tuff_input(graph, "weights", tuff_tensor_dtype(result), TUFF_SHAPE(of->result_count));
    tuff_tensor *target = weigh(of->of, result, weights);
    for (int i = 0; i < of->of->operand_count; i++)
        if (is_varied(of, i)) {
            indices[count] = i;
            with[count++] = operands[i];
        }
    assert_int_equal(tuff_gradients(target, with, count, made), TUFF_OK);
    for (int i = 0; i < count; i++) {
        assert_true(tuff_shape_equal(tuff_tensor_shape(made[i]), tuff_tensor_shape(with[i])));
        assert_int_equal(tuff_tensor_dtype(made[i]), tuff_tensor_dtype(with[i]));
        tuff_output(graph, names[i], made[i]);
    }
    reference_plan *plan;
    assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
    write_values(of, plan);
    assert_int_equal(tuff__reference_write_double(plan, "weights", of->weights), TUFF_OK);
    assert_int_equal(tuff__reference_run(plan), TUFF_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(tuff__reference_read_double(plan, names[i], gradients[indices[i]]), TUFF_OK);
    tuff__reference_destroy(plan);
}

static void run_forward(const problem *of, reference_plan *plan, double *result)
{
    write_values(of, plan);
    assert_int_equal(tuff__reference_run(plan), TUFF_OK);
    assert_int_equal(tuff__reference_read_double(plan, "result", result), TUFF_OK);
}

/* The slope at one element. Differences are taken for each result before they are summed: large results would hide the
   slopes of small ones. An index out of range gathers NaN whatever the element: no slope. */
static double slope(const problem *of, reference_plan *plan, double *element, double *above, double *below)
{
    /* An assigned value rounds to f32; it is linear, and a large step outweighs the rounding. */
    const double at = *element, step = of->of->op == OP_ASSIGN ? 0.015625 : STEP;
    double sum = 0;
    *element = at + step;
    run_forward(of, plan, above);
    *element = at - step;
    run_forward(of, plan, below);
    *element = at;
    for (int64_t i = 0; i < of->result_count; i++)
        if (!isnan(above[i]) || !isnan(below[i]))
            sum += of->weights[i] * ((above[i] - below[i]) / (2 * step));
    return sum;
}

/* The largest difference of derived and numeric gradients over what is tolerated: at most 1 where they agree. */
static double disagreement(problem *of, double *const *gradients)
{
    tuff_tensor *operands[SUITE_MAX_OPERANDS] = {NULL}, *result;
    double *above = tuff__calloc((size_t)of->result_count, sizeof *above);
    double *below = tuff__calloc((size_t)of->result_count, sizeof *below), worst = 0;
    tuff_graph *graph = build(of->of, operands, &result);
    tuff_output(graph, "result", result);
    reference_plan *plan;
    assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
    for (int operand = 0; operand < of->of->operand_count; operand++)
        for (int64_t i = 0; is_varied(of, operand) && i < operand_count(of, operand); i++) {
            const double numeric = slope(of, plan, &of->values[operand][i], above, below);
            const double error = fabs(gradients[operand][i] - numeric) / (ABSOLUTE + RELATIVE * fabs(numeric));
            worst = isnan(error) ? INFINITY : fmax(worst, error);
        }
    tuff__reference_destroy(plan);
    tuff__free(above);
    tuff__free(below);
    return worst;
}

static void open_problem(problem *of, const suite_case *from, double **gradients)
{
    tuff_tensor *operands[SUITE_MAX_OPERANDS] = {NULL}, *result;
    *of = (problem){.of = from};
    tuff_graph *graph = build(from, operands, &result);
    of->result_count = tuff_shape_count(tuff_tensor_shape(result));
    tuff_graph_destroy(graph);
    of->weights = tuff__calloc((size_t)of->result_count, sizeof(double));
    assert_non_null(of->weights);
    for (int64_t i = 0; i < of->result_count; i++)
        of->weights[i] = 1 + 0.25 * (double)(i % 7);
    for (int i = 0; i < from->operand_count; i++) {
        of->values[i] = suite_values(from, i, 5);
        gradients[i] = tuff__calloc((size_t)operand_count(of, i), sizeof(double));
        assert_true(of->values[i] && gradients[i]);
    }
}

static void close_problem(problem *of, double **gradients)
{
    for (int i = 0; i < SUITE_MAX_OPERANDS; i++) {
        tuff__free(of->values[i]);
        tuff__free(gradients[i]);
    }
    tuff__free(of->weights);
}

static double check(const suite_case *from)
{
    problem of;
    double *gradients[SUITE_MAX_OPERANDS] = {NULL};
    open_problem(&of, from, gradients);
    derive(&of, gradients);
    const double worst = disagreement(&of, gradients);
    close_problem(&of, gradients);
    return worst;
}

/* Cases whose slopes finite differences can find, and in reasonable time. */
static bool is_checkable(const suite_case *of)
{
    bool varies = false;
    for (int i = 0; i < of->operand_count; i++) {
        if (of->operands[i].fill != FILL_RANDOM || tuff_shape_count(of->operands[i].shape) > MOST_ELEMENTS)
            return false;
        varies = varies || (tuff__dtype_is_float(of->operands[i].dtype) && tuff_shape_count(of->operands[i].shape) > 0);
    }
    if (of->op == OP_CAST)
        return of->parameter == TUFF_F32;
    return varies && of->view == VIEW_NONE && of->op != OP_INPUT && of->op != OP_ARRAY;
}

/* ASSIGN hands its value on: the suite's build makes no node of it, this one does. */
static tuff_array *assigned;

static tuff_tensor *build_assign(const suite_case *of, tuff_graph *graph, tuff_tensor *const *operands)
{
    (void)of;
    return tuff_assign(graph, assigned, operands[0]);
}

/* Casts are slopes of 1 only towards f32, hence cases of f16. */
static bool checkable_case(op_code op, int index, suite_case *of, bool *more)
{
    *more = suite_case_at(op, op == OP_CAST ? TUFF_F16 : TUFF_F32, index, of);
    if (*more && op == OP_ASSIGN)
        of->build = build_assign;
    return *more && is_checkable(of);
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
            suite_case of;
            if (!checkable_case(op, index, &of, &more))
                continue;
            const double worst = check(&of);
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
            suite_case of;
            caught = checkable_case(op, index, &of, &more) && !(check(&of) <= 1);
        }
        tuff__mutated_gradient = OP_COUNT;
        if (!caught)
            fail_msg("%s: a sign error in its gradient goes unseen", tuff__op_info(op)->name);
    }
}

static void each_composite_agrees_with_finite_differences(void **state)
{
    (void)state;
    suite_case of;
    for (int index = 0; suite_composite_at(index, TUFF_F32, &of); index++) {
        const double worst = check(&of);
        if (!(worst <= 1))
            fail_msg("%s: the gradient is off by %g times the tolerance", of.name, worst);
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
