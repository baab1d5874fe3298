/* The parts of slow_gpu.c that differ between the APIs: slow_opencl.c and slow_vulkan.c. */
#ifndef TUFF_TESTS_SLOW_API_H
#define TUFF_TESTS_SLOW_API_H

#include "device/driver.h"
#include "device/submit/predictor.h"
#include "slow_gpu.h"

typedef struct slow_api {
    void (*install)(void); /* replaces the functions of the API */
    void (*restore)(void);
    /* Called around the driver's recording_create; made: the recording, NULL if there is none. */
    void (*begin_recording)(const command *commands, int count);
    void (*end_recording)(driver_recording *made, const command *commands, int count);
    time_predictor *(*predictor)(driver_device *device);
} slow_api;

/* Returns the simulated nanoseconds of one group. */
double slow_gpu_group_time(const command *work);
/* Counts a submission whose kernels take that long. */
void slow_gpu_submit(double time);

#endif
