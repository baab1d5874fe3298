/* What a training begins with and what it sees, as a file: other software makes the same run of it. */
#ifndef TUFF_EXAMPLES_BATCHES_H
#define TUFF_EXAMPLES_BATCHES_H

#include "options.h"

/* Writes options->save_batches, a safetensors file: "param.NAME" are the initial weights, "input.NAME" what the batches
   of all steps hold, [batches, B, ...], and fixed inputs once; the numbers of the configuration and the seed are its
   metadata. What programs draw on the device, or write before single steps, is not in it. All is in memory at once.
   Returns the exit code. */
int example_save_batches(const example *model, const example_options *options);

#endif
