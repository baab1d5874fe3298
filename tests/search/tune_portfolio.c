/* Portfolios: how they are made from recordings, and that the one compiled in matches the recordings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file/file.h"
#include "device/device.h"
#include "each_device.h"
#include "failing_memory.h"
#include "autotune/plan_tasks.h"
#include "synthetic_space.h"
#include "bench/recorder/portfolio.h"
#include "bench/recorder/tasks.h"
#include "search/portfolio.h"

static recordings made_up;

static int make_spaces(void **state)
{
    (void)state;
    for (int i = 0; i < SYNTHETIC_FAMILIES * SYNTHETIC_DEVICES; i++) {
        assert_true(GROW(made_up.items, made_up.count, made_up.capacity));
        synthetic_space(i / SYNTHETIC_DEVICES, i % SYNTHETIC_DEVICES, &made_up.items[made_up.count++]);
    }
    return 0;
}

static int free_spaces(void **state)
{
    (void)state;
    recordings_free(&made_up);
    return 0;
}

/* Each candidate improves on those before it; a portfolio also helps on a device that it was not made from. */
static tuff_status check_family(const char *family, void *state)
{
    int *families = state;
    tune_config all[PORTFOLIO_SIZE], others[PORTFOLIO_SIZE];
    const int count = portfolio_make(&made_up, family, "", NULL, all);
    assert_true(count >= SYNTHETIC_DEVICES - 1 && count <= PORTFOLIO_SIZE);
    double before = portfolio_score(&made_up, family, NULL, NULL, 0);
    for (int i = 1; i <= count; i++) {
        const double now = portfolio_score(&made_up, family, NULL, all, i);
        assert_true(now > before);
        before = now;
    }
    /* With few devices each gets its best. */
    assert_true(before > 0.999);
    double defaults = 0, left_out = 0;
    int devices = 0;
    for (int i = 0; i < made_up.count; i++) {
        char name[32];
        recording_family(&made_up.items[i], name, sizeof name);
        if (strcmp(name, family) != 0)
            continue;
        const char *device = made_up.items[i].device;
        const int found = portfolio_make(&made_up, family, "", device, others);
        defaults += portfolio_score(&made_up, family, device, NULL, 0);
        left_out += portfolio_score(&made_up, family, device, others, found);
        devices++;
    }
    print_message("%s: default %.3f, portfolio of other devices %.3f, of all %.3f\n", family, defaults / devices,
                  left_out / devices, before);
    assert_int_equal(devices, SYNTHETIC_DEVICES);
    assert_true(left_out > defaults);
    ++*families;
    return TUFF_OK;
}

static void candidates_cover_what_was_recorded(void **state)
{
    (void)state;
    int families = 0;
    assert_int_equal(portfolio_families(&made_up, check_family, &families), TUFF_OK);
    assert_int_equal(families, SYNTHETIC_FAMILIES);
    assert_true(portfolio_score(&made_up, "nothing", NULL, NULL, 0) < 0);
}

/* Two devices, each of whose best point is slow on the other, and a third point that is good on both. */
static void the_first_serves_all(void **state)
{
    (void)state;
    static const int times[2][4] = {{100, 40, 90, 50}, {100, 90, 40, 50}};
    recordings two = {0};
    tune_config out[PORTFOLIO_SIZE];
    for (int device = 0; device < 2; device++) {
        tune_config defaults = {.set = {0}};
        assert_true(GROW(two.items, two.count, two.capacity));
        recording *recorded = &two.items[two.count++];
        tuff__config_set(&defaults, TUNABLE_map_local_size, 1);
        assert_int_equal(recording_begin(recorded, "map-small", device ? "b" : "a", &defaults, 0), TUFF_OK);
        for (int i = 0; i < 4; i++) {
            const uint64_t taken[] = {(uint64_t)times[device][i], (uint64_t)times[device][i]};
            recorded_point point = {.program = (uint64_t)i + 1, .count = 2, .nanoseconds = taken};
            if (i > 0)
                tuff__config_set(&point.config, TUNABLE_map_local_size, 1 << i);
            assert_int_equal(recording_add(recorded, &point), TUFF_OK);
        }
    }
    assert_int_equal(portfolio_make(&two, "map", "", NULL, out), 3);
    assert_int_equal(tuff__config_value(&out[0], TUNABLE_map_local_size, 1), 8);
    assert_int_equal(portfolio_make(&two, "map", "", "b", out), 1);
    assert_int_equal(tuff__config_value(&out[0], TUNABLE_map_local_size, 1), 2);
    assert_true(portfolio_score(&two, "map", "b", out, 1) < 0.5);
    assert_int_equal(portfolio_make(&two, "row", "", NULL, out), 0);
    recordings_free(&two);
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    int64_t failing = 1;
    tune_config out[PORTFOLIO_SIZE];
    char family[32];
    recording_family(&made_up.items[0], family, sizeof family);
    const int whole = portfolio_make(&made_up, family, "", NULL, out);
    for (bool failed = true; failed; failing++) {
        failing_memory_begin(failing, failing % 2);
        const int count = portfolio_make(&made_up, family, "", NULL, out);
        failed = failing_memory_end();
        assert_int_equal(count, failed ? -1 : whole);
    }
    assert_true(failing > 4);
}

/* The portfolio compiled in must be readable; a family whose default is the best everywhere has none. */
static int check_class(kernel_device class, const char *family)
{
    const char *const *all;
    const int count = tuff__portfolio_for_class(class, family, &all);
    for (int i = 0; i < count; i++) {
        tune_config config;
        assert_int_equal(tuff__config_parse(all[i], &config), TUFF_OK);
        assert_true(tuff__config_count(&config) > 0);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(all[i], all[k]);
    }
    return count;
}

