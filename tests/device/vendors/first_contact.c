/* Problems that the first machine with a GPU could have: fake drivers behave like those of vendors, with a case for
   each thing that was expected to fail there. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "tuff.h"

#if (!defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL) && (!defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN)
#include "base/alloc.h"
#include "device/list.h"
#include "device/state.h"
#include "device/target.h"
#include "fake_opencl.h"
#include "fake_vulkan.h"
#include "vendor_devices.h"

#if !defined(TUFF_WITH_SHADERC) || TUFF_WITH_SHADERC
static const bool has_compiler = true;
#else
static const bool has_compiler = false;
#endif

static char messages[4096];

static void record_message(void *user, tuff_log_level level, const char *message)
{
    (void)user;
    const size_t length = strlen(messages);
    if (level == TUFF_LOG_WARNING)
        snprintf(messages + length, sizeof messages - length, "%s\n", message);
}

static tuff_device *open_fake(const char *api, int index, tuff_device_info *info)
{
    char selector[32];
    snprintf(selector, sizeof selector, "%s:%d", api, index);
    messages[0] = 0;
    tuff_device *device = tuff_device_open(selector);
    if (!device)
        fail_msg("%s: %s", selector, tuff_error());
    device->info.loop_limit = 0; /* the self-test takes a device that computes nothing for one with a loop limit */
    if (info)
        assert_int_equal(tuff_device_describe(device, info), TUFF_OK);
    return device;
}

static tuff_device_info describe(const char *api, int index)
{
    tuff_device_info info;
    const device_choice which = {tuff__device_driver(api), index};
    assert_non_null(which.driver);
    assert_int_equal(tuff__device_describe(which, &info), TUFF_OK);
    return info;
}

/* Compiles a product of tensors of that dtype with a row of additions after it; returns NULL if it does not compile. */
static tuff_plan *compile_product(tuff_device *device, tuff_dtype dtype, int64_t side)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", dtype, TUFF_SHAPE(side, side));
    tuff_tensor *y = tuff_input(graph, "y", dtype, TUFF_SHAPE(side, side));
    tuff_output(graph, "z", tuff_softmax(tuff_matmul(x, y), 1));
    const tuff_tune_options tuning = {.mode = TUFF_TUNE_OFF};
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.tuning = &tuning});
    tuff_graph_destroy(graph);
    return plan;
}

static void a_watchdog_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(describe("opencl", RTX_3060).watchdog, TUFF_WATCHDOG_PRESENT);
    assert_int_equal(describe("opencl", NVIDIA_A2).watchdog, TUFF_WATCHDOG_NONE);
    assert_int_equal(describe("opencl", RX_6950).watchdog, TUFF_WATCHDOG_UNKNOWN);
    const bool is_limited[] = {true, false, true};
    const int tried[] = {RTX_3060, NVIDIA_A2, RX_6950};
    for (int i = 0; i < 3; i++) {
        tuff_device *device = open_fake("opencl", tried[i], NULL);
        assert_int_equal(device->handle->predictor.is_on, is_limited[i]);
        tuff_device_close(device);
    }
}

static void a_fault_that_reads_as_no_memory_loses_the_device(void **state)
{
    (void)state;
    tuff_device *device = open_fake("opencl", RTX_3060, NULL);
    storage *memory = NULL, *more = NULL;
    uint32_t word = 0;
    assert_int_equal(tuff__storage_create(device, 4096, true, &memory), TUFF_OK);
    /* Lack of memory is no such fault: the device keeps working. */
    fake_opencl.memory_error = CL_OUT_OF_RESOURCES;
    assert_int_equal(tuff__storage_create(device, 1 << 20, false, &more), TUFF_E_OOM_DEVICE);
    fake_opencl.memory_error = 0;
    assert_int_equal(tuff__storage_write(device, memory, 0, &word, 4), TUFF_OK);
    fake_opencl.faulted = true;
    const int buffers = fake_opencl.buffers;
    assert_int_equal(tuff__storage_read(device, memory, 0, &word, 4), TUFF_E_DEVICE_LOST);
    assert_true(has(tuff_error(), "accepts no more work"));
    /* The device stays lost, and nothing is called on it any more. */
    fake_opencl.faulted = false;
    assert_int_equal(tuff__storage_create(device, 1 << 20, false, &more), TUFF_E_DEVICE_LOST);
    assert_int_equal(fake_opencl.buffers, buffers);
    tuff__storage_release(memory);
    tuff_device_close(device);
    device = open_fake("opencl", RTX_3060, NULL);
    tuff_device_close(device);
}

