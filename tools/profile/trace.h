/* Profiles as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing: JSON in the Trace Event Format. */
#ifndef TUFF_TOOLS_PROFILE_TRACE_H
#define TUFF_TOOLS_PROFILE_TRACE_H

#include "base/text.h"
#include "tuff.h"

/* A trace under construction. Each plan is a process of its own, which begins when the one before ends. All zero is an
   empty trace. */
typedef struct trace {
    text events;
    int process_count;
    double end; /* of the last event, in microseconds */
} trace;

/* Adds the plan's last profiled run: a row with its tasks on the device's clock, and a row for each phase with the
   periods in which the device worked on it. Errors are reported by trace_write. */
void trace_add(trace *self, const tuff_plan *plan, const char *name);
/* Writes the file atomically. */
tuff_status trace_write(const trace *self, const char *path);
void trace_free(trace *self);

#endif
