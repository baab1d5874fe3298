/* Values that kernels must compute exactly, both in vectors and in the remainder of a row: quotients before a
   discontinuous op, and integers as bf16. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_device.h"
#include "ops/ops.h"
#include "small_plans.h"
#include "tuff.h"

enum { ROWS = 2, COLUMNS = 17 };

static tuff_tensor *largest_of(tuff_tensor *x)
{
    return tuff_reduce_max(x, (int[]){1}, 1, true);
}

/* In f32, 41 times the reciprocal of 41 is less than 1. */
static void divide_rows(tuff_device *device)
{
    static const int places[ROWS] = {3, COLUMNS - 1};
    float x[ROWS][COLUMNS] = {{0}};
    int32_t whole[2][ROWS][COLUMNS];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *in = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS));
    tuff_tensor *quotient = tuff_div(in, largest_of(in));
    tuff_output(graph, "floor", tuff_cast(tuff_floor(quotient), TUFF_I32));
    tuff_output(graph, "cast", tuff_cast(quotient, TUFF_I32));
    tuff_plan *plan = compile_plan(graph);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            x[i][k] = k == places[i] ? 41 : (float)k;
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "floor", whole[0], sizeof whole[0]), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "cast", whole[1], sizeof whole[1]), TUFF_OK);
    for (int form = 0; form < 2; form++)
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < COLUMNS; k++)
                assert_int_equal(whole[form][i][k], k == places[i]);
    destroy_plan(plan, graph);
}

static void the_largest_by_itself_is_one(void **state)
{
    (void)state;
    for_each_device(divide_rows);
}

/* Only one rounding is allowed: 2^24 + 2^16 + 1 is above the midpoint of two bf16 numbers, but its f32 is exactly the
   midpoint. The last element is outside of any vector. */
static const int32_t integers[COLUMNS] = {16842753,      -16842753, 16842752,   -16842752,  16777217,  -16777217,
                                          33685505,      -33685507, 2139095041, 2139095040, INT32_MAX, INT32_MIN,
                                          INT32_MIN + 1, 255,       -257,       0,          16842753};
static const uint32_t naturals[COLUMNS] = {0x80800001u, 0x80800000u, 0x807fffffu, 0x81800000u, 0x817fffffu, 0x81800001u,
                                           16842753,    16842752,    UINT32_MAX,  0xff800000u, 0xff7fffffu, 16777215,
                                           257,         0,           0x1010001u,  0x1010000u,  0x80800001u};

static void cast_integers(tuff_device *device)
{
    uint16_t got[2][COLUMNS], wanted;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_I32, TUFF_SHAPE(COLUMNS));
    tuff_tensor *u = tuff_input(graph, "u", TUFF_U32, TUFF_SHAPE(COLUMNS));
    tuff_output(graph, "y", tuff_cast(x, TUFF_BF16));
    tuff_output(graph, "v", tuff_cast(u, TUFF_BF16));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", integers, sizeof integers), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "u", naturals, sizeof naturals), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", got[0], sizeof got[0]), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "v", got[1], sizeof got[1]), TUFF_OK);
    for (int i = 0; i < COLUMNS; i++) {
        tuff__from_double(TUFF_BF16, &(double){integers[i]}, 1, &wanted);
        assert_int_equal(got[0][i], wanted);
        tuff__from_double(TUFF_BF16, &(double){naturals[i]}, 1, &wanted);
        assert_int_equal(got[1][i], wanted);
    }
    assert_int_equal(got[0][0], 0x4b81); /* 16908288 */
    destroy_plan(plan, graph);
}

static void integers_are_rounded_to_bf16_once(void **state)
{
    (void)state;
    for_each_device(cast_integers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_by_itself_is_one),
        cmocka_unit_test(integers_are_rounded_to_bf16_once),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
