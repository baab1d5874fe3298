/* Profiles as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: the Trace Event Format, as JSON. */
#ifndef TUFF_TOOLS_PROFILE_TRACE_H
#define TUFF_TOOLS_PROFILE_TRACE_H

#include "base/text.h"
#include "tuff.h"

/* A trace under construction: each plan is a process of it, behind the one before. Zero is an empty one. */
typedef struct trace {
    text events;
    int process_count;
    double end; /* of the last event, in microseconds */
} trace;

/* Adds the plan's last profiled run: a row with its tasks on the device's clock, and a row for each phase with the
   times in which the device was at it. Failures show in trace_write. */
void trace_add(trace *self, const tuff_plan *plan, const char *name);
/* Writes the file, atomically. */
tuff_status trace_write(const trace *self, const char *path);
void trace_free(trace *self);

#endif
