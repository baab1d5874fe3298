/* The tuner's memory as a whole: all stores of this machine, and the operations on them. include/tuff/cache.h offers
   them to programs, the verbs of `tuff cache` to users. Nothing here opens a device: environments are texts. */
#ifndef TUFF_TUNEDB_CACHE_CACHE_H
#define TUFF_TUNEDB_CACHE_CACHE_H

#include "tuff/cache.h"
#include "tunedb/environment.h"
#include "tunedb/folder.h"
#include "tunedb/lookup.h"

typedef struct cache_file {
    tune_store *store;
    char *path;
    const char *name; /* file name, within path */
    bool is_shipped;
    bool is_wanted;    /* matches the filter that the cache was opened with */
    bool is_described; /* environment and text are known, from the file's first record that describes an environment */
    char *text;        /* "" if it is not described */
    tune_environment environment;
} cache_file;

struct tuff_cache {
    cache_file *files; /* the user's, then shipped ones */
    int count, capacity;
    const tune_store **lookup_stores; /* the stores of files, for lookups */
    int lookup_capacity;
    char *wanted;           /* filter for files and records; NULL: all */
    tune_environment *local_devices; /* environments of the devices on this machine; filled in by a caller that can
                                        list devices */
    int local_device_count;
    bool has_local_devices; /* local_devices has been filled in */
};

/* Opens all stores. Stores that cannot be read are in the list too, with their errors. */
tuff_status tuff__cache_open(const char *wanted, tuff_cache **out);
/* Whether the filter `wanted` matches a file or an environment; NULL matches everything. "opencl:pocl" matches OpenCL
   environments that contain "pocl"; any other text is looked for in the name and in the environment. Case is
   ignored. */
bool tuff__cache_is_wanted(const char *wanted, const char *name, const char *environment);
/* Whether the filter matches the environment of a record in a store. */
bool tuff__cache_record_is_wanted(const char *wanted, const tune_store *store, const tune_record *record);
/* Whether `whole` contains `part`, ignoring case. */
bool tuff__text_contains(const char *whole, const char *part);
/* Returns the text of an environment, from whichever store knows it; NULL if none does. */
const char *tuff__cache_environment(const tuff_cache *self, hash128 environment);
/* Returns the closest likeness of the environment to one of this machine's devices or, if with_stores, to the
   environment of one of the user's files. */
likeness tuff__cache_likeness(const tuff_cache *self, const tune_environment *environment, bool with_stores);
/* Finds the user's file of an environment, and adds it if there is none. */
tuff_status tuff__cache_own_file(tuff_cache *self, const char *environment, cache_file **out);
/* Adds a record to the user's file of the environment. TUFF_E_IO if the file cannot be written. */
tuff_status tuff__cache_add(tuff_cache *self, const char *environment, const tune_record *record);
/* Whether the file's store has any record of the key. */
bool tuff__cache_file_has_key(const cache_file *file, hash128 key);

/* Looks up a candidate as a program in this environment would. TUFF_E_FORMAT if the key's text is of another
   version. */
tuff_status tuff__cache_lookup(const tuff_cache *self, const tune_environment *environment, const char *op,
                               tune_lookup_result *out);

/* Fills in the public struct. file: index of the record's file; -1 if it is in none. */
void tuff__cache_fill_record(const tuff_cache *self, const tune_record *record, int file, tuff_cache_record *out);
double tuff__record_gain(const tune_record *win);     /* default's time divided by the winner's; 0 if unknown */
uint64_t tuff__store_newest(const tune_store *store); /* time of its last winner, rejection or pin */
/* Writes the first `count` of the hash's 32 digits; buffer has 33 bytes. */
const char *tuff__hash_digits(hash128 hash, int count, char *buffer);

/* Writes the canonical text of a candidate. Errors are those of tuff__config_parse. */
tuff_status tuff__cache_canonical_candidate(const char *source, text *out);
/* Pins a candidate in the user's file of one environment. TUFF_E_UNSUPPORTED: the candidate was rejected there. */
tuff_status tuff__cache_pin_in(tuff_cache *self, const char *environment, const char *op, const char *candidate);
/* Pins a candidate in every environment whose wanted file knows the key. on_pin (may be NULL) is called for each. */
typedef void (*pin_listener)(const cache_file *file, void *state);
tuff_status tuff__cache_pin_known(tuff_cache *self, const char *op, const char *candidate, pin_listener on_pin,
                                  void *state, int *count);
/* Drops the records of one kind and of these keys from all of the user's wanted files or, if an environment is given,
   from the user's file of it, wanted or not. TUFF_E_IO if a store cannot be read. */
typedef struct cache_drop {
    record_kind kind;
    const hash128 *keys;
    int key_count;
    const hash128 *environment; /* NULL: any */
    int dropped;
} cache_drop;
tuff_status tuff__cache_drop_records(tuff_cache *self, cache_drop *dropped);
/* Hides shipped winners, which cannot be dropped, by adding a seed to the user's store, which takes precedence. */
tuff_status tuff__cache_hide_shipped(tuff_cache *self, cache_drop *dropped);

/* Writes the lines of an exported file. */
tuff_status tuff__cache_export_text(const tuff_cache *self, tuff_cache_export_kind form, text *out,
                                    tuff_cache_exported *counts);

/* Like tuff_cache_import, except that `local_devices` must have been filled in. */
tuff_status tuff__cache_import(tuff_cache *self, const char *path, bool as_seed, tuff_cache_imported *counts);

/* Like tuff_cache_merge, but only for environments that match the filter `wanted`. */
typedef void (*conflict_listener)(const tune_record *kept, const tune_record *left_out, void *state);
tuff_status tuff__cache_merge(const char *const *paths, int count, const char *wanted, const char *out,
                              conflict_listener on_conflict, void *state, tuff_cache_merged *counts);

/* State of a pruning, computed before the first file is pruned. */
typedef struct pruning {
    tuff_cache_prune_options options;
    uint64_t cutoff;      /* records before this time are dropped; 0: none */
    uint64_t size_cutoff; /* records up to this time are dropped, to reduce the size; 0: none */
    hash128 *old;         /* environments with a newer driver */
    int old_count, old_capacity;
    int dropped, kept; /* of the last file */
} pruning;
tuff_status tuff__prune_begin(const tuff_cache *self, const tuff_cache_prune_options *options, pruning *out);
void tuff__prune_end(pruning *self);
/* Prunes one of the user's files. */
tuff_status tuff__prune_file(tuff_cache *self, int index, pruning *state);

/* Listener for verifying one of the user's files with its shards, or a shipped file. on_file_done (may be NULL) is
   called for each file that could be read, with that file's counts; on_file_failed for each that could not. */
typedef struct verify_listener {
    tuff_cache_finding on_finding; /* may be NULL */
    void (*on_file_begin)(const char *path, void *user);
    void (*on_file_done)(const char *path, const tuff_cache_verify_result *found, void *user);
    void (*on_file_failed)(const char *path, void *user);
    void *user;
} verify_listener;
tuff_status tuff__cache_verify_one(const tuff_cache *self, int index, const verify_listener *to);
tuff_status tuff__cache_verify_path(const char *path, const verify_listener *to);
int tuff__verify_finding_count(const tuff_cache_verify_result *result);

#endif
