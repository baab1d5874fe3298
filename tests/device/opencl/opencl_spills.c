/* The register spills that OpenCL drivers report: none on a CPU, and the right number on one that is presented as a
   GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"

static const driver *const opencl = &tuff__driver_opencl;

static const char *extensions; /* that the device reports */
static opencl_api truth;

static cl_int CL_API_CALL gpu_info(cl_device_id device, cl_device_info parameter, size_t size, void *out,
                                   size_t *needed)
{
    const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    if (parameter == CL_DEVICE_TYPE)
        memcpy(out, &gpu, sizeof gpu);
    else if (parameter == CL_DEVICE_EXTENSIONS && out)
        memcpy(out, extensions, strlen(extensions) + 1);
    else if (parameter != CL_DEVICE_EXTENSIONS)
        return truth.GetDeviceInfo(device, parameter, size, out, needed);
    if (needed)
        *needed = parameter == CL_DEVICE_TYPE ? sizeof gpu : strlen(extensions) + 1;
    return CL_SUCCESS;
}

enum { PRIVATE_BYTES = 1600, INTEL_BYTES = 24, SPILL_MEM_SIZE_INTEL = 0x4109 };

static cl_int CL_API_CALL kernel_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info parameter,
                                      size_t size, void *out, size_t *needed)
{
    const cl_ulong bytes = parameter == CL_KERNEL_PRIVATE_MEM_SIZE ? PRIVATE_BYTES : INTEL_BYTES;
    if (parameter != CL_KERNEL_PRIVATE_MEM_SIZE && parameter != SPILL_MEM_SIZE_INTEL)
        return truth.GetKernelWorkGroupInfo(kernel, device, parameter, size, out, needed);
    assert_int_equal(size, sizeof bytes);
    memcpy(out, &bytes, sizeof bytes);
    return CL_SUCCESS;
}

static uint64_t spilled(driver_device *device, driver_program *program)
{
    uint64_t bytes = 12345;
    assert_int_equal(opencl->spilled_bytes(device, program, &bytes), TUFF_OK);
    return bytes;
}

/* Returns the spills of a kernel from source, and checks those of the same kernel from its binary. */
static uint64_t opencl_spills(int index)
{
    static const char text[] = "kernel void twice(global float *x, uint base) { x[get_global_id(0)] *= 2.0f; }";
    const program_request request = {"twice", text, 1, 1, 1, 0, false};
    driver_device *device;
    driver_program *program, *again;
    blob made = {0};
    assert_int_equal(opencl->open(index, &device), TUFF_OK);
    assert_int_equal(opencl->program_create(device, &request, (blob){0}, &made, &program), TUFF_OK);
    const uint64_t bytes = spilled(device, program);
    if (made.size > 0) {
        assert_int_equal(opencl->program_create(device, &request, made, NULL, &again), TUFF_OK);
        assert_true(spilled(device, again) == bytes);
        opencl->program_destroy(device, again);
    }
    opencl->program_destroy(device, program);
    tuff__free(made.data);
    opencl->close(device);
    return bytes;
}

static void opencl_tells_of_gpus_alone(void **state)
{
    (void)state;
    const char *absence;
    const int count = opencl->count(&absence);
    int cpu = -1;
    for (int i = 0; i < count; i++) {
        tuff_device_info info;
        assert_int_equal(opencl->describe(i, &info), TUFF_OK);
        if (info.device_class == TUFF_DEVICE_CPU)
            cpu = i;
    }
    if (cpu < 0)
        skip();
    truth = tuff__cl;
    tuff__cl.GetKernelWorkGroupInfo = kernel_info;
    assert_int_equal(opencl_spills(cpu), 0);
    tuff__cl.GetDeviceInfo = gpu_info;
    extensions = "cl_khr_fp16 cl_intel_required_subgroup_sizes";
    assert_int_equal(opencl_spills(cpu), PRIVATE_BYTES);
    extensions = "cl_khr_fp16 cl_intel_required_subgroup_size";
    assert_int_equal(opencl_spills(cpu), INTEL_BYTES);
    tuff__cl = truth;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opencl_tells_of_gpus_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
