/* Saves what a training run starts from and sees, so that other software can repeat the run. */
#ifndef TUFF_EXAMPLES_BATCHES_H
#define TUFF_EXAMPLES_BATCHES_H

#include "options.h"

/* Writes options->save_batches, a safetensors file. "param.NAME" are the initial weights; "input.NAME" are the inputs
   of all batches, [batches, B, ...], and each fixed input once. The metadata holds the configuration's numbers and the
   seed. Values that a program draws on the device or writes before single steps are not included. Everything is held in
   memory at once. Returns the exit code. */
int example_save_batches(const example *model, const example_options *options);

#endif
