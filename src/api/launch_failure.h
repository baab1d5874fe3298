/* Winners of the tuner that fail when they are launched. */
#ifndef TUFF_API_LAUNCH_FAILURE_H
#define TUFF_API_LAUNCH_FAILURE_H

#include "exec/plan.h"

/* Behind a submission of the plan's that failed, of commands from `first` on. Where the driver refused a launch of what
   was found for its task, that is remembered as bad, so that the next plan takes the next best, and the message says
   so. Answers why. */
tuff_status tuff__refused_launch(const tuff_plan *plan, const recording *recorded, int first, tuff_status why);

#endif
