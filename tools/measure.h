/* The keys of a model measured: for the verbs that do nothing else. */
#ifndef TUFF_TOOLS_MEASURE_H
#define TUFF_TOOLS_MEASURE_H

#include "tools/known_plans.h"
#include "tools/model_options.h"
#include "tools/tuning.h"

/* Compiles both plans of the model as `tune` says, says on the error stream what that did, and leaves them in *plans
   for known_plans_destroy. Returns EXIT_DONE, or EXIT_FAILED after a message. */
int measure_model(const cli_verb *verb, tuff_device *device, const model_options *of, tuning *tune, known_plans *plans);

#endif
