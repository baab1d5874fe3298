/* The tuner's memory of one device: an append-only file of records (record.h), private files of processes that could
   not lock it ("shards"), and what they say in memory. Nothing here ends a program: what cannot be read counts as not
   there, what cannot be written is remembered by this process alone, and says why. */
#ifndef TUFF_TUNEDB_STORE_H
#define TUFF_TUNEDB_STORE_H

#include "tunedb/record.h"

typedef struct tune_store tune_store;

/* What the files hold. */
typedef struct store_counts {
    uint64_t lines, damaged, unknown; /* of all files; unknown: whole, of a later version */
    uint64_t superseded;              /* by a later or better one of the same key */
    uint64_t bytes, shards;
} store_counts;

/* Reads path and its shards; a missing file is an empty store, and so is a path of NULL: no file at all. Only host
   memory can be lacking. */
tuff_status tuff__store_open(const char *path, tune_store **out);
/* Reads a file of anybody's, without shards, into a store that has no file: what is added stays in memory.
   TUFF_E_IO and TUFF_E_LIMIT where it cannot be read. */
tuff_status tuff__store_load(const char *path, tune_store **out);
/* The same of a file that came with tuff, whatever its winners were to those who measured them. */
tuff_status tuff__store_load_shipped(const char *path, tune_store **out);
void tuff__store_close(tune_store *store); /* NULL is allowed */
/* The environment that the store is of: before the first record that is added, its text is, unless it is there. */
tuff_status tuff__store_describe(tune_store *store, const char *environment);

/* Remembers a record and appends it to the file; its texts are copied. Only host memory can be lacking. */
tuff_status tuff__store_add(tune_store *store, const tune_record *record);

/* The living record, or NULL. Winners and rejections may be there for several generators: the one of this generator,
   else, or where that is NULL, the newest; a rejection by no named generator comes before that. */
const tune_record *tuff__store_win(const tune_store *store, hash128 environment, hash128 key, const char *generator);
const tune_record *tuff__store_pin(const tune_store *store, hash128 environment, hash128 key);
const tune_record *tuff__store_bad(const tune_store *store, hash128 environment, hash128 key, const char *candidate,
                                   const char *generator);
/* The living record that this one would replace; NULL where there is none. */
const tune_record *tuff__store_like(const tune_store *store, const tune_record *record);

/* All living records, in the order of the files: *at begins with 0 and is moved on; NULL at the end. */
const tune_record *tuff__store_next(const tune_store *store, int *at);
/* The text of an environment of this hash, or NULL. */
const char *tuff__store_environment(const tune_store *store, hash128 environment);
store_counts tuff__store_count(const tune_store *store);
/* Whole lines of later versions, each with its newline. */
const char *tuff__store_unknown(const tune_store *store);
/* Why the file cannot be read, or was not written; "" where it can and was. */
const char *tuff__store_trouble(const tune_store *store);
const char *tuff__store_file(const tune_store *store); /* its path; "" where it has none */

/* Rewrites the file without what is damaged or superseded, and takes in the shards of dead processes; lines of later
   versions stay. drop, where not NULL, leaves out living records that it answers true for. The store is as if opened
   anew afterwards. TUFF_E_TIMEOUT, TUFF_E_UNSUPPORTED, TUFF_E_IO: the files are as before. */
typedef bool (*record_filter)(const tune_record *record, void *state);
tuff_status tuff__store_compact(tune_store *store, record_filter drop, void *state);
/* Whether most of the file is of no use and it is large enough for that to matter. */
bool tuff__store_wants_compaction(const tune_store *store);

#endif
