/* Compares random small configurations of an example with the reference device. */
#ifndef TUFF_EXAMPLES_CHECK_H
#define TUFF_EXAMPLES_CHECK_H

#include "options.h"

/* Draws options->checks configurations from options->seed. For each, runs a step of both forms on options->device and
   compares it with the same step in float64 on the reference device: the loss, the values passed to
   example_named_output, every gradient, and every parameter after the step. Prints one line per form. Returns the exit
   code: 1 if a tolerance is exceeded. */
int example_check(const example *model, const example_options *options);

#endif
