/* Keeping stores small. */
#ifndef TUFF_TUNEDB_TIDY_H
#define TUFF_TUNEDB_TIDY_H

#include "tunedb/store.h"

#define TIDY_LIMIT ((uint64_t)16 << 20) /* bytes of a store */

/* Up to which time winners and rejected candidates must go, so that what stays of the stores together takes at most
   so many bytes; pins and environments always stay. 0: all may stay. */
tuff_status tuff__tidy_cutoff(const tune_store *const *stores, int count, uint64_t most, uint64_t *out);
/* For the last moment of a store: compacts it where most of the file is of no use, or drops the oldest where it is
   larger than the limit; otherwise does nothing. Records that were answered before are gone. Errors as of
   tuff__store_compact: the files are as before. */
tuff_status tuff__store_tidy(tune_store *store, uint64_t limit);

#endif
