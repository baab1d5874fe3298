/* Plans whose tasks of one kind have settings of their own, as a tuner tries them. */
#ifndef TESTS_CONFIGURED_PLAN_H
#define TESTS_CONFIGURED_PLAN_H

#include "exec/plan.h"

/* Compiles a graph with a configuration for its tasks of that kind; NULL stands for the defaults. Returns NULL after an
   error. */
tuff_plan *compile_configured(tuff_graph *graph, const tuff_compile_options *options, task_kind kind,
                              const tune_config *config);

#endif
