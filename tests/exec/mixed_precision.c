/* Plans of 16-bit precision against the float64 reference, whose bounds allow for rounding every value: each kind of
   task, with extents that no tile divides, on every driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "differential.h"
#include "each_device.h"
#include "exec/plan.h"
#include "small_plans.h"

/* A map whose result two tasks read, and a matmul of it with f32 weights. */
static void map_and_matmul(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(7, 33)), *w = float_input(graph, TUFF_SHAPE(33, 17));
    tuff_tensor *y = tuff_tanh(tuff_add(x, tuff_mul(x, x)));
    add_output(graph, tuff_matmul(y, w));
    add_output(graph, tuff_sum(y, (int[]){0}, 1, false));
}

/* Norms, an activation and both gradients of two layers. */
static void layers(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(13, 24)),
                *gain = ranged_input(graph, TUFF_F32, TUFF_SHAPE(24), 0.5, 1.5);
    tuff_tensor *up = float_input(graph, TUFF_SHAPE(24, 37)), *down = float_input(graph, TUFF_SHAPE(37, 24));
    tuff_tensor *normed = tuff_rms_norm(x, gain, 1, 1e-5);
    tuff_tensor *hidden = tuff_gelu(tuff_matmul(normed, tuff_mul(up, tuff_constant(graph, TUFF_F32, 0.25))));
    tuff_tensor *y = tuff_add(x, tuff_mul(tuff_matmul(hidden, down), tuff_constant(graph, TUFF_F32, 0.25)));
    add_with_gradients(graph, y, (tuff_tensor *[]){x, gain, up, down}, 4);
}

static void attention(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(2, 19, 24)), *w = float_input(graph, TUFF_SHAPE(24, 72));
    tuff_tensor *projected = tuff_mul(tuff_matmul(x, w), tuff_constant(graph, TUFF_F32, 0.25)), *parts[3];
    for (int i = 0; i < 3; i++) {
        tuff_tensor *part = tuff_slice(projected, (int64_t[]){0, 0, 24 * i}, (int64_t[]){2, 19, 24 * i + 24}, NULL);
        parts[i] = tuff_reshape(part, TUFF_SHAPE(2, 19, 3, 8));
    }
    tuff_tensor *y = tuff_attention(parts[0], parts[1], parts[2], &(tuff_attention_options){.causal = true});
    add_with_gradients(graph, y, (tuff_tensor *[]){x, w}, 2);
}

/* Rows by index and their gradient, a scan, column sums, concats, and a loss. */
static void words(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *table = float_input(graph, TUFF_SHAPE(11, 20));
    tuff_tensor *tokens = ranged_input(graph, TUFF_I32, TUFF_SHAPE(29), 0, 10);
    tuff_tensor *x = tuff_embedding(table, tokens);
    tuff_tensor *wide = tuff_concat((tuff_tensor *[]){tuff_sin(x), tuff_cumsum(x, 0)}, 2, 1);
    tuff_tensor *mixed = tuff_matmul(wide, tuff_permute(wide, (int[]){1, 0}));
    tuff_tensor *logits =
        tuff_mul(tuff_slice(mixed, (int64_t[]){0, 0}, (int64_t[]){29, 11}, NULL), tuff_constant(graph, TUFF_F32, 0.02));
    tuff_tensor *loss = tuff_cross_entropy(logits, tokens, -1, 0), *gradient;
    add_output(graph, loss);
    if (tuff_gradients(loss, &table, 1, &gradient) != TUFF_OK)
        fail_msg("%s", tuff_error());
    add_output(graph, gradient);
}

/* A part of a concat at an odd offset, where a vector of f16 is aligned to two bytes only. Its elements are all equal,
   so that no conversion comes between the vector and its store. */
static void odd_place(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *before = tuff_cast(float_input(graph, TUFF_SHAPE(3)), TUFF_F16);
    tuff_tensor *part = tuff_cast(tuff_expand(float_input(graph, TUFF_SHAPE(1)), TUFF_SHAPE(64)), TUFF_F16);
    add_output(graph, tuff_concat((tuff_tensor *[]){before, part}, 2, 0));
}

/* Maps all of whose elements have 16 bits: as many columns as vectors of eight divide, one more and one less, a slice
   that begins within a vector, a row for all rows, and a column for all columns. */
