/* A plan that is tuned in the background, the results that it must compute, and control over when its thread may
   work. */
#ifndef TESTS_BACKGROUND_FIXTURE_H
#define TESTS_BACKGROUND_FIXTURE_H

#include "base/file/lock.h"
#include "tuff.h"

enum { PLAN_ROWS = 24, PLAN_INNER = 40, PLAN_COLUMNS = 56 };
#define MILLISECOND UINT64_C(1000000)

/* y = gelu(x · w), p = softmax(y), and count, which every run increments. w and count are arrays. */
typedef struct subject_plan {
    tuff_device *device;
    tuff_graph *graph;
    tuff_array *w, *count;
    tuff_plan *plan;
    float scale; /* of w when it was last written */
} subject_plan;

/* Builds the graph, without a plan. Fails the test on errors. */
void plan_begin(subject_plan *self, tuff_device *device);
/* Compiles; returns false if tuff_compile returns NULL. */
bool plan_compile(subject_plan *self, const tuff_compile_options *options);
void plan_write_x(subject_plan *self);
void plan_write_w(subject_plan *self, float scale);
/* Runs, and fails the test if the results differ from the host's. */
void plan_run(subject_plan *self, int count);
/* Reads all results of the last run. */
void plan_read(subject_plan *self, float *out);
enum { PLAN_RESULTS = 2 * PLAN_ROWS * PLAN_COLUMNS };
void plan_end(subject_plan *self);

tuff_tune_stats plan_stats(const subject_plan *self);
/* Waits until tuning in the background is over; fails after two minutes. */
tuff_tune_stats plan_await(const subject_plan *self);

/* The candidates of the winners that plan_remember stores. */
extern const char *const remembered_product, *const remembered_row;
/* Stores a winner for the plan's product and one for its rows in the device's store. */
void plan_remember(subject_plan *self);
void forget_stores(void);

/* Locks the device: nothing is measured until the lock is released. */
void lock_device(tuff_device *device, file_lock *out);
/* Sets how long a device must be idle. */
void set_idle(uint64_t nanoseconds);

#endif
