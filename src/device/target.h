/* What compilation needs to know about a device: the language of its kernels and what its driver's compiler is good at.
   This file alone derives it from the device's facts. A new driver is described by its facts, not by its name. */
#ifndef TUFF_DEVICE_TARGET_H
#define TUFF_DEVICE_TARGET_H

#include "device/device.h"

typedef enum kernel_language { KERNEL_OPENCL_C, KERNEL_GLSL } kernel_language;

typedef struct target {
    const tuff_device_info *info; /* the device's; valid as long as the device */
    kernel_language language;
    bool is_cpu;
    bool avoids_local_memory; /* local memory is no nearer than global memory: copies to it gain nothing */
    /* The compiler maps the items of a group to lanes of the processor's vectors: neighbouring items should access
       neighbouring vectors of four. Otherwise an item is scalar code with vectors of its own, and few large items with
       wide vectors are best. */
    bool items_are_lanes;
    bool binds_ranges;           /* a kernel can be bound to part of a buffer; otherwise to all of it, with an offset */
    bool addresses_vectors;      /* vectors in memory are indexed in vectors: they begin at multiples of their size */
    bool stores_narrow;          /* 8-bit and 16-bit elements can be stored one at a time */
    bool has_memory_hints;       /* kernels can prefetch, and can store past the caches */
    bool has_fast_fma;           /* a fused multiply-add is one instruction, not a call */
    bool has_subgroup_matrices;  /* matrix units, proved by the self-test */
    bool has_dropout_on_units;   /* attention with dropout can use matrix units; else the compiler crashes on it */
    bool compiles_unrolled_fast; /* compile time is about linear in the length of the unrolled code */
    bool doubles_registers;      /* the compiler can be told to use twice as many registers (Intel's) */
    bool limits_registers;       /* the compiler can be told to use few registers, so that more groups run at a time */
    bool has_fast_private_arrays; /* in registers or the nearest cache, even if indexed lane by lane */
    bool groups_keep_running;     /* a group that has begun goes on until it ends, as a thread does, so that groups can
                                     wait for one another */
    int max_array_vectors;        /* larger arrays of an item are known to be miscompiled */
} target;

target tuff__device_target(const tuff_device *device);

/* Returns the number of processors that hold whole groups: each has local memory of its own. That is the number of
   compute units, but Intel's GPUs count vector engines, of which several share local memory. 0: unknown. */
int64_t tuff__processor_count(const tuff_device_info *info);

#endif
