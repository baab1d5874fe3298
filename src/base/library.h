/* Shared libraries opened at run time. */
#ifndef TUFF_BASE_LIBRARY_H
#define TUFF_BASE_LIBRARY_H

/* Tries each name in turn; NULL where none opens. Never closed: drivers do not survive it. */
void *tuff__library_open(const char *const *names, int count);
void *tuff__library_symbol(void *library, const char *name); /* NULL where there is none */

#endif
