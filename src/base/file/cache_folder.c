/* The folder for files that tuff keeps between runs. Programs in it are passed to drivers, which do not withstand
   hostile bytes, so the folder is used only if nobody else can write to it. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/file/error.h"

/* Joins folder and suffix into out, without trailing slashes of folder, which would make lstat follow a link. */
static tuff_status join(const char *folder, const char *suffix, char *out, size_t size)
{
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    int written = snprintf(out, size, "%.*s%s", (int)(length < size ? length : size), folder, suffix);
    if (written < 0 || (size_t)written >= size)
        return FAIL(TUFF_E_IO, "no cache folder: its path is longer than %zu bytes", size - 1);
    return TUFF_OK;
}

static int examine(const char *path, struct stat *info)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.lstat(path, info));
    return result;
}

/* Refuses a home of another user, as under sudo: files that this process creates in it would lock its owner out of the
   folder. */
static tuff_status check_home(const char *home, char *scratch, size_t size)
{
    struct stat info;
    /* The last component makes lstat follow a symbolic link, which a home may well be. */
    TRY(join(home, "/.", scratch, size));
    if (examine(scratch, &info))
        return tuff__fail_errno("access the home folder", home);
    if (info.st_uid != geteuid())
        return FAIL(TUFF_E_IO, "no cache folder: HOME %s belongs to another user", home);
    return TUFF_OK;
}

/* XDG Base Directory Specification: relative names must be ignored. */
static bool is_absolute(const char *name)
{
    return name && name[0] == '/';
}

bool tuff__cache_is_off(void)
{
    const char *setting = getenv("TUFF_CACHE_DIR");
    return setting && !setting[0];
}

static tuff_status choose_folder(char *out, size_t size)
{
    const char *tuff_folder = getenv("TUFF_CACHE_DIR"), *xdg_folder = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (tuff__cache_is_off())
        return FAIL(TUFF_E_IO, "no cache folder: TUFF_CACHE_DIR is empty");
    if (tuff_folder)
        return join(tuff_folder, "", out, size);
    if (is_absolute(xdg_folder))
        return join(xdg_folder, "/tuff", out, size);
    if (!is_absolute(home))
        return FAIL(TUFF_E_IO, "no cache folder: HOME is not an absolute path; set TUFF_CACHE_DIR");
    TRY(check_home(home, out, size));
    return join(home, "/.cache/tuff", out, size);
}

static int make_folder(const char *path)
{
    int result = -1;
    UNINTERRUPTED(result, tuff__file.mkdir(path, 0700));
    return result < 0 && errno == EEXIST ? 0 : result;
}

/* Creates path and its missing parent folders. Modifies path temporarily. */
static tuff_status make_folders(char *path)
{
    if (make_folder(path) == 0)
        return TUFF_OK;
    for (char *slash = errno == ENOENT ? strchr(path + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        /* Errors are ignored here; the final make_folder of path reports them. */
        (void)make_folder(path);
        *slash = '/';
    }
    return make_folder(path) ? tuff__fail_errno("create the cache folder", path) : TUFF_OK;
}

/* Creates the folder if it is missing; fails if anybody else could write to it. */
static tuff_status ensure_private_folder(char *out)
{
    TRY(make_folders(out));
    struct stat info;
    if (examine(out, &info))
        return tuff__fail_errno("examine the cache folder", out);
    if (!S_ISDIR(info.st_mode))
        return FAIL(TUFF_E_IO, "no cache folder: %s is not a folder", out);
    if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)))
        return FAIL(TUFF_E_IO, "no cache folder: users other than this one could write to %s", out);
    return TUFF_OK;
}

tuff_status tuff__cache_folder(char *out, size_t size)
{
    if (getuid() != geteuid() || getgid() != getegid())
        return FAIL(TUFF_E_IO,
                    "no cache folder: the process runs with the privileges of another user (set-uid or set-gid)");
    TRY(choose_folder(out, size));
    return ensure_private_folder(out);
}

tuff_status tuff__cache_subfolder(const char *name, char *out, size_t size)
{
    TRY(tuff__cache_folder(out, size));
    const size_t length = strlen(out);
    const int written = snprintf(out + length, size - length, "/%s", name);
    if (written < 0 || (size_t)written >= size - length)
        return FAIL(TUFF_E_IO, "no cache folder: its path is longer than %zu bytes", size - 1);
    return ensure_private_folder(out);
}
