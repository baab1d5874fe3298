/* Monitoring: named numbers by step, such as a loss, a learning rate or a throughput, written as CSV, as JSON Lines or
   as event files for TensorBoard. This header only writes files on the host; the program supplies the numbers. A
   monitor is used by one thread at a time. */
#ifndef TUFF_MONITOR_H
#define TUFF_MONITOR_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tuff_monitor_format {
    TUFF_MONITOR_CSV,        /* RFC 4180 with a header: "step" and the names. NaN and infinities are nan, inf, -inf */
    TUFF_MONITOR_JSON_LINES, /* one object per line: {"step": 1, "loss": 2.5}. NaN and infinities are null */
    TUFF_MONITOR_TENSORBOARD /* an event file: TFRecords of tensorflow.Event, one scalar summary per name, as f32 */
} tuff_monitor_format;

typedef struct tuff_monitor_options {
    tuff_monitor_format format;
    /* Path of the file, which is created or emptied. TensorBoard: path of a folder, created with its parents if
       missing, in which every monitor creates a file of its own. */
    const char *path;
    const char *const *names; /* names of all scalars that will be written, count of them; copied */
    int count;
    /* Appends to an existing file, for a run that was resumed after first_step steps: lines of later steps are cut off,
       because the run writes them again; a file that does not exist is created. TensorBoard drops later steps of the
       folder's older files. A CSV file with another header is TUFF_E_FORMAT. */
    bool append;
    int64_t first_step;
    uint64_t reserved[6];
} tuff_monitor_options;

typedef struct tuff_monitor tuff_monitor; /* an open file of records */
/* Opens a monitor. NULL on failure: TUFF_E_IO, TUFF_E_FORMAT, TUFF_E_USAGE if a name is missing, duplicate, empty,
   longer than 200 bytes or has control characters. */
TUFF_API tuff_monitor *tuff_monitor_open(const tuff_monitor_options *options);

typedef struct tuff_scalar {
    const char *name; /* one of the monitor's names */
    double value;
} tuff_scalar;
/* Writes a record of count scalars as a whole and without delay: a reader that follows the file sees it when this
   returns. A CSV line has empty fields for names that are not among the scalars. TUFF_E_IO if the disk is full or the
   file cannot be written: the file then ends with the previous record, and later calls try again. TUFF_E_USAGE for an
   unknown name. */
TUFF_API tuff_status tuff_monitor_write(tuff_monitor *monitor, int64_t step, const tuff_scalar *scalars, int count);
/* Closes the file. NULL is allowed. TUFF_E_IO if the system reports only now that bytes were lost. */
TUFF_API tuff_status tuff_monitor_close(tuff_monitor *monitor);

#ifdef __cplusplus
}
#endif
#endif
