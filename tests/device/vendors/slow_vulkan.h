/* Vulkan with slow GPUs: see slow_gpu.h. */
#ifndef TUFF_TESTS_SLOW_VULKAN_H
#define TUFF_TESTS_SLOW_VULKAN_H

#include "slow_api.h"

extern const slow_api slow_vulkan;

#endif
