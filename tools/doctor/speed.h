/* How fast a device is, beside what is predicted of it. */
#ifndef TUFF_TOOLS_DOCTOR_SPEED_H
#define TUFF_TOOLS_DOCTOR_SPEED_H

#include "base/status.h"
#include "tuff/device.h"

/* What was measured; 0: it could not be. */
typedef struct doctor_speed {
    double operations, bytes;  /* a second: of a loop of multiply-adds, of a copy */
    double launch, submission; /* seconds: from one kernel to the next; to start one and to wait for it */
    double matmul, attention;  /* operations a second; f32 */
    double matmul_predicted, attention_predicted;
    int matmul_side, attention_length;
} doctor_speed;

/* Measures for about as many seconds. What fails is left 0, and failure gets the first reason. */
void doctor_measure(tuff_device *device, double seconds, doctor_speed *out, char *failure, size_t failure_size);

#endif