static void a_warp_has_32_lanes(void **state)
{
    (void)state;
    assert_int_equal(describe("opencl", RTX_3060).subgroup_size, 32);
    assert_int_equal(describe("opencl", RX_6950).subgroup_size, 32);
    assert_int_equal(describe("opencl", ARC_A770).subgroup_size, 32);
    assert_int_equal(describe("opencl", ARC_A770).min_subgroup_size, 8);
    /* How rows are reduced, as claimed: the self-test decides. Without shuffles of subgroups, in local memory. */
    assert_int_equal(describe("opencl", RTX_3060).exchange_form, TUFF_EXCHANGE_NVIDIA);
    assert_int_equal(describe("opencl", RTX_3060).exchange_lanes, 32);
    assert_int_equal(describe("opencl", RX_6950).exchange_form, TUFF_EXCHANGE_AMD);
    assert_int_equal(describe("opencl", RX_6950).exchange_lanes, 32);
    assert_int_equal(describe("opencl", ARC_A770).exchange_form, TUFF_EXCHANGE_NONE);
}

static void expect_first(const char *selector, const char *expected)
{
    device_choice choices[16];
    tuff_device_info info;
    int count = 0;
    assert_int_equal(tuff__device_choose(selector, choices, 16, &count), TUFF_OK);
    assert_true(count > 0);
    assert_int_equal(tuff__device_describe(choices[0], &info), TUFF_OK);
    assert_string_equal(info.selector, expected);
}

static void the_largest_card_is_preferred(void **state)
{
    (void)state;
    expect_first("auto", "opencl:2");
    expect_first("vulkan", "vulkan:2");
    expect_first("auto:matrix", "vulkan:2");
    expect_first("opencl:nvidia", "opencl:0"); /* the second device has more memory */
    assert_int_equal(describe("opencl", RAPHAEL).device_class, TUFF_DEVICE_GPU_INTEGRATED);
    assert_int_equal(describe("opencl", RX_6950).device_class, TUFF_DEVICE_GPU_DISCRETE);
}

/* Returns a command over a whole storage. */
static command over(storage *memory, driver_program *made)
{
    command work = {.kind = COMMAND_DISPATCH, .program = made, .group_count = 1, .binding_count = 1, .word_count = 2};
    work.bindings[0] = (buffer_binding){tuff__storage_buffer(memory), 0, tuff__storage_size(memory), true};
    return work;
}

