/* Strided views and the paths of movement ops that lead to them. A path says how the coordinates of a task's iteration
   space (its domain) reach a node: its steps are kept from the node outwards, so that a leaf's address is found by
   applying them in order to the leaf's own layout. */
#ifndef TUFF_COMPILE_REWRITE_VIEW_H
#define TUFF_COMPILE_REWRITE_VIEW_H

#include "graph/graph.h"

/* Element (i0, i1, ...) lies at offset + sum of i·stride, in elements. Strides may be 0 or negative. */
typedef struct view {
    int rank;
    int64_t extent[TUFF_MAX_RANK], stride[TUFF_MAX_RANK];
    int64_t offset;
} view;

typedef enum step_kind { STEP_RESHAPE, STEP_PERMUTE, STEP_EXPAND, STEP_SLICE, STEP_PAD, STEP_UNFOLD } step_kind;

/* One movement. PAD extends an axis by elements that no address stands for: whoever reads there guards the read. */
typedef struct path path;
struct path {
    step_kind kind;
    tuff_shape shape;             /* of the result */
    int order[TUFF_MAX_RANK];     /* PERMUTE */
    int64_t start[TUFF_MAX_RANK]; /* SLICE: first element; PAD: elements before */
    int64_t step[TUFF_MAX_RANK];  /* SLICE; UNFOLD: as in op_attributes */
    int axis;                     /* UNFOLD */
    const node *source;           /* the node whose value is moved, for whoever must give up on the path; may be NULL */
    const path *outer;            /* the next step towards the domain; NULL: this was the last */
};

/* The shape with an axis in two, pieces × terms. */
tuff_shape tuff__shape_cut(tuff_shape shape, int axis, int64_t pieces, int64_t terms);
view tuff__view_contiguous(tuff_shape shape);
/* The layout of a shape whose axes lie in memory in the given order, outermost first. */
view tuff__view_ordered(tuff_shape shape, const int *order);
/* Applies one step; false where strides cannot say the result (a reshape across a seam). */
bool tuff__view_apply(view *view, const path *step);
/* Applies all steps from inner outwards. Where one fails: false, and *failed is that step. */
bool tuff__view_along(view *view, const path *inner, const path **failed);
/* Elements from the first to the last that a view without negative strides touches. */
int64_t tuff__view_span(const view *view);
bool tuff__view_equal(const view *a, const view *b); /* as address functions: strides of extent 1 do not count */

/* The step that a movement node stands for (RESHAPE, PERMUTE, EXPAND, SLICE, PAD, UNFOLD), in front of outer. */
path tuff__path_of(const node *movement, const path *outer);
/* A reshape to shape in front of outer. */
path tuff__path_reshape(tuff_shape shape, const path *outer);
/* The steps that lead to part number index of a concat, in front of outer. */
path tuff__path_of_part(const node *concat, int index, const path *outer);

#endif
