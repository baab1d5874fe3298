/* The only way to files: every operation goes through a table, so that tests can make any of them fail. */
#ifndef TUFF_BASE_FILE_FILE_H
#define TUFF_BASE_FILE_FILE_H

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
    int (*flock)(int fd, int operation);
    ssize_t (*pread)(int fd, void *data, size_t size, off_t offset);
    int (*ftruncate)(int fd, off_t size);
} file_operations;

/* The table in use; tests may replace entries. */
extern file_operations tuff__file;

/* Reads a whole regular file of at most limit bytes (TUFF_E_LIMIT beyond); *data is freed by the caller (tuff__free)
   and has a 0 behind its last byte. Refuses FIFOs, devices and directories without hanging. */
tuff_status tuff__file_read(const char *path, uint64_t limit, void **data, size_t *size);

/* A regular file that is read piece by piece. path is the caller's and outlives the reader. */
typedef struct file_reader {
    const char *path;
    int fd;
    uint64_t size; /* of the file when it was opened */
} file_reader;
/* Refuses what tuff__file_read refuses. */
tuff_status tuff__reader_open(const char *path, file_reader *out);
/* The next size bytes; TUFF_E_IO where the file ends before. */
tuff_status tuff__reader_read(file_reader *reader, void *data, size_t size);
void tuff__reader_close(file_reader *reader);

typedef struct file_part {
    const void *data;
    size_t size;
} file_part;
/* Writes parts to path.tmp-<pid>-<random> (O_EXCL, 0600), then renames it over path. durable: fsync of the file and
   its folder, and temporaries of path that killed processes left are removed first; those that other processes and
   threads are writing are locked (flock) and stay. A path is written durably always or never. keep_previous: the old
   file stays as path.prev. On failure path is as before and the temporary is gone; only where nothing but the last
   flush of the folder failed, path is the whole new file. A device, FIFO or directory at path is refused. */
tuff_status tuff__file_write(const char *path, const file_part *parts, int count, bool durable, bool keep_previous);

/* Gives a file a second name, replacing what has it: a link, or a copy where the file system has no links. At any time
   the name is the old file or the whole new one. durable: as tuff__file_write's. */
tuff_status tuff__file_keep_as(const char *path, const char *name, bool durable);
/* Removes a file; one that is not there is removed. */
tuff_status tuff__file_remove(const char *path);

/* The folder for programs and device records: $TUFF_CACHE_DIR, else $XDG_CACHE_HOME/tuff, else $HOME/.cache/tuff; made
   with mode 0700 if it is missing, parents too. TUFF_E_IO where others could write to it (owner, mode, symbolic link,
   set-uid process, somebody else's HOME) or it cannot be made, or where TUFF_CACHE_DIR is empty (off): the caller goes
   on without. */
tuff_status tuff__cache_folder(char *out, size_t size);
/* A folder in it, "tune/v1", made and examined in the same way. */
tuff_status tuff__cache_subfolder(const char *name, char *out, size_t size);
/* Like tuff__file_read for a file in the cache folder: O_NOFOLLOW, owned by us, no write permission for others, one
   link. */
tuff_status tuff__cache_read(const char *path, uint64_t limit, void **data, size_t *size);

#endif