static tuff_status check_rows(const char *family, void *state)
{
    int *rows = state;
    for (int class = KERNELS_OPENCL_CPU; class <= KERNELS_GPU; class ++)
        *rows += check_class((kernel_device) class, family);
    return TUFF_OK;
}
static void what_is_compiled_in_is_what_was_recorded(void **state)
{
    (void)state;
    recordings from;
    text expected = {0};
    void *table = NULL;
    size_t size = 0;
    const char *const *none;
    assert_int_equal(recordings_read(TUFF_TEST_DATA "/recordings", &from), TUFF_OK);
    int rows = 0;
    assert_int_equal(portfolio_families(&from, check_rows, &rows), TUFF_OK);
    assert_true(rows > 8);
    assert_int_equal(tuff__portfolio_for_class(KERNELS_GPU, "nothing", &none), 0);
    assert_int_equal(portfolio_print(&from, &expected), TUFF_OK);
    static const char path[] = TUFF_TEST_DATA "/../../src/search/portfolio.def";
    assert_int_equal(tuff__file_read(path, 1 << 20, &table, &size), TUFF_OK);
    assert_string_equal((const char *)table, tuff__text_get(&expected));
    tuff__free(table);
    tuff__text_free(&expected);
    recordings_free(&from);
}

enum { MAX_ROWS = 64 };

/* The rows for GPUs, and whether some task could be lowered with each. */
typedef struct lowered_rows {
    const char *rows[MAX_ROWS];
    bool done[MAX_ROWS];
    int count;
} lowered_rows;

static void lower_rows(plan_tasks *tasks, lowered_rows *seen)
{
    for (int i = 0; i < tuff__plan_tasks_count(tasks); i++) {
        const char *const *all;
        const evaluator by = tuff__plan_tasks_evaluator(tasks, i);
        const int count = tuff__portfolio_for_class(KERNELS_GPU, tuff__plan_tasks_key(tasks, i)->family, &all);
        for (int k = 0; k < count; k++) {
            tune_config config;
            candidate_info made;
            int at = 0;
            while (at < seen->count && seen->rows[at] != all[k])
                at++;
            assert_true(at < MAX_ROWS);
            seen->rows[at] = all[k];
            seen->count += at == seen->count;
            assert_int_equal(tuff__config_parse(all[k], &config), TUFF_OK);
            seen->done[at] |= by.lower(by.state, &config, &made) == EVALUATION_GOOD;
        }
    }
}

/* Every row must fit some task, except those for matrix units and libraries, which a device described as a GPU does not
   have. */
static void describe_as_gpu(tuff_device *device)
{
    lowered_rows seen = {.count = 0};
    tuff_device_info as = *tuff__device_info(device);
    as.device_class = TUFF_DEVICE_GPU_DISCRETE;
    as.local_is_global = false;
    as.vendor_id = 0;
    as.compute_units = 32;
    as.max_group_size = 256;
    as.proved_subgroup_size = as.subgroup_size = 32;
    as.subgroup_shuffle = true;
    tuff__device_override_info(device, &as);
    for (const record_task *task = record_tasks; task->name; task++) {
        record_graph graph;
        plan_tasks *tasks;
        assert_int_equal(record_graph_build(device, task, &graph), TUFF_OK);
        tuff_plan *plan =
            tuff_compile(graph.graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
        assert_non_null(plan);
        assert_int_equal(tuff__plan_tasks_create(plan, &tasks), TUFF_OK);
        lower_rows(tasks, &seen);
        tuff__plan_tasks_destroy(tasks);
        tuff_plan_destroy(plan);
        record_graph_end(&graph);
    }
    assert_true(seen.count > 8);
    for (int i = 0; i < seen.count; i++)
        if (!seen.done[i] && !strstr(seen.rows[i], "task.family=4") && !strstr(seen.rows[i], "task.family=5"))
            fail_msg("no task can be lowered by %s", seen.rows[i]);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* Whether a row for GPUs sets a tunable of the kernel. */
static bool has_row(const char *kernel)
{
    static const char *const families[] = {"matmul", "map", "row", "column", "scatter", "scan", "attention"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const char *const *all;
        const int count = tuff__portfolio_for_class(KERNELS_GPU, families[i], &all);
        for (int k = 0; k < count; k++) {
            tune_config config;
            assert_int_equal(tuff__config_parse(all[k], &config), TUFF_OK);
            for (int t = 0; t < TUNABLE_COUNT; t++)
                if (tuff__config_has(&config, (tunable)t) &&
                    strcmp(tuff__tunable_info((tunable)t)->kernel, kernel) == 0)
                    return true;
        }
    }
    return false;
}

static void kernels_of_gpus_have_rows(void **state)
{
    (void)state;
    int kernels = 0;
    for (int t = 0; t < TUNABLE_COUNT; t++) {
        const char *kernel = tuff__tunable_info((tunable)t)->kernel;
        if (!ends_with(kernel, "_local") && !ends_with(kernel, "_subgroup") && !ends_with(kernel, "_cooperative") &&
            !ends_with(kernel, "_workgroup"))
            continue;
        if (!has_row(kernel))
            fail_msg("no row for %s", kernel);
        kernels++;
    }
    assert_true(kernels > 8);
}

static void rows_for_gpus_make_kernels(void **state)
{
    (void)state;
    for_each_driver(describe_as_gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_cover_what_was_recorded),
        cmocka_unit_test(the_first_serves_all),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(what_is_compiled_in_is_what_was_recorded),
        cmocka_unit_test(kernels_of_gpus_have_rows),
        cmocka_unit_test_setup_teardown(rows_for_gpus_make_kernels, use_fresh_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, make_spaces, free_spaces);
}
