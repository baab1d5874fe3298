/* Prunes stores; called after measuring (autotune/session.c) and by tuff_cache_prune. */
#ifndef TUFF_TUNEDB_TIDY_H
#define TUFF_TUNEDB_TIDY_H

#include "tunedb/store.h"

#define TIDY_LIMIT ((uint64_t)16 << 20) /* bytes of a store */

/* Sets *out to a time: if winners and rejected candidates up to it are dropped, the rest of the stores takes at most
   max_bytes bytes together. 0 if nothing has to be dropped. Pins and environments are always kept. */
tuff_status tuff__tidy_cutoff(const tune_store *const *stores, int count, uint64_t max_bytes, uint64_t *out);
/* Call this right before closing a store. Compacts it if most of its lines are damaged or superseded, or if it is
   larger than the limit, in which case its oldest records are dropped too; else does nothing. Pointers to records are
   invalid afterwards. Errors are those of tuff__store_compact, and leave the files unchanged. */
tuff_status tuff__store_tidy(tune_store *store, uint64_t limit);

#endif
