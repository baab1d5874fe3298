/* Where stores lie. Our own: tune/v1/ in the cache folder, a file per environment, "<backend>-<device>-<8 hex>.jsonl".
   Shipped ones, which are only read: TUFF_SHARE_DIR/tune; without that variable, ../share/tuff/tune beside the
   program's folder (an installation, even if it was moved, or the sources of a build); else tune/ in the data folder
   that the build was configured with. */
#ifndef TUFF_TUNEDB_FOLDER_H
#define TUFF_TUNEDB_FOLDER_H

#include "tunedb/environment.h"
#include "tunedb/store.h"

enum { STORE_NAME_SIZE = 96, FOLDER_SIZE = 4096 };

/* "opencl-amd-epyc-1a2b3c4d.jsonl": readable, and different for every environment. Returns out, of STORE_NAME_SIZE
   bytes. */
const char *tuff__tune_store_name(const char *environment, char *out);
/* Our folder, created if it is missing. TUFF_E_IO as tuff__cache_folder. */
tuff_status tuff__tune_folder(char *out, size_t size);
tuff_status tuff__tune_store_path(const char *environment, char *out, size_t size);

/* The path of the lock that a process holds while it measures on the environment's device: "cpu.tune.lock",
   "gpu-1002-744c.tune.lock". A GPU has the same name in all APIs, if its drivers report the PCI number. False if there
   is no folder for it. */
bool tuff__tune_lock_path(const tune_environment *environment, char *out, size_t size);

/* Opens our store of the environment. Without a folder the store is in memory only, and tuff__store_error says why.
   The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__tune_open(const char *environment, tune_store **out);

/* Stores for a lookup: what an earlier one has takes precedence. Zero is no stores. */
typedef struct tune_stores {
    tune_store **items;
    int count, capacity;
} tune_stores;
/* Our store of the environment (tuff__tune_open), then the shipped ones for devices of that name; with is_wide all our
   other stores, too. Files that cannot be read are left out. The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__tune_gather(const char *environment, bool is_wide, tune_stores *out);
void tuff__tune_release(tune_stores *stores);

/* Calls visit with the path of every store, ours first, then the shipped ones, sorted by name, until it fails. A
   missing folder has no stores; TUFF_E_IO if ours exists and cannot be used. */
typedef tuff_status (*store_visitor)(const char *path, bool is_shipped, void *state);
tuff_status tuff__tune_visit(store_visitor visit, void *state);

#endif
