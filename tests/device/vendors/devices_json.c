/* `tuff devices --json`: every member, against what fake drivers report and what their records say the self-test
   proved. */
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
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "each_device.h"
#include "tools/verbs.h"

#if (!defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL) && (!defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN) && \
    (!defined(TUFF_WITH_SHADERC) || TUFF_WITH_SHADERC)
#include "base/bytes.h"
#include "device/cache/program_cache.h"
#include "device/vulkan/api.h"
#include "fake_glsl.h"
#include "fake_opencl.h"
#include "fake_vulkan.h"

static const cl_bool ends_kernels = CL_TRUE;

/* The kernel with which the library tries command buffers. */
static void run_trial(const char *source, size_t items, const fake_argument *arguments)
{
    if (!strstr(source, "void trial("))
        return;
    const cl_uint *from = (const cl_uint *)(const void *)arguments[0].bytes;
    cl_uint *to = (cl_uint *)(void *)arguments[1].bytes;
    for (size_t i = 0; i < items; i++)
        to[i] = from[255 - i] * 1664525u + arguments[2].word;
}

static const fake_opencl_device opencl_devices[] = {
    {.platform = "NVIDIA CUDA",
     .platform_version = "OpenCL 3.0 CUDA 12.4.131",
     .name = "NVIDIA H100",
     .version = "OpenCL 3.0 CUDA",
     .language = "OpenCL C 1.2 ",
     .driver = "550.90",
     .extensions = "cl_nv_device_attribute_query",
     .vendor = 0x10de,
     .units = 132,
     .memory = 80000000000,
     .allocation = 20000000000,
     .warp = 32,
     .capability = 9,
     .timeout = &ends_kernels},
    {.platform = "Intel(R) OpenCL Graphics",
     .platform_version = "OpenCL 3.0 ",
     .name = "Intel(R) Arc(TM) A770 Graphics",
     .version = "OpenCL 3.0 NEO ",
     .language = "OpenCL C 1.2 ",
     .driver = "24.39.31294",
     .extensions = "cl_khr_fp16 cl_khr_subgroups cl_khr_subgroup_shuffle cl_intel_required_subgroup_size "
                   "cl_intel_subgroup_matrix_multiply_accumulate cl_khr_command_buffer",
     .vendor = 0x8086,
     .units = 512,
     .memory = 16000000000,
     .allocation = 4000000000,
     .widths = {8, 16, 32},
     .runs = run_trial},
    {.platform = "ARM Platform",
     .platform_version = "OpenCL 3.0 v1.r38",
     .name = "Mali-G78",
     .version = "OpenCL 3.0 v1.r38",
     .language = "OpenCL C 3.0 v1.r38",
     .driver = "3.0",
     .extensions = "cl_khr_fp16 cl_khr_subgroups",
     .vendor = 0x13b5,
     .units = 20,
     .unified = CL_TRUE,
     .memory = 8000000000,
     .allocation = 7000000000,
     .local = CL_GLOBAL},
    {.platform = "AMD Accelerated Parallel Processing",
     .platform_version = "OpenCL 2.1 AMD-APP (3614.0)",
     .name = "gfx90a",
     .board = "AMD Instinct MI210",
     .version = "OpenCL 2.0 ",
     .language = "OpenCL C 2.0 ",
     .driver = "3614.0",
     .extensions = "cl_khr_fp16 cl_khr_subgroups cl_amd_device_attribute_query",
     .vendor = 0x1002,
     .units = 104,
     .memory = 64000000000,
     .allocation = 54000000000,
     .wavefront = 64},
};

#define BF16 COMPONENT_BFLOAT16_KHR
static const fake_matrix f16_and_bf16[] = {{16, 16, 16, 0}, {16, 16, 16, BF16}, {0}}, of_8[] = {{8, 16, 32, 0}, {0}},
                         of_4[] = {{4, 4, 4, 0}, {0}};
