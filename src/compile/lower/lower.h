/* Lowering: tasks become launches (one kernel each, in order) over planned memory. The fusion is only read, so several
   threads may lower tasks of the same one. */
#ifndef TUFF_COMPILE_LOWER_LOWER_H
#define TUFF_COMPILE_LOWER_LOWER_H

#include "compile/lower/launch_list.h"

/* Generates the launches of all tasks, outputs and assigns, and places all memory. configs has an entry for each task,
   NULL for those without a configuration; if configs itself is NULL, all tasks get the defaults. out is valid only with
   TUFF_OK. If the peak exceeds the options' budget, temporaries get no memory and only `peak` is meaningful. */
tuff_status tuff__lower(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                        const tune_config *const *configs, launch_list *out);
/* Lowers again with other configurations. Inputs, outputs and constants keep the storages of `reuse_from`, which was
   lowered from the same fusion, and temporaries use its blocks if they are large enough: runs of the two must not
   overlap. `reuse_from` must not change meanwhile. */
tuff_status tuff__relower(const launch_list *reuse_from, const struct fusion *fusion,
                          const tuff_compile_options *options, const tune_config *const *configs, launch_list *out);
/* Generates the launches of one task with a configuration, without memory: only arrays have storage. used_tunables, if
   not NULL, gets the tunables that were looked up, with their default values. Fails with TUFF_E_LIMIT or
   TUFF_E_UNSUPPORTED if there is no such kernel. out is valid only with TUFF_OK. */
tuff_status tuff__lower_task(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                             int task, const tune_config *config, tune_config *used_tunables, launch_list *out);

/* What lowering a task with a configuration shows, without a compiler. */
typedef struct task_estimate {
    tune_config used_tunables; /* those looked up, with their default values; set even if there is no kernel */
    uint64_t kernels;          /* hash: equal kernels over equal grids have equal ones */
    uint32_t items;            /* size of the largest work-group */
    double cost;               /* see tuff__launch_list_cost */
    double traffic;            /* see tuff__launch_list_traffic */
} task_estimate;

/* Fills in all but used_tunables from the launches of one task. */
void tuff__estimate_launches(const launch_list *launches, task_estimate *out);
/* Fails with TUFF_E_LIMIT or TUFF_E_UNSUPPORTED if there is no such kernel. */
tuff_status tuff__estimate_task(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                                int task, const tune_config *config, task_estimate *out);

/* Places the temporaries of all launches in blocks, and allocates the blocks if the budget allows it. */
tuff_status tuff__plan_memory(launch_list *list);
/* The same without memory, for kernels that are only compiled: gives buffers dummy storages, which must not be
   accessed, with the alignment that they will have. Parts share the storage of their whole. */
void tuff__plan_placeholders(launch_list *list);

/* Internal to this folder. */
tuff_status tuff__lower_matmul(launch_list *list, int index, fused_chain *chain); /* takes the chain */
tuff_status tuff__lower_scatter(launch_list *list, int index);
tuff_status tuff__lower_attention(launch_list *list, int index);
/* Generates the launch of a chain without reductions; takes the chain. */
tuff_status tuff__lower_map(launch_list *list, int task, fused_chain *chain);
/* Makes the chain, whose axes are set, copy buffer `source` to `destination`, in values of that dtype. */
tuff_status tuff__chain_copy(const launch_list *list, int source, int destination, tuff_dtype dtype, const affine *from,
                             const affine *to, fused_chain *out);
/* Simplifies a map, which was built with that status, and generates its launch; takes the chain. */
tuff_status tuff__lower_built_map(launch_list *list, int task, tuff_status status, fused_chain *chain);
/* Generates the launch of a chain that reduces rows or columns or computes a cumulative sum; takes the chain. */
tuff_status tuff__lower_reducing(launch_list *list, int index, fused_chain *chain);
/* Returns the buffer that holds an operand, and its view of it. Fusion made sure that there is one. */
static inline int tuff__operand_buffer(const launch_list *list, const tuff_tensor *operand, view *out)
{
    const node *missing = NULL;
    return tuff__operand_view(list->fusion, operand, out, &missing)->id;
}

/* Copies the elements of source to target, converted to target's dtype. */
tuff_status tuff__lower_convert(launch_list *list, int source, int target);

#endif
