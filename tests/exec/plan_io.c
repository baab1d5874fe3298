/* Inputs and outputs of plans by index and in part, on every device, and a thread's last error. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

static void expect_described(const tuff_plan_value *value, const char *name, tuff_dtype dtype, tuff_shape shape,
                             uint64_t size)
{
    assert_string_equal(value->name, name);
    assert_int_equal(value->dtype, dtype);
    assert_true(tuff_shape_equal(value->shape, shape));
    assert_int_equal(value->size, size);
}

/* Two used inputs with an unused one between them; three outputs. */
static void build(tuff_graph *graph)
{
    tuff_tensor *rows = tuff_input(graph, "rows", TUFF_F32, TUFF_SHAPE(2, 3));
    (void)tuff_input(graph, "unused", TUFF_F32, TUFF_SHAPE(7));
    tuff_tensor *scale = tuff_input(graph, "scale", TUFF_F16, TUFF_SCALAR);
    tuff_tensor *scaled = tuff_mul(rows, tuff_cast(scale, TUFF_F32));
    tuff_output(graph, "scaled", scaled);
    tuff_output(graph, "half", tuff_cast(scaled, TUFF_F16));
    tuff_output(graph, "total", tuff_sum(scaled, (int[]){0, 1}, 2, false));
}

static void list_values(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan_value value = {.name = NULL};
    build(graph);
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_input_count(plan), 3);
    assert_int_equal(tuff_plan_output_count(plan), 3);
    assert_int_equal(tuff_plan_input_at(plan, 0, &value), TUFF_OK);
    expect_described(&value, "rows", TUFF_F32, TUFF_SHAPE(2, 3), 24);
    assert_int_equal(tuff_plan_input_at(plan, 1, &value), TUFF_OK);
    expect_described(&value, "unused", TUFF_F32, TUFF_SHAPE(7), 28);
    assert_int_equal(tuff_plan_input_at(plan, 2, &value), TUFF_OK);
    expect_described(&value, "scale", TUFF_F16, TUFF_SCALAR, 2);
    assert_int_equal(tuff_plan_output_at(plan, 0, &value), TUFF_OK);
    expect_described(&value, "scaled", TUFF_F32, TUFF_SHAPE(2, 3), 24);
    assert_int_equal(tuff_plan_output_at(plan, 1, &value), TUFF_OK);
    expect_described(&value, "half", TUFF_F16, TUFF_SHAPE(2, 3), 12);
    assert_int_equal(tuff_plan_output_at(plan, 2, &value), TUFF_OK);
    expect_described(&value, "total", TUFF_F32, TUFF_SCALAR, 4);
    assert_int_equal(tuff_plan_find_input(plan, "scale"), 2);
    assert_int_equal(tuff_plan_find_output(plan, "total"), 2);
    destroy_plan(plan, graph);
}

static void inputs_and_outputs_are_listed(void **state)
{
    (void)state;
    for_each_device(list_values);
}

#define MAX_REFUSED(call, word)                               \
    do {                                                      \
        assert_int_equal(call, TUFF_E_USAGE);                 \
        assert_int_equal(tuff_last_status(), TUFF_E_USAGE);   \
        if (strstr(tuff_error(), word) == NULL)               \
            fail_msg("no \"%s\" in: %s", word, tuff_error()); \
    } while (0)

static void find_wrongly(const tuff_plan *plan)
{
    tuff_plan_value value;
    MAX_REFUSED(tuff_plan_input_at(plan, 3, &value), "the plan has 3");
    MAX_REFUSED(tuff_plan_input_at(plan, -1, &value), "input index -1");
    MAX_REFUSED(tuff_plan_output_at(plan, 3, &value), "output index 3");
    MAX_REFUSED(tuff_plan_input_at(NULL, 0, &value), "plan is NULL");
    MAX_REFUSED(tuff_plan_output_at(plan, 0, NULL), "value is NULL");
    assert_int_equal(tuff_plan_input_count(NULL), -1);
    assert_int_equal(tuff_plan_output_count(NULL), -1);
    assert_int_equal(tuff_plan_find_input(plan, "total"), -1);
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_non_null(strstr(tuff_error(), "no input \"total\""));
    assert_int_equal(tuff_plan_find_output(plan, "rows"), -1);
    assert_non_null(strstr(tuff_error(), "no output \"rows\""));
    assert_int_equal(tuff_plan_find_input(NULL, "rows"), -1);
    assert_int_equal(tuff_plan_find_output(plan, NULL), -1);
}

