/* What determines the kernels of a task: the device, the caller's options, and the task's own configuration. Tunables
   are looked up here, and each lookup can be recorded, to find the tunables that a task has. */
#ifndef TUFF_COMPILE_SCHEDULE_KERNEL_POLICY_H
#define TUFF_COMPILE_SCHEDULE_KERNEL_POLICY_H

#include "device/target.h"
#include "tuff/graph.h"
#include "kernels/config.h"

typedef struct kernel_policy {
    target target;
    tuff_family family;
    tuff_matmul_library library;
    bool is_deterministic;       /* the plan is compiled in deterministic mode */
    const tune_config *config;   /* of the task; NULL: the defaults */
    const tune_config *defaults; /* override the device's defaults if those loop for too long; may be NULL */
    tune_config *used_tunables;  /* if not NULL, gets the tunables that are looked up, with their default values */
} kernel_policy;

/* Returns the value of a tunable. A CPU device for which the local family is requested gets a GPU's default. */
int tuff__tunable_value(const kernel_policy *policy, tunable name);
/* The same if the default depends on the task's shape, not on the table. */
int tuff__tunable_value_or(const kernel_policy *policy, tunable name, int by_default);
/* Returns the table's default for the device; sizes of groups are made to fit it. */
int tuff__tunable_device_default(const kernel_policy *policy, tunable name);
/* Whether the options ask for deterministic mode. */
bool tuff__is_deterministic(const tuff_compile_options *options);
/* The family of kernels and the library, from the options and the configuration. */
tuff_family tuff__family(const kernel_policy *policy);
tuff_matmul_library tuff__library(const kernel_policy *policy);
/* Returns tuff__processor_count of the device, or a usual number if it is unknown. */
int64_t tuff__processors_or_usual(const kernel_policy *policy);
/* Whether kernels give a row or tile to one item, without local memory. */
bool tuff__uses_registers(const kernel_policy *policy);
/* Lanes of the vectors that kernels use: 4, 8 or 16. */
int tuff__native_lanes(const kernel_policy *policy);
/* Lanes of a vector for an axis of that extent that is computed in vectors. */
int tuff__vector_width(const kernel_policy *policy, int64_t extent);
/* Bytes of private arrays that an item of a group of local_size may have. */
int64_t tuff__max_array_bytes(const kernel_policy *policy, uint32_t local_size);

#endif
