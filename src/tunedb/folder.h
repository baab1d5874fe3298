/* Where stores live. Ours: the cache folder's tune/v1/, one file an environment, "<backend>-<device>-<8 hex>.jsonl".
   Shipped ones: TUFF_SHARE_DIR/tune, else ../share/tuff/tune beside the program's folder (an installation, wherever it
   was moved, or the sources of a build), else tune/ in the data folder that the build was configured for; read, never
   written. */
#ifndef TUFF_TUNEDB_FOLDER_H
#define TUFF_TUNEDB_FOLDER_H

#include "tunedb/environment.h"
#include "tunedb/store.h"

enum { STORE_NAME_SIZE = 96, FOLDER_SIZE = 4096 };

/* "opencl-amd-epyc-1a2b3c4d.jsonl": readable, another for every environment. Answers out, of STORE_NAME_SIZE bytes. */
const char *tuff__tune_store_name(const char *environment, char *out);
/* Our folder, made where it is missing. TUFF_E_IO as tuff__cache_folder. */
tuff_status tuff__tune_folder(char *out, size_t size);
tuff_status tuff__tune_store_path(const char *environment, char *out, size_t size);
/* TUFF_E_IO where no folder can be named; that it exists is not said. */
tuff_status tuff__tune_shipped_folder(char *out, size_t size);

/* The lock of who measures on the environment's device, "cpu.tune.lock", "gpu-1002-744c.tune.lock": one GPU has one
   name in all APIs, if its drivers say its number. False where there is no folder for it. */
bool tuff__tune_lock_path(const tune_environment *environment, char *out, size_t size);

/* Opens our store of the environment. Where there is no folder for it, the store lives in memory and
   tuff__store_trouble says why. Only host memory can be lacking. */
tuff_status tuff__tune_open(const char *environment, tune_store **out);

/* Stores for a lookup, what an earlier one knows wins. Zero is none. */
typedef struct tune_stores {
    tune_store **items;
    int count, capacity;
} tune_stores;
/* Ours of the environment, as tuff__tune_open answers it, then the shipped ones of devices of its name; is_wide: then
   all other ones of ours. What cannot be read is left out. Only host memory can be lacking. */
tuff_status tuff__tune_gather(const char *environment, bool is_wide, tune_stores *out);
void tuff__tune_release(tune_stores *stores);

/* Calls visit for the path of every store: ours first, then the shipped ones, by name, until it fails. A folder that is
   not there has none; one of ours that cannot be used is TUFF_E_IO. */
typedef tuff_status (*store_visitor)(const char *path, bool is_shipped, void *state);
tuff_status tuff__tune_visit(store_visitor visit, void *state);

#endif