static void transfer_wrongly(tuff_device *device)
{
    float data[8] = {0};
    const uint16_t one = 0x3c00;
    tuff_graph *graph = tuff_graph_create(device);
    build(graph);
    tuff_plan *plan = compile_plan(graph);
    find_wrongly(plan);
    MAX_REFUSED(tuff_plan_write_at(plan, 3, 0, data, 4), "input index 3 is out of range");
    MAX_REFUSED(tuff_plan_write_at(plan, 0, 0, data, 28), "24 bytes");
    MAX_REFUSED(tuff_plan_write_at(plan, 0, 24, data, 4), "offset 24");
    MAX_REFUSED(tuff_plan_write_at(plan, 0, UINT64_MAX - 3, data, 8), "24 bytes");
    MAX_REFUSED(tuff_plan_write_at(plan, 0, 2, data, 4), "not whole elements of f32");
    MAX_REFUSED(tuff_plan_write_at(plan, 2, 0, data, 1), "not whole elements of f16");
    MAX_REFUSED(tuff_plan_write_at(plan, 0, 0, NULL, 4), "data is NULL");
    MAX_REFUSED(tuff_plan_write_at(NULL, 0, 0, data, 4), "plan is NULL");
    /* The refused calls wrote nothing, and writing nothing succeeds. */
    assert_int_equal(tuff_plan_write_at(plan, 2, 0, &one, sizeof one), TUFF_OK);
    assert_int_equal(tuff_plan_write_at(plan, 1, 4, data, 8), TUFF_OK);
    assert_int_equal(tuff_plan_write_at(plan, 0, 24, NULL, 0), TUFF_OK);
    MAX_REFUSED(tuff_plan_run(plan), "\"rows\"");
    assert_int_equal(tuff_plan_write_at(plan, 0, 0, data, 4), TUFF_OK);
    MAX_REFUSED(tuff_plan_read_at(plan, 0, 0, data, 4), "has not been run");
    run_plan(plan);
    MAX_REFUSED(tuff_plan_read_at(plan, 3, 0, data, 4), "output index 3 is out of range");
    MAX_REFUSED(tuff_plan_read_at(plan, 1, 8, data, 6), "12 bytes");
    MAX_REFUSED(tuff_plan_read_at(plan, 1, 1, data, 2), "not whole elements of f16");
    MAX_REFUSED(tuff_plan_read_at(plan, 0, 0, NULL, 4), "data is NULL");
    MAX_REFUSED(tuff_plan_read_at(NULL, 0, 0, data, 4), "plan is NULL");
    assert_int_equal(tuff_plan_read_at(plan, 0, 24, NULL, 0), TUFF_OK);
    destroy_plan(plan, graph);
}

static void wrong_parts_are_refused(void **state)
{
    (void)state;
    for_each_device(transfer_wrongly);
}

/* The first partial write leaves zeros around it, later ones keep the other elements, and a run sees what was written
   before it. */
