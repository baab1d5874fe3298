/* Small plans and arrays for tests. Each of these functions fails the test if the library returns an error. */
#ifndef TESTS_SMALL_PLANS_H
#define TESTS_SMALL_PLANS_H

#include "tuff.h"

tuff_plan *compile_plan(tuff_graph *graph);
/* Compiles a plan without commands and programs, for tests that do not run it. Returns NULL if tuff_compile does. */
tuff_plan *plan_without_programs(tuff_graph *graph, const tuff_compile_options *options);
void run_plan(tuff_plan *plan);
/* Fills an f32 input of at most 4096 elements with (i % period - period / 2) / divisor. */
void write_steps(tuff_plan *plan, const char *name, int count, int period, float divisor);
void destroy_plan(tuff_plan *plan, tuff_graph *graph);

/* Creates an array of rank 1 that holds data. */
tuff_array *make_array(tuff_device *device, tuff_dtype dtype, int64_t count, const void *data);
/* Checks that an array of at most 256 bytes equals expected bit by bit. */
void expect_array(tuff_array *array, const void *expected);
void expect_output(tuff_plan *plan, const char *name, const void *expected, size_t size);

/* Counts the tasks of a kind in a plan; if name is not NULL, only those whose program has that name. */
int count_tasks(const tuff_plan *plan, const char *kind, const char *name);

/* Returns the elements of a tensor of rank 1 in reverse order. */
tuff_tensor *reversed(tuff_tensor *x);
/* Checks that a call failed with this status, and with a message that contains `part`. */
void expect_error(tuff_status status, tuff_status expected, const char *part);

#endif
