/* The tuner's cache: what was measured on which device, which candidates were rejected, and which were pinned by the
   user. The functions here read the cache, look up keys, move records between machines and repair files, like the verbs
   of `tuff cache`. Plans use and fill the cache without them.

   To ship an application with measurements, export a cache on the machine that tuned and import the file at the first
   start elsewhere (tuff_cache_import), or let TUFF_CACHE_DIR name a folder of the application. To never measure,
   compile with TUFF_TUNE_CACHED, which is the default, and TUFF_TUNE_ENVIRONMENT_NONE. */
#ifndef TUFF_CACHE_H
#define TUFF_CACHE_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All files of the cache as they were when it was opened, plus the changes made through this object. Later changes by
   others, including plans, are not visible: open the cache again. Used by one thread at a time. Strings returned by its
   functions belong to it and are valid until it is closed or changed (pin, unpin, import, prune, forget). */
typedef struct tuff_cache tuff_cache;

/* Opens the cache. device selects the files and records that later calls use: a selector such as "opencl:0" means a
   device of this machine; any other text means files, devices, drivers and platforms that contain it, ignoring case;
   NULL means all. Lookups always use everything. A missing folder is an empty cache; a file that cannot be read is
   listed with an error (tuff_cache_file). NULL on failure: TUFF_E_NO_DEVICE, TUFF_E_IO if the folder cannot be used,
   TUFF_E_OOM_HOST. */
TUFF_API tuff_cache *tuff_cache_open(const char *device);
/* Closes the cache. NULL is allowed. */
TUFF_API void tuff_cache_close(tuff_cache *cache);

/* One file: the records of one environment, that is, of a device with a driver. Strings are never NULL. */
typedef struct tuff_cache_file_info {
    const char *path;
    const char *environment;     /* "opencl; device AMD EPYC; ... driver ...": "" if the file does not say */
    const char *device, *driver; /* of the environment */
    const char *error;           /* why the file could not be read or written; "": no error */
    bool is_shipped;             /* installed with tuff: read, never written */
    int winners, rejected, pins;
    uint64_t bytes, shards;    /* shards: files of processes that could not lock this one; counted in the rest */
    uint64_t damaged, unknown; /* lines; unknown: intact, but written by a later version */
    uint64_t newest;           /* time of the newest record, in seconds since 1970; 0: no record has a time */
    uint64_t reserved[8];
} tuff_cache_file_info;
/* Returns the number of files; the user's come before the shipped ones. -1 if cache is NULL. */
TUFF_API int tuff_cache_file_count(const tuff_cache *cache);
/* Describes a file. index is 0 to count - 1; otherwise TUFF_E_USAGE. */
TUFF_API tuff_status tuff_cache_file(const tuff_cache *cache, int index, tuff_cache_file_info *info);

typedef enum tuff_cache_kind {
    TUFF_CACHE_WINNER,   /* the fastest candidate of a key, with its times */
    TUFF_CACHE_REJECTED, /* a candidate that is never tried again: wrong, racy, hanging or crashing */
    TUFF_CACHE_PIN       /* the candidate that the user wants for a key, whatever was measured */
} tuff_cache_kind;

/* A record of the cache. Strings are never NULL; fields that a kind does not use are "" or 0. */
typedef struct tuff_cache_record {
    tuff_cache_kind kind;
    char digits[33];         /* the key's hash as 32 hexadecimal digits, as accepted by `tuff cache show` */
    const char *key;         /* the key itself, spelt as by tuff_plan_key */
    const char *environment; /* the environment in which the record applies; "" if no line names it */
    const char *candidate;   /* "tile_rows=8;..."; "": the default */
    uint64_t nanoseconds[3]; /* quartiles of the time of one run */
    uint64_t samples;
    uint64_t default_nanoseconds; /* of the default in the same race */
    double gain;                  /* the default's time divided by the winner's; 0: unknown */
    const char *runners_up[3];    /* the next best candidates; "": there are no more */
    const char *source;           /* "live", "import", "shipped"; "seed": only a starting point for searches */
    const char *kernels;          /* version of the kernel texts that was measured */
    const char *library;          /* version of tuff that wrote the record */
    const char *reason;           /* rejected: "crash", "hang", "wrong", "race", "compile", ...; pin: who pinned it */
    const char *phase;            /* rejected: "compile", "compile-ahead", "first-run", "bench", "verify", "launch" */
    uint64_t time;                /* seconds since 1970 */
    int file;                     /* index of its file for tuff_cache_file; -1: a file outside the selection */
    uint64_t reserved[8];
} tuff_cache_record;