static const fake_group groups[] = {
    {32, 32, 16, 0, 128, false}, {32, 64, 16, 0, 256, false}, {32, 32, 16, BF16, 128, false}, {0}};

static const fake_vulkan_device vulkan_devices[] = {
    {.name = "NVIDIA GeForce RTX 4070",
     .driver = "NVIDIA",
     .vendor = 0x10de,
     .id = 0x2786,
     .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
     .memory = 12000000000,
     .host_memory = 32000000000,
     .largest = (1u << 30) - 1,
     .has_budget = true,
     .width = 32,
     .least_width = 32,
     .most_width = 32,
     .multiprocessors = 46,
     .khr = f16_and_bf16,
     .has_bfloat16 = true,
     .groups = groups,
     .largest_group = 256,
     .largest_side = 1024,
     .transfer_queues = 2},
    {.name = "Intel(R) Iris(R) Xe Graphics (TGL GT2)",
     .driver = "Intel open-source Mesa driver",
     .vendor = 0x8086,
     .id = 0x9a49,
     .type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
     .memory = 13000000000,
     .maps_all = true,
     .width = 16,
     .least_width = 8,
     .most_width = 32,
     .bindings = 31,
     .khr = of_4},
    {.name = "llvmpipe (LLVM 15.0.6, 256 bits)",
     .driver = "llvmpipe",
     .vendor = 0x10005,
     .type = VK_PHYSICAL_DEVICE_TYPE_CPU,
     .memory = 14000000000,
     .maps_all = true,
     .width = 8,
     .khr = of_8},
};

enum { OPENCL_DEVICES = 4, VULKAN_DEVICES = 3, DEVICES = OPENCL_DEVICES + VULKAN_DEVICES, BROKEN = 3 };

/* What the self-test proved, in the order of encode_record (selftest.c). The devices compute nothing, so that it would
   find that nothing works. There is none of the device that cannot be opened. */
