/* The register spills that Vulkan drivers report, tested with Mesa's compiler for AMD GPUs: RADV can open devices for
   hardware that is not present (RADV_FORCE_FAMILY). */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

#if (!defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN) && (!defined(TUFF_WITH_SHADERC) || TUFF_WITH_SHADERC)
#include "device/vulkan/state.h"

static const driver *const vulkan = &tuff__driver_vulkan;

static uint64_t spilled(driver_device *device, driver_program *program)
{
    uint64_t bytes = 12345;
    assert_int_equal(vulkan->spilled_bytes(device, program, &bytes), TUFF_OK);
    return bytes;
}

#define TEXT(statements)                                                                       \
    "#version 450\n"                                                                           \
    "layout(local_size_x = 64) in;\n"                                                          \
    "layout(std430, binding = 0) buffer A { float x[]; };\n"                                   \
    "layout(push_constant) uniform P { uint count; uint base; };\n"                            \
    "void main() {\n"                                                                          \
    "    uint at = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + base) * 64u + " \
    "gl_LocalInvocationID.x;\n" statements "}\n"

/* Indexed at run time, so that no compiler keeps these 1600 bytes in registers. */
static const program_request large = {"main",
                                      TEXT("float sums[400];\n"
                                           "for (int i = 0; i < 400; i++) sums[i] = x[at + uint(i)];\n"
                                           "for (int k = 0; k < 100; k++)\n"
                                           "    sums[uint(x[k]) % 400u] += sums[uint(x[k + 1]) % 400u];\n"
                                           "for (int i = 0; i < 400; i++) x[at + uint(i)] = sums[i];\n"),
                                      1,
                                      2,
                                      64,
                                      0,
                                      false};
static const program_request small = {"main", TEXT("x[at] *= 2.0;\n"), 1, 2, 64, 0, false};
enum { LARGE_BYTES = 1600 };

static driver_program *create(driver_device *device, const program_request *request, blob *made)
{
    blob own = {0};
    driver_program *program;
    assert_int_equal(vulkan->program_create(device, request, (blob){0}, &own, &program), TUFF_OK);
    if (made)
        *made = own;
    else
        tuff__free(own.data);
    return program;
}

/* Fake pipeline statistics of other drivers. */
static struct {
    const char *name;
    uint64_t value;
    VkPipelineExecutableStatisticFormatKHR format;
} reported[3];
static uint32_t reported_count;

static VKAPI_ATTR VkResult VKAPI_CALL tell(VkDevice device, const VkPipelineExecutableInfoKHR *info, uint32_t *count,
                                           VkPipelineExecutableStatisticKHR *out)
{
    (void)device;
    (void)info;
    assert_true(!out || *count == reported_count);
    for (uint32_t i = 0; out && i < reported_count; i++) {
        assert_int_equal(out[i].sType, VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR);
        snprintf(out[i].name, sizeof out[i].name, "%s", reported[i].name);
        out[i].format = reported[i].format;
        out[i].value.u64 = reported[i].value;
    }
    *count = reported_count;
    return VK_SUCCESS;
}

static uint64_t spills_reported(driver_device *device, driver_program *program, const char *name, uint64_t value)
{
    const VkPipelineExecutableStatisticFormatKHR whole = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR;
    reported[0].name = "Instructions";
    reported[0].value = 77;
    reported[1].name = name;
    reported[1].value = value;
    reported[0].format = reported[1].format = whole;
    reported_count = 2;
    return spilled(device, program);
}

/* Subgroups of the device have 64 lanes. */
static void check_names(driver_device *device, driver_program *program)
{
    const vulkan_api known = tuff__vk;
    tuff__vk.executable_statistics = tell;
    assert_int_equal(spills_reported(device, program, "Registers", 900), 0);
    assert_int_equal(spills_reported(device, program, "Scratch Memory Size", 2048), 32);
    assert_int_equal(spills_reported(device, program, "Local Memory Size", UINT64_C(16) << 32 | 144), 160);
    assert_int_equal(spills_reported(device, program, "SLM size", 48), 48);
    assert_int_equal(spills_reported(device, program, "Spills", 5), 20);
    /* The size counts, not the number of spill instructions. */
    reported[2] = reported[1];
    reported[2].name = "Scratch Memory Size";
    reported[2].value = 1024;
    reported_count = 3;
    assert_int_equal(spilled(device, program), 16);
    reported[2].format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR;
    assert_int_equal(spilled(device, program), 20);
    tuff__vk = known;
}

/* A device reports spills only of programs that were created after it was told to collect them. */
static void check_gpu(driver_device *device)
{
    blob made;
    driver_program *before = create(device, &large, &made), *loaded;
    assert_int_equal(spilled(device, before), 0);
    vulkan->collect_spill_statistics(device);
    assert_int_equal(spilled(device, before), 0);
    driver_program *program = create(device, &large, NULL), *light = create(device, &small, NULL);
    blob nothing;
    assert_int_equal(vulkan->program_create(device, &large, made, &nothing, &loaded), TUFF_OK);
    assert_int_equal(spilled(device, program), LARGE_BYTES);
    assert_int_equal(spilled(device, loaded), LARGE_BYTES);
    assert_int_equal(spilled(device, light), 0);
    check_names(device, light);
    vulkan->program_destroy(device, before);
    vulkan->program_destroy(device, loaded);
    vulkan->program_destroy(device, program);
    vulkan->program_destroy(device, light);
    tuff__free(made.data);
}

static void check_cpu(driver_device *device)
{
    vulkan->collect_spill_statistics(device);
    driver_program *program = create(device, &large, NULL);
    assert_int_equal(spilled(device, program), 0);
    vulkan->program_destroy(device, program);
}

static void vulkan_tells_of_gpus_alone(void **state)
{
    (void)state;
    const char *absence;
    int gpus = 0;
    const int count = vulkan->count(&absence);
    for (int i = 0; i < count; i++) {
        tuff_device_info info;
        driver_device *device;
        assert_int_equal(vulkan->describe(i, &info), TUFF_OK);
        const bool is_known = strstr(info.name, "RADV") != NULL;
        if (!is_known && info.device_class != TUFF_DEVICE_CPU)
            continue;
        assert_int_equal(vulkan->open(i, &device), TUFF_OK);
        print_message("%s\n", info.name);
        if (is_known)
            check_gpu(device);
        else
            check_cpu(device);
        vulkan->close(device);
        gpus += is_known;
    }
    if (gpus == 0)
        skip();
}

/* Makes the loader find RADV, which creates a fake device if there is none, and the CPU driver. */
static void show_drivers(void)
{
    glob_t found;
    char files[4096] = "";
    const char *wanted = getenv("TUFF_TEST_DRIVERS");
    if ((wanted && strcmp(wanted, "none") == 0) ||
        glob("/usr/share/vulkan/icd.d/radeon_icd*.json", 0, NULL, &found) != 0)
        return;
    (void)glob("/usr/share/vulkan/icd.d/lvp_icd*.json", GLOB_APPEND, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        snprintf(files + strlen(files), sizeof files - strlen(files), "%s%s", i > 0 ? ":" : "", found.gl_pathv[i]);
    globfree(&found);
    (void)setenv("VK_DRIVER_FILES", files, 1);
    (void)setenv("VK_ICD_FILENAMES", files, 1);
    (void)setenv("RADV_FORCE_FAMILY", "NAVI21", 1);
}

int main(void)
{
    show_drivers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vulkan_tells_of_gpus_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
