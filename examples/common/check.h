/* Random small configurations of an example against the reference device. */
#ifndef TUFF_EXAMPLES_CHECK_H
#define TUFF_EXAMPLES_CHECK_H

#include "options.h"

/* Draws options->checks configurations by options->seed and compares a step of both forms on options->device with the
   same step in float64 on the reference device: loss, what the model shows, every gradient, every parameter after the
   step. Prints a line each. Returns the exit code: 1 where one is beyond its bar. */
int example_check(const example *model, const example_options *options);

#endif
