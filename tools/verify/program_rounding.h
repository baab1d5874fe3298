/* Where the results of a random program are rounded on their way. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_ROUNDING_H
#define TUFF_TOOLS_VERIFY_PROGRAM_ROUNDING_H

#include "exec/reference.h"
#include "tools/verify/program.h"

/* Ways to round: the grid of the dtype itself, and others that lie between its points. What is found on them is as good
   as random: that of a tensor of one element all of four are small by chance once in some thousand tensors, all of
   twelve, so that a few times the largest is not enough, once in some million. */
enum { PROGRAM_GRIDS = 12 };

/* Lists for tuff__reference_set_rounding, by the id of a node. */
typedef struct program_rounding {
    unsigned char *results, *operands;
} program_rounding;

/* Of a graph whose plan has a precision; TUFF_E_OOM_HOST. Freed by program_rounding_free, also on failure. */
tuff_status program_rounding_make(const tuff_graph *graph, tuff_precision precision, program_rounding *out);
void program_rounding_free(program_rounding *self);
/* The grids, 0 <= index < PROGRAM_GRIDS. */
double program_rounding_stretch(int index);

tuff_precision program_precision(const program_recipe *recipe);

#endif
