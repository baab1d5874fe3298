/* The key of a task, under which the tuner keeps its measurements. */
#ifndef TUFF_COMPILE_TASK_KEY_H
#define TUFF_COMPILE_TASK_KEY_H

#include "compile/fuse/fuse.h"
#include "tunedb/key.h"

/* Computes the key of a task. Equal tasks have equal keys, whatever the names and locations of their values, and for
   tasks with equal keys the same kernels are best. Returns TUFF_E_UNSUPPORTED if nothing of the task can be tuned. */
tuff_status tuff__task_key(const struct fusion *fusion, int task, tune_key *out);

#endif
