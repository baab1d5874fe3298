/* Strided views, and the paths of movement ops that lead to them. A path describes how the coordinates of a task's
   iteration space (its domain) reach a node. Its steps are kept from the node outwards, so that applying them in order
   to a leaf's own layout gives the leaf's address. */
#ifndef TUFF_COMPILE_REWRITE_VIEW_H
#define TUFF_COMPILE_REWRITE_VIEW_H

#include "graph/graph.h"

/* Element (i0, i1, ...) lies at offset + the sum of i·stride, in elements. Strides may be 0 or negative. */
typedef struct view {
    int rank;
    int64_t extent[TUFF_MAX_RANK], stride[TUFF_MAX_RANK];
    int64_t offset;
} view;

typedef enum step_kind { STEP_RESHAPE, STEP_PERMUTE, STEP_EXPAND, STEP_SLICE, STEP_PAD, STEP_UNFOLD } step_kind;

/* One movement op. PAD extends an axis by elements that have no address: reads there must be guarded. */
typedef struct path path;
struct path {
    step_kind kind;
    tuff_shape shape;             /* shape of the result */
    int order[TUFF_MAX_RANK];     /* PERMUTE */
    int64_t start[TUFF_MAX_RANK]; /* SLICE: first element; PAD: elements before */
    int64_t step[TUFF_MAX_RANK];  /* SLICE; UNFOLD: as in op_attributes */
    int axis;                     /* UNFOLD */
    const node *source;           /* the node whose value is moved, to give up on if the path fails; may be NULL */
    const path *outer;            /* the next step towards the domain; NULL: this is the last one */
};

/* Returns the shape with an axis split into two, pieces × terms. */
tuff_shape tuff__shape_cut(tuff_shape shape, int axis, int64_t pieces, int64_t terms);
/* Returns the innermost axis whose extent is not 1; -1 if there is none. */
int tuff__innermost_axis(tuff_shape shape);
view tuff__view_contiguous(tuff_shape shape);
/* Returns the layout of a shape whose axes are in the given order in memory, outermost first. */
view tuff__view_ordered(tuff_shape shape, const int *order);
/* Applies one step. Returns false if strides cannot express the result (a reshape across a seam). */
bool tuff__view_apply(view *layout, const path *step);
/* Applies all steps from inner outwards. If one fails, returns false and, unless failed is NULL, sets *failed to that
   step. */
bool tuff__view_along(view *layout, const path *inner, const path **failed);
/* Returns the number of elements from the first to the last one that a view without negative strides touches. */
int64_t tuff__view_span(const view *layout);
bool tuff__view_equal(const view *a, const view *b); /* as address functions: strides of extent 1 are ignored */

/* Returns the step of a movement node (RESHAPE, PERMUTE, EXPAND, SLICE, PAD, UNFOLD), in front of outer. */
path tuff__path_of(const node *movement, const path *outer);
/* Returns a reshape to shape, in front of outer. */
path tuff__path_reshape(tuff_shape shape, const path *outer);
/* Returns the step that leads to part `index` of a concat, in front of outer. */
path tuff__path_of_part(const node *concat, int index, const path *outer);

#endif
