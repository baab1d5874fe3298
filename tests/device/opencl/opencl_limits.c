/* Drivers that compile kernels that exceed a group's limits and only report it when queried: such a kernel is refused
   by name before it runs, and the device keeps working. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "device/state.h"
#include "each_device.h"
#include "opencl_replaced.h"
#include "tuff.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
static cl_kernel_work_group_info lied_about;
static cl_ulong answer;

typedef cl_int CL_API_CALL info_call(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info parameter,
                                     size_t size, void *out, size_t *needed);
static info_call *real_info;

static cl_int CL_API_CALL lie(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info parameter, size_t size,
                              void *out, size_t *needed)
{
    const cl_int error = real_info(kernel, device, parameter, size, out, needed);
    if (error == CL_SUCCESS && parameter == lied_about)
        memcpy(out, &answer, size); /* a cl_ulong, or a size_t of the same size */
    return error;
}

/* Returns the status of compiling a graph; each count gives a kernel that no device of this process compiled before. */
static tuff_status compile(tuff_device *device, int64_t count)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(count));
    tuff_output(graph, "y", tuff_add(x, x));
    tuff_plan *plan =
        tuff_compile(graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
    const tuff_status status = plan ? TUFF_OK : tuff_last_status();
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return status;
}

/* The same while the driver reports another value about its kernels. */
static tuff_status compile_under_lie(tuff_device *device, int64_t count, cl_kernel_work_group_info about,
                                     cl_ulong instead)
{
    lied_about = about;
    answer = instead;
    real_info = tuff__cl.GetKernelWorkGroupInfo;
    tuff__cl.GetKernelWorkGroupInfo = lie;
    const tuff_status status = compile(device, count);
    tuff__cl.GetKernelWorkGroupInfo = real_info;
    return status;
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    assert_int_equal(compile_under_lie(device, 1001, CL_KERNEL_LOCAL_MEM_SIZE, (cl_ulong)1 << 40), TUFF_E_LIMIT);
    assert_non_null(strstr(tuff_error(), "1099511627776 bytes of local memory"));
    assert_int_equal(compile_under_lie(device, 1003, CL_KERNEL_WORK_GROUP_SIZE, 0), TUFF_E_LIMIT);
    assert_int_equal(compile(device, 1003), TUFF_OK);
    tuff_device_close(device);
}

/* For kernels that use all local memory NVIDIA's driver reports 16 bytes more. */
static void what_the_driver_adds_is_allowed(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    const cl_ulong room = tuff__device_info(device)->local_memory_size;
    assert_int_equal(compile_under_lie(device, 1005, CL_KERNEL_LOCAL_MEM_SIZE, room + 16), TUFF_E_LIMIT);
    device->handle->local_overhead = 16;
    assert_int_equal(compile_under_lie(device, 1007, CL_KERNEL_LOCAL_MEM_SIZE, room + 16), TUFF_OK);
    assert_int_equal(compile_under_lie(device, 1009, CL_KERNEL_LOCAL_MEM_SIZE, room + 17), TUFF_E_LIMIT);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(what_the_driver_adds_is_allowed, use_empty_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