enum { RECORD_SIZE = 18 };
static const unsigned char records[DEVICES][RECORD_SIZE] = {
    {0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0},
    {16, 1, 1, 0, 1, 1, 1, 1, 1, 3, 0, 0, 0, 1, 0, 0, 0, 0},
    {4, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0},
    {0},
    {32, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 7, 0, 0, 0, 0, 0},
    {16, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {8, 1, 0, 1, 0, 1, 0, 1, 0, 2, 0, 0, 0, 0, 0xf0, 0xff, 0, 0},
};

/* The values of each member, in JSON but for the quotes, in the order of the devices; null: it is missing. Any two
   members differ on some device. "proved.nan" is the member "nan" of "proved". */
static const struct {
    const char *name, *values;
} members[] = {
    {"selector", "'opencl:0', 'opencl:1', 'opencl:2', 'opencl:3', 'vulkan:0', 'vulkan:1', 'vulkan:2'"},
    {"name", "'NVIDIA H100', 'Intel(R) Arc(TM) A770 Graphics', 'Mali-G78', 'gfx90a', 'NVIDIA GeForce RTX 4070', "
             "'Intel(R) Iris(R) Xe Graphics (TGL GT2)', 'llvmpipe (LLVM 15.0.6, 256 bits)'"},
    {"driver", "'NVIDIA CUDA, CUDA 12.4.131, driver 550.90', 'Intel(R) OpenCL Graphics, , driver 24.39.31294', "
               "'ARM Platform, v1.r38, driver 3.0', 'AMD Accelerated Parallel Processing, AMD-APP (3614.0)', "
               "'NVIDIA', 'Intel open-source Mesa driver', 'llvmpipe'"},
    {"api", "'OpenCL 3.0', 'OpenCL 3.0', 'OpenCL 3.0', 'OpenCL 2.0', 'Vulkan 1.3', 'Vulkan 1.3', 'Vulkan 1.3'"},
    {"class", "'discrete', 'discrete', 'integrated', 'discrete', 'discrete', 'integrated', 'cpu'"},
    {"vendor_id", "4318, 32902, 5045, 4098, 4318, 32902, 65541"},
    {"device_id", "0, 0, 0, 0, 10118, 39497, 0"},
    {"memory_size", "80000000000, 16000000000, 8000000000, 64000000000, 12000000000, 13000000000, 14000000000"},
    {"max_allocation", "20000000000, 16000000000, 7000000000, 54000000000, 12000000000, 13000000000, 14000000000"},
    {"max_binding", "20000000000, 16000000000, 7000000000, 54000000000, 1073741568, 4294967040, 4294967040"},
    {"offset_alignment", "128, 128, 128, 128, 16, 16, 16"},
    {"local_memory_size", "49152, 49152, 49152, 49152, 32768, 32768, 32768"},
    {"max_group_size", "1024, 1024, 1024, 1024, 1024, 1024, 1024"},
    {"compute_units", "132, 512, 20, 104, 46, 96, 0"},
    {"max_bindings", "32, 32, 32, 32, 32, 31, 32"},
    {"subgroup_size", "32, 32, 0, 64, 32, 16, 8"},
    {"vector_width", "1, 1, 1, 1, 0, 0, 0"},
    {"narrow_storage", "true, true, false, true, false, false, false"},
    {"half_arithmetic", "false, true, false, true, true, true, false"},
    {"int64", "true, true, true, true, false, true, true"},
    {"watchdog", "'present', 'unknown', 'unknown', 'unknown', 'unknown', 'unknown', 'none'"},
    {"matrix_units", "'offered', 'wrong', 'absent', 'offered', 'offered', 'other size', 'no compiler'"},
    {"cooperative_matrix", "3, 0, 0, 4, 2, 0, 0"},
    {"min_subgroup_size", "0, 8, 0, 0, 32, 8, 0"},
    {"max_subgroup_size", "0, 32, 0, 0, 32, 32, 0"},
    {"matrix_shape", "[16, 16, 16], [8, 8, 16], [0, 0, 0], [32, 32, 16], [16, 16, 16], [0, 0, 0], [8, 16, 32]"},
    {"matrix_lanes", "32, 8, 0, 64, 0, 0, 0"},
    {"matrix_bf16", "true, false, false, true, true, false, false"},
    {"matrix_warpgroup", "true, false, false, false, false, false, false"},
    {"matrix_group_sizes", "0, 0, 0, 0, 384, 0, 0"},
    {"matrix_group_sizes_bf16", "0, 0, 0, 0, 128, 0, 0"},
    {"memory_available", "0, 0, 0, 61440000000, 9000000000, 0, 0"},
    {"units_estimated", "false, false, false, false, false, true, false"},
    {"local_is_global", "false, false, true, false, false, false, false"},
    {"writes_directly", "false, false, false, false, false, true, true"},
    {"loop_limit", "0, 0, 65536, 0, 0, 0, 65520"},
    {"language", "'OpenCL C', 'OpenCL C', 'OpenCL C', '', 'GLSL', 'GLSL', 'GLSL'"},
    {"build_options", "'-cl-std=CL1.2 -w', '-cl-std=CL1.2 -w -DNARROWEST_SUBGROUP=8', '-cl-std=CL3.0 -w', '', "
                      "'" GLSL_COMPILER_OPTIONS "', '" GLSL_COMPILER_OPTIONS "', '" GLSL_COMPILER_OPTIONS "'"},
    {"upload_queue", "true, true, true, false, true, false, false"},
    {"command_buffers", "false, true, false, false, false, false, false"},
    {"pipeline_cache", "false, false, false, false, true, true, true"},
    {"failure", "null, null, null, 'clCreateContext: CL_OUT_OF_HOST_MEMORY (-6)', null, null, null"},
    {"opens", "true, true, true, false, true, true, true"},
    {"proved.subgroup_size", "0, 16, 4, null, 32, 16, 8"},
    {"proved.barrier", "true, true, false, null, true, true, true"},
    {"proved.narrow_storage", "true, true, false, null, false, false, false"},
    {"proved.nan", "true, false, true, null, true, false, true"},
    {"proved.negative_zero", "false, true, true, null, true, true, false"},
    {"proved.denormals", "true, true, true, null, false, false, true"},
    {"proved.shuffle", "false, true, false, null, true, true, false"},
    {"proved.exchange_form", "2, 1, 0, null, 0, 0, 0"},
    {"proved.exchange_lanes", "32, 16, 0, null, 0, 0, 0"},
};
enum { MEMBERS = sizeof members / sizeof *members };

/* Returns an array with the values of a member. */
static json_t *values_of(int member)
{
    char whole[512];
    json_error_t fault;
    const int length = snprintf(whole, sizeof whole, "[%s]", members[member].values);
    assert_true(length > 0 && length < (int)sizeof whole);
    for (char *at = strchr(whole, '\''); at; at = strchr(at, '\''))
        *at = '"';
    json_t *values = json_loads(whole, 0, &fault);
    if (!values)
        fail_msg("%s: %s", members[member].name, fault.text);
    assert_int_equal(json_array_size(values), DEVICES);
    return values;
}

static bool is_expected(const char *name)
{
    for (int i = 0; i < MEMBERS; i++)
        if (strcmp(members[i].name, name) == 0)
            return true;
    return false;
}

/* Runs `tuff devices --json` and parses what it prints. */
static json_t *list_as_json(void)
{
    char option[] = "--json", *arguments[] = {option, NULL};
    json_error_t fault;
    FILE *printed = tmpfile();
    assert_non_null(printed);
    fflush(stdout);
    const int output = dup(1);
    assert_true(dup2(fileno(printed), 1) == 1);
    const int code = verb_devices.run(1, arguments);
    fflush(stdout);
    assert_true(dup2(output, 1) == 1);
    close(output);
    assert_int_equal(code, EXIT_FAILED); /* a device cannot be opened */
    rewind(printed);
    json_t *list = json_loadf(printed, JSON_REJECT_DUPLICATES, &fault);
    if (!list)
        fail_msg("tuff devices --json: line %d: %s", fault.line, fault.text);
    fclose(printed);
    return list;
}

/* Moves the members of "proved" into the row itself; nothing remains of a null. */
static void flatten(json_t *row)
{
    const char *name;
    json_t *value, *proved = json_incref(json_object_get(row, "proved"));
    assert_true(json_is_object(proved) || json_is_null(proved));
    json_object_del(row, "proved");
    json_object_foreach(proved, name, value)
    {
        char whole[64];
        (void)snprintf(whole, sizeof whole, "proved.%s", name);
        assert_int_equal(json_object_set(row, whole, value), 0);
    }
    json_decref(proved);
}

/* Opens a device, whose self-test leaves the only record in the cache, and returns the record's key. */
static char *key_of_record(const char *selector)
{
    enum { HEADER_SIZE_AT = 12, KEY_AT = 40, LARGEST = 4096 };
    unsigned char entry[LARGEST];
    char path[512];
    forget_cache_files(".device");
    tuff_device *device = tuff_device_open(selector);
    if (!device)
        fail_msg("%s: %s", selector, tuff_error());
    tuff_device_close(device);
    assert_int_equal(count_cache_files(".device", path, sizeof path), 1);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(entry, 1, sizeof entry, file);
    fclose(file);
    byte_reader reader = {.data = entry, .size = size, .at = HEADER_SIZE_AT};
    const uint32_t end = tuff__get_u32(&reader);
    assert_true(end > KEY_AT && end + RECORD_SIZE == size);
    char *key = calloc(end - KEY_AT + 1, 1);
    assert_non_null(key);
    memcpy(key, entry + KEY_AT, end - KEY_AT);
    return key;
}

static void replace_records(void)
{
    char *keys[DEVICES] = {NULL};
    json_t *selectors = values_of(0);
    for (int i = 0; i < DEVICES; i++)
        if (i != BROKEN)
            keys[i] = key_of_record(json_string_value(json_array_get(selectors, (size_t)i)));
    for (int i = 0; i < DEVICES; i++) {
        unsigned char record[RECORD_SIZE];
        memcpy(record, records[i], sizeof record);
        if (keys[i])
            assert_true(tuff__program_cache_store((cache_key){"device", keys[i]}, (blob){record, sizeof record}));
        free(keys[i]);
    }
    json_decref(selectors);
}

static void check_member(const json_t *list, int member)
{
    json_t *values = values_of(member);
    for (size_t i = 0; i < DEVICES; i++) {
        const json_t *row = json_array_get(list, i), *expected = json_array_get(values, i);
        const json_t *found = json_object_get(row, members[member].name);
        if (json_is_null(expected) ? found == NULL : json_equal(expected, found))
            continue;
        char *wanted = json_dumps(expected, JSON_ENCODE_ANY),
             *printed = found ? json_dumps(found, JSON_ENCODE_ANY) : NULL;
        fail_msg("%s: \"%s\" is %s, not %s", json_string_value(json_object_get(row, "selector")), members[member].name,
                 printed ? printed : "missing", wanted);
    }
    json_decref(values);
}

static void every_member_is_what_the_driver_reports(void **state)
{
    (void)state;
    replace_records();
    json_t *list = list_as_json();
    assert_int_equal(json_array_size(list), DEVICES + 1); /* with the reference device */
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name;
        json_t *value, *row = json_array_get(list, i);
        flatten(row);
        json_object_foreach(row, name, value)
        {
            if (!is_expected(name))
                fail_msg("\"%s\" is not in the table of this test", name);
        }
    }
    for (int i = 0; i < MEMBERS; i++)
        check_member(list, i);
    json_decref(list);
}

