/* Tuning in the background. A thread per plan has a worker measure the plan's keys while the program leaves the device
   idle, and prepares a new executable with what was found. The program's thread swaps that in at the beginning of a
   run. tuff/tune.h documents it for users; background_state.h says which thread owns what. */
#ifndef TUFF_WORKER_BACKGROUND_H
#define TUFF_WORKER_BACKGROUND_H

#include <stdatomic.h>

#include "exec/plan.h"

typedef struct background background;

/* Starts tuning a compiled plan if it has keys to measure, and sets the plan's `background`. The only error is
   TUFF_E_OOM_HOST; if no thread can be started there is just a warning. */
tuff_status tuff__background_start(tuff_plan *plan, const tuff_compile_options *options);
/* How long a device must have been idle, in nanoseconds; tests set a shorter time. A program counts as active until
   BACKGROUND_AT_WORK times as long have passed since it last used the device. */
extern _Atomic uint64_t tuff__background_idle;
enum { BACKGROUND_AT_WORK = 20, BACKGROUND_REST = 19 };

#endif
