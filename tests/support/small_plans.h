/* Small plans and arrays for tests. Each of these fails the test where the library answers an error. */
#ifndef TESTS_SMALL_PLANS_H
#define TESTS_SMALL_PLANS_H

#include "tuff.h"

tuff_plan *compile_plan(tuff_graph *graph);
/* As tuff_compile makes it, but without commands and programs: for a plan that nobody runs. NULL where tuff_compile
   answers it. */
tuff_plan *plan_without_programs(tuff_graph *graph, const tuff_compile_options *options);
void run_plan(tuff_plan *plan);
/* Writes an f32 input, at most 4096 elements: (i % period - period / 2) / divisor. */
void write_steps(tuff_plan *plan, const char *name, int count, int period, float divisor);
void destroy_plan(tuff_plan *plan, tuff_graph *graph);

/* An array of rank 1 that holds data. */
tuff_array *make_array(tuff_device *device, tuff_dtype dtype, int64_t count, const void *data);
/* At most 256 bytes, bit for bit. */
void expect_array(tuff_array *array, const void *expected);
void expect_output(tuff_plan *plan, const char *name, const void *expected, size_t size);

/* How many tasks of a kind a plan has; of those whose program has the name, where one is given. */
int count_tasks(const tuff_plan *plan, const char *kind, const char *name);

/* The elements of a tensor of rank 1 in reverse. */
tuff_tensor *reversed(tuff_tensor *x);

#endif
