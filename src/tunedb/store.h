/* A store: what the tuner remembers of one environment. On disk it is an append-only file of records (record.h), and a
   private file ("shard") of each process that could not lock that file; in memory, the records of all of them. No
   trouble with files is an error for the caller: what cannot be read is taken as absent, what cannot be written stays
   in this process's memory, and tuff__store_error says why. lookup.h chooses among stores. */
#ifndef TUFF_TUNEDB_STORE_H
#define TUFF_TUNEDB_STORE_H

#include "tunedb/record.h"

typedef struct tune_store tune_store;

/* What is in the files. */
typedef struct store_counts {
    uint64_t lines, damaged, unknown; /* of all files; unknown: whole, of a later version */
    uint64_t superseded;              /* by a later or better one of the same key */
    uint64_t bytes, shards;
} store_counts;

/* Reads path and its shards. A missing file is an empty store. path NULL is a store without a file. The only error is
   TUFF_E_OOM_HOST. */
tuff_status tuff__store_open(const char *path, tune_store **out);
/* Reads any file, without shards, into a store that has no file of its own: records that are added stay in memory.
   TUFF_E_IO or TUFF_E_LIMIT if it cannot be read. */
tuff_status tuff__store_load(const char *path, tune_store **out);
/* The same for a file that was shipped with tuff: its winners count as shipped, whatever their records say. */
tuff_status tuff__store_load_shipped(const char *path, tune_store **out);
void tuff__store_close(tune_store *store); /* NULL is allowed */
/* Sets the environment that the store is for. Its text is written before the first record that is added, unless the
   file has it already. */
tuff_status tuff__store_describe(tune_store *store, const char *environment);

/* Adds a record and appends it to the file; texts are copied. The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__store_add(tune_store *store, const tune_record *record);

/* The current record, or NULL. There may be winners and rejections of several generators (kernel_hash.h): these return
   the one of the given generator, else the newest one, which is also returned for NULL. A rejection without a generator
   comes before the newest. */
const tune_record *tuff__store_winner(const tune_store *store, hash128 environment, hash128 key, const char *generator);
const tune_record *tuff__store_pin(const tune_store *store, hash128 environment, hash128 key);
const tune_record *tuff__store_rejection(const tune_store *store, hash128 environment, hash128 key,
                                         const char *candidate, const char *generator);
/* The current record that this one would replace, or NULL. */
const tune_record *tuff__store_superseded(const tune_store *store, const tune_record *record);

/* Iterates over the current records in the order of the files: start with *at = 0; NULL at the end. */
const tune_record *tuff__store_next(const tune_store *store, int *at);
/* The text of an environment of this hash, or NULL. */
const char *tuff__store_environment(const tune_store *store, hash128 environment);
store_counts tuff__store_count(const tune_store *store);
/* Whole lines of later versions, each with its newline. */
const char *tuff__store_unknown(const tune_store *store);
/* Why the file could not be read or written; "" if it could. */
const char *tuff__store_error(const tune_store *store);
const char *tuff__store_file(const tune_store *store); /* its path; "" if it has none */

/* Rewrites the file without damaged and superseded lines, and takes in the shards of dead processes; lines of later
   versions stay. Current records for which drop (may be NULL) returns true are left out. Afterwards the store is as if
   it had just been opened. TUFF_E_TIMEOUT, TUFF_E_UNSUPPORTED, TUFF_E_IO: the files are unchanged. */
typedef bool (*record_filter)(const tune_record *record, void *state);
tuff_status tuff__store_compact(tune_store *store, record_filter drop, void *state);
/* Whether most of the file is of no use, and the file is large enough for that to matter. */
bool tuff__store_wants_compaction(const tune_store *store);

#endif
