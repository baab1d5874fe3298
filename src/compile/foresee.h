/* How long the launches of one task may take, before any of them is compiled: by textbook, from waves of groups, what
   occupancy hides, the intensity of tiles and the bytes that must move. Good enough to say which of two candidates is
   tried first, and for nothing else: tests/tune_recordings shows what it is worth. */
#ifndef TUFF_COMPILE_FORESEE_H
#define TUFF_COMPILE_FORESEE_H

#include "compile/lower.h"

/* The sums that an item keeps at a time, in vectors, and how many terms are added to each. */
void tuff__foresee_sums(launch *of, int64_t rows, int64_t columns, double terms);

/* Cycles, about; 0: not known, as of what a library computes. Only costs of one task on one device can be compared. */
double tuff__foresee_cost(const lowered *of);

#endif
