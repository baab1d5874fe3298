/* Writing files: whatever happens, a path names the old file or the whole new one, and no temporary file stays. */
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
#include "base/hash.h"
#include "base/text.h"
#include "base/thread.h"

/* path.tmp-<pid>-<random>. Random enough not to meet a leftover; O_EXCL is what protects. */
static tuff_status temporary_name(text *name, const char *path)
{
    const struct {
        uint64_t time;
        const void *place;
    } seed = {tuff__nanoseconds(), name};
    uint64_t pid = (uint64_t)getpid();
    tuff__text_clear(name);
    tuff__text_add(name, "%s.tmp-%" PRIu64 "-%016" PRIx64, path, pid, tuff__hash64(&seed, sizeof seed, pid));
    return tuff__text_status(name);
}

#define NAME_TRIES 16

/* Makes a new file that did not exist before; its name is in name. */
static tuff_status create_temporary(text *name, const char *path, int *out)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        TRY(temporary_name(name, path));
        int fd = -1;
        UNINTERRUPTED(
            fd, tuff__file.open(tuff__text_get(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (fd >= 0) {
            *out = fd;
            return TUFF_OK;
        }
        if (errno != EEXIST)
            break;
    }
    return tuff__fail_errno("create", tuff__text_get(name));
}

tuff_status tuff__write_all(int fd, const char *path, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t put = -1;
        UNINTERRUPTED(put, tuff__file.write(fd, (const unsigned char *)data + done, size - done));
        if (put < 0)
            return tuff__fail_errno("write", path);
        if (put == 0)
            return FAIL(TUFF_E_IO, "cannot write %s: the file system takes no more bytes", path);
        done += (size_t)put;
    }
    return TUFF_OK;
}

static tuff_status flush(int fd, const char *path)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fsync(fd));
    return result < 0 ? tuff__fail_errno("flush", path) : TUFF_OK;
}

/* The bytes have arrived where the file has the size that was written. */
static tuff_status check_size(int fd, const char *path, uint64_t size)
{
    struct stat found;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fstat(fd, &found));
    if (result < 0)
        return tuff__fail_errno("examine", path);
    if ((uint64_t)found.st_size != size)
        return FAIL(TUFF_E_IO, "cannot write %s: %" PRIu64 " bytes were written and %" PRIu64 " are there", path, size,
                    (uint64_t)found.st_size);
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
    return durable ? flush(fd, path) : TUFF_OK;
}

/* A close that a signal interrupted has closed the file: only other failures can have lost bytes. */
static tuff_status close_checked(int fd, const char *path, tuff_status before)
{
    if (tuff__file.close(fd) && errno != EINTR && before == TUFF_OK)
        return tuff__fail_errno("close", path);
    return before;
}

static tuff_status replace(const char *from, const char *to)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.rename(from, to));
    return result < 0 ? tuff__fail_errno("replace", to) : TUFF_OK;
}

/* Writes a new temporary file whole; where that fails it is gone again. */
static tuff_status write_temporary(text *name, const char *path, const file_part *parts, int count, bool durable)
{
    int fd = -1;
    TRY(create_temporary(name, path, &fd));
    tuff_status status = write_parts(fd, tuff__text_get(name), parts, count, durable);
    status = close_checked(fd, tuff__text_get(name), status);
    if (status != TUFF_OK)
        (void)tuff__file.unlink(tuff__text_get(name));
    return status;
}

/* For file systems without hard links. */
static tuff_status copy_previous(text *name, const char *path, bool durable)
{
    void *data;
    size_t size;
    TRY(tuff__file_read(path, UINT64_MAX, &data, &size));
    tuff_status status = write_temporary(name, path, &(file_part){data, size}, 1, durable);
    tuff__free(data);
    return status;
}

/* A second name for the file at path: no moment passes in which path names nothing. */
static tuff_status link_previous(text *name, const char *path, bool durable)
{
    TRY(temporary_name(name, path));
    int result = -1;
    UNINTERRUPTED(result, tuff__file.link(path, tuff__text_get(name)));
    if (result == 0)
        return TUFF_OK;
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK)
        return copy_previous(name, path, durable);
    return tuff__fail_errno("keep the previous", path);
}

static tuff_status keep_as(const char *path, const char *other, bool durable)
{
    text name = {0};
    tuff_status status = link_previous(&name, path, durable);
    if (status == TUFF_OK) {
        status = replace(tuff__text_get(&name), other);
        /* Renaming between two names of one file does nothing: then both are still there. */
        (void)tuff__file.unlink(tuff__text_get(&name));
    }
    tuff__text_free(&name);
    return status;
}

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

/* The folder that holds path, opened so that it can be flushed. */
static tuff_status open_folder(const char *path, int *out)
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

/* Makes a rename last. A file system that cannot flush folders says EINVAL: it offers no more. */
static tuff_status flush_folder(int fd, const char *path)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fsync(fd));
    return result < 0 && errno != EINVAL ? tuff__fail_errno("flush the folder of", path) : TUFF_OK;
}

/* Puts the finished temporary file in the place of path. The folder is opened first, so that the last step that can
   fail before path changes is the rename itself. */
static tuff_status commit(const char *name, const char *path, bool durable, bool keep)
{
    int folder = -1;
    if (durable)
        TRY(open_folder(path, &folder));
    tuff_status status = keep ? keep_previous_file(path, durable) : TUFF_OK;
    if (status == TUFF_OK)
        status = replace(name, path);
    if (status == TUFF_OK && durable)
        status = flush_folder(folder, path);
    if (folder >= 0)
        (void)tuff__file.close(folder);
    return status;
}

/* Whether there is a file at path. Devices and the like must not be renamed over. */
static tuff_status examine_target(const char *path, bool *exists)
{
    struct stat found;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.lstat(path, &found));
    if (result < 0) {
        *exists = false;
        return errno == ENOENT ? TUFF_OK : tuff__fail_errno("examine", path);
    }
    if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode))
        return FAIL(TUFF_E_IO, "cannot write %s: it exists and is not a regular file", path);
    *exists = true;
    return TUFF_OK;
}

tuff_status tuff__file_write(const char *path, const file_part *parts, int count, bool durable, bool keep_previous)
{
    bool exists = false;
    TRY(examine_target(path, &exists));
    text name = {0};
    tuff_status status = write_temporary(&name, path, parts, count, durable);
    if (status == TUFF_OK) {
        status = commit(tuff__text_get(&name), path, durable, keep_previous && exists);
        if (status != TUFF_OK)
            /* After the rename there is nothing of this name, and nothing is lost by trying. */
            (void)tuff__file.unlink(tuff__text_get(&name));
    }
    tuff__text_free(&name);
    return status;
}

tuff_status tuff__file_keep_as(const char *path, const char *name, bool durable)
{
    int folder = -1;
    bool exists;
    TRY(examine_target(name, &exists));
    if (durable)
        TRY(open_folder(name, &folder));
    tuff_status status = keep_as(path, name, durable);
    if (status == TUFF_OK && durable)
        status = flush_folder(folder, name);
    if (folder >= 0)
        (void)tuff__file.close(folder);
    return status;
}

tuff_status tuff__file_remove(const char *path)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.unlink(path));
    return result < 0 && errno != ENOENT ? tuff__fail_errno("remove", path) : TUFF_OK;
}
