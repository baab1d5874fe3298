/* The tuner of a plan: tasks become keys, and keys get candidates from the cache or by measuring. */
#ifndef TUFF_API_TUNER_H
#define TUFF_API_TUNER_H

#include "exec/plan.h"

/* Finds configurations for the tasks of a fused and lowered plan, lowers it again with them and records it. If the
   cache has nothing and nothing is to be measured, does neither. Failures leave tasks with their defaults, except for
   lack of host memory and for a device that is lost or does not respond. */
tuff_status tuff__tune(tuff_plan *plan, const tuff_compile_options *options);
/* Lists the keys of a plan for which the cache had nothing, or that was compiled without tuning. */
tuff_status tuff__plan_list_keys(tuff_plan *plan);
/* Counts tasks and keys of a plan for which the cache had nothing, as keys with their defaults. */
tuff_status tuff__plan_count_keys(const tuff_plan *plan, tuff_tune_stats *stats);

#endif
