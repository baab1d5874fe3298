/* CLBlast as a plan's library if it fails, is wrong or is missing: a clear error, nothing leaked, and the device still
   works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "tuff.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#include "device/state.h"
#include "exec/plan.h"

static clblast_api real;
static int answer;

static int fake_sgemm(int layout, int a_form, int b_form, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                      size_t a_start, size_t a_line, cl_mem b, size_t b_start, size_t b_line, float beta, cl_mem c,
                      size_t c_start, size_t c_line, cl_command_queue *queue, cl_event *event)
{
    (void)layout, (void)a_form, (void)b_form, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)a_start;
    (void)a_line, (void)b, (void)b_start, (void)b_line, (void)beta, (void)c, (void)c_start, (void)c_line, (void)queue;
    (void)event;
    return answer;
}

static tuff_plan *compile_square(tuff_graph *graph)
{
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2, 2));
    tuff_output(graph, "y", tuff_matmul(x, x));
    return tuff_compile(graph, &(tuff_compile_options){.matmul_library = TUFF_MATMUL_CLBLAST});
}

static tuff_status run_square(tuff_plan *plan)
{
    static const float x[] = {1, 2, 3, 4}, wanted[] = {7, 10, 15, 22};
    float y[4] = {0};
    tuff_status status = tuff_plan_write(plan, "x", x, sizeof x);
    if (status == TUFF_OK)
        status = tuff_plan_run(plan);
    if (status == TUFF_OK)
        status = tuff_plan_read(plan, "y", y, sizeof y);
    if (status == TUFF_OK)
        assert_memory_equal(y, wanted, sizeof y);
    return status;
}

static void check_failures(tuff_device *device)
{
    static const struct {
        int answer;
        tuff_status status;
        const char *text;
    } cases[] = {{CL_OUT_OF_RESOURCES, TUFF_E_OOM_DEVICE, "CL_OUT_OF_RESOURCES"},
                 {-2045, TUFF_E_UNSUPPORTED, "-2045"},
                 {0, TUFF_E_UNSUPPORTED, "no event"}};
    if (tuff__device_library_unavailable_reason(device)) {
        leave_out_device(tuff__device_library_unavailable_reason(device));
        return;
    }
    real = tuff__clblast;
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_plan *plan = compile_square(graph);
    assert_non_null(plan);
    assert_int_equal(run_square(plan), TUFF_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        answer = cases[i].answer;
        tuff__clblast.sgemm = fake_sgemm;
        assert_int_equal(run_square(plan), cases[i].status);
        assert_non_null(strstr(tuff_error(), "CLBlast"));
        assert_non_null(strstr(tuff_error(), cases[i].text));
        tuff__clblast = real;
        assert_int_equal(run_square(plan), TUFF_OK);
    }
    answer = -9999; /* NVIDIA's, which CLBlast passes on */
    tuff__clblast.sgemm = fake_sgemm;
    assert_int_equal(run_square(plan), TUFF_E_DEVICE_LOST);
    tuff__clblast = real;
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void failures_are_told(void **unused)
{
    (void)unused;
    for_each_driver(check_failures);
}

/* The old content of the result's memory does not matter, even though CLBlast's sgemv multiplies it by 0. */
static void check_leftovers(tuff_device *device)
{
    enum { INNER = 3, COLUMNS = 5 };
    static const float bad[INNER] = {NAN, NAN, NAN}, good[INNER] = {1, 2, 3};
    float w[INNER * COLUMNS], y[COLUMNS];
    if (tuff__device_library_unavailable_reason(device)) {
        leave_out_device(tuff__device_library_unavailable_reason(device));
        return;
    }
    for (int i = 0; i < INNER * COLUMNS; i++)
        w[i] = (float)i;
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1, INNER));
    tuff_output(graph, "y", tuff_matmul(x, tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS))));
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.matmul_library = TUFF_MATMUL_CLBLAST});
    assert_non_null(plan);
    assert_int_equal(tuff_plan_write(plan, "w", w, sizeof w), TUFF_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tuff_plan_write(plan, "x", i == 0 ? bad : good, sizeof bad), TUFF_OK);
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
        assert_int_equal(tuff_plan_read(plan, "y", y, sizeof y), TUFF_OK);
    }
    for (int i = 0; i < COLUMNS; i++)
        assert_true(y[i] == (float)(1 * i + 2 * (COLUMNS + i) + 3 * (2 * COLUMNS + i)));
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void leftovers_do_not_matter(void **unused)
{
    (void)unused;
    for_each_driver(check_leftovers);
}

static cl_event first_of_two;

