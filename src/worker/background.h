/* Tuning in the background: a thread of a plan's own measures the plan's keys while the program leaves the device
   alone, and makes the plan ready by what it found. The program's thread takes that over at the beginning of a run.
   What users are told of it stands in tuff/tune.h. */
#ifndef TUFF_WORKER_BACKGROUND_H
#define TUFF_WORKER_BACKGROUND_H

#include <stdatomic.h>

#include "exec/plan.h"

typedef struct background background;

/* Begins to tune a plan that is compiled, where it has keys that want it; the plan's `background` is set then. Only
   host memory can be lacking: without a thread, a warning is all. */
tuff_status tuff__background_start(tuff_plan *plan, const tuff_compile_options *options);
/* For how long a device must have been left alone, in nanoseconds; tests put a shorter time here. A program is at work
   until so many times that have passed since it last used the device. */
extern _Atomic uint64_t tuff__background_idle;
enum { BACKGROUND_AT_WORK = 20, BACKGROUND_REST = 19 };

#endif
