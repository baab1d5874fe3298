/* The results that tuff bench accepts as equal: close numbers, and none that are not finite. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/bench.h"

enum { COUNT = 3 };

static tuff_status run(void *self, int count, bench_sample *sample)
{
    (void)self;
    *sample = (bench_sample){.seconds = 0.01 * count, .processor = 0.01 * count};
    return TUFF_OK;
}

static tuff_status read_values(void *self, float *values, int64_t count)
{
    memcpy(values, self, (size_t)count * sizeof *values);
    return TUFF_OK;
}

static tuff_status compare(const float *first, const float *second)
{
    bench self = {.round_count = 1, .quick = true};
    bench_work work;
    const float *const results[] = {first, second};
    assert_true(bench_begin(&self, &work, "none", "agreement"));
    work.result_count = COUNT;
    for (int i = 0; i < 2; i++) {
        bench_implementation *item = bench_add(&work, BENCH_TUFF, i == 0 ? "first" : "second");
        item->run = run;
        item->read = read_values;
        item->self = (void *)(uintptr_t)results[i];
    }
    return bench_run_work(&self, &work, TUFF_OK);
}

static void only_near_and_finite_results_agree(void **state)
{
    static const float good[COUNT] = {1, 2, -3}, near[COUNT] = {1, 2.00001f, -3}, far[COUNT] = {1, 2.01f, -3};
    (void)state;
    assert_int_equal(compare(good, good), TUFF_OK);
    assert_int_equal(compare(good, near), TUFF_OK);
    assert_int_equal(compare(good, far), TUFF_E_NUMERIC);
    for (int i = 0; i < COUNT; i++) {
        float bad[COUNT];
        memcpy(bad, good, sizeof bad);
        bad[i] = NAN;
        assert_int_equal(compare(good, bad), TUFF_E_NUMERIC);
        assert_int_equal(compare(bad, good), TUFF_E_NUMERIC);
        bad[i] = INFINITY;
        assert_int_equal(compare(good, bad), TUFF_E_NUMERIC);
        assert_int_equal(compare(bad, good), TUFF_E_NUMERIC);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_near_and_finite_results_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
