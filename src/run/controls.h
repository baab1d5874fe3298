/* What environment variables change of a program's options; which, says include/tuff/tune.h. */
#ifndef TUFF_RUN_CONTROLS_H
#define TUFF_RUN_CONTROLS_H

#include "tuff/graph.h"

/* Changes what the options allow to be changed. Texts in them may be the environment's. */
void tuff__controls_apply(tuff_tune_options *options);
/* The options of tuning, which are the defaults where `options` has none. Never NULL. */
const tuff_tune_options *tuff__tune_options(const tuff_compile_options *options);

#endif
