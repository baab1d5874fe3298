/* The tuner's memory: what was measured on which device, what was rejected, what somebody pinned. It is read, asked,
   moved between machines and mended here, as the verbs of `tuff cache` do it; plans use and fill it by themselves.

   Nothing here is needed to tune. To ship an application with what was measured for it, export a cache where it was
   measured and import that file at the first start elsewhere (tuff_cache_import), or start with TUFF_CACHE_DIR at a
   folder of your own. To measure nothing any more, compile with TUFF_TUNE_CACHED, which is the default, and
   TUFF_TUNE_ENVIRONMENT_NONE. */
#ifndef TUFF_CACHE_H
#define TUFF_CACHE_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All files of the cache as they were when it was opened, and as they are after what is done through it. What others,
   plans among them, write later is not seen: open it again. Used by one thread at a time. Texts that it answers are its
   own, and valid until it is changed (pin, unpin, import, prune, forget) or closed. */
typedef struct tuff_cache tuff_cache;

/* device: which files and records later calls are about: "opencl:0" and the like are the device here; another text is
   looked for in the names of files and devices, drivers and platforms, in any case; NULL: all. Lookups ask everything
   nevertheless. A missing folder is an empty cache, a file that cannot be read one that says why (tuff_cache_file).
   Answers NULL where memory is lacking, there is no such device, or (TUFF_E_IO) the folder cannot be used. */
TUFF_API tuff_cache *tuff_cache_open(const char *device);
/* NULL is allowed. */
TUFF_API void tuff_cache_close(tuff_cache *cache);

/* One file: the memory of one environment, that is a device under a driver. */
typedef struct tuff_cache_file_info {
    const char *path;
    const char *environment;     /* "opencl; device AMD EPYC; ... driver ...": "" where the file does not say */
    const char *device, *driver; /* of that */
    const char *trouble;         /* why it cannot be read, or was not written; "" where it can and was */
    bool is_shipped;             /* installed with tuff: it is read, never written */
    int winners, rejected, pins;
    uint64_t bytes, shards;    /* shards: files of processes that could not lock it, counted in the rest */
    uint64_t damaged, unknown; /* lines; unknown: whole, of a later version */
    uint64_t newest;           /* of its records, in seconds since 1970; 0: none has a time */
    uint64_t reserved[8];
} tuff_cache_file_info;
/* Ours, then the shipped ones; -1 where cache is NULL. */
TUFF_API int tuff_cache_file_count(const tuff_cache *cache);
TUFF_API tuff_status tuff_cache_file(const tuff_cache *cache, int index, tuff_cache_file_info *info);

typedef enum tuff_cache_kind {
    TUFF_CACHE_WINNER,   /* the fastest candidate of a key, with its times */
    TUFF_CACHE_REJECTED, /* a candidate that is never tried again: wrong, racy, hanging, crashing */
    TUFF_CACHE_PIN       /* what somebody wants a key to run with, whatever was measured */
} tuff_cache_kind;

/* Texts are never NULL; what a kind has no use for is "" or 0. */
typedef struct tuff_cache_record {
    tuff_cache_kind kind;
    char digits[33];         /* of the key: 32, as `tuff cache show` takes them */
    const char *key;         /* its text, as tuff_plan_key names it */
    const char *environment; /* where it holds; "" where no line says */
    const char *candidate;   /* "tile_rows=8;..."; "": the default */
    uint64_t nanoseconds[3]; /* quartiles of one run */
    uint64_t samples;
    uint64_t default_nanoseconds; /* of the default in the same race */
    double gain;                  /* the default's time by the winner's; 0: not known */
    const char *runners_up[3];    /* the next best; "": there are no more */
    const char *source;           /* "live", "import", "shipped"; "seed": where a search may begin, no answer */
    const char *kernels;          /* which kernel texts it was measured with */
    const char *library;          /* the version of tuff that wrote it */
    const char *reason;           /* rejected: "crash", "hang", "wrong", "race", "compile", ...; a pin: by whom */
    const char *phase;            /* rejected: "compile", "first-run", "bench", "verify" */
    uint64_t time;                /* seconds since 1970 */
    int file;                     /* index of its file */
    uint64_t reserved[8];
} tuff_cache_record;