static void buffers_of_more_than_4_gib(void **state)
{
    (void)state;
    enum { UNRESTRICTED = 1 << 23 };
    tuff_device_info info;
    tuff_device *device = open_fake("opencl", ARC_A770, &info);
    assert_int_equal(info.max_binding, 16 * GIB);
    storage *small = NULL, *large = NULL;
    program *made = NULL;
    recording *recorded = NULL;
    const program_request request = {
        .name = "k", .text = "__kernel void k() {}", .buffer_count = 1, .word_count = 2, .local_size = 32};
    assert_int_equal(tuff__program_get(device, &request, &made), TUFF_OK);
    assert_int_equal(tuff__storage_create(device, 1 << 20, false, &small), TUFF_OK);
    assert_int_equal(fake_opencl.flags & UNRESTRICTED, 0);
    command work = over(small, tuff__program_driver(made));
    assert_int_equal(tuff__recording_create(device, &work, 1, false, false, &recorded), TUFF_OK);
    assert_false(has(fake_opencl.options, "greater-than-4GB"));
    tuff__recording_destroy(device, recorded);
    assert_int_equal(tuff__storage_create(device, 5 * GIB, false, &large), TUFF_OK);
    assert_int_equal(fake_opencl.flags & UNRESTRICTED, UNRESTRICTED);
    work = over(large, tuff__program_driver(made));
    assert_int_equal(tuff__recording_create(device, &work, 1, false, false, &recorded), TUFF_OK);
    assert_true(has(fake_opencl.options, "-cl-intel-greater-than-4GB-buffer-required"));
    tuff__recording_destroy(device, recorded);
    tuff__storage_release(large);
    tuff__storage_release(small);
    tuff__program_release(device, made);
    tuff_device_close(device);
    /* Other vendors' limits are taken as reported. */
    assert_int_equal(describe("opencl", RTX_3060).max_allocation, 3 * GIB);
}

/* Reports a buffer of 5 GiB that an application created. */
static cl_int CL_API_CALL tell_large(cl_mem memory, cl_mem_info question, size_t size, void *out, size_t *needed)
{
    const uint64_t value = question == CL_MEM_CONTEXT ? (uintptr_t)memory
                           : question == CL_MEM_TYPE  ? CL_MEM_OBJECT_BUFFER
                           : question == CL_MEM_SIZE  ? 5 * GIB
                                                      : 0;
    (void)needed;
    memcpy(out, &value, size); /* little-endian: the low bytes come first */
    return CL_SUCCESS;
}

static cl_int CL_API_CALL retain_nothing(cl_mem memory)
{
    return memory ? CL_SUCCESS : CL_INVALID_MEM_OBJECT;
}

/* The same for imported buffers. */
static void imported_buffers_of_more_than_4_gib(void **state)
{
    (void)state;
    const opencl_api real = tuff__cl;
    uint64_t size = 0;
    driver_buffer *buffer = NULL;
    tuff_device *device = open_fake("opencl", ARC_A770, NULL);
    tuff__cl.GetMemObjectInfo = tell_large;
    tuff__cl.RetainMemObject = retain_nothing;
    assert_int_equal(tuff__cl_buffer_import(device->handle, device->handle->context, &size, &buffer), TUFF_OK);
    assert_true(size == 5 * GIB && buffer->is_large);
    tuff__free(buffer);
    tuff_device_close(device);
    tuff__cl = real;
}

/* Parameters beyond the largest binding, or beyond the reach of 32-bit indices, are in several slabs. */
static void parameters_beyond_a_binding_lie_in_several_slabs(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    tuff_parameter_spec specs[COUNT];
    char names[COUNT][8];
    const struct {
        const char *api;
        int device, slabs;
    } expected[] = {{"vulkan", VULKAN_A770, 12}, {"opencl", ARC_A770, 2}};
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "w%d", i);
        specs[i] = (tuff_parameter_spec){names[i], TUFF_SHAPE(16384, 14000)}; /* 875 MiB */
    }
    for (int i = 0; i < 2; i++) {
        tuff_device *device = open_fake(expected[i].api, expected[i].device, NULL);
        tuff_parameters *parameters = tuff_parameters_create(device, specs, COUNT);
        if (!parameters)
            fail_msg("%s", tuff_error());
        int slabs = 0;
        for (int k = 0; k < COUNT; k++) {
            tuff_buffer_handle handle, before = {0};
            assert_int_equal(tuff_array_unwrap(tuff_parameters_at(parameters, k, NULL), &handle), TUFF_OK);
            if (k > 0)
                assert_int_equal(tuff_array_unwrap(tuff_parameters_at(parameters, k - 1, NULL), &before), TUFF_OK);
            slabs += handle.vulkan != before.vulkan || handle.opencl != before.opencl;
        }
        assert_int_equal(slabs, expected[i].slabs);
        tuff_parameters_destroy(parameters);
        tuff_device_close(device);
    }
}

