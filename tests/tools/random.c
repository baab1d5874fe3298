/* The random numbers of weights and batches, and the loop over threads that generates the weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/parallel.h"
#include "tools/model/random.h"

enum { MANY = 1 << 20, TURNS = 1000 };

static void many_normals_have_the_bits_of_single_ones(void **state)
{
    (void)state;
    static const double deviations[] = {0.02, 0.02 / 3.4641016151377544, 1, 1e-30};
    static float values[MANY];
    for (uint64_t key = 1; key <= 4; key++) {
        const double deviation = deviations[key - 1];
        const uint64_t first = key == 3 ? UINT64_C(1) << 40 : 65 * key;
        random_normals(key, first, deviation, values, MANY);
        for (int i = 0; i < MANY; i++) {
            const float expected = (float)(deviation * random_normal(key, first + (uint64_t)i));
            assert_memory_equal(&values[i], &expected, sizeof expected);
        }
    }
}

static void any_count_of_normals_is_filled_and_no_more(void **state)
{
    (void)state;
    float values[200];
    for (int count = 0; count < 199; count++) {
        for (int i = 0; i < 200; i++)
            values[i] = 77;
        random_normals(9, (uint64_t)count, 0.5, values, count);
        for (int i = 0; i < 200; i++) {
            const float expected = i < count ? (float)(0.5 * random_normal(9, (uint64_t)(count + i))) : 77;
            assert_memory_equal(&values[i], &expected, sizeof expected);
        }
    }
}

static void normals_have_the_moments_of_the_normal_distribution(void **state)
{
    (void)state;
    static float values[MANY];
    double sum = 0, squares = 0, fourths = 0;
    random_normals(5, 0, 1, values, MANY);
    for (int i = 0; i < MANY; i++) {
        const double x = (double)values[i];
        sum += x;
        squares += x * x;
        fourths += x * x * x * x;
    }
    assert_true(fabs(sum / MANY) < 0.005);
    assert_true(fabs(squares / MANY - 1) < 0.01);
    assert_true(fabs(fourths / MANY - 3) < 0.05);
}

static void count_turn(void *user, int index)
{
    _Atomic int *turns = user;
    atomic_fetch_add(&turns[index], 1);
}

static void each_turn_of_a_loop_over_threads_comes_once(void **state)
{
    (void)state;
    static _Atomic int turns[TURNS];
    for (int count = 0; count < TURNS; count += count < 20 ? 1 : 97) {
        memset(turns, 0, sizeof turns);
        tuff__parallel(count, count_turn, turns);
        for (int i = 0; i < TURNS; i++)
            assert_int_equal(turns[i], i < count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_normals_have_the_bits_of_single_ones),
        cmocka_unit_test(any_count_of_normals_is_filled_and_no_more),
        cmocka_unit_test(normals_have_the_moments_of_the_normal_distribution),
        cmocka_unit_test(each_turn_of_a_loop_over_threads_comes_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
