/* The state that the files of the store share: store.c reads and finds records, store_write.c appends and compacts. */
#ifndef TUFF_TUNEDB_STORE_STATE_H
#define TUFF_TUNEDB_STORE_STATE_H

#include <errno.h>
#include <stdio.h>

#include "base/file/lock.h"
#include "tunedb/store.h"

#define STORE_PATH 4200

/* Winners and rejections are kept for the last few kernel hashes, so that builds of tuff that take turns on a
   device do not delete each other's results. */
enum { MAX_KERNEL_HASHES = 3 };
typedef struct record_state {
    bool is_superseded;
    int older; /* index + 1 of the record with the same identity and another kernel hash; 0 if none */
} record_state;

struct tune_store {
    char *path;        /* NULL: in memory only */
    char *environment; /* environment that the store is for; NULL if not set */
    arena texts;
    tune_record *records; /* in the order of the files */
    record_state *states; /* parallel to records */
    int count, capacity, state_capacity;
    int *index; /* hash table by identity: index + 1 of the newest live record; 0 if empty */
    int index_size;
    text unknown; /* intact lines that this version does not understand */
    store_counts counts;
    char error[512];
    bool is_reading_shard;
    bool uses_shard; /* appends go to a shard of this process */
    bool has_warned; /* that results are not kept */
};

/* Adds a record in memory only; its texts must outlive the store. */
tuff_status tuff__store_insert(tune_store *store, const tune_record *record);
/* Sets the error that tuff__store_error returns, unless one is set already. */
void tuff__store_set_error(tune_store *store, const char *why);
const char *tuff__store_file_name(const tune_store *store);
/* Writes the path of another name in the file's folder. Returns false if it is too long. out has STORE_PATH bytes. */
bool tuff__store_sibling_path(const tune_store *store, const char *name, char *out);
bool tuff__store_is_shard(const tune_store *store, const char *name);
/* Frees everything that was read. */
void tuff__store_clear(tune_store *store);

#endif
