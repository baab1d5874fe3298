/* Test buffers: separate memory on which the candidates of one task run, with made-up inputs, and with the results that
   are known to be correct. */
#ifndef TUFF_MEASURE_TEST_BUFFERS_H
#define TUFF_MEASURE_TEST_BUFFERS_H

#include "compile/lower/lower.h"

typedef struct test_buffers test_buffers;

/* memory_limit: in bytes. If the task is exact (tuff__subgraph_is_exact), results must be bitwise equal whatever the
   order of sums. */
tuff_status tuff__test_buffers_create(tuff_device *device, const struct fusion *fusion, int task, uint64_t memory_limit,
                                      test_buffers **out);
void tuff__test_buffers_destroy(test_buffers *self); /* NULL is allowed */
uint64_t tuff__test_buffers_size(const test_buffers *self);

/* Call this before tuff__test_buffers_place is called for the first time: fills inputs with numbers that use their full
   significands, so that results depend on the order of sums. */
void tuff__test_buffers_use_full_significands(test_buffers *self);

/* Gives the launches of the task their memory; regions that no earlier launches had are created and filled.
   TUFF_E_OOM_DEVICE: more than memory_limit bytes would be needed. */
tuff_status tuff__test_buffers_place(test_buffers *self, launch_list *launches);

/* Call this before a run whose results are compared: fills results with a pattern that no kernel stores, different from
   the last one, and restores the initial values of buffers that are changed in place. */
tuff_status tuff__test_buffers_poison(test_buffers *self);
/* Keeps the results of the last run as the correct ones. */
tuff_status tuff__test_buffers_keep(test_buffers *self);
/* Whether the results have the same bits as those kept. */
tuff_status tuff__test_buffers_match_expected(test_buffers *self, bool *same);
/* Compares the results with the kept ones. *fault describes the first difference beyond rounding, "" if there is none;
   a task with sums may add in another order. exactly: compares bit for bit with the results of the last comparison. */
tuff_status tuff__test_buffers_compare(test_buffers *self, bool exactly, char *fault, size_t size);

/* Checks which elements were written, after one run whose results were kept and another one that was compared. *fault
   describes the first element of the task that neither run wrote, or of another task that the first run wrote; "" if
   there is none. Buffers that are changed in place are not checked. */
tuff_status tuff__test_buffers_check_written(const test_buffers *self, char *fault, size_t size);
/* Returns the number of suspects and their indices, in the root's order: elements whose kept value could also mean that
   they were never written, namely 0, or the initial value of an element that is changed in place. The first and the
   last one are included. */
enum { MAX_SUSPECTS = 8 };
int tuff__test_buffers_suspects(const test_buffers *self, const node *root, int64_t out[MAX_SUSPECTS]);
/* Whether a root has elements and all its kept values are 0. */
bool tuff__test_buffers_is_zero(const test_buffers *self, const node *root);

/* Returns the buffer, not part of another, that holds the elements of a root or an input; *start: index of the first
   one in it. */
int tuff__test_buffers_root_buffer(const struct fusion *fusion, const node *value, int64_t *start);
/* Returns the relative error of rounding to a type of floats; integers count as f32. */
double tuff__dtype_rounding(tuff_dtype dtype);
/* Return the value of element `at` of an input, and the kept value of element `at` of a result, counted from the
   beginning of the whole buffer. False if the task's kernels have no such element. */
bool tuff__test_buffers_read_input(const test_buffers *self, int buffer, int64_t at, double *out);
bool tuff__test_buffers_read_expected(const test_buffers *self, int buffer, int64_t at, double *out);

#endif
