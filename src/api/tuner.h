/* The tuner of a plan: tasks become keys, keys get candidates, from what is remembered or by measuring. */
#ifndef TUFF_API_TUNER_H
#define TUFF_API_TUNER_H

#include "exec/plan.h"

/* Finds the configurations for the tasks of a plan that is fused and lowered, lowers it again by them and records it;
   where nothing is remembered and nothing measured, neither. Whatever fails leaves tasks with their defaults, but for
   host memory and a device that is lost or does not come back. */
tuff_status tuff__tune(tuff_plan *plan, const tuff_compile_options *options);
/* Lists the keys of a plan that nothing was remembered for, or that was compiled without tuning. */
tuff_status tuff__session_list(tuff_plan *plan);
/* Counts tasks and keys of a plan that nothing was remembered for, as keys that have their defaults. */
tuff_status tuff__session_count(const tuff_plan *plan, tuff_tune_stats *stats);

#endif
