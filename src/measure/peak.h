/* A device's peak rates: operations, by a loop of independent fused multiply-adds, and bandwidth, by a copy of 64 MiB,
   both through its driver. For the roofline of a search and for `tuff bench`. */
#ifndef TUFF_MEASURE_PEAK_H
#define TUFF_MEASURE_PEAK_H

#include "base/status.h"
#include "tuff/device.h"

typedef enum peak_kind { PEAK_OPERATIONS, PEAK_BYTES } peak_kind;
typedef struct peak peak;
#define PEAK_LONGEST_WARM_UP UINT64_C(2000000000) /* ns; clocks rise within some hundred milliseconds */

/* The reference device is not supported. */
tuff_status tuff__peak_create(tuff_device *device, peak_kind kind, peak **out);
void tuff__peak_destroy(peak *self); /* NULL is allowed */
/* Returns the f32 operations, or the bytes read and written, of one run. */
double tuff__peak_work(const peak *self);
/* Runs the kernel the given number of times, and waits for the end. */
tuff_status tuff__peak_run(peak *self, int count);
/* Times one run by the device's clock, or by the host's if the device has none. */
tuff_status tuff__peak_time(peak *self, uint64_t *nanoseconds);
/* Makes a GPU that was idle raise its clocks, by running the kernel for at most `longest` nanoseconds: the first time
   until its rate has stopped rising, later until it is nearly as fast again, or as it was when the time last ran out.
   A CPU runs it a few times, the first time only. */
tuff_status tuff__peak_warm(peak *self, uint64_t longest);
/* Returns the best rate per second that tuff__peak_warm has seen; 0: none. */
double tuff__peak_measured(const peak *self);
/* Measures a rate per second with a peak of its own. */
tuff_status tuff__peak_rate(tuff_device *device, peak_kind kind, double *rate);

#endif
