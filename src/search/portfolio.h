/* The portfolio: a few candidates per family and class of device, from which a search starts on a device that was never
   measured. Together they did well on all recorded devices of the class (bench/recorder/portfolio.h generates
   portfolio.def; portfolio_gpu.def is written by hand). They are only seeds: some cannot be lowered on every device. */
#ifndef TUFF_SEARCH_PORTFOLIO_H
#define TUFF_SEARCH_PORTFOLIO_H

#include "kernels/tunables.h"
#include "tunedb/environment.h"

/* Returns the number of candidates, 0 if the family has none; *out: the most useful one first. */
int tuff__portfolio_for_class(kernel_device class, const char *family, const char *const **out);
/* The same for the class of an environment's device. */
int tuff__portfolio_for_environment(const tune_environment *environment, const char *family, const char *const **out);

#endif
