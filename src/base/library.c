/* Shared libraries, opened at run time so that the program starts where they are missing. */
#include "base/library.h"

#include <dlfcn.h>
#include <stddef.h>

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
