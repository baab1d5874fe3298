/* Makes devices look like a GPU with matrix units, so that tests can inspect what is compiled for one without running
   it. */
#ifndef TUFF_TESTS_GPU_DESCRIPTION_H
#define TUFF_TESTS_GPU_DESCRIPTION_H

#include "device/device.h"

/* 32 units with subgroups of 32 lanes, 64 KiB of local memory, 16-bit storage, and matrix units of f16; of bf16 too
   where kernels are OpenCL C. */
void describe_as_gpu(tuff_device *device);

#endif
