/* Predicts how fast a device's kernels should be, from what its compiler made of them, and judges measured rates. */
#ifndef TUFF_TOOLS_DOCTOR_PREDICT_H
#define TUFF_TOOLS_DOCTOR_PREDICT_H

#include "base/status.h"
#include "tuff/device.h"

typedef struct doctor_prediction {
    double matmul, attention; /* f32: shares of the rate of independent multiply-adds */
    /* Ratios to the rate of the same work in f32. */
    double matmul_f16, matmul_bf16, attention_f16;
    double row; /* one row times a matrix, f32: share of the bytes per second that a copy reads and writes */
} doctor_prediction;

/* Uses the vendor, the kind of device, and the matrix units that the self-test proved. */
doctor_prediction doctor_predict(const tuff_device_info *info);

/* Whether 16-bit products are worth measuring: the device has matrix units or 16-bit arithmetic. Other devices convert,
   which is not what their users choose for speed. */
bool doctor_has_16_bits(const tuff_device_info *info);

typedef enum doctor_verdict { DOCTOR_UNKNOWN, DOCTOR_AS_PREDICTED, DOCTOR_SLOW } doctor_verdict;

/* Compares a rate, or a ratio of rates, with the predicted one. Slow is less than half of it: predictions for devices
   that nobody has measured are not more exact. DOCTOR_UNKNOWN if either number is missing, that is, not positive. */
doctor_verdict doctor_judge(double measured, double predicted);

#endif
