/* Plans whose tasks of one kind have settings of their own, as a tuner tries them, and the kernels of a plan. */
#ifndef TESTS_CONFIGURED_PLAN_H
#define TESTS_CONFIGURED_PLAN_H

#include "exec/plan.h"

/* Compiles a graph with a configuration for its tasks of that kind; NULL stands for the defaults. Returns NULL after an
   error. */
tuff_plan *compile_configured(tuff_graph *graph, const tuff_compile_options *options, task_kind kind,
                              const tune_config *config);
/* The same, but compiles no kernels: the plan can be described, not run. */
tuff_plan *lower_configured(tuff_graph *graph, const tuff_compile_options *options, task_kind kind,
                            const tune_config *config);
/* Whether a launch of the plan has this body; the second function also wants a text among the launch's defines. */
bool uses_body(const tuff_plan *plan, const char *body);
bool uses_kernel(const tuff_plan *plan, const char *body, const char *defined);

#endif
