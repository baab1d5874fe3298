/* What the files of the store share: store.c reads and finds records, store_write.c appends and compacts. */
#ifndef TUFF_TUNEDB_STORE_STATE_H
#define TUFF_TUNEDB_STORE_STATE_H

#include <errno.h>
#include <stdio.h>

#include "base/file/lock.h"
#include "tunedb/store.h"

#define STORE_PATH 4200

/* Winners and rejections are kept for the last few generators of kernels, so that builds of tuff that take turns on a
   device do not delete each other's results. */
enum { MAX_GENERATORS = 3 };
typedef struct record_state {
    bool is_dead; /* superseded */
    int older;    /* number from 1 of the same of another generator; 0: none */
} record_state;

struct tune_store {
    char *path;        /* NULL: in memory alone */
    char *environment; /* that the store is of; NULL: not told */
    arena texts;
    tune_record *records; /* in the order of the files */
    record_state *states; /* by record */
    int count, capacity, state_capacity;
    int *index; /* number of the newest living record from 1, by identity; 0: empty */
    int index_size;
    text unknown; /* whole lines that say nothing to this version */
    store_counts counts;
    char error[512];
    bool is_reading_shard;
    bool is_alone;   /* appends go to a shard of this process */
    bool has_warned; /* that nothing is kept */
};

/* Adds a record to memory alone; its texts must outlive the store. */
tuff_status tuff__store_remember(tune_store *store, const tune_record *record);
/* Sets the reason that tuff__store_error returns, unless there is one already. */
void tuff__store_note(tune_store *store, const char *why);
const char *tuff__store_file_name(const tune_store *store);
/* The path of another name in the file's folder; false if it is too long. out has STORE_PATH bytes. */
bool tuff__store_path_of(const tune_store *store, const char *name, char *out);
bool tuff__store_is_shard(const tune_store *store, const char *name);
/* Frees what was read. */
void tuff__store_clear(tune_store *store);

#endif
