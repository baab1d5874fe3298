/* Fixtures for tests of compiling ahead: graphs, a tuner that the test drives, and candidates for it. */
#ifndef TESTS_COMPILE_POOL_FIXTURE_H
#define TESTS_COMPILE_POOL_FIXTURE_H

#include "product_runs.h"
#include "autotune/compile_pool.h"

enum { THREADS = 3 };

/* untuned: nothing is measured; tuned_quickly: for a few seconds. */
extern const tuff_compile_options untuned, tuned_quickly;

/* Compiles, without tuning, a plan with tasks of many kinds: products with ops before and after them, rows, columns,
   updates in place, sorted sums. It updates `weights`, an array of zeros that the caller owns. */
tuff_plan *compile_many(tuff_graph *graph, tuff_array *weights);
tuff_array *make_weights(tuff_device *device);

/* Begins tuning with tuff__compile_pool_threads threads. */
void begin_tuner(tuning_session *self, tuff_plan *plan);
void end_tuner(tuning_session *self);
/* Draws a few configurations that can be lowered, in slots from 1 on, none with the kernels whose hash is `defaults`.
   Returns their number. */
int draw_candidates(tuning_task *task, uint64_t defaults, search_candidate *out, int most);

#endif
