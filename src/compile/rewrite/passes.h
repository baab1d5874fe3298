/* The rewritings of a graph that TUFF_PASSES can turn off or force, as tunables of "fusion" in kernels.def: 0: never,
   1: if the cost model says that it pays, 2: wherever it is possible. */
#ifndef TUFF_COMPILE_REWRITE_PASSES_H
#define TUFF_COMPILE_REWRITE_PASSES_H

#include "kernels/config.h"

/* Minimum number of nodes between the last early reader of a recomputed value and its first late reader. */
#define LATE_GAP 48

typedef struct pass_choices {
    tune_config chosen;   /* the choices to follow; unset ones have their defaults */
    tune_config possible; /* set, with default values, for the rewritings that are possible in the graph */
} pass_choices;

/* Whether a rewriting is done at a place where it is possible. choices may be NULL: the defaults. */
static inline bool tuff__pass_decides(pass_choices *choices, tunable pass, bool pays)
{
    if (choices == NULL)
        return pays;
    tuff__config_set(&choices->possible, pass, 1);
    const int value = tuff__config_value(&choices->chosen, pass, 1);
    return value == 1 ? pays : value > 1;
}

#endif
