/* Monitoring: named numbers by step, such as a loss, a learning rate or a throughput, written as CSV, as JSON Lines or
   as event files for TensorBoard. Everything here is about files on the host; where the numbers come from is the
   program's matter. A monitor is used by one thread at a time. */
#ifndef TUFF_MONITOR_H
#define TUFF_MONITOR_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tuff_monitor_format {
    TUFF_MONITOR_CSV,        /* RFC 4180 with a header: "step" and the names. NaN and infinities are nan, inf, -inf */
    TUFF_MONITOR_JSON_LINES, /* an object a line: {"step": 1, "loss": 2.5}. NaN and infinities are null */
    TUFF_MONITOR_TENSORBOARD /* an event file: TFRecords of tensorflow.Event, a scalar summary for each name, as f32 */
} tuff_monitor_format;

typedef struct tuff_monitor_options {
    tuff_monitor_format format;
    /* Of the file, which is made or emptied. TensorBoard: of a folder, made with its parents where it is missing, in
       which every monitor makes a file of its own. */
    const char *path;
    const char *const *names; /* of all scalars there will be, count of them; copied */
    int count;
    /* Goes on with what is there, for a run that was resumed after first_step steps: lines of later steps are cut off,
       because the run makes them anew; a file that does not exist begins. TensorBoard drops later steps of the folder's
       older files. A CSV file with another header is TUFF_E_FORMAT. */
    bool append;
    int64_t first_step;
    uint64_t reserved[6];
} tuff_monitor_options;

typedef struct tuff_monitor tuff_monitor; /* an open file of records */
/* NULL on failure: TUFF_E_IO, TUFF_E_FORMAT, TUFF_E_USAGE where a name is missing, given twice, empty, longer than 200
   bytes or has control characters. */
TUFF_API tuff_monitor *tuff_monitor_open(const tuff_monitor_options *options);

typedef struct tuff_scalar {
    const char *name; /* one of the monitor's */
    double value;
} tuff_scalar;
/* Writes a record of count scalars, whole and at once: a reader that follows the file sees it when this returns. A CSV
   line has empty fields for names that are not among them. TUFF_E_IO where there is no room, or the file cannot be
   written: the file then ends with the record before, and later calls try again. TUFF_E_USAGE for an unknown name. */
TUFF_API tuff_status tuff_monitor_write(tuff_monitor *monitor, int64_t step, const tuff_scalar *scalars, int count);
/* Closes the file. NULL is allowed. TUFF_E_IO where the system tells only now that bytes were lost. */
TUFF_API tuff_status tuff_monitor_close(tuff_monitor *monitor);

#ifdef __cplusplus
}
#endif
#endif
