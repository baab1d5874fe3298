/* tuff verify FILE: a device that computes a graph correctly passes, one whose kernels leave part of a result unwritten
   fails, and data from a file replaces random values. What counts as wrong is tested with numbers alone. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <unistd.h>

#include <cmocka.h>

#include "each_device.h"
#include "opencl_replaced.h"
#include "scratch_folder.h"
#include "tools/verbs.h"
#include "tools/verify/graph_result.h"
#include "tools/verify/verify_graph.h"

enum { COUNT = 5000 };

/* Saves a graph with an input, outputs of several kinds, and arrays that a run changes, one of which is never named. */
static void save_graph(tuff_device *device, tuff_precision precision)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(COUNT)),
               *counter = tuff_array_create(device, TUFF_I32, TUFF_SCALAR);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(COUNT)), *before = tuff_array_tensor(graph, array),
                *step = tuff_array_tensor(graph, counter);
    tuff_graph_step(graph, counter);
    tuff_output(graph, "y", tuff_tanh(tuff_add(x, before)));
    tuff_output(graph, "dropped", tuff_dropout(x, 0.5));
    tuff_output(graph, "large", tuff_cast(tuff_mul(x, tuff_constant(graph, TUFF_F32, 1e5)), TUFF_F16));
    tuff_output(graph, "order", tuff_cast(tuff_mul(x, tuff_constant(graph, TUFF_F32, 100)), TUFF_I32));
    tuff_output(graph, "nothing", tuff_slice(x, (int64_t[]){0}, (int64_t[]){0}, NULL));
    tuff_output(graph, "root", tuff_sqrt(tuff_sub(x, tuff_add(x, tuff_constant(graph, TUFF_F32, 1)))));
    tuff_assign(graph, array, tuff_add(before, tuff_mul(x, x)));
    tuff_assign(graph, counter, tuff_add(step, tuff_constant(graph, TUFF_I32, 1)));
    const char *names[] = {"sums"};
    const tuff_compile_options compile = {.precision = precision};
    if (tuff_graph_save(graph, scratch_path("graph"),
                        &(tuff_graph_save_options){
                            .compile = &compile, .arrays = &array, .names = names, .array_count = 1}) != TUFF_OK)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    tuff_array_destroy(array);
    tuff_array_destroy(counter);
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
    assert_non_null(strstr(tuff_error(), "\"x\" is f32 [4999] in the data, and f32 [5000] in the graph"));
    assert_int_equal(verify_file(device, TUFF_I32, COUNT, "sums"), EXIT_FAILED);
    assert_non_null(strstr(tuff_error(), "\"sums\" is i32"));
    assert_int_equal(verify_file(device, TUFF_F32, COUNT, "others"), EXIT_FAILED);
    assert_non_null(strstr(tuff_error(), "no tensor has the name"));
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

/* Returns what a verification that fails prints. */
static char *capture_verification(tuff_device *device)
{
    size_t size;
    FILE *to = fopen(scratch_path("printed"), "w");
    assert_non_null(to);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    dup2(fileno(to), STDOUT_FILENO);
    const int code = verify_saved(device, NULL);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    fclose(to);
    assert_int_equal(code, EXIT_FAILED);
    return scratch_read("printed", &size);
}

static void expect_result(const char *printed, const char *name, const char *result)
{
    const char *line = strstr(printed, name);
    assert_non_null(line);
    const char *end = strchr(line, '\n'), *found = strstr(line, result);
    if (!found || found > end)
        fail_msg("%.*s: not %s", (int)(end - line), line, result);
}

static void unwritten_results_are_found(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    save_graph(device, TUFF_PRECISION_F32);
    replace_creation(create_wrong);
    char *printed = capture_verification(device);
    restore_creation();
    expect_result(printed, "output y ", "FAILED");
    expect_result(printed, "array sums ", "FAILED");
    expect_result(printed, "array number 1 ", "ok"); /* a single group */
    assert_non_null(strstr(printed, "elements are wrong: element "));
    free(printed);
    tuff_device_close(device);
}
#endif

enum { PARTS = 3, ELEMENTS = PARTS * GRAPH_RESULT_PART };

