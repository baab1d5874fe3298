/* Shared by all callers of the table of file operations: errors from errno, calls interrupted by signals. */
#ifndef TUFF_BASE_FILE_ERROR_H
#define TUFF_BASE_FILE_ERROR_H

#include <errno.h>

#include "base/status.h"

/* Fails with TUFF_E_IO, "cannot <action> <path>: <errno's text>". */
tuff_status tuff__fail_errno(const char *action, const char *path);

/* Writes all bytes, in as many pieces as necessary; TUFF_E_IO. path is for messages. */
tuff_status tuff__write_all(int fd, const char *path, const void *data, size_t size);

/* Makes the file's bytes durable. path is for messages. */
tuff_status tuff__flush(int fd, const char *path);

/* Opens the folder that holds path, for tuff__finish_parent_folder. */
tuff_status tuff__open_parent_folder(const char *path, int *out);
/* Makes changes of the name path durable if status is TUFF_OK, and closes the folder; -1: does nothing. Returns status,
   or else the failure of the flush. */
tuff_status tuff__finish_parent_folder(int folder, const char *path, tuff_status status);

/* How often a call interrupted by a signal is repeated: enough for any real series of signals, but finite for a file
   system that only ever returns EINTR. */
#define INTERRUPTION_LIMIT 100

/* Repeats a call until it is no longer interrupted by a signal. */
#define UNINTERRUPTED(result, call)                                   \
    do {                                                              \
        for (int tries_ = 0; tries_ < INTERRUPTION_LIMIT; tries_++) { \
            (result) = (call);                                        \
            if ((result) >= 0 || errno != EINTR)                      \
                break;                                                \
        }                                                             \
    } while (0)

#endif
