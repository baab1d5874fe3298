/* What compilation asks of a device: the language of its kernels and what its driver's compiler is good at, derived
   from the device's facts here and nowhere else. A new driver is described by a row of facts, not by its name. */
#ifndef TUFF_DEVICE_TARGET_H
#define TUFF_DEVICE_TARGET_H

#include "device/device.h"

typedef enum kernel_language { KERNEL_OPENCL_C, KERNEL_GLSL } kernel_language;

typedef struct target {
    const tuff_device_info *info; /* of the device, as long as that lives */
    kernel_language language;
    bool is_cpu;
    bool keeps_to_registers; /* local memory is no nearer than the rest: copies to it cost and gain nothing */
    /* The compiler makes the items of a group lanes of the processor's vectors: neighbouring items should access
       neighbouring vectors of four. Otherwise an item is scalar code with vectors of its own, and few large items of
       wide vectors are best. */
    bool items_are_lanes;
    bool binds_ranges;      /* a kernel can be given a part of a buffer; otherwise all of it, and an element offset */
    bool addresses_vectors; /* vectors in memory are counted in vectors: they begin at multiples of their size */
    bool stores_narrow;     /* elements of 8 and 16 bits can be stored one at a time */
    bool has_memory_hints;  /* kernels can prefetch, and store past the caches */
    bool has_fast_fma;      /* a fused multiply-add is one instruction, not a call */
    bool has_subgroup_matrices;  /* matrix units, proved by the device's self-test */
    bool compiles_unrolled_fast; /* compile time is about linear in the length of what is unrolled */
    bool keeps_arrays_near; /* an item's arrays are in registers or the nearest cache, indexed lane by lane or not */
    int max_array_vectors;  /* longer arrays of an item are known to be compiled wrongly */
} target;

target tuff__device_target(const tuff_device *device);

#endif
