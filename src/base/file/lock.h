/* Files to which several processes append lines. */
#ifndef TUFF_BASE_FILE_LOCK_H
#define TUFF_BASE_FILE_LOCK_H

#include "base/file/file.h"

/* A lock: a separate file next to the file that it protects; it is never renamed or removed. The lock is released when
   the process ends. */
typedef struct file_lock {
    int fd; /* -1: not held */
} file_lock;

/* Waits for the lock for at most `timeout` nanoseconds, then fails with TUFF_E_TIMEOUT. TUFF_E_UNSUPPORTED if the file
   system has no locks, TUFF_E_IO if the file cannot be opened. Threads exclude each other like processes. */
tuff_status tuff__file_lock(const char *path, uint64_t timeout, file_lock *out);
void tuff__file_unlock(file_lock *lock); /* the lock need not be held */

/* Appends a line, newline included, with a single write to a file of this user, which is created with mode 0600 if
   missing. If the file ends within a line, as a killed writer may leave it, a newline is written first. The caller
   holds the lock, or no other process writes. durable: the bytes and the file's name are on the disk on return. On
   failure the file may end within the line. */
tuff_status tuff__file_append(const char *path, const char *line, size_t size, bool durable);

#endif
