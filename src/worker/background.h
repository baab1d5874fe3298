/* Tuning in the background. Each plan has a thread that lets a worker measure the plan's keys while the program leaves
   the device idle, and prepares a new executable with the results. The program's thread swaps that executable in at the
   beginning of a run. tuff/tune.h documents this for users; background_state.h says which thread owns what. */
#ifndef TUFF_WORKER_BACKGROUND_H
#define TUFF_WORKER_BACKGROUND_H

#include <stdatomic.h>

#include "exec/plan.h"

typedef struct background background;

/* Starts tuning a compiled plan if it has keys to measure, and sets the plan's observer. The only error is
   TUFF_E_OOM_HOST; if no thread can be started, a warning is logged. */
tuff_status tuff__background_start(tuff_plan *plan, const tuff_compile_options *options);
/* How long a device must have been idle, in nanoseconds; tests set a shorter time. A program counts as active until
   BACKGROUND_ACTIVE_FACTOR times this long have passed since it last used the device. While it is active, the tuner
   rests BACKGROUND_REST_FACTOR times as long as it worked. */
extern _Atomic uint64_t tuff__background_idle;
enum { BACKGROUND_ACTIVE_FACTOR = 20, BACKGROUND_REST_FACTOR = 19 };

#endif
