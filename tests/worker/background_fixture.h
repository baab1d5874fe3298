/* A plan that is tuned in the background, what it must compute, and the means to say when its thread may work. */
#ifndef TESTS_BACKGROUND_FIXTURE_H
#define TESTS_BACKGROUND_FIXTURE_H

#include "base/file/lock.h"
#include "tuff.h"

enum { PLAN_ROWS = 24, PLAN_INNER = 40, PLAN_COLUMNS = 56 };
#define MILLISECOND UINT64_C(1000000)

/* y = gelu(x · w), p = softmax(y), and count, which every run raises by 1. w and count are arrays. */
typedef struct subject_plan {
    tuff_device *device;
    tuff_graph *graph;
    tuff_array *w, *count;
    tuff_plan *plan;
    float scale; /* of w, as it was written last */
} subject_plan;

/* The graph, without a plan. Fails the test where it cannot be had. */
void plan_begin(subject_plan *self, tuff_device *device);
/* Compiles; false where tuff_compile answers NULL. */
bool plan_compile(subject_plan *self, const tuff_compile_options *options);
void plan_write_x(subject_plan *self);
void plan_write_w(subject_plan *self, float scale);
/* Runs, and fails the test where results are not those of the host. */
void plan_run(subject_plan *self, int count);
/* What was computed last, all of it. */
void plan_read(subject_plan *self, float *out);
enum { PLAN_RESULTS = 2 * PLAN_ROWS * PLAN_COLUMNS };
void plan_end(subject_plan *self);

tuff_tune_stats plan_stats(const subject_plan *self);
/* Until tuning in the background is over; fails after two minutes. */
tuff_tune_stats plan_await(const subject_plan *self);

/* The candidates that winners are remembered with by plan_remember. */
extern const char *const remembered_product, *const remembered_row;
/* Adds a winner for the product and one for the rows of the plan to the device's store. */
void plan_remember(subject_plan *self);
void forget_stores(void);

/* Takes the device: nothing is measured until it is given back. */
void lock_device(tuff_device *device, file_lock *out);
/* How long a device must be left alone. */
void set_idle(uint64_t nanoseconds);

#endif
