/* What tests of compiling ahead share: graphs, a tuner that is driven by hand, and candidates for it. */
#ifndef TESTS_COMPILE_POOL_FIXTURE_H
#define TESTS_COMPILE_POOL_FIXTURE_H

#include "product_runs.h"
#include "autotune/compile_pool.h"

enum { THREADS = 3 };

/* off: nothing is measured; quick: for a few seconds. */
extern const tuff_compile_options untuned, tuned_quickly;

/* A plan with tasks of many kinds: products, what is behind and before them, rows, columns, updates in place, sorted
   sums; not tuned. The array of zeros that it updates is the caller's, too. */
tuff_plan *compile_many(tuff_graph *graph, tuff_array *weights);
tuff_array *make_weights(tuff_device *device);

/* With tuff__compile_pool_threads threads. */
void begin_tuner(tuning_session *self, tuff_plan *plan);
void end_tuner(tuning_session *self);
/* A few choices that can be lowered, in slots from 1 on, none with the kernels `default`; how many there are. */
int draw_candidates(tuning_task *task, uint64_t defaults, search_candidate *out, int most);

#endif
