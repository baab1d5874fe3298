/* What the options of a compilation say of tuning. */
#ifndef TUFF_EXEC_TUNE_OPTIONS_H
#define TUFF_EXEC_TUNE_OPTIONS_H

#include "tuff/graph.h"

/* The options of tuning, which are the defaults where `options` has none. Never NULL. */
const tuff_tune_options *tuff__tune_options(const tuff_compile_options *options);
/* Nanoseconds that measuring may take. */
uint64_t tuff__tune_budget(const tuff_tune_options *tuning);

#endif