/* Whether the text has a line that uses the macro and does not define it. */
static bool uses(const char *text, const char *macro)
{
    for (const char *at = strstr(text, macro); at; at = strstr(at + 1, macro)) {
        const char *line = at;
        while (line > text && line[-1] != '\n')
            line--;
        if (*line != '#' || strncmp(line, "#define LOADV", strlen("#define LOADV")) == 0)
            if (strncmp(at - strlen("#define "), "#define ", strlen("#define ")) != 0)
                return true;
    }
    return false;
}

/* Whether the plan's product loads its operands as whole, aligned vectors of the dtype. */
static bool loads_aligned(tuff_plan *plan, tuff_dtype dtype)
{
    char load[32];
    snprintf(load, sizeof load, "LOADV_%s(", tuff_dtype_name(dtype));
    tuff_task_info task;
    for (int i = 0; tuff_plan_task(plan, i, &task) == TUFF_OK; i++)
        if (strcmp(task.kind, "matmul") == 0)
            return has(task.source, "#define ALIGNED(") && uses(task.source, load);
    fail_msg("the plan has no product");
    return false;
}

static void nvidia_has_no_halves_and_no_subgroups(void **state)
{
    (void)state;
    tuff_device_info info;
    tuff_device *device = open_fake("opencl", RTX_3060, &info);
    assert_false(info.half_arithmetic);
    assert_int_equal(info.proved_subgroup_size, 0);
    assert_false(info.subgroup_shuffle);
    /* The fake computes nothing, so its self-test proved nothing. A real one proves what 16-bit values in memory
       take. */
    info.proved = info.proved_barrier = info.proved_narrow_storage = info.proved_nan = true;
    tuff__device_override_info(device, &info);
    const tuff_dtype dtypes[] = {TUFF_F32, TUFF_F16, TUFF_BF16};
    for (int i = 0; i < 3; i++) {
        tuff_plan *plan = compile_product(device, dtypes[i], 128);
        if (!plan)
            fail_msg("%s: %s", tuff_dtype_name(dtypes[i]), tuff_error());
        if (!loads_aligned(plan, dtypes[i]))
            fail_msg("the product of %s does not load aligned vectors", tuff_dtype_name(dtypes[i]));
        tuff_plan_destroy(plan);
    }
    tuff_device_close(device);
}

