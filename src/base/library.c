/* Shared libraries, opened at run time so that the program starts even if they are missing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *tuff__library_open(const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

void *tuff__library_symbol(void *library, const char *name)
{
    return library ? dlsym(library, name) : NULL;
}

const char *tuff__library_error(void)
{
    const char *error = dlerror();
    return error ? error : "unknown error";
}

static bool find_program(char *out, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", out, size);
    if (length <= 0 || (size_t)length >= size)
        return false;
    out[length] = '\0';
    return true;
}

/* dladdr reports a program as it was invoked, which need not be a path; /proc/self/exe is reliable. */
static bool find_own_file(char *out, size_t size)
{
    static const char here;
    Dl_info found;
    if (dladdr(&here, &found) != 0 && found.dli_fname && strstr(found.dli_fname, ".so"))
        return (size_t)snprintf(out, size, "%s", found.dli_fname) < size;
    return find_program(out, size);
}

static bool cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

bool tuff__library_folder(char *out, size_t size)
{
    return find_own_file(out, size) && cut_name(out);
}

bool tuff__program_folder(char *out, size_t size)
{
    return find_program(out, size) && cut_name(out);
}

bool tuff__library_exists(const char *path)
{
    return access(path, F_OK) == 0;
}
