/* Names in a folder, and what tells processes apart in them. */
#ifndef TUFF_BASE_FILE_LIST_H
#define TUFF_BASE_FILE_LIST_H

#include "base/file/file.h"

/* Calls visit for every name in the folder that begins with prefix, in the order of strcmp, until one fails. A folder
   that is missing has no names. */
typedef tuff_status (*name_visitor)(const char *name, void *state);
tuff_status tuff__file_list(const char *folder, const char *prefix, name_visitor visit, void *state);

/* "<host>.<pid>" of this process; hosts without a name are called "host". */
void tuff__process_name(char *out, size_t size);
/* Whether the process of such a name may still be alive: one of another host may always be. */
bool tuff__process_may_live(const char *name);

#endif
