/* Counts the loop iterations of a launch: those of all loops of one work-item together, counted as drivers that end
   loops early count them. A loop counts once for each iteration and once more for its exit. The count is that of the
   item with the most work, because lanes in lockstep leave loops together. Loops that the kernel text asks compilers to
   unroll do not count. Each body has a function that reads the launch's parameters in the order in which the body
   declares them: the column `loops` of the rows BODY in kernels.def. Read next: loop_limit.c. */
#ifndef TUFF_COMPILE_LOWER_LOOP_COUNT_H
#define TUFF_COMPILE_LOWER_LOOP_COUNT_H

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "compile/lower/launch_list.h"

enum { VECTOR_LANES = 4 }; /* elements of a vector in a tile's epilogue */

/* Upper bounds of the loop iterations of one work-item. */
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

/* Returns the number that the launch defines as `name`, or 0. */
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
    return index < kernel->parameter_count ? (double)kernel->parameters[index] : 0;
}

/* Counts a loop whose body has `inner` iterations of its own: one for each iteration, and one for the exit. */
static inline double loop(double times, double inner)
{
    return 1 + times * (1 + inner);
}

/* Counts the tree in which `lanes` lanes combine the results of a reduction. */
static inline double tree_steps(double lanes)
{
    double times = 0;
    for (; lanes > 1; lanes /= 2)
        ++times;
    return loop(times, 0);
}

/* Counts a tile's epilogue, where partial vectors are written element by element. */
static inline double count_elements(const launch *kernel, const char *rows, const char *columns)
{
    return greater(defined(kernel, rows), 1) * greater(defined(kernel, columns), 1) *
           loop(greater(kernel->vec, VECTOR_LANES), 0);
}

#endif
