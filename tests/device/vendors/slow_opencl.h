/* OpenCL with the slow GPUs of slow_gpu.h: the driver that they open. */
#ifndef TUFF_TESTS_SLOW_OPENCL_H
#define TUFF_TESTS_SLOW_OPENCL_H

#include "slow_api.h"

extern const slow_api slow_opencl;

#endif
