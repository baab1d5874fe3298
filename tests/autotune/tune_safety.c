/* Tuning with unreliable drivers: a default with wrong results is replaced by kernels that are right, two candidates
   that killed processes end tuning for a day, and a compiler that never returns costs the tuner its device, but not the
   program. OpenCL's calls are replaced for that. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "each_device.h"
#include "opencl_replaced.h"
#include "product_runs.h"
#include "autotune/session.h"
#include "small_plans.h"
#include "tune_fixture.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL

static const tuff_compile_options off = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}},
                                  quick = {.tuning =
                                               &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 12000}};

#define NEED_DEVICE(device)                         \
    tuff_device *const device = open_replaceable(); \
    if (!device)                                    \
    skip()

/* Makes products that are computed in registers slightly wrong. */
static cl_program CL_API_CALL create_wrong(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                           cl_int *error)
{
    static const char defaults[] = "#define ACCUMULATE(x, y, sum) fma(x, y, sum)";
    static const char wrong[] = "#define ACCUMULATE(x, y, sum) fma((x) * 1.01f, y, sum)";
    const char *at = count == 1 ? strstr(texts[0], defaults) : NULL;
    if (!at || !strstr(texts[0], "tuff_matmul_register"))
        return real_creation(context, count, texts, sizes, error);
    const char *parts[] = {texts[0], wrong, at + sizeof defaults - 1};
    const size_t lengths[] = {(size_t)(at - texts[0]), sizeof wrong - 1, strlen(at + sizeof defaults - 1)};
    return real_creation(context, 3, parts, lengths, error);
}

static void a_wrong_default_makes_way(void **state)
{
    (void)state;
    NEED_DEVICE(device);
    static product_result right, wrong, tuned, again;
    char environment[ENVIRONMENT_SIZE];
    use_cache_subfolder("right");
    run_product(device, &off, &right);
    use_cache_subfolder("wrong");
    replace_creation(create_wrong);
    run_product(device, &off, &wrong);
    assert_false(are_close(&right, &wrong));
    const tuff_tune_stats stats = run_product(device, &quick, &tuned);
    run_product(device, NULL, &again);
    restore_creation();
    assert_true(stats.wrong >= 1);
    assert_true(are_close(&right, &tuned));
    assert_true(are_close(&right, &again));
    tune_store *store = open_device_store(device, environment);
    const tune_record *bad = find_store_record(store, RECORD_REJECTION, "wrong"),
                      *win = find_store_record(store, RECORD_WIN, NULL);
    assert_non_null(bad);
    assert_string_equal(bad->candidate, "");
    assert_non_null(win);
    assert_non_null(strstr(win->candidate, "task.family"));
    tuff__store_close(store);
    tuff_device_close(device);
}

/* Halves the indices of lookups. */
static cl_program CL_API_CALL create_lost(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                          cl_int *error)
{
    const char *at = count == 1 ? strstr(texts[0], " = LOAD_i32(") : NULL;
    const char *end = at ? strchr(at, ';') : NULL;
    if (!end)
        return real_creation(context, count, texts, sizes, error);
    const char *parts[] = {texts[0], " / 2", end};
    const size_t lengths[] = {(size_t)(end - texts[0]), strlen(" / 2"), strlen(end)};
    return real_creation(context, 3, parts, lengths, error);
}

/* Looks up rows of a table too large for the host to compute whole. */
static tuff_tune_stats look_up_rows(tuff_device *device)
{
    tuff_tune_stats stats;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *table = tuff_input(graph, "table", TUFF_F32, TUFF_SHAPE(20000, 192)),
                *rows = tuff_input(graph, "rows", TUFF_I32, TUFF_SHAPE(512));
    tuff_output(graph, "y", tuff_exp(tuff_gather_rows(table, rows, 0)));
    tuff_plan *plan = tuff_compile(graph, &quick);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    destroy_plan(plan, graph);
    return stats;
}

