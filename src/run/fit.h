/* From a graph to launches over planned memory, within a budget. */
#ifndef TUFF_RUN_FIT_H
#define TUFF_RUN_FIT_H

#include "run/plan.h"

/* Fills in the plan's graph, fusion and launches, by plan->passes.by; again, where they are there already. What is
   there after a failure is freed with the plan. */
tuff_status tuff__fit_plan(tuff_plan *plan, tuff_graph *source, const tuff_compile_options *options);

#endif
