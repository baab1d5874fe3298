/* File access. Every operation goes through a table of functions, so that tests can make any of them fail. */
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

/* Reads a whole regular file of at most limit bytes (TUFF_E_LIMIT if it is larger). The caller frees *data
   (tuff__free), which has a 0 after its last byte. Refuses FIFOs, devices and directories without blocking. */
tuff_status tuff__file_read(const char *path, uint64_t limit, void **data, size_t *size);

/* A regular file that is read in pieces. path belongs to the caller and must outlive the reader. */
typedef struct file_reader {
    const char *path;
    int fd;
    uint64_t size; /* size of the file when it was opened */
} file_reader;
/* Opens a reader. Refuses the same files as tuff__file_read. */
tuff_status tuff__reader_open(const char *path, file_reader *out);
/* Reads the next size bytes; TUFF_E_IO if the file ends before. */
tuff_status tuff__reader_read(file_reader *reader, void *data, size_t size);
void tuff__reader_close(file_reader *reader);

typedef struct file_part {
    const void *data;
    size_t size;
} file_part;
/* Writes parts to path.tmp-<pid>-<random> (O_EXCL, 0600), then renames it to path. durable: calls fsync on the file and
   its folder, and first removes temporaries of path that killed processes left behind; those that other processes and
   threads are writing are locked (flock) and stay. A given path must be written durably either always or never.
   keep_previous: the old file is kept as path.prev. On failure path is unchanged and the temporary is removed; only if
   the last flush of the folder alone failed, path is the complete new file. A device, FIFO or directory at path is
   refused. */
tuff_status tuff__file_write(const char *path, const file_part *parts, int count, bool durable, bool keep_previous);

/* Gives a file a second name, replacing any file of that name: a hard link, or a copy if the file system has no links.
   At any time the name refers to the complete old or the complete new file. durable: as in tuff__file_write. */
tuff_status tuff__file_keep_as(const char *path, const char *name, bool durable);
/* Removes a file; a missing file is not an error. */
tuff_status tuff__file_remove(const char *path);

/* Writes to out the folder for programs and device records: $TUFF_CACHE_DIR, else $XDG_CACHE_HOME/tuff, else
   $HOME/.cache/tuff. If it is missing, it is created with mode 0700, with its parents. TUFF_E_IO if others could write
   to it (owner, mode, symbolic link, set-uid process, another user's HOME), if it cannot be created, or if
   TUFF_CACHE_DIR is empty (off): the caller continues without a cache. */
tuff_status tuff__cache_folder(char *out, size_t size);
/* The same for a folder in it, such as "tune/v1". */
tuff_status tuff__cache_subfolder(const char *name, char *out, size_t size);
/* Whether TUFF_CACHE_DIR is empty: there is no cache on purpose, which deserves no warning. */
bool tuff__cache_is_off(void);
/* Like tuff__file_read, for a file in the cache folder: O_NOFOLLOW, and the file must belong to this user, have no
   write permission for others, and have one link. */
tuff_status tuff__cache_read(const char *path, uint64_t limit, void **data, size_t *size);

#endif