static void a_wrong_lookup_is_seen(void **state)
{
    (void)state;
    NEED_DEVICE(device);
    char environment[ENVIRONMENT_SIZE];
    use_cache_subfolder("lookup");
    assert_int_equal(look_up_rows(device).wrong, 0);
    use_cache_subfolder("lost");
    replace_creation(create_lost);
    const tuff_tune_stats stats = look_up_rows(device);
    restore_creation();
    assert_true(stats.wrong >= 1);
    tune_store *store = open_device_store(device, environment);
    const tune_record *bad = find_store_record(store, RECORD_REJECTION, "wrong");
    assert_non_null(bad);
    assert_string_equal(bad->candidate, "");
    tuff__store_close(store);
    tuff_device_close(device);
}

static void add_crash(tune_store *store, const char *environment, const char *candidate, uint64_t time)
{
    tune_record bad = tuff__record_make(RECORD_REJECTION, environment,
                                        "matmul 00c1f2e3a4b59687 | f32 | NN | 8x8x8 | a16 | strict", candidate);
    bad.kernel_hash = "00000000";
    bad.reason = "crash";
    bad.phase = "compile";
    bad.time = time;
    assert_int_equal(tuff__store_add(store, &bad), TUFF_OK);
}

static void two_crashes_end_tuning(void **state)
{
    (void)state;
    NEED_DEVICE(device);
    static product_result out;
    char environment[ENVIRONMENT_SIZE];
    const uint64_t now = (uint64_t)time(NULL);
    use_cache_subfolder("crashes");
    tune_store *store = open_device_store(device, environment);
    add_crash(store, environment, "matmul_register.rows=5", now - 100);
    add_crash(store, environment, "matmul_register.rows=6", now - 2 * 24 * 60 * 60);
    add_crash(store, environment, "matmul_register.rows=7", now + 2 * 24 * 60 * 60);
    tuff__store_close(store);
    const tuff_compile_options shortly = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 300}};
    assert_true(run_product(device, &shortly, &out).measured > 0);
    use_cache_subfolder("more crashes");
    store = open_device_store(device, environment);
    add_crash(store, environment, "matmul_register.rows=5", now - 100);
    add_crash(store, environment, "matmul_register.rows=6", now - 200);
    tuff__store_close(store);
    assert_int_equal(run_product(device, &shortly, &out).measured, 0);
    tuff_device_close(device);
}

/* The last test: this process tunes no more. */
static void a_compiler_that_hangs_is_left(void **state)
{
    (void)state;
    NEED_DEVICE(device);
    static product_result right, tuned, again;
    char environment[ENVIRONMENT_SIZE];
    use_cache_subfolder("hang");
    run_product(device, &off, &right);
    block_creation(3, "tuff_matmul");
    tuff__compile_timeout = 1500000000;
    const uint64_t begin = tuff__nanoseconds();
    tuff_tune_stats stats = run_product(device, &quick, &tuned);
    const double seconds = (double)(tuff__nanoseconds() - begin) * 1e-9;
    print_message("returned after %.1f s\n", seconds);
    assert_int_equal(stats.hangs, 1);
    assert_true(seconds < 60);
    assert_true(are_close(&right, &tuned));
    tune_store *store = open_device_store(device, environment);
    const tune_record *bad = find_store_record(store, RECORD_REJECTION, "hang");
    assert_non_null(bad);
    assert_string_equal(bad->phase, "compile");
    tuff__store_close(store);
    use_cache_subfolder("after");
    stats = run_product(device, &quick, &again);
    assert_int_equal(stats.measured, 0);
    assert_true(are_close(&right, &again));
    release_creation();
    tuff_device_close(device);
}

/* Shows the library's warnings, which help to understand a failure. */
static void print_log(void *user, tuff_log_level level, const char *said)
{
    (void)user;
    if (level <= TUFF_LOG_WARNING)
        print_message("%s\n", said);
}

int main(void)
{
    tuff_set_log(print_log, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_default_makes_way),
        cmocka_unit_test(a_wrong_lookup_is_seen),
        cmocka_unit_test(two_crashes_end_tuning),
        cmocka_unit_test(a_compiler_that_hangs_is_left),
    };
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}

#else

int main(void)
{
    puts("built without OpenCL");
    return 77;
}

#endif
