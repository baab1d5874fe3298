/* A store: what the tuner has recorded about one environment. On disk it is an append-only file of records (record.h),
   plus a private file ("shard") for each process that could not lock the main file; in memory it holds the records of
   all these files. File errors are never errors for the caller: what cannot be read counts as absent, what cannot be
   written is kept in this process's memory only, and tuff__store_error gives the reason. lookup.h chooses among
   stores. */
#ifndef TUFF_TUNEDB_STORE_H
#define TUFF_TUNEDB_STORE_H

#include "tunedb/record.h"

typedef struct tune_store tune_store;

/* Contents of the files. */
typedef struct store_counts {
    uint64_t lines, damaged, unknown; /* of all files; unknown: intact lines of a later version */
    uint64_t superseded;              /* replaced by a later or better record of the same key */
    uint64_t bytes, shards;
} store_counts;

/* Reads path and its shards. A missing file is an empty store. path NULL is a store without a file. The only error is
   TUFF_E_OOM_HOST. */
tuff_status tuff__store_open(const char *path, tune_store **out);
/* Reads any file, without shards, into a store that has no file of its own: records added to it stay in memory.
   TUFF_E_IO or TUFF_E_LIMIT if the file cannot be read. */
tuff_status tuff__store_load(const char *path, tune_store **out);
/* The same for a file that was shipped with tuff: its winners count as shipped, whatever their records say. */
tuff_status tuff__store_load_shipped(const char *path, tune_store **out);
void tuff__store_close(tune_store *store); /* NULL is allowed */
/* Sets the environment that the store is for. Its text is written before the first record that is added, unless the
   file has it already. */
tuff_status tuff__store_set_environment(tune_store *store, const char *environment);

/* Adds a record and appends it to the file; texts are copied. The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__store_add(tune_store *store, const tune_record *record);

/* Returns the current record, or NULL. There may be winners and rejections of several kernel hashes (kernel_hash.h):
   these functions return the one of the given kernel hash if there is one, else (and for a NULL kernel hash) the
   newest. A rejection without a kernel hash takes precedence over the newest. */
const tune_record *tuff__store_winner(const tune_store *store, hash128 environment, hash128 key,
                                      const char *kernel_hash);
const tune_record *tuff__store_pin(const tune_store *store, hash128 environment, hash128 key);
const tune_record *tuff__store_rejection(const tune_store *store, hash128 environment, hash128 key,
                                         const char *candidate, const char *kernel_hash);
/* Returns the rejection in one of the stores that keeps the candidate from running (tuff__record_rejects), or NULL. */
const tune_record *tuff__stores_rejection(const tune_store *const *stores, int count, hash128 environment, hash128 key,
                                          const char *candidate, const char *kernel_hash);
/* Returns the current record that this one would replace, or NULL. */
const tune_record *tuff__store_superseded(const tune_store *store, const tune_record *record);

/* Iterates over the current records in the order of the files. Start with *at = 0; returns NULL at the end. */
const tune_record *tuff__store_next(const tune_store *store, int *at);
/* Returns the text of the environment with this hash, or NULL. */
const char *tuff__store_environment(const tune_store *store, hash128 environment);
store_counts tuff__store_count(const tune_store *store);
/* Returns the intact lines of later versions, each with its newline. */
const char *tuff__store_unknown(const tune_store *store);
/* Returns why the file could not be read or written; "" if it could. */
const char *tuff__store_error(const tune_store *store);
const char *tuff__store_file(const tune_store *store); /* its path; "" if it has none */

/* Rewrites the file without damaged and superseded lines, and merges the shards of dead processes into it; lines of
   later versions are kept. Current records for which drop (may be NULL) returns true are left out. Afterwards the store
   is as if it had just been opened. On TUFF_E_TIMEOUT, TUFF_E_UNSUPPORTED and TUFF_E_IO the files are unchanged. */
typedef bool (*record_filter)(const tune_record *record, void *state);
tuff_status tuff__store_compact(tune_store *store, record_filter drop, void *state);
/* Whether most lines of the file are damaged or superseded, and the file is large enough for that to matter. */
bool tuff__store_needs_compaction(const tune_store *store);

#endif
