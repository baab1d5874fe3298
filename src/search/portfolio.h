/* What searches of a family begin with on a device that nobody measured: a few candidates that, between them, did well
   wherever the family's kernels were recorded on devices of the class (bench/recorder/portfolio.h makes the table; that
   of GPUs, portfolio_gpu.def, is written by hand). They are seeds, no answers: many of them need a check whether they
   can be lowered here. */
#ifndef TUFF_SEARCH_PORTFOLIO_H
#define TUFF_SEARCH_PORTFOLIO_H

#include "kernels/tunables.h"
#include "tunedb/environment.h"

enum { PORTFOLIO_MOST = 8 };

/* The most useful first; answers how many, 0 where the family has none. */
int tuff__portfolio_of(kernel_device class, const char *family, const char *const **out);
/* The same for the class of an environment's device. */
int tuff__portfolio_for(const tune_environment *environment, const char *family, const char *const **out);

#endif
