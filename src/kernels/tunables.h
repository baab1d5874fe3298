/* The tunables of kernels.def as data. */
#ifndef TUFF_KERNELS_TUNABLES_H
#define TUFF_KERNELS_TUNABLES_H

typedef enum tunable {
#define TUNABLE(kernel, name, ...) TUNABLE_##kernel##_##name,
#define FOR_VENDOR(vendor, kernel, name, value)
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
    TUNABLE_COUNT
} tunable;

/* The columns of the table. */
typedef enum kernel_device { KERNELS_OPENCL_CPU, KERNELS_VULKAN_CPU, KERNELS_GPU } kernel_device;

typedef struct tunable_info {
    const char *kernel, *name;
    int values[3]; /* by kernel_device */
    int least, most;
} tunable_info;

const tunable_info *tuff__tunable_info(tunable of);
/* The value for the vendor's GPUs. */
int tuff__tunable_of_vendor(tunable of, unsigned vendor);

#endif
