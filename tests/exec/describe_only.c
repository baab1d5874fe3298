/* Plans that are only described: they say what plans that run would, compile no kernels and, on a device that only
   describes, take no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "exec/plan.h"
#include "small_plans.h"

static uint64_t programs_made(const tuff_device *device)
{
    tuff_device_counters counters;
    assert_int_equal(tuff_device_counters_get(device, &counters), TUFF_OK);
    return counters.programs_compiled + counters.programs_from_disk;
}

static void expect_equal_tasks(const tuff_plan *one, const tuff_plan *other, int count)
{
    for (int i = 0; i < count; i++) {
        tuff_task_info a, b;
        assert_int_equal(tuff_plan_task(one, i, &a), TUFF_OK);
        assert_int_equal(tuff_plan_task(other, i, &b), TUFF_OK);
        assert_string_equal(a.label, b.label);
        assert_true(a.source == NULL ? b.source == NULL : strcmp(a.source, b.source) == 0);
        assert_true(a.items == b.items && a.bytes_read == b.bytes_read && a.bytes_written == b.bytes_written);
    }
}

/* A plan that is only described says the same as one that runs, makes no program, and does not run. */
static void describe_only(tuff_device *device)
{
    static const tuff_tune_options later = {.mode = TUFF_TUNE_QUICK, .background = true};
    const tuff_compile_options only = {.describe_only = true}, never = {.describe_only = true, .tuning = &later};
    uint64_t hash[2], whole_hash[2];
    tuff_plan_info info, whole_info;
    float y[40 * 24];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(40, 56));
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(56, 24));
    tuff_output(graph, "y", tuff_softmax(tuff_relu(tuff_matmul(x, w)), 1));
    tuff_output(graph, "again", tuff_softmax(tuff_relu(tuff_matmul(tuff_add(x, x), w)), 1));
    const uint64_t before = programs_made(device);
    assert_null(tuff_compile(graph, &never));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    tuff_plan *described = tuff_compile(graph, &only);
    assert_non_null(described);
    assert_true(programs_made(device) == before);
    tuff_plan *whole = compile_plan(graph);
    assert_int_equal(tuff_plan_describe(described, &info), TUFF_OK);
    assert_int_equal(tuff_plan_describe(whole, &whole_info), TUFF_OK);
    assert_memory_equal(&info, &whole_info, sizeof info);
    if (!tuff__device_is_reference(device)) {
        assert_true(info.program_count > 1 && info.program_count <= info.task_count);
        assert_true(programs_made(device) == before + (uint64_t)info.program_count);
        assert_int_equal(tuff_plan_hash(described, hash), TUFF_OK);
        assert_int_equal(tuff_plan_hash(whole, whole_hash), TUFF_OK);
        assert_memory_equal(hash, whole_hash, sizeof hash);
    }
    expect_equal_tasks(described, whole, info.task_count);
    expect_error(tuff_plan_run(described), TUFF_E_USAGE, "describe_only");
    assert_int_equal(tuff_plan_wait(described), TUFF_OK);
    assert_int_not_equal(tuff_plan_read(described, "y", y, sizeof y), TUFF_OK);
    expect_error(tuff_plan_profile(described), TUFF_E_USAGE, "describe_only");
    tuff_plan_destroy(described);
    destroy_plan(whole, graph);
}

static void a_plan_may_only_be_described(void **state)
{
    (void)state;
    for_each_device(describe_only);
}

/* Builds a graph with an array, compiles it with the options, and returns the plan's hash; zeros on failure. */
static tuff_status describe_with_array(tuff_device *device, tuff_array *w, const tuff_compile_options *options,
                                       tuff_plan_info *info, uint64_t *hash)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(40, 56));
    tuff_tensor *before = tuff_array_tensor(graph, w), *scaled = tuff_mul(before, before);
    tuff_output(graph, "y", tuff_relu(tuff_matmul(x, scaled)));
    tuff_assign(graph, w, scaled);
    tuff_plan *plan = tuff_compile(graph, options);
    const tuff_status status = plan == NULL ? tuff_last_status() : tuff_plan_describe(plan, info);
    if (plan != NULL && !tuff__device_is_reference(device))
        assert_int_equal(tuff_plan_hash(plan, hash), TUFF_OK);
    if (plan != NULL) {
        float y[40 * 24] = {0};
        assert_int_not_equal(tuff_plan_run(plan), TUFF_OK);
        assert_int_not_equal(tuff_plan_write(plan, "x", y, 0), TUFF_OK);
    }
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return status;
}