static void amd_builds_as_its_highest_version(void **state)
{
    (void)state;
    const struct {
        int device;
        const char *option;
    } expected[] = {
        {RX_6950, "-cl-std=CL2.0"}, {MALI, "-cl-std=CL3.0"}, {RTX_3060, "-cl-std=CL1.2"}, {ARC_A770, "-cl-std=CL1.2"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        tuff_device *device = open_fake("opencl", expected[i].device, NULL);
        assert_true(has(device->driver->build_options(device->handle), expected[i].option));
        tuff_device_close(device);
    }
}

static uint32_t width_for(tuff_device *device, const char *words)
{
    program *made = NULL;
    fake_vulkan.width = 12345;
    const program_request request = {.name = "main", .text = words, .local_size = 64};
    assert_int_equal(tuff__program_get(device, &request, &made), TUFF_OK);
    tuff__program_release(device, made);
    return fake_vulkan.width;
}

#define EMPTY_KERNEL(head) "#version 450\n" head "layout(local_size_x = 64) in;\nvoid main() {}\n"

static void kernels_with_many_sums_get_narrow_subgroups(void **state)
{
    (void)state;
    if (!has_compiler)
        skip();
    const struct {
        int device;
        uint32_t many, few;
    } expected[] = {{VULKAN_A770, 8, 0}, {VULKAN_7900, 0, 0}, {VULKAN_M1, 0, 0}};
    for (int i = 0; i < 3; i++) {
        tuff_device *device = open_fake("vulkan", expected[i].device, NULL);
        assert_int_equal(width_for(device, EMPTY_KERNEL("#define MANY_SUMS\n")), expected[i].many);
        assert_int_equal(width_for(device, EMPTY_KERNEL("")), expected[i].few);
        tuff_device_close(device);
    }
}

/* Whether this build's compiler knows the units of VK_KHR_cooperative_matrix, as libshaderc does from 2023.6 on. */
static bool compiles_matrices(tuff_device *device)
{
    static const char source[] = "#version 450\n"
                                 "#extension GL_KHR_memory_scope_semantics : require\n"
                                 "#extension GL_KHR_cooperative_matrix : require\n"
                                 "layout(local_size_x = 64) in;\n"
                                 "void main() {}\n";
    program *made = NULL;
    const program_request request = {.name = "main", .text = source, .local_size = 64};
    const tuff_status status = tuff__program_get(device, &request, &made);
    if (!made)
        assert_int_equal(status, has_compiler ? TUFF_E_COMPILE : TUFF_E_UNSUPPORTED);
    tuff__program_release(device, made);
    return status == TUFF_OK;
}

static void unused_matrix_units_are_told(void **state)
{
    (void)state;
    tuff_device_info info;
    tuff_set_log(record_message, NULL);
    for (int i = 0; i < 2; i++) { /* first from the self-test, then from its record */
        tuff_device *device = open_fake("vulkan", VULKAN_7900, &info);
        assert_int_equal(info.cooperative_matrix, 0);
        assert_int_equal(info.matrix_state,
                         compiles_matrices(device) ? TUFF_MATRICES_WRONG : TUFF_MATRICES_NO_COMPILER);
        assert_true(has(messages, "matrix units are not used"));
        tuff_device_close(device);
    }
    tuff_device *device = open_fake("vulkan", VULKAN_M1, &info);
    assert_int_equal(info.matrix_state, TUFF_MATRICES_OTHER_SIZE);
    tuff_device_close(device);
    device = open_fake("vulkan", VULKAN_XE, &info);
    assert_int_equal(info.matrix_state, TUFF_MATRICES_ABSENT);
    assert_string_equal(messages, "");
    tuff_device_close(device);
    tuff_set_log(NULL, NULL);
}

/* The next test leaks the objects that a hung device may still use, on purpose: LeakSanitizer ignores them. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:a_hung_kernel_keeps_its_objects\n";
}

static void hang(tuff_device *device, bool *hangs, const int *released)
{
    storage *memory = NULL;
    recording *recorded = NULL;
    command fill = {.kind = COMMAND_FILL_ZERO, .binding_count = 1};
    const uint64_t begin = tuff__nanoseconds();
    tuff__device_set_timeout(device, 10000000);
    assert_int_equal(tuff__storage_create(device, 4096, false, &memory), TUFF_OK);
    fill.bindings[0] = (buffer_binding){tuff__storage_buffer(memory), 0, 4096, true};
    assert_int_equal(tuff__recording_create(device, &fill, 1, false, false, &recorded), TUFF_OK);
    *hangs = true;
    assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    assert_int_equal(tuff__wait(device), TUFF_E_TIMEOUT);
    const int before = *released;
    tuff__recording_destroy(device, recorded);
    tuff__storage_release(memory);
    tuff_device_close(device);
    assert_int_equal(*released, before);
    *hangs = false;
    assert_true(tuff__nanoseconds() - begin < 1000000000);
}

static void a_hung_kernel_keeps_its_objects(void **state)
{
    (void)state;
    hang(open_fake("opencl", ARC_A770, NULL), &fake_opencl.hangs, &fake_opencl.releases);
    hang(open_fake("vulkan", VULKAN_A770, NULL), &fake_vulkan.hangs, &fake_vulkan.destroyed);
    /* The process can go on with another device, or open the same one again. */
    tuff_device_close(open_fake("opencl", ARC_A770, NULL));
    tuff_device_close(open_fake("vulkan", VULKAN_A770, NULL));
}

