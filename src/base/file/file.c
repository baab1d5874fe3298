/* The table of file operations, and reading, which treats every file as untrusted. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file/error.h"

static int open_file(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

file_operations tuff__file = {
    .open = open_file,
    .read = read,
    .write = write,
    .fstat = fstat,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .link = link,
    .unlink = unlink,
    .mkdir = mkdir,
    .lstat = lstat,
    .flock = flock,
    .pread = pread,
    .ftruncate = ftruncate,
};

tuff_status tuff__fail_errno(const char *action, const char *path)
{
    int code = errno;
    return FAIL(TUFF_E_IO, "cannot %s %s: %s", action, path, strerror(code));
}

/* is_private: refuse a file that anybody else could have written. */
static tuff_status check_readable(const char *path, const struct stat *info, bool is_private)
{
    if (!S_ISREG(info->st_mode))
        return FAIL(TUFF_E_IO, "cannot read %s: not a regular file", path);
    if (is_private && (info->st_uid != geteuid() || (info->st_mode & (S_IWGRP | S_IWOTH)) || info->st_nlink != 1))
        return FAIL(TUFF_E_IO, "cannot read %s: users other than this one could have written it", path);
    return TUFF_OK;
}

static tuff_status open_reader(const char *path, bool is_private, file_reader *out)
{
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (is_private ? O_NOFOLLOW : 0), fd = -1;
    UNINTERRUPTED(fd, tuff__file.open(path, flags, 0));
    if (fd < 0)
        return tuff__fail_errno("open", path);
    struct stat info;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fstat(fd, &info));
    tuff_status status = result < 0 ? tuff__fail_errno("examine", path) : check_readable(path, &info, is_private);
    if (status != TUFF_OK) {
        (void)tuff__file.close(fd);
        return status;
    }
    *out = (file_reader){.path = path, .fd = fd, .size = info.st_size > 0 ? (uint64_t)info.st_size : 0};
    return TUFF_OK;
}

tuff_status tuff__reader_open(const char *path, file_reader *out)
{
    return open_reader(path, false, out);
}

tuff_status tuff__reader_read(file_reader *reader, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = -1;
        UNINTERRUPTED(got, tuff__file.read(reader->fd, (unsigned char *)data + done, size - done));
        if (got < 0)
            return tuff__fail_errno("read", reader->path);
        if (got == 0)
            return FAIL(TUFF_E_IO, "cannot read %s: the file ended %zu bytes early", reader->path, size - done);
        done += (size_t)got;
    }
    return TUFF_OK;
}

void tuff__reader_close(file_reader *reader)
{
    if (reader->fd >= 0)
        (void)tuff__file.close(reader->fd);
    reader->fd = -1;
}

static tuff_status read_all(file_reader *reader, uint64_t limit, void **data, size_t *size)
{
    if (reader->size > limit || reader->size > SIZE_MAX - 1)
        return FAIL(TUFF_E_LIMIT, "cannot read %s: its size is %" PRIu64 " bytes, the limit is %" PRIu64, reader->path,
                    reader->size, limit);
    size_t length = (size_t)reader->size;
    unsigned char *block = tuff__alloc(length + 1);
    if (!block)
        return tuff_last_status();
    tuff_status status = tuff__reader_read(reader, block, length);
    if (status != TUFF_OK) {
        tuff__free(block);
        return status;
    }
    block[length] = 0;
    *data = block;
    *size = length;
    return TUFF_OK;
}

static tuff_status read_file(const char *path, bool is_private, uint64_t limit, void **data, size_t *size)
{
    file_reader reader = {.fd = -1};
    TRY(open_reader(path, is_private, &reader));
    tuff_status status = read_all(&reader, limit, data, size);
    tuff__reader_close(&reader);
    return status;
}

tuff_status tuff__file_read(const char *path, uint64_t limit, void **data, size_t *size)
{
    return read_file(path, false, limit, data, size);
}

tuff_status tuff__cache_read(const char *path, uint64_t limit, void **data, size_t *size)
{
    return read_file(path, true, limit, data, size);
}
