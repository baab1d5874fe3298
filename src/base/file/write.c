/* Writes files atomically: at any time a path names the complete old or the complete new file. A temporary file is left
   behind only if the process is killed; the next durable write of the path removes it. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/file/error.h"
#include "base/file/temporary.h"
#include "base/text.h"

/* A write may store fewer bytes than it got, for instance when the disk is nearly full: the next one then says why. */
tuff_status tuff__write_all(int fd, const char *path, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t put = -1;
        UNINTERRUPTED(put, tuff__file.write(fd, (const unsigned char *)data + done, size - done));
        if (put < 0)
            return tuff__fail_errno("write", path);
        if (put == 0)
            return FAIL(TUFF_E_IO, "cannot write %s: no space left on the file system", path);
        done += (size_t)put;
    }
    return TUFF_OK;
}

tuff_status tuff__flush(int fd, const char *path)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fsync(fd));
    return result < 0 ? tuff__fail_errno("flush", path) : TUFF_OK;
}

/* Checks that the file has the size that was written. */
static tuff_status check_size(int fd, const char *path, uint64_t size)
{
    struct stat info;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fstat(fd, &info));
    if (result < 0)
        return tuff__fail_errno("examine", path);
    if ((uint64_t)info.st_size != size)
        return FAIL(TUFF_E_IO, "cannot write %s: wrote %" PRIu64 " bytes, but the file has %" PRIu64, path, size,
                    (uint64_t)info.st_size);
    return TUFF_OK;
}

static tuff_status write_parts(int fd, const char *path, const file_part *parts, int count, bool durable)
{
    uint64_t size = 0;
    for (int i = 0; i < count; i++) {
        TRY(tuff__write_all(fd, path, parts[i].data, parts[i].size));
        size += parts[i].size;
    }
    TRY(check_size(fd, path, size));
    return durable ? tuff__flush(fd, path) : TUFF_OK;
}

/* A close that was interrupted by a signal has still closed the file, so only other errors can mean lost bytes. */
static tuff_status close_checked(temporary *temp_file)
{
    const int fd = temp_file->fd;
    temp_file->fd = -1;
    return tuff__file.close(fd) && errno != EINTR ? tuff__fail_errno("close", tuff__text_get(&temp_file->name))
                                                  : TUFF_OK;
}

static tuff_status replace(const char *from, const char *to)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.rename(from, to));
    return result < 0 ? tuff__fail_errno("replace", to) : TUFF_OK;
}

/* Writes a complete new temporary file; on failure the file is removed. A durable one stays open to keep its lock;
   errors of its later close do not matter, because its bytes are already on the disk. */
static tuff_status write_temporary(temporary *temp_file, const char *path, const file_part *parts, int count,
                                   bool durable)
{
    TRY(tuff__temporary_create(temp_file, path, durable));
    tuff_status status = write_parts(temp_file->fd, tuff__text_get(&temp_file->name), parts, count, durable);
    if (status == TUFF_OK && !durable)
        status = close_checked(temp_file);
    if (status != TUFF_OK)
        (void)tuff__file.unlink(tuff__text_get(&temp_file->name));
    return status;
}

/* Copies the file at path, for file systems without hard links. */
static tuff_status copy_previous(temporary *temp_file, const char *path, bool durable)
{
    void *data;
    size_t size;
    TRY(tuff__file_read(path, UINT64_MAX, &data, &size));
    tuff_status status = write_temporary(temp_file, path, &(file_part){data, size}, 1, durable);
    tuff__free(data);
    return status;
}

/* Hard-links the file at path to a temporary name, so that path names a file at every moment; copies it if links are
   not supported. Sets *error to the errno of a failed link, else to 0. */
static tuff_status link_previous(temporary *temp_file, const char *path, bool durable, int *error)
{
    TRY(tuff__temporary_name(&temp_file->name, path));
    int result = -1;
    UNINTERRUPTED(result, tuff__file.link(path, tuff__text_get(&temp_file->name)));
    *error = result < 0 ? errno : 0;
    if (*error != EPERM && *error != EOPNOTSUPP && *error != ENOSYS && *error != EMLINK)
        return TUFF_OK;
    *error = 0;
    return copy_previous(temp_file, path, durable);
}

/* Keeps the file at path as other. Sets *error to the errno of a failed link or rename, 0 if both succeeded. */
static tuff_status keep_once(const char *path, const char *other, bool durable, int *error)
{
    temporary temp_file = {.fd = -1};
    const tuff_status status = link_previous(&temp_file, path, durable, error);
    if (status == TUFF_OK && *error == 0) {
        int result = -1;
        UNINTERRUPTED(result, tuff__file.rename(tuff__text_get(&temp_file.name), other));
        *error = result < 0 ? errno : 0;
        /* If both names refer to the same file, rename does nothing and leaves both. */
        (void)tuff__file.unlink(tuff__text_get(&temp_file.name));
    }
    tuff__temporary_free(&temp_file);
    return status;
}