static void write_parts(tuff_device *device)
{
    const float two[] = {5, 6}, one = 9, first[] = {0, 0, 10, 12, 0, 0}, then[] = {0, 0, 10, 18, 0, 0};
    const int8_t bytes[] = {1, -2, 3};
    const int32_t wide[] = {0, 1, -2, 3, 0};
    int32_t last;
    float middle[2];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(6));
    tuff_tensor *narrow = tuff_input(graph, "narrow", TUFF_I8, TUFF_SHAPE(5));
    tuff_output(graph, "twice", tuff_add(x, x));
    tuff_output(graph, "wide", tuff_cast(narrow, TUFF_I32));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write_at(plan, 0, 8, two, sizeof two), TUFF_OK);
    assert_int_equal(tuff_plan_write_at(plan, 1, 1, bytes, sizeof bytes), TUFF_OK);
    run_plan(plan);
    expect_output(plan, "twice", first, sizeof first);
    expect_output(plan, "wide", wide, sizeof wide);
    run_plan(plan);
    assert_int_equal(tuff_plan_write_at(plan, 0, 12, &one, sizeof one), TUFF_OK); /* must not affect the run before */
    assert_int_equal(tuff_plan_read_at(plan, 0, 8, middle, sizeof middle), TUFF_OK);
    assert_memory_equal(middle, first + 2, sizeof middle);
    run_plan(plan);
    expect_output(plan, "twice", then, sizeof then);
    assert_int_equal(tuff_plan_read_at(plan, 1, 12, &last, sizeof last), TUFF_OK);
    assert_int_equal(last, 3);
    destroy_plan(plan, graph);
}

static void parts_are_written_and_read(void **state)
{
    (void)state;
    for_each_device(write_parts);
}

/* Writing zero bytes counts as writing an input without elements. */
static void write_nothing(tuff_device *device)
{
    const float zero = 0;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(0, 4));
    tuff_output(graph, "sum", tuff_sum(x, (int[]){0, 1}, 2, false));
    tuff_output(graph, "same", tuff_add(x, x));
    tuff_plan *plan = compile_plan(graph);
    MAX_REFUSED(tuff_plan_run(plan), "never written");
    assert_int_equal(tuff_plan_write_at(plan, 0, 0, NULL, 0), TUFF_OK);
    run_plan(plan);
    expect_output(plan, "sum", &zero, sizeof zero);
    assert_int_equal(tuff_plan_read_at(plan, 1, 0, NULL, 0), TUFF_OK);
    destroy_plan(plan, graph);
}

static void empty_inputs_are_written_by_nothing(void **state)
{
    (void)state;
    for_each_device(write_nothing);
}

/* Returns its argument if all is as expected. */
static void *check_thread_errors(void *given)
{
    const bool fresh = tuff_last_status() == TUFF_OK && tuff_error()[0] == '\0';
    tuff_device_close(tuff_device_open("nothing"));
    return fresh && tuff_last_status() == TUFF_E_NO_DEVICE ? given : NULL;
}

/* Functions that return NULL set one status per cause, kept per thread until the next failure. */
static void check_causes(tuff_device *device)
{
    tuff_device_info info;
    pthread_t thread;
    void *was_right = NULL;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device);
    assert_null(tuff_compile(graph, NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_null(tuff_array_create(device, TUFF_F64, TUFF_SHAPE(2)));
    assert_int_equal(tuff_last_status(), TUFF_E_DTYPE);
    assert_null(tuff_array_create(device, TUFF_U8, TUFF_SHAPE((int64_t)info.max_allocation + 1)));
    assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
    tuff_output(graph, "y",
                tuff_matmul(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2, 3)),
                            tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(4, 5))));
    assert_null(tuff_compile(graph, NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_SHAPE);
    tuff_graph_destroy(graph);
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SCALAR);
    assert_non_null(array);
    assert_int_equal(tuff_last_status(), TUFF_E_SHAPE); /* a success does not reset it */
    tuff_array_destroy(array);
    assert_int_equal(pthread_create(&thread, NULL, check_thread_errors, &info), 0);
    assert_int_equal(pthread_join(thread, &was_right), 0);
    assert_non_null(was_right);
    assert_int_equal(tuff_last_status(), TUFF_E_SHAPE);
}

static void the_last_status_tells_why(void **state)
{
    (void)state;
    for_each_device(check_causes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_and_outputs_are_listed), cmocka_unit_test(wrong_parts_are_refused),
        cmocka_unit_test(parts_are_written_and_read),    cmocka_unit_test(empty_inputs_are_written_by_nothing),
        cmocka_unit_test(the_last_status_tells_why),
    };
    return cmocka_run_group_tests_name("plan_io", tests, use_fresh_cache, drop_cache);
}