/* Else members could be swapped unnoticed. */
static void members_differ_on_some_device(void **state)
{
    (void)state;
    json_t *values[MEMBERS];
    for (int i = 0; i < MEMBERS; i++)
        values[i] = values_of(i);
    for (int i = 0; i < MEMBERS; i++)
        for (int k = 0; k < i; k++)
            if (json_equal(values[i], values[k]))
                fail_msg("\"%s\" and \"%s\" are equal on all devices", members[i].name, members[k].name);
    for (int i = 0; i < MEMBERS; i++)
        json_decref(values[i]);
}

static cl_context(CL_API_CALL *create_context)(const cl_context_properties *, cl_uint, const cl_device_id *,
                                               void(CL_CALLBACK *)(const char *, const void *, size_t, void *), void *,
                                               cl_int *);

static cl_context CL_API_CALL
create_other_context(const cl_context_properties *properties, cl_uint count, const cl_device_id *ids,
                     void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *error)
{
    if ((const void *)ids[0] != &opencl_devices[BROKEN])
        return create_context(properties, count, ids, notify, user, error);
    *error = CL_OUT_OF_HOST_MEMORY;
    return NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(members_differ_on_some_device),
                                       cmocka_unit_test(every_member_is_what_the_driver_reports)};
    if (getenv("TUFF_SHADERC_MODULE")) /* see fake_glsl.h */
        return 77;
    if (setenv("TUFF_DRIVER_OPTIMIZER", "1", 1) != 0 || unsetenv("TUFF_COMMAND_BUFFERS") != 0)
        return 1;
    install_fake_opencl(opencl_devices, OPENCL_DEVICES);
    install_fake_vulkan(vulkan_devices, VULKAN_DEVICES);
    create_context = tuff__cl.CreateContext;
    tuff__cl.CreateContext = create_other_context;
    fake_opencl.free_kib[0] = fake_opencl.free_kib[1] = 60000000;
    fake_vulkan.budget = 11000000000;
    fake_vulkan.usage = 2000000000;
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
