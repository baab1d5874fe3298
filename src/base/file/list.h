/* Lists the names in a folder; names that identify processes. */
#ifndef TUFF_BASE_FILE_LIST_H
#define TUFF_BASE_FILE_LIST_H

#include "base/file/file.h"

/* Calls visit for every name in the folder that begins with prefix, in strcmp order, until a call fails. A missing
   folder has no names. */
typedef tuff_status (*name_visitor)(const char *name, void *state);
tuff_status tuff__file_list(const char *folder, const char *prefix, name_visitor visit, void *state);

/* Writes "<host>.<pid>" of this process; hosts without a name are called "host". */
void tuff__process_name(char *out, size_t size);
/* Whether the process with such a name may still be alive: always true for a process of another host. */
bool tuff__process_may_live(const char *name);

#endif
