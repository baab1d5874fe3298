/* Drivers that compile what a group has no room for, and say so only when asked: it is refused by name, before it runs,
   and the device goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "device/opencl/api.h"
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
        memcpy(out, &answer, size); /* a cl_ulong, or the size_t of the same bytes */
    return error;
}

/* The status of compiling what was compiled before on no device of this process. */
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

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    real_info = tuff__cl.GetKernelWorkGroupInfo;
    tuff__cl.GetKernelWorkGroupInfo = lie;
    lied_about = CL_KERNEL_LOCAL_MEM_SIZE;
    answer = (cl_ulong)1 << 40;
    const tuff_status local = compile(device, 1001);
    const bool names_memory = strstr(tuff_error(), "1099511627776 bytes of local memory") != NULL;
    lied_about = CL_KERNEL_WORK_GROUP_SIZE;
    answer = 0;
    const tuff_status group = compile(device, 1003);
    tuff__cl.GetKernelWorkGroupInfo = real_info;
    assert_int_equal(local, TUFF_E_LIMIT);
    assert_true(names_memory);
    assert_int_equal(group, TUFF_E_LIMIT);
    assert_int_equal(compile(device, 1003), TUFF_OK);
    tuff_device_close(device);
}

/* Of kernels that take all local memory NVIDIA's driver says that they take 16 bytes more. */
static void what_the_driver_adds_is_allowed(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    real_info = tuff__cl.GetKernelWorkGroupInfo;
    tuff__cl.GetKernelWorkGroupInfo = lie;
    lied_about = CL_KERNEL_LOCAL_MEM_SIZE;
    answer = tuff__device_info(device)->local_memory_size + 16;
    const tuff_status refused = compile(device, 1005);
    device->handle->local_overhead = 16;
    const tuff_status allowed = compile(device, 1007);
    answer += 1;
    const tuff_status beyond = compile(device, 1009);
    tuff__cl.GetKernelWorkGroupInfo = real_info;
    assert_int_equal(refused, TUFF_E_LIMIT);
    assert_int_equal(allowed, TUFF_OK);
    assert_int_equal(beyond, TUFF_E_LIMIT);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(what_the_driver_adds_is_allowed, use_fresh_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
