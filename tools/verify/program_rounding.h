/* The points at which the results of a random program are rounded. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_ROUNDING_H
#define TUFF_TOOLS_VERIFY_PROGRAM_ROUNDING_H

#include "exec/reference.h"
#include "tools/verify/program.h"

/* Number of rounding grids: that of the dtype itself, and others whose points lie between its points. The deviations
   found on them are as good as random. Those of a one-element tensor are by chance too small, so that a few times the
   largest is not enough, on all of four grids once in some thousand tensors, on all of twelve once in some million. */
enum { PROGRAM_GRIDS = 12 };

/* Arguments for tuff__reference_set_rounding, indexed by node id. */
typedef struct program_rounding {
    unsigned char *results, *operands, *inner;
} program_rounding;

/* Fills them for a graph whose plan has this precision. TUFF_E_OOM_HOST if out of memory. Call program_rounding_free
   even after a failure. */
tuff_status program_rounding_make(const tuff_graph *graph, tuff_precision precision, program_rounding *out);
void program_rounding_free(program_rounding *self);
/* Whether a node's result is never rounded: it only moves or stores elements, or they are no floats. */
bool program_rounding_excludes(const node *at);
/* The stretch of a grid, 0 <= index < PROGRAM_GRIDS. */
double program_rounding_stretch(int index);

tuff_precision program_precision(const program_recipe *recipe);

#endif
