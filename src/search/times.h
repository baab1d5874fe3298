/* Statistics of a few measured times. */
#ifndef TUFF_SEARCH_TIMES_H
#define TUFF_SEARCH_TIMES_H

#include <stdint.h>

enum { TIMES_MOST = 64 };

/* q25, median, q75 of 1 to TIMES_MOST times, between neighbours where they fall there. */
void tuff__times_quartiles(const uint64_t *times, int count, uint64_t quartiles[3]);
uint64_t tuff__times_median(const uint64_t *times, int count);
/* Half the width of the 95 % interval of the median of so many times: 1.57 times the distance of the quartiles over the
   root of the count (McGill, Tukey, Larsen 1978). */
double tuff__times_spread(const uint64_t quartiles[3], int count);

#endif
