/* The portfolio: a few candidates per family and class of device, from which a search starts on a device that nobody
   has measured. Together they did well on all devices of the class that were recorded (bench/recorder/portfolio.h makes
   portfolio.def; portfolio_gpu.def is written by hand). They are only seeds: some cannot be lowered on every device. */
#ifndef TUFF_SEARCH_PORTFOLIO_H
#define TUFF_SEARCH_PORTFOLIO_H

#include "kernels/tunables.h"
#include "tunedb/environment.h"

enum { MAX_PORTFOLIO = 8 };

/* The most useful first. Returns how many there are, 0 if the family has none. */
int tuff__portfolio_of(kernel_device class, const char *family, const char *const **out);
/* The same by an environment, for the class of its device. */
int tuff__portfolio_for(const tune_environment *environment, const char *family, const char *const **out);

#endif
