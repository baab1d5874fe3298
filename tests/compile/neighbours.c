/* Parameters that are adjacent in their slab are concatenated without a copy, and a run sees their values from before
   its own assignments. All numbers are small and compared bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"
#include "tuff/profile.h"
#include "tuff/train.h"

enum { ROWS = 4, COLUMNS = 8, EACH = ROWS * COLUMNS, PARTS = 3 };

/* A concat of the rows of each part from `first` on, in that order. */
typedef struct stacking {
    const char *description;
    int order[PARTS];
    int first[PARTS];
    int dispatches; /* of the plan: one for the result and one for the assigned value; 0: there may be more */
} stacking;

static const stacking cases[] = {
    {"in order", {0, 1, 2}, {0, 0, 0}, 2},
    {"from the middle of the first one on", {0, 1, 2}, {2, 0, 0}, 2},
    {"two of them, and one before them", {1, 2, 0}, {0, 0, 0}, 0},
    {"with a gap", {0, 1, 2}, {0, 1, 0}, 0},
    {"the same one twice", {0, 0, 1}, {0, 0, 0}, 0},
};

static float element(int part, int i)
{
    return (float)(100 * part + i);
}

static tuff_parameters *make_parameters(tuff_device *device)
{
    static const tuff_parameter_spec specs[PARTS] = {{"a", {.rank = 2, .extent = {ROWS, COLUMNS}}},
                                                     {"b", {.rank = 2, .extent = {ROWS, COLUMNS}}},
                                                     {"c", {.rank = 2, .extent = {ROWS, COLUMNS}}}};
    float values[EACH];
    tuff_parameters *made = tuff_parameters_create(device, specs, PARTS);
    assert_non_null(made);
    for (int part = 0; part < PARTS; part++) {
        for (int i = 0; i < EACH; i++)
            values[i] = element(part, i);
        assert_int_equal(tuff_array_write(tuff_parameters_at(made, part, NULL), values, sizeof values), TUFF_OK);
    }
    return made;
}

static tuff_plan *compile_stacking(tuff_graph *graph, tuff_parameters *parameters, const stacking *how)
{
    tuff_tensor *parts[PARTS], *one = tuff_constant(graph, TUFF_F32, 1);
    for (int i = 0; i < PARTS; i++) {
        const int64_t start[] = {how->first[i], 0}, stop[] = {ROWS, COLUMNS};
        tuff_tensor *whole = tuff_array_tensor(graph, tuff_parameters_at(parameters, how->order[i], NULL));
        parts[i] = how->first[i] > 0 ? tuff_slice(whole, start, stop, NULL) : whole;
    }
    tuff_output(graph, "y", tuff_add(tuff_concat(parts, PARTS, 0), one));
    tuff_array *last = tuff_parameters_at(parameters, PARTS - 1, NULL);
    tuff_assign(graph, last, tuff_mul(tuff_array_tensor(graph, last), tuff_constant(graph, TUFF_F32, 2)));
    return compile_plan(graph);
}

static void expect_stacked(tuff_plan *plan, const stacking *how, float factor)
{
    float wanted[PARTS * EACH];
    int count = 0;
    for (int i = 0; i < PARTS; i++)
        for (int k = how->first[i] * COLUMNS; k < EACH; k++)
            wanted[count++] = element(how->order[i], k) * (how->order[i] == PARTS - 1 ? factor : 1) + 1;
    expect_output(plan, "y", wanted, (size_t)count * sizeof *wanted);
}

static void stack_all(tuff_device *device)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tuff_plan_info info;
        tuff_parameters *parameters = make_parameters(device);
        tuff_graph *graph = tuff_graph_create(device);
        tuff_plan *plan = compile_stacking(graph, parameters, &cases[i]);
        for (int run = 0; run < 2; run++) {
            run_plan(plan);
            expect_stacked(plan, &cases[i], run == 0 ? 1 : 2);
        }
        assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
        if (!tuff__device_is_reference(device) && cases[i].dispatches > 0)
            assert_int_equal(info.dispatch_count, cases[i].dispatches);
        destroy_plan(plan, graph);
        tuff_parameters_destroy(parameters);
    }
}

static void neighbours_are_read_where_they_lie(void **state)
{
    (void)state;
    for_drawn_devices(stack_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(neighbours_are_read_where_they_lie)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