/* The position of an iteration. Zero is the beginning; any change of the cache invalidates it. */
typedef struct tuff_cache_cursor {
    int file, record;
} tuff_cache_cursor;
/* Writes the next record, file by file, to *record; returns false at the end. If a key was measured twice, only the
   valid record is returned. */
TUFF_API bool tuff_cache_next(const tuff_cache *cache, tuff_cache_cursor *cursor, tuff_cache_record *record);

/* What a key runs with, and why. Strings are never NULL. */
typedef struct tuff_cache_match {
    const char *candidate; /* "": the default */
    const char *origin;    /* origin of the candidate: "override" (a pin), "same", "other driver", "nearest", "seed",
                           "default"; for plans as in tuff_plan_key_info.origin */
    bool has_record;       /* record is set: the record of the candidate or, if there is none, of the best seed */
    tuff_cache_record record;
    const char *seeds[8]; /* where a search would begin, best first */
    int seed_count;
    char why[256]; /* one line */
    uint64_t reserved[8];
} tuff_cache_match;
/* Finds what a plan compiled now for the device with TUFF_TUNE_CACHED would run a key with, provided that the kernel
   can be built there. key is spelt as by tuff_plan_key and tuff_cache_next; otherwise TUFF_E_FORMAT. */
TUFF_API tuff_status tuff_cache_lookup(tuff_cache *cache, const tuff_device *device, const char *key,
                                       tuff_cache_match *match);
/* Finds what a plan runs its key `index` with (see tuff_plan_key), and what the cache knows about it. The strings of
   match belong to the plan, those of its record to the cache. */
TUFF_API tuff_status tuff_cache_lookup_plan(tuff_cache *cache, tuff_plan *plan, int index, tuff_cache_match *match);

/* Pins a key to a candidate: plans compiled from now on for the device use it; "" is the default. device NULL: on all
   devices, among those that the cache was opened for, for which it has the key. count, which may be NULL, receives the
   number of environments in which the key was pinned. Fails with TUFF_E_FORMAT if the text is not a key or a candidate,
   TUFF_E_UNSUPPORTED or TUFF_E_LIMIT if this version has no such tunable or value or the candidate was rejected there,
   TUFF_E_IO if the cache cannot be written. */
TUFF_API tuff_status tuff_cache_pin(tuff_cache *cache, const tuff_device *device, const char *key,
                                    const char *candidate, int *count);
/* The same for key `index` of a plan, on the plan's device. TUFF_E_UNSUPPORTED or TUFF_E_LIMIT also if the key's kernel
   cannot be built with the candidate, or the candidate sets nothing that the kernel uses. The plan itself does not
   change. */
TUFF_API tuff_status tuff_cache_pin_plan(tuff_cache *cache, tuff_plan *plan, int index, const char *candidate);
/* Removes the pins of a key on the device or, if it is NULL, from all of the user's files that the cache was opened
   for. count, which may be NULL, receives their number. TUFF_E_TIMEOUT, TUFF_E_UNSUPPORTED, TUFF_E_IO: a file could not
   be rewritten and is unchanged. */
TUFF_API tuff_status tuff_cache_unpin(tuff_cache *cache, const tuff_device *device, const char *key, int *count);

typedef enum tuff_cache_export_kind {
    TUFF_CACHE_EXPORT_ALL,       /* all records of the user's files */
    TUFF_CACHE_EXPORT_ANONYMOUS, /* for publication: without pins, and with times cut to the day */
    TUFF_CACHE_EXPORT_MANIFEST   /* a pin for the current candidate of each key, shipped winners included: for
                                    tuff_tune_options.manifest */
} tuff_cache_export_kind;
typedef struct tuff_cache_exported {
    int winners, rejected, pins, environments;
    int left_out; /* TUFF_CACHE_EXPORT_MANIFEST: keys whose winner can no longer be used, because it was rejected or its
                     kernels changed */
    uint64_t reserved[3];
} tuff_cache_exported;
/* Writes a file for tuff_cache_import. counts may be NULL. TUFF_E_IO: path is unchanged. */
TUFF_API tuff_status tuff_cache_export(const tuff_cache *cache, const char *path, tuff_cache_export_kind kind,
                                       tuff_cache_exported *counts);

