/* Temporary files next to the file that they will become, path.tmp-<pid>-<random>, and removal of those that killed
   processes left behind. */
#ifndef TUFF_BASE_FILE_TEMPORARY_H
#define TUFF_BASE_FILE_TEMPORARY_H

#include "base/file/file.h"
#include "base/text.h"

typedef struct temporary {
    text name;
    int fd; /* -1: closed. A locked file stays open until it has its final name */
} temporary;

/* Makes a name that most likely does not exist. */
tuff_status tuff__temporary_name(text *name, const char *path);
/* Creates a new file (O_EXCL, 0600). is_locked: tuff__temporary_sweep leaves it alone while it is open. */
tuff_status tuff__temporary_create(temporary *self, const char *path, bool is_locked);
/* Closes the file and so releases its lock. Errors of close are ignored. */
void tuff__temporary_free(temporary *self);

/* Removes path's temporary files that no process has locked, including hard links. Fails only if memory runs out:
   TUFF_E_OOM_HOST. */
tuff_status tuff__temporary_sweep(const char *path);

#endif