/* Like CLBlast with copies into padded memory: several kernels, and the event of the last one. */
static int sgemm_in_two(int layout, int a_form, int b_form, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                        size_t a_start, size_t a_line, cl_mem b, size_t b_start, size_t b_line, float beta, cl_mem c,
                        size_t c_start, size_t c_line, cl_command_queue *queue, cl_event *event)
{
    const int status = real.sgemm(layout, a_form, b_form, m, n, k, alpha, a, a_start, a_line, b, b_start, b_line, beta,
                                  c, c_start, c_line, queue, &first_of_two);
    return status != 0 ? status
                       : real.sgemm(layout, a_form, b_form, m, n, k, alpha, a, a_start, a_line, b, b_start, b_line,
                                    beta, c, c_start, c_line, queue, event);
}

/* If a call is the first command of its recording, there is no command before it from whose end its time could be
   measured. */
static void check_times(tuff_device *device)
{
    cl_ulong begin, end;
    uint64_t time;
    if (tuff__device_library_unavailable_reason(device)) {
        leave_out_device(tuff__device_library_unavailable_reason(device));
        return;
    }
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_plan *plan = compile_square(graph);
    assert_non_null(plan);
    assert_int_equal(run_square(plan), TUFF_OK);
    assert_int_equal(plan->executable.command_count, 1);
    assert_int_equal(plan->executable.commands[0].kind, COMMAND_LIBRARY_GEMM);
    recording *timed;
    assert_int_equal(tuff__recording_create(device, plan->executable.commands, 1, false, true, &timed), TUFF_OK);
    real = tuff__clblast;
    tuff__clblast.sgemm = sgemm_in_two;
    assert_int_equal(tuff__submit(device, timed), TUFF_OK);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    tuff__clblast = real;
    assert_int_equal(tuff__timestamps(device, timed, &time), TUFF_OK);
    assert_int_equal(
        tuff__cl.GetEventProfilingInfo(first_of_two, CL_PROFILING_COMMAND_START, sizeof begin, &begin, NULL),
        CL_SUCCESS);
    assert_int_equal(tuff__cl.GetEventProfilingInfo(first_of_two, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL),
                     CL_SUCCESS);
    assert_true(end > begin);
    assert_true(time > end - begin);
    tuff__cl.ReleaseEvent(first_of_two);
    tuff__recording_destroy(device, timed);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void all_kernels_of_a_call_are_timed(void **unused)
{
    (void)unused;
    for_each_driver(check_times);
}

static void check_absence(tuff_device *device)
{
    if (tuff__device_library_unavailable_reason(device)) {
        leave_out_device(tuff__device_library_unavailable_reason(device));
        return;
    }
    real = tuff__clblast;
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff__clblast.sgemm_batched = NULL;
    assert_null(compile_square(graph));
    assert_non_null(strstr(tuff_error(), "libclblast"));
    tuff__clblast = real;
    tuff_graph_destroy(graph);
}

static void a_missing_library_is_told(void **unused)
{
    (void)unused;
    for_each_driver(check_absence);
}

static const driver *calls;
static int questions;

static const char *count_questions(driver_device *device)
{
    questions++;
    return calls->library_unavailable_reason(device);
}

/* Opening it takes time and memory, and what it opens in turn. */
static void check_idleness(tuff_device *device)
{
    if (!device->driver->library_unavailable_reason) {
        leave_out_device("its API has no library");
        return;
    }
    driver counting = *device->driver;
    calls = device->driver;
    counting.library_unavailable_reason = count_questions;
    device->driver = &counting;
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2, 2));
    tuff_output(graph, "y", tuff_matmul(x, x));
    questions = 0;
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(run_square(plan), TUFF_OK);
    assert_int_equal(questions, 0);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    device->driver = calls;
}

static void a_plan_without_it_does_not_open_it(void **unused)
{
    (void)unused;
    for_each_driver(check_idleness);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(failures_are_told), cmocka_unit_test(leftovers_do_not_matter),
                                       cmocka_unit_test(all_kernels_of_a_call_are_timed),
                                       cmocka_unit_test(a_missing_library_is_told),
                                       cmocka_unit_test(a_plan_without_it_does_not_open_it)};
    return cmocka_run_group_tests_name("library", tests, use_fresh_cache, drop_cache);
}
#else
static void there_is_none(tuff_device *device)
{
    assert_non_null(tuff__device_library_unavailable_reason(device));
}

static void without_opencl_there_is_no_library(void **unused)
{
    (void)unused;
    for_each_device(there_is_none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_opencl_there_is_no_library)};
    return cmocka_run_group_tests_name("library", tests, use_fresh_cache, drop_cache);
}
#endif
