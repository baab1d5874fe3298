/* Lowering: tasks become launches (one kernel each, in order) over planned memory. The fusion is read only: several
   threads may lower tasks of one. */
#ifndef TUFF_COMPILE_LOWER_LOWER_H
#define TUFF_COMPILE_LOWER_LOWER_H

#include "compile/lower/launch_list.h"

/* Makes launches of all tasks, outputs and assigns, and places all memory. out is valid only with TUFF_OK; where the
   peak is above the options' budget no temporary gets memory, and nothing but `peak` is of use. configs: by task, NULL
   where it has none; NULL: the defaults everywhere. */
tuff_status tuff__lower(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                        const tune_config *const *configs, launch_list *out);
/* The same by other configurations: inputs, outputs and constants are the storages of like, which was lowered from the
   same fusion, and temporaries get its blocks where these are large enough: runs of the two must not overlap. like is
   read while this works. */
tuff_status tuff__relower(const launch_list *like, const struct fusion *fusion, const tuff_compile_options *options,
                          const tune_config *const *configs, launch_list *out);
/* Makes the launches of one task by a configuration, without memory: of what they read and write arrays alone have
   theirs. used_tunables, where not NULL, gets the tunables that were looked up, with their default values.
   TUFF_E_LIMIT, TUFF_E_UNSUPPORTED: there is no such kernel. out is valid only with TUFF_OK. */
tuff_status tuff__lower_task(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                             int task, const tune_config *config, tune_config *used_tunables, launch_list *out);

/* What lowering a task by a configuration shows, without a compiler. */
typedef struct task_estimate {
    tune_config used_tunables; /* those that were looked up, with their default values; where there is no kernel, too */
    uint64_t kernels;          /* equal kernels over equal grids have equal numbers */
    uint32_t items;            /* of the largest work-group */
    double cost;               /* as tuff__launch_list_cost says */
    double traffic;            /* as tuff__launch_list_traffic says */
} task_estimate;

/* Fills in all but used_tunables, by the launches of one task. */
void tuff__estimate_launches(const launch_list *launches, task_estimate *out);
/* TUFF_E_LIMIT, TUFF_E_UNSUPPORTED: there is no such kernel. */
tuff_status tuff__estimate_task(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                                int task, const tune_config *config, task_estimate *out);

/* Places the temporaries of all launches in blocks, and allocates those where the budget allows it. */
tuff_status tuff__plan_memory(launch_list *list);
/* The same without memory, for kernels that are only compiled: placed as aligned, and buffers that would be the same
   memory are, in storages that nobody may look into. */
void tuff__plan_placeholders(launch_list *list);

/* Between the files of this folder. */
tuff_status tuff__lower_matmul(launch_list *list, int index, fused_chain *chain); /* takes the chain */
tuff_status tuff__lower_scatter(launch_list *list, int index);
tuff_status tuff__lower_attention(launch_list *list, int index);
/* The launch of a chain without reductions; takes the chain. */
tuff_status tuff__lower_map(launch_list *list, int task, fused_chain *chain);
/* The launch of a chain that reduces rows or columns, or is a cumulative sum; takes the chain. */
tuff_status tuff__lower_reducing(launch_list *list, int index, fused_chain *chain);
/* Copies source's elements to target converted to its dtype. */
tuff_status tuff__lower_convert(launch_list *list, int source, int target);

#endif
