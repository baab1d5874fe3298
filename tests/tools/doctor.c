/* tuff doctor on a driver that returns other numbers than kernels computed: it reports that and fails. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_device.h"
#include "opencl_replaced.h"
#include "tools/verbs.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
static opencl_api truth;
static int reads;

static cl_int CL_API_CALL read_wrong(cl_command_queue queue, cl_mem memory, cl_bool blocks, size_t offset, size_t size,
                                     void *data, cl_uint count, const cl_event *list, cl_event *event)
{
    const cl_int error = truth.EnqueueReadBuffer(queue, memory, blocks, offset, size, data, count, list, event);
    for (size_t i = 0; i < size; i += 4)
        ((uint8_t *)data)[i] ^= 0x81;
    reads++;
    return error;
}

static void wrong_results_are_told(void **state)
{
    (void)state;
    char device[] = "--device", opencl[] = "opencl", seconds[] = "--seconds", one[] = "1";
    char *arguments[] = {device, opencl, seconds, one};
    tuff_device *tried = open_replaceable();
    if (!tried)
        skip();
    tuff_device_close(tried);
    truth = tuff__cl;
    tuff__cl.EnqueueReadBuffer = read_wrong;
    const int code = verb_doctor.run(4, arguments);
    tuff__cl = truth;
    assert_true(reads > 0);
    assert_int_equal(code, EXIT_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_results_are_told, use_empty_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
