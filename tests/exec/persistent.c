/* Persistent kernels: plans whose launches are merged compute what they compute launch by launch, bit by bit, in every
   run; if the driver cannot link the kernel, they run launch by launch; and profiles still show each launch. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __linux__
#include <dirent.h>
#include <sched.h>
#endif

#include <cmocka.h>

#include "device/state.h"
#include "device/target.h"
#include "each_device.h"
#include "exec/plan.h"
#include "small_plans.h"

#ifdef TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#endif

enum { LARGEST = 65, LAYERS = 5, RUNS = 40 };

static void set_merging(bool is_on)
{
    assert_int_equal(setenv("TUFF_PERSISTENT_KERNELS", is_on ? "1" : "0", 1), 0);
}

static bool is_mergeable(const tuff_device *device)
{
    const bool is_able = tuff__device_target(device).groups_keep_running;
    if (!is_able)
        leave_out_device("its launches are not merged");
    return is_able;
}

/* A chain of matmuls and softmaxes that depend on each other, beside sums that depend only on the input, and a total
   that is carried from run to run. */
static tuff_graph *build_graph(tuff_device *device, int64_t rows, int64_t columns, tuff_array *total)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(rows, columns));
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(columns, columns));
    tuff_tensor *y = x;
    for (int i = 0; i < LAYERS; ++i)
        y = tuff_softmax(tuff_add(tuff_matmul(y, w), x), 1);
    tuff_output(graph, "sums", tuff_sum(tuff_mul(x, x), (int[]){0}, 1, false));
    tuff_output(graph, "largest", tuff_reduce_max(x, (int[]){1}, 1, false));
    tuff_tensor *sum = tuff_sum(y, (int[]){0}, 1, false);
    tuff_output(graph, "total", tuff_assign(graph, total, tuff_add(tuff_array_tensor(graph, total), sum)));
    return graph;
}

static void fill_inputs(tuff_plan *plan, int rows, int columns)
{
    static float values[LARGEST * LARGEST];
    for (int i = 0; i < rows * columns; ++i)
        values[i] = (float)(i % 13 - 6) / 8;
    assert_int_equal(tuff_plan_write(plan, "x", values, (size_t)(rows * columns) * 4), TUFF_OK);
    for (int i = 0; i < columns * columns; ++i)
        values[i] = (float)(i % 17 - 8) / 16;
    assert_int_equal(tuff_plan_write(plan, "w", values, (size_t)(columns * columns) * 4), TUFF_OK);
}

typedef struct results {
    float total[LARGEST], sums[LARGEST], largest[LARGEST];
} results;

/* Runs a plan several times, with its launches merged or not. */
static void compute(tuff_device *device, int rows, int columns, bool is_merged, results *out)
{
    static const float zeros[LARGEST];
    set_merging(is_merged);
    tuff_array *total = make_array(device, TUFF_F32, columns, zeros);
    tuff_graph *graph = build_graph(device, rows, columns, total);
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(plan->executable.persistent.commands != NULL, is_merged);
    if (is_merged)
        assert_true(plan->executable.persistent.command_count < plan->executable.command_count / 2);
    fill_inputs(plan, rows, columns);
    for (int i = 0; i < RUNS; ++i)
        run_plan(plan);
    *out = (results){.total = {0}};
    assert_int_equal(tuff_plan_read(plan, "total", out->total, (size_t)columns * 4), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "sums", out->sums, (size_t)columns * 4), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "largest", out->largest, (size_t)rows * 4), TUFF_OK);
    destroy_plan(plan, graph);
    tuff_array_destroy(total);
}

static void compare_results(tuff_device *device)
{
    static const int sizes[][2] = {{1, 1}, {1, 37}, {64, 64}, {65, 63}};
    if (!is_mergeable(device))
        return;
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); ++i) {
        results merged, alone;
        compute(device, sizes[i][0], sizes[i][1], true, &merged);
        compute(device, sizes[i][0], sizes[i][1], false, &alone);
        assert_memory_equal(&merged, &alone, sizeof merged);
        assert_true(merged.total[0] != 0);
    }
}

/* More groups than cores, so that many begin after all work is done, and one alone, which never waits. */
static void vary_group_counts(tuff_device *device)
{
    results merged, alone;
    if (!is_mergeable(device))
        return;
    const uint32_t units = device->info.compute_units;
    compute(device, 33, 47, false, &alone);
    for (uint32_t count = 1; count <= 100; count += 33) {
        device->info.compute_units = count;
        compute(device, 33, 47, true, &merged);
        assert_memory_equal(&merged, &alone, sizeof merged);
    }
    device->info.compute_units = units;
}

static int count_dispatches(const persistent_launches *merged)
{
    int count = 0;
    for (int i = 0; i < merged->command_count; ++i)
        count += merged->commands[i].binding_count > 2 &&
                 merged->commands[i].bindings[2].buffer == tuff__storage_buffer(merged->counters);
    return count;
}