static bool declares(uint32_t mode)
{
    for (int i = 0; i < 8; i++)
        if (fake_vulkan.modes[i] == mode)
            return true;
    return false;
}

static void denormals_are_asked_for(void **state)
{
    (void)state;
    enum { DENORM_PRESERVE = 4459, ROUNDING_TO_EVEN = 4462 };
    if (!has_compiler)
        skip();
    const bool expected[] = {true, false};
    const int tried[] = {VULKAN_7900, VULKAN_XE};
    for (int i = 0; i < 2; i++) {
        tuff_device *device = open_fake("vulkan", tried[i], NULL);
        (void)width_for(device, EMPTY_KERNEL("// of floats\n"));
        assert_int_equal(declares(DENORM_PRESERVE), expected[i]);
        assert_false(declares(ROUNDING_TO_EVEN)); /* not allowed if the mode depends on other widths */
        tuff_device_close(device);
    }
}

static int64_t processors(const char *api, int device)
{
    const tuff_device_info info = describe(api, device);
    return tuff__processor_count(&info);
}

static void processors_hold_groups(void **state)
{
    (void)state;
    assert_int_equal(processors("opencl", ARC_A770), 32);
    assert_int_equal(processors("vulkan", VULKAN_A770), 32);
    assert_int_equal(processors("vulkan", VULKAN_XE), 6);
    assert_int_equal(processors("vulkan", VULKAN_7900), 84);
    assert_int_equal(processors("vulkan", VULKAN_3060), 28);
}

static void units_of_intel_are_known(void **state)
{
    (void)state;
    tuff_device_info info = describe("vulkan", VULKAN_A770);
    assert_int_equal(info.compute_units, 512);
    assert_true(info.units_estimated);
    assert_int_equal(describe("vulkan", VULKAN_XE).compute_units, 96);
    assert_int_equal(describe("vulkan", VULKAN_7900).compute_units, 84);
    assert_false(describe("vulkan", VULKAN_7900).units_estimated);
    assert_int_equal(describe("vulkan", VULKAN_3060).compute_units, 28);
}

/* MoltenVK: a kernel can bind 31 buffers, one of them for its parameters. */
static void a_chain_keeps_within_31_buffers(void **state)
{
    (void)state;
    if (!has_compiler)
        skip();
    enum { TERMS = 40 };
    tuff_device_info info;
    tuff_device *device = open_fake("vulkan", VULKAN_M1, &info);
    assert_int_equal(info.max_bindings, 31);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *sum = NULL;
    for (int i = 0; i < TERMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        tuff_tensor *x = tuff_input(graph, name, TUFF_F32, TUFF_SHAPE(64));
        sum = sum ? tuff_add(sum, tuff_sin(x)) : x;
    }
    tuff_output(graph, "sum", sum);
    const tuff_tune_options tuning = {.mode = TUFF_TUNE_OFF};
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.tuning = &tuning});
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_device_close(device);
}

/* A kernel sees a buffer as elements and as vectors: two variables of one binding, which must be declared as
   aliased. */
static void two_views_of_a_buffer_are_aliases(void **state)
{
    (void)state;
    static const char source[] = "#version 450\n"
                                 "layout(local_size_x = 64) in;\n"
                                 "layout(std430, set = 0, binding = 0) buffer A { float a[]; };\n"
                                 "layout(std430, set = 0, binding = 0) buffer Av { vec4 a_v[]; };\n"
                                 "layout(std430, set = 0, binding = 1) buffer B { float b[]; };\n"
                                 "void main() { a_v[gl_LocalInvocationID.x] = vec4(b[0]); b[1] = a[2]; }\n";
    if (!has_compiler)
        skip();
    program *made = NULL;
    tuff_device *device = open_fake("vulkan", VULKAN_M1, NULL);
    const program_request request = {.name = "main", .text = source, .buffer_count = 2, .local_size = 64};
    assert_int_equal(tuff__program_get(device, &request, &made), TUFF_OK);
    assert_int_equal(fake_vulkan.shared, 2);
    assert_int_equal(fake_vulkan.aliased, 2);
    tuff__program_release(device, made);
    tuff_device_close(device);
}

