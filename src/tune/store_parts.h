/* Between the files of the store: store.c reads and answers, store_write.c appends and compacts. */
#ifndef TUFF_TUNE_STORE_PARTS_H
#define TUFF_TUNE_STORE_PARTS_H

#include <errno.h>
#include <stdio.h>

#include "base/file_lock.h"
#include "tune/store.h"

#define STORE_PATH 4200

struct tune_store {
    char *path;        /* NULL: in memory alone */
    char *environment; /* that the store is of; NULL: not told */
    arena texts;
    tune_record *records; /* in the order of the files */
    bool *dead;           /* by record: superseded */
    int count, capacity, dead_capacity;
    int *index; /* number of a living record from 1, by identity; 0: empty */
    int index_size;
    text unknown; /* whole lines that say nothing to this version */
    store_counts counts;
    char trouble[512];
    bool is_alone;   /* appends go to a shard of this process */
    bool has_warned; /* that nothing is kept */
};

/* Takes a record whose texts outlive the store's. */
tuff_status tuff__store_remember(tune_store *store, const tune_record *record);
tuff_status tuff__store_read(tune_store *store, const char *path);
/* Keeps the first reason of all. */
void tuff__store_note(tune_store *store, const char *why);
const char *tuff__store_file_name(const tune_store *store);
/* Another name in the file's folder; false where the path would be too long. out has STORE_PATH bytes. */
bool tuff__store_path_of(const tune_store *store, const char *name, char *out);
bool tuff__store_is_shard(const tune_store *store, const char *name);
/* Frees what was read. */
void tuff__store_clear(tune_store *store);

#endif
