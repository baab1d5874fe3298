/* Tuning options set by environment variables; include/tuff/tune.h lists them. */
#ifndef TUFF_API_CONTROLS_H
#define TUFF_API_CONTROLS_H

#include "kernels/config.h"
#include "tuff/graph.h"

/* Applies the environment to the fields that the options allow it to set. Strings in them may then belong to the
   environment. */
void tuff__controls_apply(tuff_tune_options *options);

/* Returns the graph rewrites selected by TUFF_PASSES, a candidate of family "fusion" such as
   "fusion.columns=0;fusion.maps=0", for finding the rewrite that makes a result wrong. None if the variable is not set
   or is invalid. */
tune_config tuff__controls_passes(void);

#endif