/* Whether a kernel of the plan uses local memory. */
static bool uses_local_memory(const tuff_plan *plan)
{
    tuff_plan_info about;
    bool found = false;
    assert_int_equal(tuff_plan_describe(plan, &about), TUFF_OK);
    for (int i = 0; i < about.task_count; i++) {
        tuff_task_info task;
        assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
        found |= task.source != NULL && has(task.source, "BLOCK_ROWS");
    }
    return found;
}

/* Mali: products stay in registers, since its local memory is no faster than global memory. */
static void mali_keeps_products_in_registers(void **state)
{
    (void)state;
    const int tried[] = {MALI, RX_6950};
    for (int i = 0; i < 2; i++) {
        tuff_device_info info;
        tuff_device *device = open_fake("opencl", tried[i], &info);
        assert_int_equal(info.local_is_global, tried[i] == MALI);
        tuff_plan *plan = compile_product(device, TUFF_F32, 256);
        if (!plan)
            fail_msg("%s", tuff_error());
        assert_int_equal(uses_local_memory(plan), tried[i] != MALI);
        tuff_plan_destroy(plan);
        tuff_device_close(device);
    }
}

static tuff_status make_storage(tuff_device *device, uint64_t size, storage **out)
{
    *out = NULL;
    return tuff__storage_create(device, size, false, out);
}

/* The driver's budget takes precedence over the heap's size, and buffers beyond it go to host memory. */
static void full_memory_spills_to_the_host(void **state)
{
    (void)state;
    storage *first, *second;
    tuff_set_log(record_message, NULL);
    tuff_device *device = open_fake("vulkan", VULKAN_7900, NULL);
    messages[0] = 0;
    fake_vulkan.budget = 8 << 20;
    fake_vulkan.usage = 5 << 20;
    assert_int_equal(describe("vulkan", VULKAN_7900).memory_available, 3 << 20);
    assert_int_equal(make_storage(device, 1 << 20, &first), TUFF_OK);
    assert_int_equal(fake_vulkan.type, 0);
    assert_int_equal(make_storage(device, 4 << 20, &second), TUFF_OK);
    assert_int_equal(fake_vulkan.type, 1);
    assert_true(has(messages, "device memory is full"));
    fake_vulkan.budget = fake_vulkan.usage = 0;
    tuff__storage_release(first);
    tuff__storage_release(second);
    tuff_device_close(device);
    tuff_set_log(NULL, NULL);
}

/* AMD's OpenCL driver reports all free memory and the largest free block, in KiB; a buffer must fit into the block. */
static void full_memory_of_amd_spills_to_the_host(void **state)
{
    (void)state;
    const struct {
        bool lacks_block;
        uint64_t size;
        bool fits;
    } cases[] = {{false, 3 << 20, true}, {false, (3 << 20) + 4, false}, {true, 4 << 20, true}, {true, 6 << 20, false}};
    tuff_set_log(record_message, NULL);
    tuff_device *device = open_fake("opencl", RX_6950, NULL);
    assert_int_equal(describe("opencl", RX_6950).memory_available, 0);
    fake_opencl.free_kib[0] = 5 << 10;
    fake_opencl.free_kib[1] = 3 << 10;
    assert_int_equal(describe("opencl", RX_6950).memory_available, 5 << 20);
    assert_int_equal(describe("opencl", RTX_3060).memory_available, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        storage *memory;
        messages[0] = 0;
        fake_opencl.lacks_block = cases[i].lacks_block;
        assert_int_equal(make_storage(device, cases[i].size, &memory), TUFF_OK);
        assert_int_equal((fake_opencl.flags & CL_MEM_ALLOC_HOST_PTR) == 0, cases[i].fits);
        assert_int_equal(has(messages, "device memory is full"), !cases[i].fits);
        tuff__storage_release(memory);
        /* What is in host memory is not kept for later arrays. */
        assert_int_equal(tuff__pool_trim(device), cases[i].fits);
    }
    tuff_device_close(device);
    tuff_set_log(NULL, NULL);
}

