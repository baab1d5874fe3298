/* Files that several processes append lines to. */
#ifndef TUFF_BASE_FILE_LOCK_H
#define TUFF_BASE_FILE_LOCK_H

#include "base/file/file.h"

/* A lock is a file of its own beside what it guards, which is never renamed or removed. It ends with the process. */
typedef struct file_lock {
    int fd; /* -1: not held */
} file_lock;

/* Waits for the lock, at most `timeout` nanoseconds: TUFF_E_TIMEOUT then, TUFF_E_UNSUPPORTED where the file system has
   no locks, TUFF_E_IO where the file cannot be opened. Threads exclude each other like processes. */
tuff_status tuff__file_lock(const char *path, uint64_t timeout, file_lock *out);
void tuff__file_unlock(file_lock *lock); /* one that is not held is allowed */

/* Appends a line, newline included, to a file of ours, which is made with mode 0600 if it is missing: one write, and in
   front of it a newline where the file ends within a line, as a killed writer leaves it. The caller holds the lock, or
   is alone. durable: the bytes and the file's name are on the disk on return. Where it fails the file may end
   within the line. */
tuff_status tuff__file_append(const char *path, const char *line, size_t size, bool durable);

#endif