/* As if a group had given up: the next dispatch ends with waits of an eighth, later ones double them. */
static void shorten_waits(tuff_device *device)
{
    enum { GAVE_UP = 96 * sizeof(uint32_t) }; /* cl/persistent.cl */
    static const float zeros[LARGEST];
    if (!is_mergeable(device))
        return;
    set_merging(true);
    tuff_array *total = make_array(device, TUFF_F32, 31, zeros);
    tuff_graph *graph = build_graph(device, 16, 31, total);
    tuff_plan *plan = compile_plan(graph);
    const persistent_launches *merged = &plan->executable.persistent;
    const int dispatches = count_dispatches(merged);
    fill_inputs(plan, 16, 31);
    run_plan(plan);
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    uint32_t state[] = {1, 0}; /* GAVE_UP, HALVINGS */
    assert_int_equal(tuff__storage_write(device, merged->counters, GAVE_UP, state, sizeof state), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    assert_int_equal(tuff__storage_read(device, merged->counters, GAVE_UP, state, sizeof state), TUFF_OK);
    assert_int_equal(state[0], 0);
    assert_in_range(dispatches, 1, 3);
    assert_in_range(state[1], 4 - dispatches, 6); /* more if a group really gave up */
    destroy_plan(plan, graph);
    tuff_array_destroy(total);
}

#ifdef __linux__
static bool is_kept_to_one_core;

/* Moves all threads of the process to one core, or lets them run on every core again. */
static void keep_to_one_core(bool is_on)
{
    static cpu_set_t before;
    cpu_set_t wanted = before;
    if (is_on) {
        assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
        CPU_ZERO(&wanted);
        CPU_SET((size_t)sched_getcpu(), &wanted);
    }
    is_kept_to_one_core = is_on;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (const struct dirent *entry = readdir(threads); entry; entry = readdir(threads))
        if (entry->d_name[0] != '.') /* a thread that has ended meanwhile is an error that does not matter */
            (void)sched_setaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof wanted, &wanted);
    (void)closedir(threads);
}

/* All threads on one core: a group loses it in the midst of its work, while another one waits. */
static void share_one_core(tuff_device *device)
{
    results merged, alone;
    if (!is_mergeable(device))
        return;
    compute(device, 41, 43, false, &alone);
    keep_to_one_core(true);
    compute(device, 41, 43, true, &merged);
    keep_to_one_core(false);
    assert_memory_equal(&merged, &alone, sizeof merged);
}
#endif

static void profile_launches(tuff_device *device)
{
    static const float zeros[LARGEST];
    uint64_t whole = 0, inside = 0;
    set_merging(true);
    tuff_array *total = make_array(device, TUFF_F32, 31, zeros);
    tuff_graph *graph = build_graph(device, 16, 31, total);
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(plan->executable.persistent.commands != NULL, tuff__device_target(device).groups_keep_running);
    assert_int_equal(tuff_plan_run_timed(plan, &whole, &inside), TUFF_E_USAGE); /* no input was written */
    fill_inputs(plan, 16, 31);
    assert_int_equal(tuff_plan_profile(plan), TUFF_OK);
    for (int i = 0; i < plan->executable.command_count; ++i) {
        tuff_task_info info;
        assert_int_equal(tuff_plan_task(plan, i, &info), TUFF_OK);
        assert_true(info.nanoseconds > 0);
    }
    assert_int_equal(tuff_plan_run_timed(plan, NULL, &inside), TUFF_E_USAGE);
    assert_int_equal(tuff_plan_run_timed(plan, &whole, &inside), TUFF_OK);
    assert_true(inside > 0 && inside <= whole);
    run_plan(plan);
    destroy_plan(plan, graph);
    tuff_array_destroy(total);
}

#ifdef TUFF_WITH_OPENCL
static cl_program CL_API_CALL refuse_link(cl_context context, cl_uint device_count, const cl_device_id *devices,
                                          const char *options, cl_uint count, const cl_program *programs,
                                          void(CL_CALLBACK *notify)(cl_program, void *), void *user, cl_int *error)
{
    (void)context, (void)device_count, (void)devices, (void)options, (void)count, (void)programs, (void)notify;
    (void)user;
    *error = CL_LINK_PROGRAM_FAILURE;
    return NULL;
}

/* A driver that cannot link gets each launch as a dispatch of its own. */
static void refuse_to_link(tuff_device *device)
{
    static const float zeros[LARGEST];
    if (!is_mergeable(device))
        return;
    set_merging(true);
    const opencl_api real = tuff__cl;
    tuff__cl.LinkProgram = refuse_link;
    tuff_array *total = make_array(device, TUFF_F32, 29, zeros);
    tuff_graph *graph = build_graph(device, 15, 29, total);
    tuff_plan *plan = compile_plan(graph);
    tuff__cl = real;
    assert_null(plan->executable.persistent.commands);
    fill_inputs(plan, 15, 29);
    run_plan(plan);
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    destroy_plan(plan, graph);
    tuff_array_destroy(total);
}
#endif

static void results_are_those_of_separate_launches(void **state)
{
    (void)state;
    for_each_driver(compare_results);
}

static void any_number_of_groups_is_right(void **state)
{
    (void)state;
    for_each_driver(vary_group_counts);
}

static void groups_may_share_a_core(void **state)
{
    (void)state;
#ifdef __linux__
    for_each_driver(share_one_core);
#else
    skip();
#endif
}

/* Also after a failed assertion, which jumps over the call in the test. */
static int leave_core(void **state)
{
    (void)state;
#ifdef __linux__
    if (is_kept_to_one_core)
        keep_to_one_core(false);
#endif
    return 0;
}

static void a_group_that_gives_up_shortens_waits(void **state)
{
    (void)state;
    for_each_driver(shorten_waits);
}

static void profiles_show_each_launch(void **state)
{
    (void)state;
    for_each_driver(profile_launches);
}

static void drivers_need_not_link(void **state)
{
    (void)state;
#ifdef TUFF_WITH_OPENCL
    for_each_driver(refuse_to_link);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_separate_launches),
        cmocka_unit_test(any_number_of_groups_is_right),
        cmocka_unit_test_teardown(groups_may_share_a_core, leave_core),
        cmocka_unit_test(a_group_that_gives_up_shortens_waits),
        cmocka_unit_test(profiles_show_each_launch),
        cmocka_unit_test(drivers_need_not_link),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
