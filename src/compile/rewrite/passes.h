/* The rewritings of a graph that TUFF_PASSES may turn off, or have done everywhere, as tunables of "fusion" in
   kernels.def: 0: nowhere, 1: where the cost model says that it pays, 2: wherever it is possible. */
#ifndef TUFF_COMPILE_REWRITE_PASSES_H
#define TUFF_COMPILE_REWRITE_PASSES_H

#include "kernels/config.h"

/* Nodes between the last early reader of a value and the first late one, where it is computed again, at least. */
#define LATE_GAP 48

typedef struct pass_choices {
    tune_config by;    /* the default where nothing is set */
    tune_config found; /* those that the graph has a place for, with their default values */
} pass_choices;

/* At a place where a rewriting is possible: whether it is done. choices may be NULL: the defaults. */
static inline bool tuff__pass_decides(pass_choices *choices, tunable pass, bool pays)
{
    if (choices == NULL)
        return pays;
    tuff__config_set(&choices->found, pass, 1);
    const int value = tuff__config_value(&choices->by, pass, 1);
    return value == 1 ? pays : value > 1;
}

#endif
