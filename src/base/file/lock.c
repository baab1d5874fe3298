/* Appends under locks (flock): a writer that dies leaves at most part of a line, and no lock. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include "base/file/lock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file/error.h"
#include "base/thread.h"

#define PAUSE 2000000u /* nanoseconds between attempts */

/* Checks that the file is a regular file to which nobody else can write. */
static tuff_status check_own(int fd, const char *path, uint64_t *size)
{
    struct stat info;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fstat(fd, &info));
    if (result < 0)
        return tuff__fail_errno("examine", path);
    if (!S_ISREG(info.st_mode))
        return FAIL(TUFF_E_IO, "cannot write %s: not a regular file", path);
    if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) || info.st_nlink != 1)
        return FAIL(TUFF_E_IO, "cannot write %s: users other than this one could write it", path);
    *size = (uint64_t)info.st_size;
    return TUFF_OK;
}

/* O_NOFOLLOW and check_own keep others from redirecting the file by a link; O_NONBLOCK keeps a FIFO of that name from
   blocking the open. */
static tuff_status open_own(const char *path, int flags, int *out, uint64_t *size)
{
    int fd = -1;
    UNINTERRUPTED(
        fd, tuff__file.open(path, flags | O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
    if (fd < 0)
        return tuff__fail_errno("open", path);
    const tuff_status status = check_own(fd, path, size);
    if (status != TUFF_OK) {
        (void)tuff__file.close(fd);
        return status;
    }
    *out = fd;
    return TUFF_OK;
}

/* Tries again and again, because flock has no time limit of its own. */
static tuff_status acquire(int fd, const char *path, uint64_t timeout)
{
    const uint64_t begin = tuff__nanoseconds();
    for (;;) {
        int result = -1;
        UNINTERRUPTED(result, tuff__file.flock(fd, LOCK_EX | LOCK_NB));
        if (result == 0)
            return TUFF_OK;
        if (errno != EWOULDBLOCK)
            return FAIL(TUFF_E_UNSUPPORTED, "cannot lock %s: %s", path, strerror(errno));
        if (tuff__nanoseconds() - begin >= timeout)
            return FAIL(TUFF_E_TIMEOUT, "cannot lock %s: another process holds the lock", path);
        tuff__sleep(PAUSE);
    }
}

tuff_status tuff__file_lock(const char *path, uint64_t timeout, file_lock *out)
{
    uint64_t size = 0;
    out->fd = -1;
    int fd = -1;
    TRY(open_own(path, 0, &fd, &size));
    const tuff_status status = acquire(fd, path, timeout);
    if (status == TUFF_OK)
        out->fd = fd;
    else
        (void)tuff__file.close(fd);
    return status;
}

void tuff__file_unlock(file_lock *lock)
{
    if (lock->fd < 0)
        return;
    /* Closing would not release the lock while a child that was forked meanwhile has the file open. */
    int result = -1;
    UNINTERRUPTED(result, tuff__file.flock(lock->fd, LOCK_UN));
    (void)result;
    (void)tuff__file.close(lock->fd);
    lock->fd = -1;
}

/* Finds out whether the file's last byte ends a line. */
static tuff_status check_line_end(int fd, const char *path, uint64_t size, bool *out)
{
    char last = '\n';
    ssize_t got = 1;
    if (size > 0)
        UNINTERRUPTED(got, tuff__file.pread(fd, &last, 1, (off_t)(size - 1)));
    if (got < 0)
        return tuff__fail_errno("read", path);
    *out = got == 1 && last == '\n';
    return TUFF_OK;
}

/* Flushes the file and its name, which may be new: its creator need not have flushed it. */
static tuff_status flush(int fd, const char *path)
{
    int folder = -1;
    TRY(tuff__flush(fd, path));
    TRY(tuff__open_parent_folder(path, &folder));
    return tuff__finish_parent_folder(folder, path, TUFF_OK);
}

/* If a writer died in the middle of a line, the new line begins with a line break, which leaves the torn one to be
   recognized as damaged. One write for all of it, since others may read at any time. */
static tuff_status append(int fd, const char *path, uint64_t size, const char *line, size_t length, bool durable)
{
    bool ends_line = false;
    TRY(check_line_end(fd, path, size, &ends_line));
    char *data = tuff__alloc(length + 1);
    if (!data)
        return TUFF_E_OOM_HOST;
    data[0] = '\n';
    memcpy(data + 1, line, length);
    tuff_status status = tuff__write_all(fd, path, ends_line ? data + 1 : data, ends_line ? length : length + 1);
    tuff__free(data);
    return status == TUFF_OK && durable ? flush(fd, path) : status;
}

tuff_status tuff__file_append(const char *path, const char *line, size_t size, bool durable)
{
    int fd = -1;
    uint64_t before = 0;
    TRY(open_own(path, O_APPEND, &fd, &before));
    tuff_status status = append(fd, path, before, line, size, durable);
    if (tuff__file.close(fd) < 0 && status == TUFF_OK)
        status = tuff__fail_errno("close", path);
    return status;
}
