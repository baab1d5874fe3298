/* Shared libraries that are opened at run time, so that tuff links to no driver. Read next: device/opencl and
   device/vulkan, which load their loaders with it. */
#ifndef TUFF_BASE_LIBRARY_H
#define TUFF_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Tries each name in turn; NULL if none can be opened. Libraries are never closed: drivers do not survive it. */
void *tuff__library_open(const char *const *names, int count);
void *tuff__library_symbol(void *library, const char *name); /* NULL if there is none */
/* Returns why the last tuff__library_open of this thread failed. Valid until its next call. */
const char *tuff__library_error(void);

/* Writes the folder of the file that holds this code: a shared library, or the program that it is linked into. Returns
   false if the folder cannot be determined or does not fit. */
bool tuff__library_folder(char *out, size_t size);
/* The same for the running program. */
bool tuff__program_folder(char *out, size_t size);
bool tuff__library_exists(const char *path);

#endif
