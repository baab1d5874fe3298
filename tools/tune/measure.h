/* Measures the keys of a model or a graph, for verbs that do nothing else. */
#ifndef TUFF_TOOLS_TUNE_MEASURE_H
#define TUFF_TOOLS_TUNE_MEASURE_H

#include "tools/model/known_plans.h"
#include "tools/model/options.h"
#include "tools/tune/tuning.h"

/* Compiles the plans of the model or of the graph file with the options in `tune`, reports on stderr what tuning did,
   and leaves the plans in *plans for model_plans_destroy. Returns EXIT_DONE, or EXIT_FAILED after a message. */
int measure_model(const cli_verb *verb, tuff_device *device, const model_options *options, tuning *tune,
                  model_plans *plans);

#endif
