/* The tuner's memory as a whole: all stores of this machine, and what can be done to them. include/tuff/cache.h shows
   it to programs, the verbs of `tuff cache` to people. Nothing here knows a device: environments are texts. */
#ifndef TUFF_TUNEDB_CACHE_CACHE_H
#define TUFF_TUNEDB_CACHE_CACHE_H

#include "tuff/cache.h"
#include "tunedb/environment.h"
#include "tunedb/folder.h"
#include "tunedb/lookup.h"

typedef struct cache_file {
    tune_store *store;
    char *path;
    const char *name; /* of the file, within path */
    bool is_shipped;
    bool is_wanted;    /* it is one of those that the cache was opened for */
    bool is_described; /* environment and text are known: those of the file's first record that describes one */
    char *text;        /* "" where it is not described */
    tune_environment environment;
} cache_file;

struct tuff_cache {
    cache_file *files; /* ours, then shipped ones */
    int count, capacity;
    const tune_store **plain; /* the same, for lookups */
    int plain_capacity;
    char *wanted;           /* which files and records it is about; NULL: all */
    tune_environment *here; /* of the devices on this machine: whoever can find out tells */
    int here_count;
    bool knows_here; /* here was asked for */
};

/* Opens all stores; those that cannot be read are there, with their errors. */
tuff_status tuff__cache_open(const char *wanted, tuff_cache **out);
/* Whether `wanted` lets a file, or an environment, through; NULL: everything. "opencl:pocl" is what has pocl in it and
   is behind OpenCL, another text is looked for in both, in any case. */
bool tuff__cache_is_wanted(const char *wanted, const char *name, const char *environment);
/* Whether text has part in it, in any case. */
bool tuff__text_contains(const char *whole, const char *part);
/* The text of an environment, from whatever store knows it; NULL: none. */
const char *tuff__cache_environment(const tuff_cache *self, hash128 environment);
/* The best that what is here is to an environment: devices, and, with stores, our files. */
likeness tuff__cache_likeness(const tuff_cache *self, const tune_environment *environment, bool with_stores);
/* Our file of an environment, which is added where there is none. */
tuff_status tuff__cache_own_file(tuff_cache *self, const char *environment, cache_file **out);
/* Adds to our file of the environment. TUFF_E_IO where it cannot be written. */
tuff_status tuff__cache_add(tuff_cache *self, const char *environment, const tune_record *record);
/* Whether the file's store has anything of the key. */
bool tuff__cache_knows(const cache_file *file, hash128 key);

/* Asks for a candidate as a program in this environment would. TUFF_E_FORMAT where the key's text is of another
   version. */
tuff_status tuff__cache_lookup(const tuff_cache *self, const tune_environment *environment, const char *op,
                               tune_lookup_result *out);

/* For programs. file: index of the record's; -1: it is in none. */
void tuff__cache_show(const tuff_cache *self, const tune_record *record, int file, tuff_cache_record *out);
double tuff__record_gain(const tune_record *win);     /* the default's time by the winner's; 0 where not known */
uint64_t tuff__store_newest(const tune_store *store); /* the time of its last winner, bad candidate or pin */
/* The first digits of 32, at most as many; buffer has 33 bytes. */
const char *tuff__hash_digits(hash128 hash, int count, char *buffer);

/* The canonical text of a candidate; errors as tuff__config_parse. */
tuff_status tuff__cache_candidate(const char *source, text *out);
/* Pins in our file of one environment. TUFF_E_UNSUPPORTED: the candidate was rejected there. */
tuff_status tuff__cache_pin_in(tuff_cache *self, const char *environment, const char *op, const char *candidate);
/* Wherever a wanted file knows the key. told, where not NULL, is called for each. */
typedef void (*pin_listener)(const cache_file *file, void *state);
tuff_status tuff__cache_pin_known(tuff_cache *self, const char *op, const char *candidate, pin_listener told,
                                  void *state, int *count);
/* Drops the records of a kind and of these keys from our wanted files: of all environments, or of one. A store that
   cannot be read is TUFF_E_IO. */
typedef struct cache_drop {
    record_kind kind;
    const hash128 *keys;
    int key_count;
    const hash128 *environment; /* NULL: any */
    int dropped;
} cache_drop;
tuff_status tuff__cache_drop_records(tuff_cache *self, cache_drop *dropped);
/* A shipped winner cannot be dropped: a seed in our store stands before it. */
tuff_status tuff__cache_hide_shipped(tuff_cache *self, cache_drop *dropped);

/* The lines of an exported file. */
tuff_status tuff__cache_export_text(const tuff_cache *self, tuff_cache_export_kind form, text *out,
                                    tuff_cache_exported *counts);

/* As tuff_cache_import, by what `here` says of the devices. */
tuff_status tuff__cache_import(tuff_cache *self, const char *path, bool as_seed, tuff_cache_imported *counts);

/* As tuff_cache_merge, of what is wanted alone. */
typedef void (*conflict_listener)(const tune_record *kept, const tune_record *left_out, void *state);
tuff_status tuff__cache_merge(const char *const *paths, int count, const char *wanted, const char *out,
                              conflict_listener told, void *state, tuff_cache_merged *counts);

/* What pruning has found out before it begins with the first file. */
typedef struct pruning {
    tuff_cache_prune_options options;
    uint64_t cutoff;      /* records before it are dropped; 0: none */
    uint64_t size_cutoff; /* records up to it are dropped, for the size; 0: none */
    hash128 *old;         /* environments with a newer driver */
    int old_count, old_capacity;
    int dropped, kept; /* of the last file */
} pruning;
tuff_status tuff__prune_begin(const tuff_cache *self, const tuff_cache_prune_options *options, pruning *out);
void tuff__prune_end(pruning *self);
/* One file of ours. */
tuff_status tuff__prune_file(tuff_cache *self, int index, pruning *state);

/* A file of ours with its shards, or a shipped one; heard, where not NULL, is called for each file that could be read,
   failed for each that could not. The counts are of each file. */
typedef struct verify_listener {
    tuff_cache_finding finding; /* may be NULL */
    void (*begin)(const char *path, void *user);
    void (*heard)(const char *path, const tuff_cache_verify_result *found, void *user);
    void (*failed)(const char *path, void *user);
    void *user;
} verify_listener;
tuff_status tuff__cache_verify_one(const tuff_cache *self, int index, const verify_listener *to);
tuff_status tuff__cache_verify_path(const char *path, const verify_listener *to);
int tuff__verify_result_findings(const tuff_cache_verify_result *result);

#endif
