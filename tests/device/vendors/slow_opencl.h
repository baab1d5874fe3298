/* OpenCL with slow GPUs: see slow_gpu.h. */
#ifndef TUFF_TESTS_SLOW_OPENCL_H
#define TUFF_TESTS_SLOW_OPENCL_H

#include "slow_api.h"

extern const slow_api slow_opencl;

#endif