/* Without a report, a buffer that the driver cannot create is an error, and its message the driver's. */
static void full_memory_of_others_is_an_error(void **state)
{
    (void)state;
    const int tried[] = {RTX_3060, RX_6950};
    for (int i = 0; i < 2; i++) {
        storage *memory;
        tuff_device *device = open_fake("opencl", tried[i], NULL);
        fake_opencl.memory_error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        assert_int_equal(make_storage(device, 1 << 20, &memory), TUFF_E_OOM_DEVICE);
        assert_true(has(tuff_error(), "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE"));
        fake_opencl.memory_error = 0;
        tuff_device_close(device);
    }
}

/* If the host can map all of a card's memory, it writes there directly, but still reads by copies. */
static void writes_go_through_a_large_window(void **state)
{
    (void)state;
    static char bytes[64 << 10], back[64 << 10];
    const struct {
        int device;
        int write_copies, read_copies;
    } expected[] = {{VULKAN_A770, 0, 1}, {VULKAN_7900, 1, 1}, {VULKAN_XE, 0, 0}};
    for (int i = 0; i < 3; i++) {
        storage *memory;
        tuff_device *device = open_fake("vulkan", expected[i].device, NULL);
        assert_int_equal(describe("vulkan", expected[i].device).writes_directly, expected[i].write_copies == 0);
        assert_int_equal(make_storage(device, sizeof bytes, &memory), TUFF_OK);
        fake_vulkan.copies = 0;
        assert_int_equal(tuff__storage_write(device, memory, 0, bytes, sizeof bytes), TUFF_OK);
        assert_int_equal(fake_vulkan.copies, expected[i].write_copies);
        fake_vulkan.copies = 0;
        assert_int_equal(tuff__storage_read(device, memory, 0, back, sizeof back), TUFF_OK);
        assert_int_equal(fake_vulkan.copies, expected[i].read_copies);
        tuff__storage_release(memory);
        tuff_device_close(device);
    }
}

/* Resets the state that a failed test left behind. */
static int begin(void **state)
{
    (void)state;
    fake_opencl = (fake_opencl_state){0};
    fake_vulkan = (fake_vulkan_state){.room = UINT64_MAX};
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_watchdog_is_asked_for),
        TEST(a_fault_that_reads_as_no_memory_loses_the_device),
        TEST(a_warp_has_32_lanes),
        TEST(the_largest_card_is_preferred),
        TEST(buffers_of_more_than_4_gib),
        TEST(imported_buffers_of_more_than_4_gib),
        TEST(parameters_beyond_a_binding_lie_in_several_slabs),
        TEST(nvidia_has_no_halves_and_no_subgroups),
        TEST(amd_builds_as_its_highest_version),
        TEST(kernels_with_many_sums_get_narrow_subgroups),
        TEST(unused_matrix_units_are_told),
        TEST(a_hung_kernel_keeps_its_objects),
        TEST(denormals_are_asked_for),
        TEST(units_of_intel_are_known),
        TEST(processors_hold_groups),
        TEST(a_chain_keeps_within_31_buffers),
        TEST(two_views_of_a_buffer_are_aliases),
        TEST(mali_keeps_products_in_registers),
        TEST(full_memory_spills_to_the_host),
        TEST(full_memory_of_amd_spills_to_the_host),
        TEST(full_memory_of_others_is_an_error),
        TEST(writes_go_through_a_large_window),
    };
    install_fake_opencl(opencl_devices, (int)(sizeof opencl_devices / sizeof *opencl_devices));
    install_fake_vulkan(vulkan_devices, (int)(sizeof vulkan_devices / sizeof *vulkan_devices));
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
