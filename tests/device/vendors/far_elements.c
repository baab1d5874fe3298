/* Memory of more elements than 32-bit indices reach, on devices whose kernels bind whole buffers: values that would end
   beyond that limit are placed elsewhere, or refused. Large buffers of the fake driver have no memory behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "tuff.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "base/alloc.h"
#include "compile/lower/lower.h"
#include "device/state.h"
#include "fake_opencl.h"

#define GIB ((uint64_t)1 << 30)
#define LIMIT ((int64_t)1 << 31) /* elements */

static const fake_opencl_device devices[] = {{.platform = "ARM Platform",
                                              .platform_version = "OpenCL 3.0 v1.r38",
                                              .name = "Mali-G78",
                                              .version = "OpenCL 3.0 v1.r38",
                                              .language = "OpenCL C 3.0 v1.r38",
                                              .driver = "3.0",
                                              .extensions = "cl_khr_fp16",
                                              .vendor = 0x13b5,
                                              .units = 20,
                                              .unified = CL_TRUE,
                                              .memory = 64 * GIB,
                                              .allocation = 32 * GIB}};

enum { BUFFERS = 4 };

/* One launch with four tensors of two fifths of 2^31 elements each: kernels must reach all elements of all of them. */
static void temporaries_end_where_kernels_can_count_to(void **state)
{
    (void)state;
    const tuff_dtype dtypes[] = {TUFF_BOOL, TUFF_F16, TUFF_F32};
    for (int d = 0; d < 3; d++) {
        tuff_device_info info = {.max_allocation = 32 * GIB, .max_binding = 32 * GIB};
        memory_buffer buffers[BUFFERS];
        launch work = {.kind = LAUNCH_KERNEL, .chain.buffer_count = BUFFERS};
        for (int i = 0; i < BUFFERS; i++) {
            buffers[i] = (memory_buffer){.dtype = dtypes[d], .count = LIMIT / 5 * 2, .parent = -1};
            work.chain.buffers[i].id = i;
        }
        /* Planning without a budget allocates nothing. */
        launch_list list = {.buffers = buffers, .buffer_count = BUFFERS, .launches = &work, .launch_count = 1};
        list.policy.target.info = &info;
        assert_int_equal(tuff__plan_memory(&list), TUFF_OK);
        int behind = 0;
        for (int i = 0; i < BUFFERS; i++) {
            const uint64_t at = buffers[i].planned & (((uint64_t)1 << 48) - 1);
            assert_true(at / tuff_dtype_size(dtypes[d]) + (uint64_t)buffers[i].count < (uint64_t)LIMIT);
            behind += at > 0;
        }
        assert_int_equal(behind, BUFFERS / 2); /* two fit in a block */
    }
}

/* A bound range begins at an aligned offset, so that it includes the bytes before the array. */
static void ranges_with_what_is_before_an_array_fit_a_binding(void **state)
{
    (void)state;
    tuff_device_info info = {.max_allocation = GIB, .max_binding = 4096, .offset_alignment = 64};
    const uint64_t offsets[] = {0, 64, 32};
    for (int i = 0; i < 3; i++) {
        memory_buffer array = {.dtype = TUFF_F32, .count = 1024, .parent = -1, .fixed = true, .offset = offsets[i]};
        launch work = {.kind = LAUNCH_KERNEL, .chain.buffer_count = 1};
        launch_list list = {.buffers = &array, .buffer_count = 1, .launches = &work, .launch_count = 1};
        list.policy.target.info = &info;
        list.policy.target.binds_ranges = true;
        const tuff_status status = tuff__plan_memory(&list);
        assert_int_equal(status, offsets[i] % 64 == 0 ? TUFF_OK : TUFF_E_LIMIT);
        tuff__free(list.blocks);
    }
}

static tuff_status double_part(tuff_device *device, tuff_array *whole, int64_t offset)
{
    const tuff_tune_options tuning = {.mode = TUFF_TUNE_OFF};
    tuff_array *part = tuff_array_view(whole, offset, TUFF_SHAPE(64));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_array_tensor(graph, part);
    assert_non_null(x);
    tuff_assign(graph, part, tuff_add(x, x));
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.tuning = &tuning});
    const tuff_status status = plan ? TUFF_OK : tuff_last_status();
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_array_destroy(part);
    return status;
}

static void arrays_end_where_kernels_can_count_to(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("opencl:0");
    if (!device)
        fail_msg("%s", tuff_error());
    device->info.loop_limit = 0; /* the self-test takes a device that computes nothing for one with a loop limit */
    tuff_array *whole = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(LIMIT / 2 * 3));
    assert_non_null(whole);
    assert_int_equal(double_part(device, whole, LIMIT - 65), TUFF_OK);
    assert_int_equal(double_part(device, whole, LIMIT - 60), TUFF_E_LIMIT);
    assert_int_equal(double_part(device, whole, LIMIT + 64), TUFF_E_LIMIT);
    tuff_array_destroy(whole);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temporaries_end_where_kernels_can_count_to),
        cmocka_unit_test(ranges_with_what_is_before_an_array_fit_a_binding),
        cmocka_unit_test(arrays_end_where_kernels_can_count_to),
    };
    install_fake_opencl(devices, 1);
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
