/* Measures how fast a device is, and writes that next to what is predicted for it. */
#ifndef TUFF_TOOLS_DOCTOR_SPEED_H
#define TUFF_TOOLS_DOCTOR_SPEED_H

#include "base/text.h"
#include "tools/doctor/predict.h"
#include "tuff/device.h"

typedef enum doctor_work {
    DOCTOR_MATMUL, /* f32 unless the name says otherwise */
    DOCTOR_MATMUL_F16,
    DOCTOR_MATMUL_BF16,
    DOCTOR_ATTENTION,
    DOCTOR_ATTENTION_F16,
    DOCTOR_ROW, /* one row times a matrix */
    DOCTOR_WORKS
} doctor_work;

typedef struct doctor_sizes {
    int matmul, row;          /* sides of the square matrices */
    int batch, heads, length; /* of attention */
} doctor_sizes;

/* Results of measurements; 0 if one was not possible. */
typedef struct doctor_speed {
    double operations, bytes;   /* per second: of a loop of multiply-adds, of a copy */
    double launch, submission;  /* seconds: for each further kernel; to start one kernel and wait for it */
    double rates[DOCTOR_WORKS]; /* per second: operations, of DOCTOR_ROW the bytes of the matrix */
    doctor_sizes sizes;
} doctor_speed;

/* Measures for about that many seconds, the works in 16 bits only if doctor_has_16_bits. sizes: NULL for those that fit
   the measured rate of multiply-adds. A measurement that fails stays 0, and failure gets the first reason. */
void doctor_measure(tuff_device *device, double seconds, const doctor_sizes *sizes, doctor_speed *out, char *failure,
                    size_t failure_size);

/* Adds a line for each result, and SLOW to those far below the prediction. Returns their number. */
int doctor_write_speed(const doctor_speed *speed, const doctor_prediction *predicted, text *out);

#endif
