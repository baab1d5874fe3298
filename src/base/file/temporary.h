/* Temporary files beside the file that they become, path.tmp-<pid>-<random>, and those that killed processes left. */
#ifndef TUFF_BASE_FILE_TEMPORARY_H
#define TUFF_BASE_FILE_TEMPORARY_H

#include "base/file/file.h"
#include "base/text.h"

typedef struct temporary {
    text name;
    int fd; /* -1: closed; what is locked is open until it has its last name */
} temporary;

/* A name that nothing has, most likely. */
tuff_status tuff__temporary_name(text *name, const char *path);
/* Makes a new file (O_EXCL, 0600). is_locked: tuff__temporary_sweep leaves it while it is open. */
tuff_status tuff__temporary_create(temporary *self, const char *path, bool is_locked);
/* Closes the file, which ends the lock, without a look at what that answers. */
void tuff__temporary_free(temporary *self);

/* Removes path's temporary files that no process has locked, links among them. Fails for want of memory alone:
   TUFF_E_OOM_HOST. */
tuff_status tuff__temporary_sweep(const char *path);

#endif
