/* Winners of a cache measured again on a device: for `tuff cache verify --rerun` and `tuff cache retune --now`. */
#ifndef TUFF_TOOLS_CACHE_RERUN_H
#define TUFF_TOOLS_CACHE_RERUN_H

#include "tools/cache/cache.h"
#include "tools/model/options.h"

/* Compiles and runs the winners of the model's keys on the device again, of those the newest `most`, of equals the
   heaviest first: results are compared with the default's, and times. Prints what it finds; returns CACHE_FINDINGS
   where a winner is wrong, slower than the default by more than 5 %, or can no longer be made. */
int cache_rerun(const cli_verb *verb, const char *device, const model_options *options, int most, bool json);

/* Measures the keys of the model that have no winner, as compiling with --tune does. */
int cache_measure(const cli_verb *verb, const char *device, const model_options *options, tuff_tune_mode mode);

#endif
