/* A process that is killed while it writes leaves its temporary file behind, possibly a whole checkpoint. Its lock
   (flock) is released with it, so the next writer of the same path can tell which files are abandoned. On a file system
   without locks, nothing is removed. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include "base/file/temporary.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file/error.h"
#include "base/file/list.h"
#include "base/hash.h"
#include "base/thread.h"

#define NAME_TRIES 16
#define MARK ".tmp-"
enum { RANDOM_DIGITS = 16 };

/* The name is random enough to avoid leftovers; the protection is O_EXCL. */
tuff_status tuff__temporary_name(text *name, const char *path)
{
    const struct {
        uint64_t time;
        const void *place;
    } seed = {tuff__nanoseconds(), name};
    uint64_t pid = (uint64_t)getpid();
    tuff__text_clear(name);
    tuff__text_add(name, "%s" MARK "%" PRIu64 "-%016" PRIx64, path, pid, tuff__hash64(&seed, sizeof seed, pid));
    return tuff__text_status(name);
}

/* Locks the file. Returns false if a sweep removed it between its creation and its lock. */
static bool lock_new_file(int fd)
{
    struct stat info;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.flock(fd, LOCK_EX | LOCK_NB));
    if (result < 0)
        return errno != EWOULDBLOCK;
    UNINTERRUPTED(result, tuff__file.fstat(fd, &info));
    return result < 0 || info.st_nlink > 0;
}

tuff_status tuff__temporary_create(temporary *self, const char *path, bool is_locked)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        TRY(tuff__temporary_name(&self->name, path));
        int fd = -1;
        UNINTERRUPTED(fd, tuff__file.open(tuff__text_get(&self->name),
                                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (fd < 0 && errno != EEXIST)
            break;
        if (fd < 0)
            continue;
        if (!is_locked || lock_new_file(fd)) {
            self->fd = fd;
            return TUFF_OK;
        }
        (void)tuff__file.unlink(tuff__text_get(&self->name));
        (void)tuff__file.close(fd);
        errno = EEXIST;
    }
    return tuff__fail_errno("create", tuff__text_get(&self->name));
}

void tuff__temporary_free(temporary *self)
{
    if (self->fd >= 0)
        (void)tuff__file.close(self->fd);
    self->fd = -1;
    tuff__text_free(&self->name);
}

/* Whether the text after the mark comes from tuff__temporary_name: users may give such names, too. */
static bool is_temporary(const char *tail)
{
    const size_t pid = strspn(tail, "0123456789");
    return pid > 0 && tail[pid] == '-' && strspn(tail + pid + 1, "0123456789abcdef") == RANDOM_DIGITS &&
           tail[pid + 1 + RANDOM_DIGITS] == 0;
}

/* Opens a file in order to lock it. Some file systems lock only files opened for writing, but the temporary may be a
   hard link to a read-only file. */
static int open_to_lock(const char *path)
{
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = -1;
    UNINTERRUPTED(fd, tuff__file.open(path, O_RDWR | flags, 0));
    if (fd < 0 && errno == EACCES)
        UNINTERRUPTED(fd, tuff__file.open(path, O_RDONLY | flags, 0));
    return fd;
}

static void remove_abandoned(const char *path)
{
    struct stat info;
    int result = -1;
    const int fd = open_to_lock(path);
    if (fd < 0)
        return;
    UNINTERRUPTED(result, tuff__file.fstat(fd, &info));
    if (result == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid()) {
        UNINTERRUPTED(result, tuff__file.flock(fd, LOCK_EX | LOCK_NB));
        if (result == 0)
            (void)tuff__file.unlink(path);
    }
    (void)tuff__file.close(fd);
}

typedef struct sweep {
    const char *path;
    size_t folder_length, prefix_length; /* lengths of the path's folder with its slash, and of the names' prefix */
} sweep;

static tuff_status visit_name(const char *name, void *state)
{
    const sweep *self = state;
    if (!is_temporary(name + self->prefix_length))
        return TUFF_OK;
    text path = {0};
    tuff__text_add_bytes(&path, self->path, self->folder_length);
    tuff__text_add(&path, "%s", name);
    const tuff_status status = tuff__text_status(&path);
    if (status == TUFF_OK)
        remove_abandoned(tuff__text_get(&path));
    tuff__text_free(&path);
    return status;
}

tuff_status tuff__temporary_sweep(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    text folder = {0}, prefix = {0};
    saved_error before;
    tuff__error_save(&before);
    tuff__text_add_bytes(&folder, slash ? path : ".", slash && slash != path ? (size_t)(slash - path) : 1);
    tuff__text_add(&prefix, "%s" MARK, name);
    sweep self = {path, (size_t)(name - path), prefix.length};
    tuff_status status = tuff__text_status(&folder);
    if (status == TUFF_OK)
        status = tuff__text_status(&prefix);
    if (status == TUFF_OK)
        status = tuff__file_list(tuff__text_get(&folder), tuff__text_get(&prefix), visit_name, &self);
    tuff__text_free(&folder);
    tuff__text_free(&prefix);
    if (status == TUFF_E_OOM_HOST)
        return status;
    tuff__error_restore(&before);
    return TUFF_OK;
}
