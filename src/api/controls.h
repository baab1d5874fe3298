/* What environment variables change of a program's options; which, says include/tuff/tune.h. */
#ifndef TUFF_API_CONTROLS_H
#define TUFF_API_CONTROLS_H

#include "kernels/config.h"
#include "tuff/graph.h"

/* Changes what the options allow to be changed. Texts in them may be the environment's. */
void tuff__controls_apply(tuff_tune_options *options);

/* The rewritings of TUFF_PASSES, a candidate of family "fusion" such as "fusion.columns=0;fusion.maps=0": for whoever
   looks for the rewriting that makes a result wrong. None where it is not set, or says something else. */
tune_config tuff__controls_passes(void);

#endif
