/* The memory that candidates of one task run on: for what the task reads and writes, apart from everybody else's, with
   made-up data in it, and the results that its kernels should give. */
#ifndef TUFF_MEASURE_TEST_BUFFERS_H
#define TUFF_MEASURE_TEST_BUFFERS_H

#include "compile/lower/lower.h"

typedef struct test_buffers test_buffers;

/* most: bytes that may be taken. */
tuff_status tuff__test_buffers_create(tuff_device *device, const struct fusion *fusion, int task, uint64_t most,
                                      test_buffers **out);
void tuff__test_buffers_destroy(test_buffers *self); /* NULL is allowed */
uint64_t tuff__test_buffers_size(const test_buffers *self);

/* Before the first place: data with whole significands, so that results depend on the order of their terms. */
void tuff__test_buffers_roughen(test_buffers *self);

/* Gives the launches of the task their memory; what none had yet is made and filled. TUFF_E_LIMIT: more than the test
   buffers may have. */
tuff_status tuff__test_buffers_place(test_buffers *self, launch_list *launches);

/* Whether results must be equal to the last bit whatever the order of sums: see tuff__subgraph_is_exact. */
void tuff__test_buffers_expect_exact(test_buffers *self);
/* Before a run whose results are looked at: fills what is written with a pattern that no kernel stores, another one
   than before the last run, and what is changed in place with what it held at first. */
tuff_status tuff__test_buffers_poison(test_buffers *self);
/* Keeps what was written as what is right. */
tuff_status tuff__test_buffers_keep(test_buffers *self);
/* Whether what was written has the bits of what is kept. */
tuff_status tuff__test_buffers_is_kept(test_buffers *self, bool *same);
/* Compares what was written with that: *wrong is a line about the first difference beyond rounding (of sums in another
   order, where the task has sums), or "" . exactly: no difference is allowed; what the last comparison saw is right. */
tuff_status tuff__test_buffers_compare(test_buffers *self, bool exactly, char *wrong, size_t size);

/* After a run whose results were kept, and another that was compared: looks at every element. *wrong is a line about
   the first of the task's that neither run wrote, or that the first wrote though other tasks store it; "" where there
   is none. Of what is changed in place nothing is said. */
tuff_status tuff__test_buffers_look_through(const test_buffers *self, char *wrong, size_t size);
/* Of a root's elements that are kept as right and have a value that what was left out may have too, which is what they
   held before where the task changes that, else 0: some from the first to the last, as numbers in the root's order.
   Answers how many. */
enum { MOST_SUSPECTS = 8 };
int tuff__test_buffers_suspects(const test_buffers *self, const node *root, int64_t out[MOST_SUSPECTS]);
/* Whether a root has elements, and all that is kept of them is 0. */
bool tuff__test_buffers_is_zero(const test_buffers *self, const node *root);

/* What element `at` of a buffer that is only read holds, and what is right of one that is written; counted from the
   beginning of the buffer that it is a part of. False where the task's kernels have no such element. */
bool tuff__test_buffers_input(const test_buffers *self, int buffer, int64_t at, double *out);
bool tuff__test_buffers_right(const test_buffers *self, int buffer, int64_t at, double *out);

#endif
