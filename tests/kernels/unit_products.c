/* Products of matrices for matrix_units.c. The header has the contract. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "emulated_units.h"
#include "ops/ops.h"
#include "unit_products.h"

static uint32_t state = 1;

void seed_numbers(uint32_t seed)
{
    state = seed;
}

double *random_numbers(int64_t count)
{
    double *numbers = malloc((size_t)count * sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = ((double)(state >> 28) - 7.5) / 4;
    }
    return numbers;
}

void write_numbers(tuff_plan *plan, const char *name, tuff_dtype dtype, const double *numbers, int64_t count)
{
    const size_t size = (size_t)count * tuff_dtype_size(dtype);
    void *bytes = malloc(size);
    assert_non_null(bytes);
    tuff__from_double(dtype, numbers, count, bytes);
    assert_int_equal(tuff_plan_write(plan, name, bytes, size), TUFF_OK);
    free(bytes);
}

static tuff_tensor *operand(tuff_graph *graph, const char *name, tuff_dtype dtype, int64_t batches, int64_t rows,
                            int64_t columns, bool turned)
{
    tuff_tensor *at = tuff_input(graph, name, dtype,
                                 turned ? TUFF_SHAPE(batches, columns, rows) : TUFF_SHAPE(batches, rows, columns));
    at = dtype == TUFF_F32 ? at : tuff_cast(at, TUFF_F32);
    return turned ? tuff_permute(at, (int[]){0, 2, 1}) : at;
}

tuff_compile_options product_options(const product_case *one)
{
    return (tuff_compile_options){
        .family = TUFF_FAMILY_COOPERATIVE, .precision = one->precision, .matmul_precision = one->factors};
}

tuff_graph *build_product(tuff_device *device, const product_case *one, bool epilogue)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *x = operand(graph, "x", one->x_dtype, one->batches, one->rows, one->inner, one->x_turned);
    tuff_tensor *y = operand(graph, "y", one->y_dtype, one->batches, one->inner, one->columns, one->y_turned);
    if (one->backwards)
        y = tuff_slice(y, (int64_t[]){0, one->inner - 1, 0}, (int64_t[]){one->batches, -1, one->columns},
                       (int64_t[]){1, -1, 1});
    tuff_tensor *result = tuff_matmul(x, y);
    if (epilogue)
        result = tuff_add(tuff_mul(tuff_relu(result), tuff_constant(graph, TUFF_F32, 0.5)),
                          tuff_cast(tuff_iota(graph, TUFF_SHAPE(one->columns), 0), TUFF_F32));
    tuff_output(graph, "result", one->narrow ? tuff_cast(result, one->x_dtype) : result);
    return graph;
}

tuff_status read_result(tuff_plan *plan, const product_case *one, int64_t count, float *out)
{
    if (!one->narrow)
        return tuff_plan_read(plan, "result", out, (size_t)count * sizeof *out);
    uint16_t *bits = malloc((size_t)count * sizeof *bits);
    assert_non_null(bits);
    const tuff_status status = tuff_plan_read(plan, "result", bits, (size_t)count * sizeof *bits);
    for (int64_t i = 0; i < count && status == TUFF_OK; i++) {
        double number;
        tuff__to_double(one->x_dtype, &bits[i], 1, &number);
        out[i] = (float)number;
    }
    free(bits);
    return status;
}

/* Returns half of the distance of neighbouring 16-bit numbers. */
static double rounding_of(const product_case *one, double number)
{
    return one->narrow ? ldexp(fabs(number), one->x_dtype == TUFF_BF16 ? -8 : -11) : 0;
}

void check_elements(const product_case *one, const double *x, const double *y, const float *got)
{
    for (int64_t i = 0; i < one->batches * one->rows * one->columns; i++) {
        const int64_t column = i % one->columns, row = i / one->columns % one->rows, b = i / one->columns / one->rows;
        const double *from_x = x + b * one->rows * one->inner, *from_y = y + b * one->inner * one->columns;
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < one->inner; k++) {
            const int64_t y_k = one->backwards ? one->inner - 1 - k : k;
            const double term = from_x[one->x_turned ? k * one->rows + row : row * one->inner + k] *
                                from_y[one->y_turned ? column * one->inner + y_k : y_k * one->columns + column];
            sum += term;
            magnitude += fabs(term);
        }
        const double wanted = one->epilogue ? fmax(sum, 0) * 0.5 + (double)column : sum;
        const double allowed = ((double)one->inner + 3) * ldexp(magnitude + fabs(wanted), -24) + 1e-30;
        if (!(fabs(got[i] - wanted) <= allowed + rounding_of(one, wanted)))
            fail_msg("%s, %lldx%lldx%lld, %lld batches, turned %d %d, dtypes %d %d, epilogue %d: element %lld is %.9g, "
                     "not %.9g",
                     emulated_units->name, (long long)one->rows, (long long)one->columns, (long long)one->inner,
                     (long long)one->batches, one->x_turned, one->y_turned, one->x_dtype, one->y_dtype, one->epilogue,
                     (long long)i, (double)got[i], wanted);
    }
}
