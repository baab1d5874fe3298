/* Measures winners of a cache again on a device, for `tuff cache verify --rerun` and `tuff cache retune --now`. */
#ifndef TUFF_TOOLS_CACHE_RERUN_H
#define TUFF_TOOLS_CACHE_RERUN_H

#include "tools/cache/cache.h"
#include "tools/model/options.h"

/* Compiles and runs winners of the model's keys on the device again, and compares results and times with the default's.
   Takes the `most` newest winners; of equally old ones, the heaviest first. Prints its findings; returns CACHE_FINDINGS
   if a winner is wrong, slower than the default by more than 5 %, or can no longer be built. */
int cache_rerun(const cli_verb *verb, const char *device, const model_options *options, int most, bool json);

/* Opens the device and compiles the model for it without measuring, so that an error is found before winners are
   dropped for cache_measure. The caller closes *out, which is NULL on failure. */
int cache_measure_begin(const cli_verb *verb, const char *device, const model_options *options, tuff_device **out);
/* Measures the keys of the model that have no winner, like compiling with --tune. */
int cache_measure(const cli_verb *verb, tuff_device *device, const model_options *options, tuff_tune_mode mode);

#endif
