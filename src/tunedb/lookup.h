/* Lookup: chooses the candidate that a task runs with from the records in the stores. It depends on nothing but its
   request, and reads stores without changing them. autotune/session.c calls it for every key of a graph.

   The tiers, in the order in which they are tried:
     T0 override      given by the caller, or a pin of this environment or of the same device under another driver
     T1 same          a winner of this key in this environment
     T2 other driver  a winner of this key on the same device under another driver; measured again when there is time
     T3 nearest       a winner in this environment for the same task with nearby dims and no stricter alignment
     T4 seed          a winner of this key on another device, or for other kernel texts: a search starts from it
     T5 portfolio     the family's portfolio of candidates: a search starts from them
     T6 default       the configuration that lowering chooses by itself
   If there is a manifest, nothing else is used, and only its entries for today's kernel texts count.

   A task runs at once with the result of T0 to T3; below them it runs with the default until something is measured. */
#ifndef TUFF_TUNEDB_LOOKUP_H
#define TUFF_TUNEDB_LOOKUP_H

#include "tuff/tune.h"
#include "tunedb/environment.h"
#include "tunedb/key.h"
#include "tunedb/store.h"

typedef enum tune_tier {
    TIER_OVERRIDE = TUFF_TUNE_HIT_PIN,
    TIER_SAME = TUFF_TUNE_HIT_SAME,
    TIER_OTHER_DRIVER = TUFF_TUNE_HIT_OTHER_DRIVER,
    TIER_NEAREST = TUFF_TUNE_HIT_NEAREST,
    TIER_SEED = TUFF_TUNE_HIT_SEED,
    TIER_PORTFOLIO = TUFF_TUNE_HIT_PORTFOLIO,
    TIER_DEFAULT = TUFF_TUNE_HIT_DEFAULT,
    TIER_COUNT = TUFF_TUNE_HIT_COUNT
} tune_tier;
const char *tuff__tier_text(tune_tier tier); /* "override" */

typedef struct tune_lookup_request {
    const tune_key *key;
    const tune_environment *environment;
    const char *kernel_hash;         /* of today's kernels (kernel_hash.h); NULL matches any */
    const tune_store *manifest;      /* from tuff cache export --manifest: nothing else is used; NULL: none */
    bool only_same;                  /* try nothing below T1 but the default */
    const char *override_candidate;  /* NULL: none */
    const tune_store *const *stores; /* earlier ones take precedence: the user's, then shipped ones */
    int store_count;
    const char *const *portfolio;
    int portfolio_count;
    bool (*is_usable)(const char *candidate, void *state); /* NULL: all are */
    void *state;
} tune_lookup_request;

enum { TUNE_SEEDS = 8, TUNE_REASON_SIZE = 256 };

/* Why T0 and T1 found nothing; each value is a tuff_tune_miss + 1. */
typedef enum tune_miss {
    MISS_NONE,
    MISS_UNKNOWN = 1 + TUFF_TUNE_MISS_UNKNOWN,
    MISS_SEED = 1 + TUFF_TUNE_MISS_SEED,
    MISS_OTHER_KERNELS = 1 + TUFF_TUNE_MISS_OTHER_KERNELS,
    MISS_UNUSABLE = 1 + TUFF_TUNE_MISS_UNUSABLE
} tune_miss;

typedef struct tune_lookup_result {
    tune_tier tier;            /* the first tier that found something */
    bool deviates;             /* the manifest has no usable entry: see why[TIER_OVERRIDE] */
    bool ignores_pin;          /* the pin cannot be used: see why[TIER_OVERRIDE] */
    tune_miss miss;            /* NONE for T0 and T1 */
    const char *candidate;     /* to run with at once; "" (the default) below T3. Owned by the request or a store */
    const tune_record *record; /* record of the candidate or of the best seed; NULL if neither has one */
    const char *seeds[TUNE_SEEDS]; /* starting points of a search, best first, portfolio included; no duplicates, no
                                      "" */
    int seed_count;
    char why[TIER_COUNT][TUNE_REASON_SIZE]; /* why each tier up to `tier` was taken or not; "" for later ones */
} tune_lookup_result;

void tuff__tune_lookup(const tune_lookup_request *request, tune_lookup_result *out);
/* Adds starting points to a result that has a winner already, for a search that continues an earlier one. */
void tuff__tune_lookup_seeds(const tune_lookup_request *request, tune_lookup_result *out);

#endif
