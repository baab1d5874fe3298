/* Counting how often the loops of a launch go round: all steps of all loops of one work-item together, as a driver
   counts that ends loops early. A loop counts once for each time round and once more for its end. Counted is the item
   that has most to do, since lanes in lockstep end loops together; loops that a kernel's text asks compilers to unroll
   do not count. Each body has a function that reads the launch's parameters in the order in which the body names them:
   the column `loops` of the rows BODY in kernels.def. Read next: loop_limit.c. */
#ifndef TUFF_COMPILE_LOWER_LOOP_COUNT_H
#define TUFF_COMPILE_LOWER_LOOP_COUNT_H

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "compile/lower/launch_list.h"

enum { VECTOR_LANES = 4 }; /* elements of a vector in what follows a tile */

/* Steps of the loops of one work-item, at most. */
#define BODY(name, loops) double tuff__loops_##loops(const launch *kernel);
#include "kernels/kernels.def"

static inline double divide_up(double a, double b)
{
    return (double)tuff__divide_up((int64_t)a, (int64_t)b);
}

static inline double quotient(double a, double b)
{
    return (double)((int64_t)a / (int64_t)b);
}

static inline double remainder_of(double a, double b)
{
    return (double)((int64_t)a % (int64_t)b);
}

static inline double lesser(double a, double b)
{
    return a < b ? a : b;
}

static inline double greater(double a, double b)
{
    return a > b ? a : b;
}

/* The number that a launch defines by that name; 0 where it does not. */
static inline double defined(const launch *kernel, const char *name)
{
    char line[64];
    int value = 0;
    (void)snprintf(line, sizeof line, "#define %s ", name);
    const char *found = strstr(kernel->defines, line);
    return found != NULL && sscanf(found + strlen(line), "%d", &value) == 1 ? value : 0;
}

static inline double parameter(const launch *kernel, int index)
{
    return index < kernel->fixed_count ? (double)kernel->fixed[index] : 0;
}

/* A loop whose body has loops of `inner` steps: a step for each time round, and one for its end. */
static inline double loop(double times, double inner)
{
    return 1 + times * (1 + inner);
}

/* What is behind a tile, where partial vectors are written element by element. */
static inline double count_elements(const launch *kernel, const char *rows, const char *columns)
{
    return greater(defined(kernel, rows), 1) * greater(defined(kernel, columns), 1) *
           loop(greater(kernel->vec, VECTOR_LANES), 0);
}

#endif
