/* Shared libraries opened at run time. */
#ifndef TUFF_BASE_LIBRARY_H
#define TUFF_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Tries each name in turn; NULL where none opens. Never closed: drivers do not survive it. */
void *tuff__library_open(const char *const *names, int count);
void *tuff__library_symbol(void *library, const char *name); /* NULL where there is none */
/* Why the last tuff__library_open of this thread failed. Valid until its next call. */
const char *tuff__library_error(void);

/* The folder of the file that holds this code: a shared library, or the program that it is linked into. False where it
   cannot be told or does not fit. */
bool tuff__library_folder(char *out, size_t size);
bool tuff__library_exists(const char *path);

#endif
