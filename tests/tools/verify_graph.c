/* tuff verify FILE: a device that computes a graph correctly passes, one whose kernels leave part of a result unwritten
   fails, and data from a file replaces random values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "opencl_replaced.h"
#include "scratch_folder.h"
#include "tools/verbs.h"
#include "tools/verify/verify_graph.h"

enum { COUNT = 5000 };

/* Saves a graph with an input, an output, and an array that a run changes. */
static void save_graph(tuff_device *device, tuff_precision precision)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(COUNT));
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(COUNT)), *before = tuff_array_tensor(graph, array);
    tuff_output(graph, "y", tuff_tanh(tuff_add(x, before)));
    tuff_assign(graph, array, tuff_add(before, tuff_mul(x, x)));
    const char *names[] = {"sums"};
    const tuff_compile_options compile = {.precision = precision};
    if (tuff_graph_save(graph, scratch_path("graph"),
                        &(tuff_graph_save_options){
                            .compile = &compile, .arrays = &array, .names = names, .array_count = 1}) != TUFF_OK)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    tuff_array_destroy(array);
}

/* Verifies the saved graph, with data if data is not NULL. */
static int verify_saved(tuff_device *device, const char *data)
{
    const graph_verification request = {.file = scratch_path("graph"), .data = data, .steps = 2};
    return verify_graph(&verb_verify, device, &request);
}

static void check_correct(tuff_device *device)
{
    save_graph(device, TUFF_PRECISION_F32);
    assert_int_equal(verify_saved(device, NULL), EXIT_DONE);
    save_graph(device, TUFF_PRECISION_BF16);
    assert_int_equal(verify_saved(device, NULL), EXIT_DONE);
}

static void correct_devices_pass(void **state)
{
    (void)state;
    for_drawn_devices(check_correct);
}

static int verify_file(tuff_device *device, tuff_dtype dtype, int64_t count, const char *name)
{
    float values[COUNT] = {1};
    const tuff_file_tensor tensor = {.name = name,
                                     .dtype = dtype,
                                     .shape = TUFF_SHAPE(count),
                                     .data = values,
                                     .size = (uint64_t)count * tuff_dtype_size(dtype)};
    if (tuff_file_save(scratch_path("data"), &tensor, 1, NULL, NULL, 0) != TUFF_OK)
        fail_msg("%s", tuff_error());
    return verify_saved(device, scratch_path("data"));
}

static void data_is_taken_by_name(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    save_graph(device, TUFF_PRECISION_F32);
    assert_int_equal(verify_file(device, TUFF_F32, COUNT, "x"), EXIT_DONE);
    assert_int_equal(verify_file(device, TUFF_F32, COUNT, "sums"), EXIT_DONE);
    assert_int_equal(verify_file(device, TUFF_F32, COUNT - 1, "x"), EXIT_FAILED);
    assert_non_null(strstr(tuff_error(), "\"x\" is f32 of 19996 bytes in the data"));
    assert_int_equal(verify_file(device, TUFF_I32, COUNT, "sums"), EXIT_FAILED);
    assert_non_null(strstr(tuff_error(), "\"sums\" is i32"));
    assert_int_equal(verify_file(device, TUFF_F32, COUNT, "others"), EXIT_FAILED);
    assert_non_null(strstr(tuff_error(), "no tensor with the name"));
    assert_int_equal(verify_saved(device, scratch_path("missing")), EXIT_FAILED);
    tuff_device_close(device);
}

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
/* Every group computes what the first one should. */
static cl_program CL_API_CALL create_wrong(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                           cl_int *error)
{
    static const char own[] = "(uint)get_group_id(0)";
    static const char first[] = "0u";
    const char *at = count == 1 ? strstr(texts[0], own) : NULL;
    if (!at)
        return real_creation(context, count, texts, sizes, error);
    const char *parts[] = {texts[0], first, at + sizeof own - 1};
    const size_t lengths[] = {(size_t)(at - texts[0]), sizeof first - 1, strlen(at + sizeof own - 1)};
    return real_creation(context, 3, parts, lengths, error);
}

static void unwritten_results_are_found(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    save_graph(device, TUFF_PRECISION_F32);
    replace_creation(create_wrong);
    const int code = verify_saved(device, NULL);
    restore_creation();
    assert_int_equal(code, EXIT_FAILED);
    tuff_device_close(device);
}
#endif

static int set_up(void **state)
{
    return use_fresh_cache(state) || scratch_folder_make(state);
}

static int tear_down(void **state)
{
    return scratch_folder_remove(state) || drop_cache(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(correct_devices_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_is_taken_by_name, set_up, tear_down),
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
        cmocka_unit_test_setup_teardown(unwritten_results_are_found, set_up, tear_down),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