/* Where an iteration is. Zero is the beginning; any change of the cache ends it. */
typedef struct tuff_cache_cursor {
    int file, record;
} tuff_cache_cursor;
/* The next record, file by file; false at the end. Of a key that was measured twice only what counts is answered. */
TUFF_API bool tuff_cache_next(const tuff_cache *cache, tuff_cache_cursor *at, tuff_cache_record *record);

/* What a key runs with and why. */
typedef struct tuff_cache_answer {
    const char *candidate; /* "": the default */
    const char *origin;    /* "override" (a pin), "same", "other driver", "nearest"; "seed": nothing but where a search
                                would begin; "default": nothing. Of plans as tuff_plan_key */
    bool has_record;       /* something remembered says so, or is the best seed: */
    tuff_cache_record record;
    const char *seeds[8]; /* where a search would begin, the best first */
    int seed_count;
    char why[256]; /* one line */
    uint64_t reserved[8];
} tuff_cache_answer;
/* What a plan that is compiled now, for the device, with TUFF_TUNE_CACHED, would run a key with, if it can be made
   there. key: a text as tuff_plan_key or tuff_cache_next answers; TUFF_E_FORMAT: it is none. */
TUFF_API tuff_status tuff_cache_lookup(tuff_cache *cache, const tuff_device *device, const char *key,
                                       tuff_cache_answer *answer);
/* What a plan runs its key `index` with (as tuff_plan_key), and what the cache knows of that. Texts of the answer
   itself are the plan's, those of its record the cache's. */
TUFF_API tuff_status tuff_cache_lookup_plan(tuff_cache *cache, tuff_plan *plan, int index, tuff_cache_answer *answer);

/* Makes a key run with a candidate on the device, in plans that are compiled from now on. "" is the default. device
   NULL: wherever the cache knows the key. count, which may be NULL, gets how many environments that is.
   TUFF_E_FORMAT: a text that is no key or no candidate; TUFF_E_UNSUPPORTED, TUFF_E_LIMIT: a tunable or a value that
   this version does not have, or a candidate that was rejected there; TUFF_E_IO: the cache cannot be written. */
TUFF_API tuff_status tuff_cache_pin(tuff_cache *cache, const tuff_device *device, const char *key,
                                    const char *candidate, int *count);
/* The same for key `index` of a plan on its device. TUFF_E_UNSUPPORTED, TUFF_E_LIMIT too where the key's task cannot be
   made of the candidate, or none of what it sets is anything of that task's. The plan itself stays as it is. */
TUFF_API tuff_status tuff_cache_pin_plan(tuff_cache *cache, tuff_plan *plan, int index, const char *candidate);
/* Takes the pins of a key away: on the device, or, where it is NULL, in all files of ours that the cache was opened
   for. count, which may be NULL, gets how many there were. TUFF_E_TIMEOUT, TUFF_E_UNSUPPORTED, TUFF_E_IO: a file could
   not be rewritten, it is as before. */
TUFF_API tuff_status tuff_cache_unpin(tuff_cache *cache, const tuff_device *device, const char *key, int *count);

typedef enum tuff_cache_form {
    TUFF_CACHE_FORM_ALL,       /* all of our records */
    TUFF_CACHE_FORM_ANONYMOUS, /* without pins, times of day cut off: to be given away */
    TUFF_CACHE_FORM_LOCK       /* a manifest: a pin for what each key runs with, shipped winners included. See
                                  tuff_compile_options.tune_manifest */
} tuff_cache_form;
typedef struct tuff_cache_exported {
    int winners, rejected, pins, environments;
    int left_out; /* of TUFF_CACHE_FORM_LOCK: keys whose winner does not run any more: rejected, or of other kernels */
    uint64_t reserved[3];
} tuff_cache_exported;
/* Writes a file for tuff_cache_import. counts may be NULL. TUFF_E_IO: path is as before. */
TUFF_API tuff_status tuff_cache_export(const tuff_cache *cache, const char *path, tuff_cache_form form,
                                       tuff_cache_exported *counts);

