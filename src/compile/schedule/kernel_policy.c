/* Looks up tunables for a task: in its own configuration, else in the caller's options, else a default for the device.
   Owns nothing; kernel_policy.h explains the parts. */
#include "compile/schedule/kernel_policy.h"

#include <string.h>

int64_t tuff__processors_or_usual(const kernel_policy *policy)
{
    enum { USUAL = 16 };
    const int64_t known = tuff__processor_count(policy->target.info);
    return known > 0 ? known : USUAL;
}

bool tuff__uses_registers(const kernel_policy *policy)
{
    const tuff_family family = tuff__family(policy);
    if (family == TUFF_FAMILY_REGISTER || family == TUFF_FAMILY_LOCAL)
        return family == TUFF_FAMILY_REGISTER;
    return policy->target.avoids_local_memory;
}

/* Returns the table's default for the device. */
static int table_default(const kernel_policy *policy, tunable name)
{
    const tuff_device_info *info = policy->target.info;
    if (!policy->target.is_cpu || !tuff__uses_registers(policy))
        return tuff__tunable_default(name, KERNELS_GPU, info->vendor_id);
    return tuff__tunable_default(name, policy->target.items_are_lanes ? KERNELS_VULKAN_CPU : KERNELS_OPENCL_CPU,
                                 info->vector_width);
}

int tuff__tunable_device_default(const kernel_policy *policy, tunable name)
{
    const char *own = tuff__tunable_info(name)->name;
    const int most = (int)policy->target.info->max_group_size;
    int value = table_default(policy, name);
    if (strcmp(own, "local_size") == 0 || strcmp(own, "wide_size") == 0)
        while (value > most && value > 1)
            value /= 2;
    return value;
}

/* Returns the configuration's value, else the default. */
int tuff__tunable_value_or(const kernel_policy *policy, tunable name, int by_default)
{
    if (policy->defaults != NULL)
        by_default = tuff__config_value(policy->defaults, name, by_default);
    if (policy->used_tunables != NULL && !tuff__config_has(policy->used_tunables, name))
        tuff__config_set(policy->used_tunables, name, by_default);
    return policy->config == NULL ? by_default : tuff__config_value(policy->config, name, by_default);
}

int tuff__tunable_value(const kernel_policy *policy, tunable name)
{
    return tuff__tunable_value_or(policy, name, tuff__tunable_device_default(policy, name));
}

bool tuff__is_deterministic(const tuff_compile_options *options)
{
    return options->tuning != NULL && options->tuning->deterministic;
}

tuff_family tuff__family(const kernel_policy *policy)
{
    if (policy->family != TUFF_FAMILY_DEVICE)
        return policy->family;
    const int wanted = tuff__tunable_value_or(policy, TUNABLE_task_family, TUFF_FAMILY_DEVICE);
    return wanted >= FAMILY_COUNT ? TUFF_FAMILY_DEVICE : (tuff_family)wanted;
}

tuff_matmul_library tuff__library(const kernel_policy *policy)
{
    const bool wanted = policy->family == TUFF_FAMILY_DEVICE &&
                        tuff__tunable_value_or(policy, TUNABLE_task_family, TUFF_FAMILY_DEVICE) >= FAMILY_COUNT;
    return wanted ? TUFF_MATMUL_CLBLAST : policy->library;
}

int tuff__native_lanes(const kernel_policy *policy)
{
    const uint32_t lanes = policy->target.info->vector_width;
    if (policy->target.items_are_lanes || !tuff__uses_registers(policy))
        return 4;
    const int wanted = tuff__tunable_value_or(policy, TUNABLE_task_lanes, 0);
    return wanted >= 4 ? wanted : lanes > 0 && lanes < 8 ? 4 : lanes == 8 ? 8 : 16;
}

int tuff__vector_width(const kernel_policy *policy, int64_t extent)
{
    int width = tuff__native_lanes(policy);
    while (width > 4 && width > extent)
        width /= 2;
    return extent < 4 ? 1 : width;
}

/* CPU drivers keep the arrays of all items of a group on a thread's stack, and crash if it is too small: PoCL's threads
   have the system's default stack, 2 MiB if the stack limit of the process is "unlimited". */
int64_t tuff__max_array_bytes(const kernel_policy *policy, uint32_t local_size)
{
    enum { SAFE_ON_STACKS = 1 << 20 };
    return policy->target.is_cpu ? SAFE_ON_STACKS / (int64_t)local_size : INT32_MAX;
}
