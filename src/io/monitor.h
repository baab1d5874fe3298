/* The texts of monitors' records; monitor.c writes them to files. */
#ifndef TUFF_IO_MONITOR_H
#define TUFF_IO_MONITOR_H

#include "base/text.h"
#include "tuff/monitor.h"

typedef struct monitor_names {
    char **items; /* owned */
    int count;
} monitor_names;

/* What a file begins with: a CSV's header, an event file's version. append: TensorBoard is told that steps after
   first_step come anew. */
void tuff__monitor_begin(tuff_monitor_format format, const monitor_names *names, bool append, int64_t first_step,
                         text *out);
/* A record; the names are known. */
void tuff__monitor_record(tuff_monitor_format format, const monitor_names *names, int64_t step,
                          const tuff_scalar *scalars, int count, text *out);

/* Where the lines of steps after first_step begin, or a last line that was not written whole: what to cut a file of
   this format off at. */
size_t tuff__monitor_cut(tuff_monitor_format format, const char *data, size_t size, int64_t first_step);

#endif