typedef struct tuff_cache_imported {
    int imported; /* records of environments that are here, used as they are */
    int skipped;  /* known here already, or measured here later */
    int seeds;    /* of other drivers of devices that are here, or by as_seed: measured again before they are used */
    int other_devices;         /* seeds where they are alike */
    int nameless;              /* of environments that no line describes: left out */
    uint64_t damaged, unknown; /* lines that were left out; unknown: of a later version */
    uint64_t reserved[4];
} tuff_cache_imported;
/* Takes the records of an exported file into the cache, those of the devices that the cache was opened for. as_seed:
   winners alone, and none of them is used before it was measured here. counts may be NULL. TUFF_E_IO: the file or the
   cache cannot be used; TUFF_E_LIMIT: the file is too large; what was imported before that stays. */
TUFF_API tuff_status tuff_cache_import(tuff_cache *cache, const char *path, bool as_seed, tuff_cache_imported *counts);

/* Two winners or pins of one key: the better evidence is kept. Records are valid during the call. */
typedef void (*tuff_cache_conflict)(void *user, const tuff_cache_record *kept, const tuff_cache_record *left_out);
typedef struct tuff_cache_merged {
    int winners, conflicts;
    uint64_t damaged; /* lines that were left out */
    uint64_t reserved[4];
} tuff_cache_merged;
/* Puts exported files, at least one, together into out, which may be one of them. Better is what was measured where it
   is used, then far more samples, then the later. conflict and counts may be NULL. TUFF_E_IO, TUFF_E_LIMIT: out is as
   before. */
TUFF_API tuff_status tuff_cache_merge(const char *const *paths, int count, const char *out,
                                      tuff_cache_conflict conflict, void *user, tuff_cache_merged *counts);

/* What goes; zero is nothing but what is damaged or superseded. Pins always stay, and lines of later versions. */
typedef struct tuff_cache_prune_options {
    uint64_t older;     /* than so many seconds; 0: of any age */
    bool old_drivers;   /* measured with a driver of which a newer one has been measured */
    bool stale_kernels; /* measured with other kernel texts than this version's */
    uint64_t most;      /* bytes that the files may take together: the oldest go; 0: any number */
    bool dry_run;       /* only counts */
    uint32_t reserved[7];
} tuff_cache_prune_options;
typedef struct tuff_cache_pruned {
    int dropped, kept;
    uint64_t bytes_before, bytes_after;
    uint64_t reserved[4];
} tuff_cache_pruned;
/* Rewrites our files. One that cannot be rewritten does not keep the others from it: the first failure is answered.
   options and counts may be NULL. */
TUFF_API tuff_status tuff_cache_prune(tuff_cache *cache, const tuff_cache_prune_options *options,
                                      tuff_cache_pruned *counts);

/* A line of a file that cannot be used, or must not. Texts are valid during the call. */
typedef void (*tuff_cache_finding)(void *user, const char *path, int line, const char *what, const char *detail);
typedef struct tuff_cache_verdict {
    int ok;        /* lines */
    int damaged;   /* the check does not hold */
    int malformed; /* whole, and no record */
    int unknown;   /* of a later version */
    int invalid;   /* a key, candidate or environment that this version cannot use */
    int orphans;   /* of an environment that no line describes */
    int barred;    /* winners and pins of candidates that were rejected */
    uint32_t reserved[9];
} tuff_cache_verdict;
/* Reads the cache's files, shards included, line by line, as they are now; the counts are of all. A file that cannot be
   read does not hide the others: the first failure is answered. finding and out may be NULL. */
TUFF_API tuff_status tuff_cache_verify(const tuff_cache *cache, tuff_cache_finding finding, void *user,
                                       tuff_cache_verdict *out);
/* The same for any exported file. */
TUFF_API tuff_status tuff_cache_verify_file(const char *path, tuff_cache_finding finding, void *user,
                                            tuff_cache_verdict *out);
/* Forgets what was rejected, devices that are left out of a race (tuff_device_open_fastest) included, so that it may be
   tried again. count, which may be NULL, gets how many that were. Errors as of tuff_cache_unpin. */
TUFF_API tuff_status tuff_cache_forget_rejected(tuff_cache *cache, int *count);

#ifdef __cplusplus
}
#endif
#endif
