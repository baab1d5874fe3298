/* Test buffers: memory of its own that the candidates of one task run on, with made-up inputs, and with the results
   that are known to be right. */
#ifndef TUFF_MEASURE_TEST_BUFFERS_H
#define TUFF_MEASURE_TEST_BUFFERS_H

#include "compile/lower/lower.h"

typedef struct test_buffers test_buffers;

/* most: bytes that may be taken. */
tuff_status tuff__test_buffers_create(tuff_device *device, const struct fusion *fusion, int task, uint64_t most,
                                      test_buffers **out);
void tuff__test_buffers_destroy(test_buffers *self); /* NULL is allowed */
uint64_t tuff__test_buffers_size(const test_buffers *self);

/* Call this before the first place: fills inputs with numbers that use their full significands, so that results depend
   on the order of sums. */
void tuff__test_buffers_use_full_significands(test_buffers *self);

/* Gives the launches of the task their memory; regions that no earlier launches had are created and filled.
   TUFF_E_OOM_DEVICE: more than `most` bytes. */
tuff_status tuff__test_buffers_place(test_buffers *self, launch_list *launches);

/* Results must be equal to the last bit whatever the order of sums: see tuff__subgraph_is_exact. */
void tuff__test_buffers_expect_exact(test_buffers *self);
/* Call this before a run whose results are compared: fills results with a pattern that no kernel stores, different from
   the last one, and restores the initial values of what is changed in place. */
tuff_status tuff__test_buffers_poison(test_buffers *self);
/* Keeps what was written as what is right. */
tuff_status tuff__test_buffers_keep(test_buffers *self);
/* Whether what was written has the bits of what is kept. */
tuff_status tuff__test_buffers_is_kept(test_buffers *self, bool *same);
/* Compares the results with the kept ones. *wrong becomes a line about the first difference beyond rounding, "" if
   there is none; a task with sums may add in another order. exactly: bit for bit with what the last comparison saw. */
tuff_status tuff__test_buffers_compare(test_buffers *self, bool exactly, char *wrong, size_t size);

/* After a run whose results were kept, and another one that was compared: checks which elements were written. *wrong
   becomes a line about the first element of the task that neither run wrote, or of another task that the first run
   wrote; "" if there is none. Does not check what is changed in place. */
tuff_status tuff__test_buffers_look_through(const test_buffers *self, char *wrong, size_t size);
/* Indices, in the root's order, of some of its elements whose kept value could also mean that they were never written:
   0, or the initial value of an element that is changed in place. Spread from the first to the last. Returns how
   many. */
enum { MAX_SUSPECTS = 8 };
int tuff__test_buffers_suspects(const test_buffers *self, const node *root, int64_t out[MAX_SUSPECTS]);
/* Whether a root has elements and all its kept values are 0. */
bool tuff__test_buffers_is_zero(const test_buffers *self, const node *root);

/* The value of element `at` of an input, and the kept value of element `at` of a result, counted from the beginning of
   the whole buffer. False if the task's kernels have no such element. */
bool tuff__test_buffers_input(const test_buffers *self, int buffer, int64_t at, double *out);
bool tuff__test_buffers_right(const test_buffers *self, int buffer, int64_t at, double *out);

#endif
