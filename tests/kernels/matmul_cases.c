/* Trials of one matmul against sums in double. The header describes a case. */
#include "matmul_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "configured_plan.h"
#include "ops/ops.h"

typedef struct layout {
    tuff_shape shape;   /* of the tensor in memory */
    int64_t strides[3]; /* of batch, row and column of the matrix that the tensor represents */
} layout;

static layout layout_of(const shape_case *one, bool y)
{
    const int64_t rows = y ? one->inner : one->rows, columns = y ? one->columns : one->inner, count = one->batches;
    const bool transposed = one->form == BOTH_TRANSPOSED || one->form == (y ? Y_TRANSPOSED : X_TRANSPOSED);
    if (one->form == MIDDLE && !y)
        return (layout){TUFF_SHAPE(rows, count, columns), {columns, count * columns, 1}};
    if (one->form >= BATCHED)
        return (layout){TUFF_SHAPE(count, rows, columns), {rows * columns, columns, 1}};
    if (transposed)
        return (layout){TUFF_SHAPE(columns, rows), {0, 1, rows}};
    return (layout){TUFF_SHAPE(rows, columns), {0, columns, 1}};
}

/* Returns the matrix, or batch of matrices, that the tensor in memory represents. */
static tuff_tensor *as_matrix(const shape_case *one, bool y, tuff_tensor *at)
{
    at = tuff_tensor_dtype(at) == TUFF_F32 ? at : tuff_cast(at, TUFF_F32);
    if (one->form == MIDDLE && !y)
        return tuff_permute(at, (int[]){1, 0, 2});
    if (one->form == BOTH_TRANSPOSED || one->form == (y ? Y_TRANSPOSED : X_TRANSPOSED))
        return tuff_permute(at, (int[]){1, 0});
    return at;
}

static uint32_t state = 1;

/* Returns numbers between -3 and 3 that every storage type holds exactly, but whose sums of products are rounded.
   exact: eighths between -1 and 1, whose sums of products are exact, so that no missing term can hide within a
   tolerance. */
static double *random_numbers(int64_t count, bool exact)
{
    double *numbers = malloc((size_t)count * sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = exact ? ((double)(state >> 16) - 32768) / 4096
                           : ((double)(state >> 28) - 7.5) / 4 * (1 + (double)(state >> 20 & 7) / 16);
        numbers[i] = exact ? floor(numbers[i]) / 8 : numbers[i];
    }
    return numbers;
}

static void *stored(tuff_dtype dtype, double *numbers, int64_t count)
{
    void *bytes = malloc((size_t)count * tuff_dtype_size(dtype));
    assert_non_null(bytes);
    tuff__from_double(dtype, numbers, count, bytes);
    tuff__to_double(dtype, bytes, count, numbers);
    return bytes;
}

typedef struct trial {
    const shape_case *one;
    layout x, y;
    double *x_numbers, *y_numbers;
    int64_t x_count, y_count, result_count;
    bool is_exact;
    tuff_dtype x_dtype;
    tuff_array *array; /* y if it is an array */
    tuff_plan *plan;
} trial;

