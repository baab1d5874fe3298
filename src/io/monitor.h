/* The text of monitors' records; monitor.c writes it to files. */
#ifndef TUFF_IO_MONITOR_H
#define TUFF_IO_MONITOR_H

#include "base/text.h"
#include "tuff/monitor.h"

typedef struct monitor_names {
    char **items; /* owned */
    int count;
} monitor_names;

/* Appends the beginning of a file: the header of a CSV file, the version of an event file. append: tells TensorBoard
   that steps after first_step will be written again. */
void tuff__monitor_begin(tuff_monitor_format format, const monitor_names *names, bool append, int64_t first_step,
                         text *out);
/* Appends a record; all names must be known. */
void tuff__monitor_record(tuff_monitor_format format, const monitor_names *names, int64_t step,
                          const tuff_scalar *scalars, int count, text *out);

/* Returns the position at which to cut off a file of this format: the beginning of the first line of a step after
   first_step, or of an incomplete last line. */
size_t tuff__monitor_find_cut(tuff_monitor_format format, const char *data, size_t size, int64_t first_step);

#endif
