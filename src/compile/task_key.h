/* The key of a task, by which the tuner keeps its measurements. */
#ifndef TUFF_COMPILE_TASK_KEY_H
#define TUFF_COMPILE_TASK_KEY_H

#include "compile/fuse/fuse.h"
#include "tunedb/key.h"

/* Equal tasks have equal keys, whatever the names and places of their values, and tasks of equal keys are best served
   by the same kernels. TUFF_E_UNSUPPORTED: nothing of the task can be tuned. */
tuff_status tuff__task_key(const struct fusion *fusion, int task, tune_key *out);

#endif
