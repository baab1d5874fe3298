/* What the kernels of a task are made by: the device they are for, what the caller's options ask for, and the task's
   own configuration. Tunables are looked up here, and are told to whoever wants to know which a task has. */
#ifndef TUFF_COMPILE_SCHEDULE_KERNEL_POLICY_H
#define TUFF_COMPILE_SCHEDULE_KERNEL_POLICY_H

#include "device/target.h"
#include "tuff/graph.h"
#include "kernels/config.h"

typedef struct kernel_policy {
    target target;
    tuff_family family;
    tuff_matmul_library library;
    const tune_config *config;   /* of the task; NULL: the defaults */
    const tune_config *defaults; /* in place of those of the device, where these loop for too long; NULL: none */
    tune_config *used_tunables;  /* where not NULL: gets the tunables that are asked for, with their default values */
} kernel_policy;

/* The value of a tunable; a CPU device that is asked for the local family gets a GPU's. */
int tuff__tuned(const kernel_policy *policy, tunable name);
/* The same where the task's shape, not the table, says what the default is. */
int tuff__tuned_from(const kernel_policy *policy, tunable name, int by_default);
/* The table's default for the device. */
int tuff__tunable_of(const kernel_policy *policy, tunable name);
/* The family of kernels and the library, by the options and the configuration. */
tuff_family tuff__family(const kernel_policy *policy);
tuff_matmul_library tuff__library(const kernel_policy *policy);
/* Whether kernels keep to one item a row or tile, without local memory. */
bool tuff__uses_registers(const kernel_policy *policy);
/* Lanes of the vectors that kernels use: 4, 8 or 16. */
int tuff__native_lanes(const kernel_policy *policy);
/* Lanes of a vector where an axis of that extent is walked by vectors. */
int tuff__vector_width(const kernel_policy *policy, int64_t extent);
/* Bytes of arrays that an item may have where local_size of them are a group. */
int64_t tuff__max_array_bytes(const kernel_policy *policy, uint32_t local_size);

#endif
