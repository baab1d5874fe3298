/* Winners of the tuner that fail at launch. */
#ifndef TUFF_API_LAUNCH_FAILURE_H
#define TUFF_API_LAUNCH_FAILURE_H

#include "exec/plan.h"

/* Called after a submission of the plan has failed with status why. If the driver refused a launch that uses a
   candidate of the tuner, records the candidate as bad, so that the next plan uses the next best one, and reports that
   in the message. Returns why. */
tuff_status tuff__report_refused_launch(const tuff_plan *plan, const recording *recorded, tuff_status why);

#endif
