/* The part of compile options about tuning. */
#ifndef TUFF_EXEC_TUNE_OPTIONS_H
#define TUFF_EXEC_TUNE_OPTIONS_H

#include "tuff/graph.h"

/* Returns the tuning options, or the defaults if `options` has none. Never NULL. */
const tuff_tune_options *tuff__tune_options(const tuff_compile_options *options);
/* Returns the time that measuring may take, in nanoseconds. */
uint64_t tuff__tune_budget(const tuff_tune_options *tuning);

#endif