/* A device that only describes gives the same plans, has no memory, and says so where bytes are needed. */
static void describe_without_memory(tuff_device *device)
{
    static const tuff_tune_options quick = {.mode = TUFF_TUNE_QUICK};
    const tuff_compile_options only = {.describe_only = true}, runs = {.fuse = TUFF_FUSE_ALL},
                               measures = {.describe_only = true, .tuning = &quick};
    tuff_device_info self;
    tuff_device_counters counters;
    tuff_plan_info info, expected_info;
    uint64_t hash[2] = {0}, expected[2] = {0};
    float values[56 * 24] = {1};
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(56, 24));
    expect_error(tuff_device_set_describe_only(device), TUFF_E_USAGE, "before");
    assert_int_equal(describe_with_array(device, array, &only, &expected_info, expected), TUFF_OK);
    assert_int_equal(tuff_device_describe(device, &self), TUFF_OK);
    tuff_device *described = tuff_device_open(self.selector);
    assert_non_null(described);
    assert_int_equal(tuff_device_set_describe_only(described), TUFF_OK);
    tuff_array *w = tuff_array_create(described, TUFF_F32, TUFF_SHAPE(56, 24));
    tuff_array *same = tuff_array_create(described, TUFF_F32, TUFF_SHAPE(56, 24));
    assert_int_equal(describe_with_array(described, w, &only, &info, hash), TUFF_OK);
    assert_memory_equal(&info, &expected_info, sizeof info);
    assert_memory_equal(hash, expected, sizeof hash);
    assert_int_equal(describe_with_array(described, w, &runs, &info, hash), TUFF_E_USAGE);
    assert_int_equal(describe_with_array(described, w, &measures, &info, hash), TUFF_E_USAGE);
    assert_int_equal(tuff_array_write(w, values, sizeof values), TUFF_OK);
    assert_int_equal(tuff_array_copy(same, w), TUFF_OK);
    expect_error(tuff_array_read(w, values, sizeof values), TUFF_E_USAGE, "describe");
    assert_int_equal(tuff_device_counters_get(described, &counters), TUFF_OK);
    assert_true(counters.bytes_allocated == 0 && counters.submissions == 0);
    tuff_array_destroy(same);
    tuff_array_destroy(w);
    tuff_device_close(described);
    tuff_array_destroy(array);
}

/* More than any machine's memory. */
static void models_of_any_size_can_be_described(void **state)
{
    (void)state;
    tuff_array *arrays[1 << 16];
    const int count = sizeof arrays / sizeof *arrays;
    tuff_device_counters counters;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    assert_int_equal(tuff_device_set_describe_only(device), TUFF_OK);
    for (int i = 0; i < count; i++) {
        assert_non_null(arrays[i] = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(4096, 4096)));
        assert_int_equal(tuff_device_counters_get(device, &counters), TUFF_OK);
        assert_true(counters.bytes_allocated == 0);
    }
    for (int i = 0; i < count; i++)
        tuff_array_destroy(arrays[i]);
    tuff_device_close(device);
    expect_error(tuff_device_set_describe_only(NULL), TUFF_E_USAGE, "NULL");
    for_each_device(describe_without_memory);
}

/* Kernels compute where the last tile ends in 32 bits. */
static void check_tiles(tuff_device *device)
{
    static const int64_t counts[] = {INT32_MAX, INT32_MAX - 3, INT32_MAX - 8000, INT32_MAX - 100000};
    tuff_device_info as = *tuff__device_info(device);
    as.max_allocation = as.max_binding = UINT64_C(1) << 40;
    tuff__device_override_info(device, &as);
    assert_int_equal(tuff_device_set_describe_only(device), TUFF_OK);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_output(graph, "y", tuff_neg(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(counts[i]))));
        tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.describe_only = true});
        if (plan == NULL)
            fail_msg("%lld elements: %s", (long long)counts[i], tuff_error());
        const launch *kernel = &plan->executable.launches.launches[0]; /* map.k: rows, columns, tiles, tile */
        assert_string_equal(kernel->body, "map");
        assert_true(kernel->parameters[2] * kernel->parameters[3] >= counts[i]);
        assert_true(kernel->parameters[2] * kernel->parameters[3] <= INT32_MAX);
        destroy_plan(plan, graph);
    }
}

static void tiles_end_within_32_bits(void **state)
{
    (void)state;
    for_drawn_drivers(check_tiles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_may_only_be_described),
        cmocka_unit_test(models_of_any_size_can_be_described),
        cmocka_unit_test(tiles_end_within_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
