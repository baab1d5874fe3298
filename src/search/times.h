/* Statistics of a few measured times, for searches and races. */
#ifndef TUFF_SEARCH_TIMES_H
#define TUFF_SEARCH_TIMES_H

#include <stdint.h>

enum { MAX_TIMES = 64 };

/* Sorts times, the shortest first. */
void tuff__times_sort(uint64_t *times, int count);
/* Computes the quartiles and median of 1 to MAX_TIMES times, interpolated between neighbours. */
void tuff__times_quartiles(const uint64_t *times, int count, uint64_t quartiles[3]);
uint64_t tuff__times_median(const uint64_t *times, int count);
/* Returns half the width of the 95 % confidence interval of the median: 1.57 (q75 - q25) / sqrt(count) (McGill, Tukey
   and Larsen 1978, Variations of Box Plots). */
double tuff__times_spread(const uint64_t quartiles[3], int count);

#endif
