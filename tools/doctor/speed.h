/* Measures how fast a device is, next to what is predicted for it. */
#ifndef TUFF_TOOLS_DOCTOR_SPEED_H
#define TUFF_TOOLS_DOCTOR_SPEED_H

#include "base/status.h"
#include "tuff/device.h"

/* Results of measurements; 0 if one was not possible. */
typedef struct doctor_speed {
    double operations, bytes;  /* per second: of a loop of multiply-adds, of a copy */
    double launch, submission; /* seconds: for each further kernel; to start one kernel and wait for it */
    double matmul, attention;  /* operations per second; f32 */
    double matmul_predicted, attention_predicted;
    int matmul_side, attention_length;
} doctor_speed;

/* Measures for about that many seconds. A measurement that fails stays 0, and failure gets the first reason. */
void doctor_measure(tuff_device *device, double seconds, doctor_speed *out, char *failure, size_t failure_size);

#endif
