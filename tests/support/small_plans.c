/* Small plans and arrays for tests: see the header. */
#include "small_plans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/tuner.h"
#include "device/device.h"
#include "exec/plan.h"

tuff_plan *compile_plan(tuff_graph *graph)
{
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    return plan;
}

tuff_plan *plan_without_programs(tuff_graph *graph, const tuff_compile_options *options)
{
    tuff_plan *plan = NULL;
    assert_int_equal(tuff_graph_status(graph), TUFF_OK);
    if (tuff__plan_create(graph, options, NULL, &plan) != TUFF_OK)
        return NULL;
    if (!tuff__device_is_reference(plan->device))
        assert_int_equal(tuff__tune(plan, options), TUFF_OK);
    return plan;
}

void run_plan(tuff_plan *plan)
{
    if (tuff_plan_run(plan) != TUFF_OK)
        fail_msg("%s", tuff_error());
}

void write_steps(tuff_plan *plan, const char *name, int count, int period, float divisor)
{
    float data[4096];
    assert_true(count <= 4096);
    for (int i = 0; i < count; i++)
        data[i] = (float)(i % period - period / 2) / divisor;
    assert_int_equal(tuff_plan_write(plan, name, data, sizeof *data * (size_t)count), TUFF_OK);
}

void destroy_plan(tuff_plan *plan, tuff_graph *graph)
{
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

tuff_array *make_array(tuff_device *device, tuff_dtype dtype, int64_t count, const void *data)
{
    tuff_array *array = tuff_array_create(device, dtype, TUFF_SHAPE(count));
    assert_non_null(array);
    assert_int_equal(tuff_array_write(array, data, (size_t)tuff_array_size(array)), TUFF_OK);
    return array;
}

void expect_array(tuff_array *array, const void *expected)
{
    static unsigned char bytes[8192];
    const size_t size = (size_t)tuff_array_size(array);
    assert_true(size <= sizeof bytes);
    assert_int_equal(tuff_array_read(array, bytes, size), TUFF_OK);
    assert_memory_equal(bytes, expected, size);
}

void expect_output(tuff_plan *plan, const char *name, const void *expected, size_t size)
{
    static unsigned char bytes[8192];
    assert_true(size <= sizeof bytes);
    if (tuff_plan_read(plan, name, bytes, size) != TUFF_OK)
        fail_msg("%s", tuff_error());
    assert_memory_equal(bytes, expected, size);
}

int count_tasks(const tuff_plan *plan, const char *kind, const char *name)
{
    tuff_plan_info info;
    int count = 0;
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
        count += strcmp(task.kind, kind) == 0 && (!name || strcmp(task.program, name) == 0);
    }
    return count;
}

tuff_tensor *reversed(tuff_tensor *x)
{
    const int64_t count = tuff_tensor_shape(x).extent[0];
    return tuff_slice(x, &(int64_t){count - 1}, &(int64_t){-1}, &(int64_t){-1});
}

void expect_error(tuff_status status, tuff_status expected, const char *part)
{
    if (status != expected || !strstr(tuff_error(), part))
        fail_msg("%s: \"%s\", not %s with \"%s\"", tuff_status_name(status), tuff_error(), tuff_status_name(expected),
                 part);
}
