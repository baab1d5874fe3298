/* The only way to files: every operation goes through a table, so that tests can make any of them fail. */
#ifndef TUFF_BASE_FILE_H
#define TUFF_BASE_FILE_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/status.h"

typedef struct file_operations {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*read)(int fd, void *data, size_t size);
    ssize_t (*write)(int fd, const void *data, size_t size);
    int (*fstat)(int fd, struct stat *out);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*link)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, mode_t mode);
    int (*lstat)(const char *path, struct stat *out);
} file_operations;

/* The table in use; tests may replace entries. */
extern file_operations tuff__file;

/* Reads a whole regular file of at most limit bytes; *data is freed by the caller (tuff__free). Refuses FIFOs, devices
   and directories without hanging. */
tuff_status tuff__file_read(const char *path, uint64_t limit, void **data, size_t *size);

typedef struct file_part {
    const void *data;
    size_t size;
} file_part;
/* Writes parts to path.tmp-<pid>-<random> (O_EXCL, 0600), then renames it over path. durable: fsync of the file and its
   folder. keep_previous: the old file stays as path.prev. On failure path is as before and the temporary is gone. */
tuff_status tuff__file_write(const char *path, const file_part *parts, int count, bool durable, bool keep_previous);

/* The folder for programs and device records: $TUFF_CACHE_DIR, else $XDG_CACHE_HOME/tuff, else $HOME/.cache/tuff; made
   with mode 0700 if it is missing. TUFF_E_IO where it is not ours alone (owner, mode, symbolic link, set-uid process)
   or cannot be made, or where TUFF_CACHE_DIR is empty (off): the caller goes on without. */
tuff_status tuff__cache_folder(char *out, size_t size);
/* Like tuff__file_read for a file in the cache folder: O_NOFOLLOW, owned by us, no write permission for others, one link. */
tuff_status tuff__cache_read(const char *path, uint64_t limit, void **data, size_t *size);

#endif