static double element(const trial *problem, int64_t batch, int64_t row, int64_t column, double *magnitude)
{
    double sum = 0;
    *magnitude = 0;
    for (int64_t k = 0; k < problem->one->inner; k++) {
        const double term =
            problem
                ->x_numbers[batch * problem->x.strides[0] + row * problem->x.strides[1] + k * problem->x.strides[2]] *
            problem
                ->y_numbers[batch * problem->y.strides[0] + k * problem->y.strides[1] + column * problem->y.strides[2]];
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

static void fill_x(trial *one)
{
    free(one->x_numbers);
    one->x_numbers = random_numbers(one->x_count, one->is_exact);
    void *bytes = stored(one->x_dtype, one->x_numbers, one->x_count);
    const size_t size = (size_t)one->x_count * tuff_dtype_size(one->x_dtype);
    assert_int_equal(tuff_plan_write(one->plan, "x", bytes, size), TUFF_OK);
    free(bytes);
}

static void fill_y(trial *problem)
{
    free(problem->y_numbers);
    problem->y_numbers = random_numbers(problem->y_count, problem->is_exact);
    void *bytes = stored(problem->one->dtype, problem->y_numbers, problem->y_count);
    const size_t size = (size_t)problem->y_count * tuff_dtype_size(problem->one->dtype);
    assert_int_equal(problem->array ? tuff_array_write(problem->array, bytes, size)
                                    : tuff_plan_write(problem->plan, "y", bytes, size),
                     TUFF_OK);
    free(bytes);
}

/* Runs a plan and compares its elements: all of them, or a regular sample if the sums are large. */
static void check(const trial *problem, bool epilogue, const char *device, const char *when)
{
    const shape_case *one = problem->one;
    const size_t size = (size_t)problem->result_count * sizeof(float);
    float *result = malloc(size), *plain = malloc(size);
    assert_true(result && plain);
    if (tuff_plan_run(problem->plan) != TUFF_OK || tuff_plan_read(problem->plan, "result", result, size) != TUFF_OK)
        fail_msg("%s: %s", device, tuff_error());
    assert_int_equal(tuff_plan_read(problem->plan, epilogue ? "plain" : "result", plain, size), TUFF_OK);
    const int64_t step = 1 + problem->result_count * one->inner / 4000000 * 7;
    for (int64_t i = 0; i < problem->result_count; i += step) {
        const int64_t column = i % one->columns, row = i / one->columns % one->rows;
        double magnitude;
        const double exact = element(problem, i / one->columns / one->rows, row, column, &magnitude);
        const double wanted = epilogue ? fmax(exact, 0) * 0.5 + (double)column : exact;
        const double bar =
            problem->is_exact ? 0 : ((double)one->inner + 3) * ldexp(magnitude + fabs(wanted), -24) + 1e-30;
        if (!(fabs(result[i] - wanted) <= bar && fabs(plain[i] - exact) <= bar))
            fail_msg("%s: %lldx%lldx%lld, batches %lld, form %d, y %s%s%s, %s: element %lld is %.9g, not %.9g", device,
                     (long long)one->rows, (long long)one->columns, (long long)one->inner, (long long)one->batches,
                     (int)one->form, tuff_dtype_name(one->dtype), problem->array ? " in an array" : "",
                     epilogue ? ", epilogue" : "", when, (long long)i, (double)result[i], wanted);
    }
    free(result);
    free(plain);
}

/* half of relu(x y) plus the column's number, and x y itself as a second output. */
static void build(trial *problem, tuff_graph *graph, bool epilogue)
{
    const shape_case *one = problem->one;
    tuff_tensor *x = tuff_input(graph, "x", problem->x_dtype, problem->x.shape);
    tuff_tensor *y = problem->array ? tuff_array_tensor(graph, problem->array)
                                    : tuff_input(graph, "y", one->dtype, problem->y.shape);
    tuff_tensor *product = tuff_matmul(as_matrix(one, false, x), as_matrix(one, true, y));
    if (!epilogue) {
        tuff_output(graph, "result", product);
        return;
    }
    tuff_tensor *numbers = tuff_cast(tuff_iota(graph, TUFF_SHAPE(one->columns), 0), TUFF_F32);
    tuff_tensor *half = tuff_mul(tuff_relu(product), tuff_constant(graph, TUFF_F32, 0.5));
    tuff_output(graph, "plain", product);
    tuff_output(graph, "result", tuff_add(half, numbers));
}

bool has_kernel(const tuff_plan *plan, const char *body)
{
    const launch_list *list = &plan->executable.launches;
    bool found = false;
    for (int i = 0; i < list->launch_count; i++)
        found |= strcmp(list->launches[i].body, body) == 0;
    return found;
}

static void expect_kernels(const tuff_plan *plan, const kernel_choice *choice)
{
    if (choice->body)
        assert_true(has_kernel(plan, choice->body));
    if (choice->sums)
        assert_true(has_kernel(plan, choice->sums));
    if (choice->for_gpus)
        assert_true(has_kernel(plan, "matmul_local") != has_kernel(plan, "matmul_gemv_local"));
}

void try_case(tuff_device *device, const char *name, const shape_case *one, bool epilogue, bool array,
              const tuff_compile_options *options, const kernel_choice *choice)
{
    trial problem = {.one = one, .x = layout_of(one, false), .y = layout_of(one, true), .x_dtype = TUFF_F32};
    problem.x_count = tuff_shape_count(problem.x.shape);
    problem.y_count = tuff_shape_count(problem.y.shape);
    problem.result_count = one->batches * one->rows * one->columns;
    problem.array = array ? tuff_array_create(device, one->dtype, problem.y.shape) : NULL;
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    build(&problem, graph, epilogue);
    if (choice && choice->config) {
        tune_config config;
        assert_int_equal(tuff__config_parse(choice->config, &config), TUFF_OK);
        problem.plan = compile_configured(graph, &(tuff_compile_options){0}, TASK_MATMUL, &config);
    } else {
        problem.plan = tuff_compile(graph, options);
    }
    if (!problem.plan)
        fail_msg("%s", tuff_error());
    if (choice)
        expect_kernels(problem.plan, choice);
    fill_x(&problem);
    fill_y(&problem);
    check(&problem, epilogue, name, "first run");
    fill_x(&problem);
    check(&problem, epilogue, name, "another x");
    fill_y(&problem);
    check(&problem, epilogue, name, "another y");
    problem.is_exact = true;
    fill_x(&problem);
    fill_y(&problem);
    check(&problem, epilogue, name, "exact sums");
    tuff_plan_destroy(problem.plan);
    tuff_graph_destroy(graph);
    tuff_array_destroy(problem.array);
    free(problem.x_numbers);
    free(problem.y_numbers);
}

void build_case(const shape_case *one, tuff_graph *graph)
{
    trial problem = {.one = one, .x = layout_of(one, false), .y = layout_of(one, true), .x_dtype = one->dtype};
    build(&problem, graph, false);
}

int64_t random_below(int64_t count)
{
    state = state * 1664525u + 1013904223u;
    return (int64_t)(state >> 8) % count;
}

void begin_sequence(uint64_t seed)
{
    state = (uint32_t)seed;
}
