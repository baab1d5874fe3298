/* What a task is to the tuner: the key that its measurements are kept by. */
#ifndef TUFF_COMPILE_TASK_KEY_H
#define TUFF_COMPILE_TASK_KEY_H

#include "compile/fuse/fuse.h"
#include "tune/key.h"

/* Equal tasks have equal keys, whatever their values are called and wherever they lie; and those of equal keys are
   worth the same kernels. TUFF_E_UNSUPPORTED: nothing of the task can be tuned. */
tuff_status tuff__task_key(const struct fusion *fusion, int task, tune_key *out);

#endif
