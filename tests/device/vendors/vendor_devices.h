/* The devices of first_contact.c's fake drivers, described as those of vendors describe themselves. */
#ifndef TUFF_TESTS_VENDOR_DEVICES_H
#define TUFF_TESTS_VENDOR_DEVICES_H

#include <string.h>

#include "fake_opencl.h"
#include "fake_vulkan.h"

#define GIB ((uint64_t)1 << 30)

static bool has(const char *words, const char *part)
{
    return strstr(words, part) != NULL;
}

/* Whether a source, after its preprocessor conditions, calls subgroup functions. */
static bool uses_subgroups(const char *source)
{
    return has(source, "#define SUBGROUP_WIDTH") || (has(source, "void probe(") && has(source, "sub_group_"));
}

/* NVIDIA's OpenCL C compiler supports neither half nor subgroups. */
static bool nvidia_compiles(const char *source, const char *options)
{
    (void)options;
    return !uses_subgroups(source) && !(has(source, "void probe(") && has(source, "cl_khr_fp16 : enable"));
}

/* Clang has subgroup functions from OpenCL C 2.0 on. */
static bool amd_compiles(const char *source, const char *options)
{
    return !uses_subgroups(source) || has(options, "-cl-std=CL2.0");
}

#define AMD_EXTENSIONS "cl_khr_fp64 cl_khr_fp16 cl_khr_subgroups cl_amd_device_attribute_query"
static const cl_bool ends_kernels = CL_TRUE, lets_kernels = CL_FALSE;

static const fake_opencl_device opencl_devices[] = {
    {.platform = "NVIDIA CUDA",
     .platform_version = "OpenCL 3.0 CUDA 12.4.131",
     .name = "NVIDIA GeForce RTX 3060",
     .version = "OpenCL 3.0 CUDA",
     .language = "OpenCL C 1.2 ",
     .driver = "550.90",
     .extensions = "cl_khr_global_int32_base_atomics cl_khr_byte_addressable_store cl_nv_device_attribute_query",
     .vendor = 0x10de,
     .units = 28,
     .memory = 12 * GIB,
     .allocation = 3 * GIB,
     .warp = 32,
     .timeout = &ends_kernels,
     .compiles = nvidia_compiles},
    {.platform = "AMD Accelerated Parallel Processing",
     .platform_version = "OpenCL 2.1 AMD-APP (3614.0)",
     .name = "gfx1036",
     .board = "AMD Radeon Graphics",
     .version = "OpenCL 2.0 ",
     .language = "OpenCL C 2.0 ",
     .driver = "3614.0",
     .extensions = AMD_EXTENSIONS,
     .vendor = 0x1002,
     .units = 1,
     .memory = 32 * GIB,
     .allocation = 27 * GIB,
     .wavefront = 32,
     .compiles = amd_compiles},
    {.platform = "AMD Accelerated Parallel Processing",
     .platform_version = "OpenCL 2.1 AMD-APP (3614.0)",
     .name = "gfx1030",
     .board = "AMD Radeon RX 6950 XT",
     .version = "OpenCL 2.0 ",
     .language = "OpenCL C 2.0 ",
     .driver = "3614.0",
     .extensions = AMD_EXTENSIONS,
     .vendor = 0x1002,
     .units = 40,
     .memory = 16 * GIB,
     .allocation = 14 * GIB,
     .wavefront = 32,
     .compiles = amd_compiles},
    {.platform = "Intel(R) OpenCL Graphics",
     .platform_version = "OpenCL 3.0 ",
     .name = "Intel(R) Arc(TM) A770 Graphics",
     .version = "OpenCL 3.0 NEO ",
     .language = "OpenCL C 1.2 ",
     .driver = "24.39.31294",
     .extensions = "cl_khr_fp16 cl_khr_subgroups cl_intel_subgroups cl_intel_required_subgroup_size",
     .vendor = 0x8086,
     .units = 512,
     .memory = 16 * GIB,
     .allocation = 4 * GIB - 4096,
     .widths = {8, 16, 32}},
    {.platform = "NVIDIA CUDA",
     .platform_version = "OpenCL 3.0 CUDA 12.4.131",
     .name = "NVIDIA A2",
     .version = "OpenCL 3.0 CUDA",
     .language = "OpenCL C 1.2 ",
     .driver = "550.90",
     .extensions = "cl_nv_device_attribute_query",
     .vendor = 0x10de,
     .units = 10,
     .memory = 16 * GIB,
     .allocation = 4 * GIB,
     .warp = 32,
     .timeout = &lets_kernels,
     .compiles = nvidia_compiles},
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
     .memory = 8 * GIB,
     .allocation = 8 * GIB,
     .local = CL_GLOBAL},
};
enum { RTX_3060, RAPHAEL, RX_6950, ARC_A770, NVIDIA_A2, MALI };

static const fake_matrix blocks_of_16[] = {{16, 16, 16, 0}, {0, 0, 0, 0}},
                         blocks_of_8[] = {{8, 16, 16, 0}, {0, 0, 0, 0}},
                         blocks_of_4[] = {{4, 4, 4, 0}, {0, 0, 0, 0}};

static const fake_vulkan_device vulkan_devices[] = {
    {.name = "NVIDIA GeForce RTX 3060",
     .driver = "NVIDIA",
     .vendor = 0x10de,
     .id = 0x2503,
     .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
     .memory = 12 * GIB,
     .host_memory = 32 * GIB,
     .width = 32,
     .least_width = 32,
     .most_width = 32,
     .multiprocessors = 28,
     .nv = blocks_of_16},
    {.name = "Intel(R) Arc(tm) A770 Graphics (DG2)",
     .driver = "Intel open-source Mesa driver",
     .vendor = 0x8086,
     .id = 0x56a0,
     .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
     .memory = 16 * GIB,
     .host_memory = 32 * GIB,
     .largest = (1u << 30) - 1,
     .maps_all = true,
     .width = 32,
     .least_width = 8,
     .most_width = 32,
     .khr = blocks_of_8},
    {.name = "AMD Radeon RX 7900 XT (RADV NAVI31)",
     .driver = "radv",
     .vendor = 0x1002,
     .id = 0x744c,
     .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
     .memory = 20 * GIB,
     .host_memory = 32 * GIB,
     .has_budget = true,
     .width = 64,
     .least_width = 32,
     .most_width = 64,
     .engines = 6,
     .arrays = 2,
     .units = 7,
     .keeps_denormals = true,
     .khr = blocks_of_16},
    {.name = "Apple M1",
     .driver = "MoltenVK",
     .vendor = 0x106b,
     .type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
     .memory = 16 * GIB,
     .maps_all = true,
     .width = 32,
     .bindings = 31,
     .is_portability = true,
     .khr = blocks_of_4},
    {.name = "Intel(R) Iris(R) Xe Graphics (TGL GT2)",
     .driver = "Intel open-source Mesa driver",
     .vendor = 0x8086,
     .id = 0x9a49,
     .type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
     .memory = 12 * GIB,
     .maps_all = true,
     .width = 32,
     .least_width = 8,
     .most_width = 32},
};
enum { VULKAN_3060, VULKAN_A770, VULKAN_7900, VULKAN_M1, VULKAN_XE };

#endif
