/* Muon's factor depends on which axis of a matrix is the input axis: a matrix and its transpose train alike if each
   declares it, and steps have the right length. With mixed precision Muon's own matrices stay f32. Every device. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

enum { ROWS = 5, COLUMNS = 13, STEPS = 3 };

static tuff_plan *compile_with(tuff_graph *graph, tuff_precision precision)
{
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.precision = precision});
    if (!plan)
        fail_msg("%s", tuff_error());
    return plan;
}

/* Trains the matrix for a few steps on the loss sum(w * g), whose gradient is g. */
static void train(tuff_device *device, tuff_shape shape, bool inputs_first, tuff_precision precision,
                  const float *gradient, float *w)
{
    const size_t size = sizeof(float) * ROWS * COLUMNS;
    const tuff_parameter_spec spec = {.name = "w", .shape = shape};
    tuff_parameters *parameters = tuff_parameters_create(device, &spec, 1);
    tuff_optimizer *optimizer = tuff_optimizer_create(
        parameters,
        &(tuff_optimizer_options){.kind = TUFF_MUON, .learning_rate = 0.125, .inputs_first = inputs_first});
    assert_non_null(optimizer);
    assert_int_equal(tuff_array_write(tuff_parameters_at(parameters, 0, NULL), w, size), TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *weight = tuff_array_tensor(graph, tuff_parameters_at(parameters, 0, NULL));
    tuff_tensor *terms = tuff_mul(weight, tuff_input(graph, "g", TUFF_F32, shape));
    assert_int_equal(tuff_optimizer_apply(optimizer, tuff_sum(terms, (int[]){0, 1}, 2, false), NULL), TUFF_OK);
    tuff_plan *plan = compile_with(graph, precision);
    assert_int_equal(tuff_plan_write(plan, "g", gradient, size), TUFF_OK);
    for (int i = 0; i < STEPS; i++)
        run_plan(plan);
    assert_int_equal(tuff_array_read(tuff_parameters_at(parameters, 0, NULL), w, size), TUFF_OK);
    destroy_plan(plan, graph);
    tuff_optimizer_destroy(optimizer);
    tuff_parameters_destroy(parameters);
}

static double distance(const float *x, const float *y)
{
    double sum = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sqrt(sum);
}

static void check(tuff_device *device)
{
    float w[2][ROWS * COLUMNS], g[2][ROWS * COLUMNS], first[ROWS * COLUMNS], other[ROWS * COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++) {
            first[i * COLUMNS + k] = w[0][i * COLUMNS + k] = w[1][k * ROWS + i] = (float)((i * 7 + k * 3) % 11 - 5) / 4;
            g[0][i * COLUMNS + k] = g[1][k * ROWS + i] = (float)((i * 5 + k * 11) % 17 - 8) / 8;
            other[i * COLUMNS + k] = first[i * COLUMNS + k];
        }
    train(device, TUFF_SHAPE(ROWS, COLUMNS), true, TUFF_PRECISION_F32, g[0], w[0]);
    train(device, TUFF_SHAPE(COLUMNS, ROWS), false, TUFF_PRECISION_F32, g[1], w[1]);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            assert_true(fabsf(w[0][i * COLUMNS + k] - w[1][k * ROWS + i]) < 1e-4f);
    /* With more columns than rows and the other axis as input, steps are longer by the square root of their ratio. */
    train(device, TUFF_SHAPE(ROWS, COLUMNS), false, TUFF_PRECISION_F32, g[0], other);
    assert_true(fabs(distance(w[0], first) / distance(other, first) / sqrt((double)COLUMNS / ROWS) - 1) < 1e-3);
}

static void a_matrix_and_its_transpose_train_alike(void **state)
{
    (void)state;
    for_drawn_devices(check);
}

/* The gradients are representable as 16 bits, so that only Muon's own matrices could lose precision. */
static void check_precisions(tuff_device *device)
{
    float g[ROWS * COLUMNS], first[ROWS * COLUMNS], exact[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        g[i] = (float)((i * 11 + i / COLUMNS) % 17 - 8) / 8;
        first[i] = exact[i] = (float)((i * 7) % 11 - 5) / 4;
    }
    train(device, TUFF_SHAPE(ROWS, COLUMNS), true, TUFF_PRECISION_F32, g, exact);
    assert_true(distance(exact, first) > 0.5);
    for (int precision = TUFF_PRECISION_F16; precision <= TUFF_PRECISION_BF16; precision++) {
        float mixed[ROWS * COLUMNS];
        memcpy(mixed, first, sizeof mixed);
        train(device, TUFF_SHAPE(ROWS, COLUMNS), true, (tuff_precision)precision, g, mixed);
        if (distance(mixed, exact) > 1e-5)
            fail_msg("precision %d: differs from f32 by %g", precision, distance(mixed, exact));
    }
}

static void mixed_precision_keeps_its_matrices(void **state)
{
    (void)state;
    for_drawn_drivers(check_precisions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_and_its_transpose_train_alike),
        cmocka_unit_test(mixed_precision_keeps_its_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
