/* The HTML report of tuff train --report: curves, the time of each kernel, memory, settings. */
#ifndef TUFF_TOOLS_TRAIN_REPORT_H
#define TUFF_TOOLS_TRAIN_REPORT_H

#include "tools/train/options.h"
#include "tools/train/progress.h"
#include "tools/train/step_profile.h"

typedef struct run_report {
    tuff_device *device;
    const tuff_plan *plan;
    const train_options *options;
    const progress *progress;
    const step_profile *profile;
    int64_t first, done; /* steps done before this run, and in all */
} run_report;

/* Writes the report, atomically. Measures the device's peaks if there is a profile. */
tuff_status report_write(const run_report *self, const char *path);

#endif