/* Compares ELEMENTS numbers of an array that was `begin` everywhere, in which element `at` is `got` instead of `value`,
   and all others are right. noise: of that element. */
static graph_result compare_one(tuff_dtype dtype, double begin, double value, double noise, double got)
{
    enum { AT = 2 * GRAPH_RESULT_PART + 3 };
    static double numbers[ELEMENTS], moved[ELEMENTS];
    graph_result result = {.name = "r", .is_array = true, .dtype = dtype, .shape = TUFF_SHAPE(ELEMENTS)};
    assert_int_equal(graph_result_make(&result), TUFF_OK);
    for (int i = 0; i < ELEMENTS; i++) {
        result.begin[i] = i == AT ? begin : 0;
        result.value[i] = numbers[i] = moved[i] = i == AT ? value : i < GRAPH_RESULT_PART ? 1000 : 1;
    }
    moved[AT] += noise;
    numbers[AT] = got;
    graph_result_clear_noise(&result);
    graph_result_add_noise(&result, moved);
    graph_result_compare(&result, numbers, 1);
    graph_result_free(&result);
    return result;
}

static bool is_wrong(tuff_dtype dtype, double value, double noise, double got)
{
    return compare_one(dtype, 0, value, noise, got).wrong > 0;
}

static void wrong_elements_are_counted(void **state)
{
    (void)state;
    /* A fraction of the largest element of the same part, not of the tensor. */
    assert_false(is_wrong(TUFF_F32, 0.5, 0, 0.50005));
    assert_true(is_wrong(TUFF_F32, 0.5, 0, 0.502));
    assert_true(is_wrong(TUFF_F32, 0.5, 0, 0));
    assert_false(is_wrong(TUFF_F32, 0.5, 0.01, 0.502));
    assert_true(is_wrong(TUFF_F32, 0.5, 0.01, 0.6));
    /* Numbers that are not finite. */
    assert_false(is_wrong(TUFF_F32, NAN, 0, NAN));
    assert_true(is_wrong(TUFF_F32, NAN, 0, 1));
    assert_true(is_wrong(TUFF_F32, 1, 0, NAN));
    assert_true(is_wrong(TUFF_F32, 1, 0, INFINITY));
    assert_false(is_wrong(TUFF_F32, 1, NAN, NAN));
    assert_false(is_wrong(TUFF_F16, 70000, 0, INFINITY));
    assert_true(is_wrong(TUFF_F16, 60000, 0, INFINITY));
    assert_false(is_wrong(TUFF_F32, -INFINITY, 0, -INFINITY));
    assert_true(is_wrong(TUFF_F32, -INFINITY, 0, INFINITY));
    /* An array that began with an infinity is compared all the same. */
    assert_true(compare_one(TUFF_F32, INFINITY, 1, 0, 2).wrong > 0);
    assert_int_equal(compare_one(TUFF_F32, INFINITY, 1, 0, 1).wrong, 0);
    /* Integers are exact, unless rounding moves that element. */
    assert_true(is_wrong(TUFF_I32, 7, 0, 8));
    assert_false(is_wrong(TUFF_I32, 7, 1, 8));
}

static void weak_results_are_marked(void **state)
{
    (void)state;
    const graph_result one = compare_one(TUFF_F32, 0, 1, NAN, NAN), all = {.count = 10, .wide = 2, .largest = 1};
    assert_int_equal(one.wide, 1);
    assert_false(graph_result_says_little(&one));
    assert_true(graph_result_says_little(&all));
    assert_true(graph_result_says_little(&(graph_result){.count = 10}));
    assert_false(graph_result_says_little(&(graph_result){.count = 0}));
}

static int set_up(void **state)
{
    return use_empty_cache(state) || scratch_folder_make(state);
}

static int tear_down(void **state)
{
    return scratch_folder_remove(state) || drop_cache(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_elements_are_counted),
        cmocka_unit_test(weak_results_are_marked),
        cmocka_unit_test_setup_teardown(correct_devices_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_is_taken_by_name, set_up, tear_down),
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
        cmocka_unit_test_setup_teardown(unwritten_results_are_found, set_up, tear_down),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