static void narrow_maps(tuff_graph *graph, const void *context)
{
    const tuff_dtype dtype = *(const tuff_dtype *)context;
    for (int64_t columns = 7; columns <= 65; columns += columns == 9 ? 54 : 1) {
        tuff_tensor *x = ranged_input(graph, dtype, TUFF_SHAPE(5, columns), -2, 2),
                    *row = ranged_input(graph, dtype, TUFF_SHAPE(columns), -2, 2),
                    *column = ranged_input(graph, dtype, TUFF_SHAPE(5, 1), -2, 2);
        add_output(graph, tuff_cast(tuff_gelu(tuff_add(tuff_mul(tuff_cast(x, TUFF_F32), tuff_cast(row, TUFF_F32)),
                                                       tuff_cast(column, TUFF_F32))),
                                    dtype));
        tuff_tensor *part = tuff_slice(x, (int64_t[]){1, columns / 9}, (int64_t[]){4, columns}, NULL);
        add_output(graph, tuff_cast(tuff_tanh(tuff_cast(part, TUFF_F32)), dtype));
    }
}

static const struct {
    const char *name;
    graph_builder build;
} programs[] = {{"map_and_matmul", map_and_matmul}, {"layers", layers}, {"attention", attention}, {"words", words}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static differential expected[PROGRAMS][2];

static int64_t failures;

static void run_programs(tuff_device *device)
{
    enum { FUSED, LOCAL, UNFUSED, WAYS };
    for (int i = 0; i < PROGRAMS; i++)
        for (int precision = 0; precision < 2; precision++)
            for (int way = FUSED; way < (i == 0 ? WAYS : UNFUSED); way++) {
                const tuff_compile_options options = {.fuse = way == UNFUSED ? TUFF_FUSE_NONE : TUFF_FUSE_ALL,
                                                      .family = way == LOCAL ? TUFF_FAMILY_LOCAL : TUFF_FAMILY_DEVICE,
                                                      .precision = (tuff_precision)(precision + 1)};
                const bool is_drawn = is_thorough() || drawn_turn("precision", i * WAYS + way, 2) == precision;
                if (is_drawn && is_one_of_two_drawn(device, (i * 2 + precision) * WAYS + way))
                    failures += differential_run(&expected[i][precision], device, &options);
            }
}

static void results_are_within_the_roundings(void **state)
{
    (void)state;
    for (int i = 0; i < PROGRAMS; i++)
        for (int precision = 0; precision < 2; precision++)
            differential_create_mixed(&expected[i][precision], programs[i].name, programs[i].build, NULL, 1,
                                      (tuff_precision)(precision + 1));
    for_each_driver(run_programs);
    for (int i = 0; i < PROGRAMS; i++)
        for (int precision = 0; precision < 2; precision++)
            differential_destroy(&expected[i][precision]);
    assert_int_equal(failures, 0);
}

static differential expected_places;

static void run_odd_place(tuff_device *device)
{
    failures += differential_run(&expected_places, device, NULL);
}

static void halves_are_stored_at_odd_places(void **state)
{
    (void)state;
    failures = 0;
    differential_create(&expected_places, "odd_place", odd_place, NULL, 1);
    for_each_driver(run_odd_place);
    differential_destroy(&expected_places);
    assert_int_equal(failures, 0);
}

static differential expected_narrow[2];

static void run_narrow_maps(tuff_device *device)
{
    for (int i = 0; i < 4; i++) {
        const tuff_compile_options options = {.family = i < 2 ? TUFF_FAMILY_LOCAL : TUFF_FAMILY_REGISTER};
        failures += differential_run(&expected_narrow[i % 2], device, &options);
        tuff_graph *graph = tuff_graph_create(device);
        narrow_maps(graph, expected_narrow[i % 2].context);
        tuff_plan *plan = plan_without_programs(graph, &options);
        const launch_list *list = &plan->executable.launches;
        bool has_wide = false;
        for (int k = 0; k < list->launch_count; k++)
            has_wide |= list->launches[k].vec == 8 && list->launches[k].aligned;
        assert_int_equal(has_wide, i < 2 && !tuff__device_takes_glsl(device));
        destroy_plan(plan, graph);
    }
}

/* On GPUs with OpenCL, vectors of such maps have eight elements. */
static void narrow_maps_are_right(void **state)
{
    static const tuff_dtype dtypes[] = {TUFF_F16, TUFF_BF16};
    (void)state;
    failures = 0;
    for (int i = 0; i < 2; i++)
        differential_create(&expected_narrow[i], "narrow_maps", narrow_maps, &dtypes[i], 1);
    for_each_driver(run_narrow_maps);
    for (int i = 0; i < 2; i++)
        differential_destroy(&expected_narrow[i]);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(halves_are_stored_at_odd_places, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(narrow_maps_are_right, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(results_are_within_the_roundings, use_fresh_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
