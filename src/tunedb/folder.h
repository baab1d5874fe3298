/* Where stores are kept. Our own are in tune/v1/ of the cache folder, one file per environment, "<backend>-<device>-<8
   hex>.jsonl". Shipped stores, which are only read, are in TUFF_SHARE_DIR/tune; if that variable is not set, in
   ../share/tuff/tune next to the program's folder (an installation, even one that was moved, or the source tree of a
   build); else in tune/ of the data folder that was configured at build time. */
#ifndef TUFF_TUNEDB_FOLDER_H
#define TUFF_TUNEDB_FOLDER_H

#include "tunedb/environment.h"
#include "tunedb/store.h"

enum { STORE_NAME_SIZE = 96, FOLDER_SIZE = 4096 };

/* Writes the file name of an environment's store, "opencl-amd-epyc-1a2b3c4d.jsonl": readable, and different for every
   environment. Returns out, which has STORE_NAME_SIZE bytes. */
const char *tuff__tune_store_name(const char *environment, char *out);
/* Writes the path of the user's folder, which is created if missing. TUFF_E_IO as for tuff__cache_folder. */
tuff_status tuff__tune_folder(char *out, size_t size);
tuff_status tuff__tune_store_path(const char *environment, char *out, size_t size);

/* Writes the path of the lock that a process holds while it measures on the environment's device: "cpu.tune.lock",
   "gpu-1002-744c.tune.lock". A GPU has the same lock in all APIs if its drivers report the PCI id. Returns false if
   there is no folder for it. */
bool tuff__tune_lock_path(const tune_environment *environment, char *out, size_t size);

/* Opens the user's store of the environment. If there is no folder, the store is in memory only and tuff__store_error
   gives the reason. The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__tune_open(const char *environment, tune_store **out);

/* Stores for a lookup; earlier ones take precedence. All zero means no stores. */
typedef struct tune_stores {
    tune_store **items;
    int count, capacity;
} tune_stores;
/* Opens the user's store of the environment (tuff__tune_open), then the shipped stores of devices with that name and,
   if with_other_environments, all the user's other stores. Files that cannot be read are left out. The only error is
   TUFF_E_OOM_HOST. */
tuff_status tuff__tune_open_stores(const char *environment, bool with_other_environments, tune_stores *out);
void tuff__tune_close_stores(tune_stores *stores);

/* Calls visit with the path of every store, the user's first, then the shipped ones, each sorted by name, until visit
   fails. A missing folder has no stores. TUFF_E_IO if the user's folder exists but cannot be used. */
typedef tuff_status (*store_visitor)(const char *path, bool is_shipped, void *state);
tuff_status tuff__tune_visit_stores(store_visitor visit, void *state);

#endif
