/* Every operation passes through step(), which counts it and decides whether it fails. */
#define _POSIX_C_SOURCE 200809L
#include "faulty_files.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file/file.h"

static file_operations real;
static bool installed, stays, hit;
static fault_kind fault;
static int chosen, count, open_count;
static char letters[4096];
static const char *hit_name = "";

/* Counts an operation. Returns whether it is to fail. */
static bool step(const char *name, char letter)
{
    if (count < (int)sizeof letters - 1) {
        letters[count] = letter;
        letters[count + 1] = 0;
    }
    count++;
    bool now = fault != FAULT_NONE && (count == chosen || (stays && count > chosen));
    if (now && fault == FAULT_EXIT)
        _exit(0);
    if (now && !hit)
        hit_name = name;
    hit = hit || now;
    return now;
}

/* Whether an operation that cannot be short fails, with errno set; under FAULT_SHORT and FAULT_EMPTY it works. */
static bool fails(const char *name, char letter)
{
    if (!step(name, letter) || fault == FAULT_SHORT || fault == FAULT_EMPTY)
        return false;
    errno = fault == FAULT_EIO ? EIO : fault == FAULT_ENOSPC ? ENOSPC : EINTR;
    return true;
}

static int faulty_open(const char *path, int flags, mode_t mode)
{
    if (fails("open", 'o'))
        return -1;
    int fd = real.open(path, flags, mode);
    open_count += fd >= 0;
    return fd;
}

/* Returns the number of bytes that a read or a write may transfer; -1 if it fails. */
static ssize_t transfer_size(const char *name, char letter, size_t size)
{
    if (!step(name, letter))
        return (ssize_t)size;
    if (fault == FAULT_SHORT)
        return size > 0;
    if (fault == FAULT_EMPTY)
        return 0;
    errno = fault == FAULT_EIO ? EIO : fault == FAULT_ENOSPC ? ENOSPC : EINTR;
    return -1;
}

static ssize_t faulty_read(int fd, void *data, size_t size)
{
    ssize_t allowed = transfer_size("read", 'r', size);
    return allowed <= 0 ? allowed : real.read(fd, data, (size_t)allowed);
}

static ssize_t faulty_write(int fd, const void *data, size_t size)
{
    ssize_t allowed = transfer_size("write", 'w', size);
    return allowed <= 0 ? allowed : real.write(fd, data, (size_t)allowed);
}

static int faulty_fstat(int fd, struct stat *out)
{
    return fails("fstat", 's') ? -1 : real.fstat(fd, out);
}

static int faulty_fsync(int fd)
{
    return fails("fsync", 'f') ? -1 : real.fsync(fd);
}

static int faulty_close(int fd)
{
    int result = real.close(fd);
    open_count--;
    return fails("close", 'c') ? -1 : result;
}

static int faulty_rename(const char *from, const char *to)
{
    return fails("rename", 'm') ? -1 : real.rename(from, to);
}

static int faulty_link(const char *from, const char *to)
{
    return fails("link", 'l') ? -1 : real.link(from, to);
}

static int faulty_unlink(const char *path)
{
    return fails("unlink", 'u') ? -1 : real.unlink(path);
}

static int faulty_mkdir(const char *path, mode_t mode)
{
    return fails("mkdir", 'k') ? -1 : real.mkdir(path, mode);
}

static int faulty_lstat(const char *path, struct stat *out)
{
    return fails("lstat", 't') ? -1 : real.lstat(path, out);
}

static int faulty_flock(int fd, int operation)
{
    return fails("flock", 'x') ? -1 : real.flock(fd, operation);
}

static ssize_t faulty_pread(int fd, void *data, size_t size, off_t offset)
{
    ssize_t allowed = transfer_size("pread", 'p', size);
    return allowed <= 0 ? allowed : real.pread(fd, data, (size_t)allowed, offset);
}

static int faulty_ftruncate(int fd, off_t size)
{
    return fails("ftruncate", 'z') ? -1 : real.ftruncate(fd, size);
}

void faulty_files_begin(fault_kind kind, int failing, bool sticky)
{
    if (!installed)
        real = tuff__file;
    installed = true;
    fault = kind;
    chosen = failing;
    stays = sticky;
    hit = false;
    hit_name = "";
    count = open_count = 0;
    letters[0] = 0;
    tuff__file = (file_operations){.open = faulty_open,
                                   .read = faulty_read,
                                   .write = faulty_write,
                                   .fstat = faulty_fstat,
                                   .fsync = faulty_fsync,
                                   .close = faulty_close,
                                   .rename = faulty_rename,
                                   .link = faulty_link,
                                   .unlink = faulty_unlink,
                                   .mkdir = faulty_mkdir,
                                   .lstat = faulty_lstat,
                                   .flock = faulty_flock,
                                   .pread = faulty_pread,
                                   .ftruncate = faulty_ftruncate};
}

bool faulty_files_end(void)
{
    if (installed)
        tuff__file = real;
    installed = false;
    return hit;
}

int faulty_files_count(void)
{
    return count;
}

int faulty_files_open(void)
{
    return open_count;
}

const char *faulty_files_log(void)
{
    return letters;
}

const char *faulty_files_hit(void)
{
    return hit_name;
}