typedef struct tuff_cache_imported {
    int imported; /* records of environments of this machine, used directly */
    int skipped;  /* already known here, or measured here more recently */
    /* Records of other drivers of this machine's devices: used, and measured again when there is time. With as_seed:
       measured again before use. */
    int seeds;
    int other_devices;         /* records of other devices: seeds for similar ones */
    int unknown_environments;  /* records of environments that no line describes: left out */
    uint64_t damaged, unknown; /* lines that were left out; unknown: written by a later version */
    uint64_t reserved[4];
} tuff_cache_imported;
/* Adds the records of an exported file to the cache, for the devices that the cache was opened for. as_seed: winners
   only, and each is measured here before use. counts may be NULL. TUFF_E_IO: the file or the cache cannot be used;
   TUFF_E_LIMIT: the file is too large. Records imported before an error stay. */
TUFF_API tuff_status tuff_cache_import(tuff_cache *cache, const char *path, bool as_seed, tuff_cache_imported *counts);

/* Called for two winners or pins of one key, the better of which is kept. The records are valid during the call. */
typedef void (*tuff_cache_conflict)(void *user, const tuff_cache_record *kept, const tuff_cache_record *left_out);
typedef struct tuff_cache_merged {
    int winners, conflicts;
    uint64_t damaged; /* lines that were left out */
    uint64_t reserved[4];
} tuff_cache_merged;
/* Merges count exported files, at least one, into out, which may be one of them. A record measured in its own
   environment is better than any other; then one with many more samples; then the later one. conflict and counts may be
   NULL. TUFF_E_IO, TUFF_E_LIMIT: out is unchanged. */
TUFF_API tuff_status tuff_cache_merge(const char *const *paths, int count, const char *out,
                                      tuff_cache_conflict conflict, void *user, tuff_cache_merged *counts);

/* What tuff_cache_prune removes besides damaged and superseded records; zero: nothing else. Pins and lines of later
   versions are always kept. */
typedef struct tuff_cache_prune_options {
    uint64_t older_seconds; /* records older than this; 0: no age limit */
    bool old_drivers;       /* records of a driver of which a newer version has been measured */
    bool stale_kernels;     /* records of other kernel texts than this version's */
    uint64_t max_bytes;     /* the oldest records, until all files together take no more than this; 0: no limit */
    bool dry_run;           /* only count */
    uint32_t reserved[7];
} tuff_cache_prune_options;
typedef struct tuff_cache_pruned {
    int dropped, kept;
    uint64_t bytes_before, bytes_after;
    uint64_t reserved[4];
} tuff_cache_pruned;
/* Rewrites the user's files. If one cannot be rewritten, the others still are, and the first failure is returned.
   options and counts may be NULL. */
TUFF_API tuff_status tuff_cache_prune(tuff_cache *cache, const tuff_cache_prune_options *options,
                                      tuff_cache_pruned *counts);

/* Called for a line that cannot or must not be used: `what` names the problem. Strings are valid during the call. */
typedef void (*tuff_cache_finding)(void *user, const char *path, int line, const char *what, const char *detail);
/* Numbers of lines. */
typedef struct tuff_cache_verify_result {
    int ok;
    int damaged;   /* the checksum is wrong */
    int malformed; /* intact, but not a record */
    int unknown;   /* written by a later version */
    int invalid;   /* a key, candidate or environment that this version cannot use */
    int orphans;   /* in an environment that no line describes */
    int rejected;  /* winners and pins whose candidate was rejected */
    uint32_t reserved[9];
} tuff_cache_verify_result;
/* Reads the cache's files as they are now, shards included, line by line; the counts cover all of them. If a file
   cannot be read, the others still are, and the first failure is returned. finding and result may be NULL. */
TUFF_API tuff_status tuff_cache_verify(const tuff_cache *cache, tuff_cache_finding finding, void *user,
                                       tuff_cache_verify_result *result);
/* The same for any exported file. */
TUFF_API tuff_status tuff_cache_verify_file(const char *path, tuff_cache_finding finding, void *user,
                                            tuff_cache_verify_result *result);
/* Removes the records of rejected candidates, and of devices left out of a race (tuff_device_open_fastest), so that
   they may be tried again. count, which may be NULL, receives their number. Errors as for tuff_cache_unpin. */
TUFF_API tuff_status tuff_cache_forget_rejected(tuff_cache *cache, int *count);

#ifdef __cplusplus
}
#endif
#endif
