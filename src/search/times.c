/* Quartiles, medians and the spread of a few measured times. */
#include "search/times.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_times(const void *a, const void *b)
{
    const uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

void tuff__times_sort(uint64_t *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, compare_times);
}

/* Returns the value at quarter / 4 of the way through sorted times. */
static uint64_t quantile(const uint64_t *sorted, int count, int quarter)
{
    const int place = (count - 1) * quarter, below = place / 4, part = place % 4;
    const uint64_t low = sorted[below], high = sorted[part ? below + 1 : below];
    return low + (high - low) / 4 * (uint64_t)part + (high - low) % 4 * (uint64_t)part / 4;
}

void tuff__times_quartiles(const uint64_t *times, int count, uint64_t quartiles[3])
{
    assert(count > 0 && count <= MAX_TIMES);
    uint64_t sorted[MAX_TIMES];
    memcpy(sorted, times, (size_t)count * sizeof *times);
    tuff__times_sort(sorted, count);
    for (int i = 0; i < 3; i++)
        quartiles[i] = quantile(sorted, count, i + 1);
}

uint64_t tuff__times_median(const uint64_t *times, int count)
{
    uint64_t quartiles[3];
    tuff__times_quartiles(times, count, quartiles);
    return quartiles[1];
}

double tuff__times_spread(const uint64_t quartiles[3], int count)
{
    return 1.57 * (double)(quartiles[2] - quartiles[0]) / sqrt((double)count);
}
