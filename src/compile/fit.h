/* Runs the stages of compilation, from a graph to launches over planned memory, within a memory budget. */
#ifndef TUFF_COMPILE_FIT_H
#define TUFF_COMPILE_FIT_H

#include "compile/lower/lower.h"

/* Where the caller keeps the results of compilation. These must not move: launches refer to the fusion, and the fusion
   to the graph and the passes. */
typedef struct compilation_result {
    tuff_graph **graph; /* simplified */
    struct fusion *fusion;
    pass_choices *passes; /* `chosen` is followed, `possible` is filled in */
    launch_list *launches;
} compilation_result;

/* Fills in the result, replacing an earlier one. The caller frees its contents, also after a failure. */
tuff_status tuff__compile_within_budget(tuff_device *device, tuff_graph *source, const tuff_compile_options *options,
                                        compilation_result result);

#endif