/* If other processes write path at the same time, its file may be replaced while it is being linked, and the link,
   which has no lock of its own, may be removed as a leftover. Both show as ENOENT, and the link is made again. */
static tuff_status keep_as(const char *path, const char *other, bool durable)
{
    enum { TRIES = 100 };
    int error = ENOENT;
    for (int i = 0; i < TRIES && error == ENOENT; i++)
        TRY(keep_once(path, other, durable, &error));
    errno = error;
    return error != 0 ? tuff__fail_errno("keep the previous file as", other) : TUFF_OK;
}

/* The previous file keeps its content under the name path.prev while the new one takes its place. */
static tuff_status keep_previous_file(const char *path, bool durable)
{
    text previous = {0};
    tuff__text_add(&previous, "%s.prev", path);
    tuff_status status = tuff__text_status(&previous);
    if (status == TUFF_OK)
        status = keep_as(path, tuff__text_get(&previous), durable);
    tuff__text_free(&previous);
    return status;
}

tuff_status tuff__open_parent_folder(const char *path, int *out)
{
    const char *slash = strrchr(path, '/');
    text folder = {0};
    tuff__text_add_bytes(&folder, slash ? path : ".", slash && slash != path ? (size_t)(slash - path) : 1);
    tuff_status status = tuff__text_status(&folder);
    if (status == TUFF_OK) {
        UNINTERRUPTED(*out, tuff__file.open(tuff__text_get(&folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
        status = *out < 0 ? tuff__fail_errno("open", tuff__text_get(&folder)) : TUFF_OK;
    }
    tuff__text_free(&folder);
    return status;
}

/* EINVAL means that the file system cannot flush folders, which is not an error. */
tuff_status tuff__finish_parent_folder(int folder, const char *path, tuff_status status)
{
    int result = 0;
    if (folder < 0)
        return status;
    if (status == TUFF_OK)
        UNINTERRUPTED(result, tuff__file.fsync(folder));
    if (result < 0 && errno != EINVAL)
        status = tuff__fail_errno("flush the folder of", path);
    (void)tuff__file.close(folder);
    return status;
}

/* Renames the finished temporary file to path. The folder is opened first, so that the rename is the last step that can
   fail before path changes. */
static tuff_status commit(const char *name, const char *path, bool durable, bool keep)
{
    int folder = -1;
    if (durable)
        TRY(tuff__open_parent_folder(path, &folder));
    tuff_status status = keep ? keep_previous_file(path, durable) : TUFF_OK;
    if (status == TUFF_OK)
        status = replace(name, path);
    return tuff__finish_parent_folder(folder, path, status);
}

/* Finds out whether a file exists at path. Devices and other special files are refused: a rename must not replace
   them. */
static tuff_status examine_target(const char *path, bool *exists)
{
    struct stat info;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.lstat(path, &info));
    if (result < 0) {
        *exists = false;
        return errno == ENOENT ? TUFF_OK : tuff__fail_errno("examine", path);
    }
    if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
        return FAIL(TUFF_E_IO, "cannot write %s: it exists and is not a regular file", path);
    *exists = true;
    return TUFF_OK;
}

tuff_status tuff__file_write(const char *path, const file_part *parts, int count, bool durable, bool keep_previous)
{
    bool exists = false;
    TRY(examine_target(path, &exists));
    if (durable)
        TRY(tuff__temporary_sweep(path));
    temporary temp_file = {.fd = -1};
    tuff_status status = write_temporary(&temp_file, path, parts, count, durable);
    if (status == TUFF_OK) {
        status = commit(tuff__text_get(&temp_file.name), path, durable, keep_previous && exists);
        if (status != TUFF_OK)
            /* After a successful rename this name no longer exists; trying to remove it is harmless. */
            (void)tuff__file.unlink(tuff__text_get(&temp_file.name));
    }
    tuff__temporary_free(&temp_file);
    return status;
}

tuff_status tuff__file_keep_as(const char *path, const char *name, bool durable)
{
    int folder = -1;
    bool exists;
    TRY(examine_target(name, &exists));
    if (durable)
        TRY(tuff__open_parent_folder(name, &folder));
    return tuff__finish_parent_folder(folder, name, keep_as(path, name, durable));
}

/* A file that another process has removed already is no error. */
tuff_status tuff__file_remove(const char *path)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.unlink(path));
    return result < 0 && errno != ENOENT ? tuff__fail_errno("remove", path) : TUFF_OK;
}
