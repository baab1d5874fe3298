/* A tensor of a graph that `tuff verify FILE` compares with the reference: an output, or an array that a run changes.

   Tolerances are like those of random programs, and each run of GRAPH_RESULT_PART elements has its own, so that a small
   part of a slab cannot hide behind a large one: a fraction of the part's largest element, for an array of its largest
   change; a much smaller fraction of the tensor's; and a multiple of how far rounding moves the part. The latter is
   found by repeating the run on the reference with rounding at the points where kernels round, on several grids. An
   element that rounding turns into NaN, into a number, or into another integer is excused. */
#ifndef TUFF_TOOLS_VERIFY_GRAPH_RESULT_H
#define TUFF_TOOLS_VERIFY_GRAPH_RESULT_H

#include "tuff.h"

enum { GRAPH_RESULT_PART = 256 };

typedef struct graph_result {
    const char *name; /* "" if it has none */
    int number;       /* of the output in the plan, or of the array in the graph */
    bool is_array;
    tuff_dtype dtype;
    tuff_shape shape;
    int64_t count;
    double *begin; /* of a step: the array before it; NULL: an output */
    double *value; /* the reference's elements after it */
    double *noise; /* how far rounding moves each of them; infinite: it may be anything */
    /* Of the step with the largest ratio. */
    double largest; /* element, or change of an array */
    double error;   /* relative to that */
    double ratio;   /* largest error relative to its tolerance */
    int64_t wide;   /* elements whose tolerance says little, or that are excused */
    int64_t wrong;  /* elements; then `failure` describes the first one, and later steps are not compared */
    char failure[192];
} graph_result;

/* Allocates the values; *out has everything above `count`. TUFF_E_OOM_HOST. Call graph_result_free even after a
   failure. */
tuff_status graph_result_make(graph_result *out);
void graph_result_free(graph_result *self);

/* Forgets the noise of the last step; adds that of a run whose elements are `moved`. */
void graph_result_clear_noise(graph_result *self);
void graph_result_add_noise(graph_result *self, const double *moved);
/* Compares a device's elements after a step, counted from 1. */
void graph_result_compare(graph_result *self, const double *got, int step);

/* Whether a device's elements could hardly be wrong: they are 0 or excused, or their tolerance is wide. */
bool graph_result_says_little(const graph_result *self);
void graph_result_print(const graph_result *self);
void graph_result_print_json(const graph_result *self);

#endif
