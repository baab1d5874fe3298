/* What the files of base share that call the table of file operations: errors from errno, and calls that signals
   interrupt. */
#ifndef TUFF_BASE_FILE_ERROR_H
#define TUFF_BASE_FILE_ERROR_H

#include <errno.h>

#include "base/status.h"

/* TUFF_E_IO, "cannot <action> <path>: <errno's text>". */
tuff_status tuff__fail_errno(const char *action, const char *path);

/* Writes all bytes, in as many pieces as it takes; TUFF_E_IO. path is for messages. */
tuff_status tuff__write_all(int fd, const char *path, const void *data, size_t size);

/* The folder that holds path, opened so that it can be flushed; the caller closes it. */
tuff_status tuff__open_folder_of(const char *path, int *out);
/* Makes what has become of the name path last. */
tuff_status tuff__flush_folder_of(int folder, const char *path);

/* How often a call that a signal interrupted is made again: often enough for any real series of signals, and an end for
   a file system that answers nothing else. */
#define INTERRUPTION_LIMIT 100

/* Makes call until a signal no longer interrupts it. */
#define UNINTERRUPTED(result, call)                                   \
    do {                                                              \
        for (int tries_ = 0; tries_ < INTERRUPTION_LIMIT; tries_++) { \
            (result) = (call);                                        \
            if ((result) >= 0 || errno != EINTR)                      \
                break;                                                \
        }                                                             \
    } while (0)

#endif
