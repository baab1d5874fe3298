/* Which candidate a task runs with, from what stores remember. A pure function: it reads stores and changes nothing.

   The tiers, asked in this order:
     T0 override   by the caller, or a pin of this environment or of the same device under another driver
     T1 same       a winner of this key in this environment
     T2 driver     a winner of this key on the same device under another driver: to be measured again when there is time
     T3 nearest    a winner of this environment for the same task at nearby dims, for no better alignment than ours
     T4 seed       a winner of this key elsewhere, or of older kernel texts: where a search begins
     T5 portfolio  the family's candidates: where a search begins
     T6 default    what lowering takes by itself
   A manifest is asked alone, and only what it says of today's kernel texts holds.

   T0 to T3 are run with at once; below them the default is, until something is measured. */
#ifndef TUFF_TUNEDB_LOOKUP_H
#define TUFF_TUNEDB_LOOKUP_H

#include "tuff/tune.h"
#include "tunedb/environment.h"
#include "tunedb/key.h"
#include "tunedb/store.h"

typedef enum tune_tier {
    TIER_OVERRIDE = TUFF_TUNE_HIT_PIN,
    TIER_SAME = TUFF_TUNE_HIT_SAME,
    TIER_DRIVER = TUFF_TUNE_HIT_OTHER_DRIVER,
    TIER_NEAREST = TUFF_TUNE_HIT_NEAREST,
    TIER_SEED = TUFF_TUNE_HIT_SEED,
    TIER_PORTFOLIO = TUFF_TUNE_HIT_PORTFOLIO,
    TIER_DEFAULT = TUFF_TUNE_HIT_DEFAULT,
    TIER_COUNT = TUFF_TUNE_HIT_COUNT
} tune_tier;
const char *tuff__tier_text(tune_tier tier); /* "override" */

typedef struct tune_question {
    const tune_key *key;
    const tune_environment *environment;
    const char *generator;           /* of today's kernels; NULL: whatever */
    const tune_store *manifest;      /* of tuff cache export --manifest: nothing else is asked; NULL: none */
    bool only_same;                  /* nothing below T1 is asked, but for the default */
    const char *override_candidate;  /* NULL: none */
    const tune_store *const *stores; /* what an earlier one knows, wins: ours, then shipped ones */
    int store_count;
    const char *const *portfolio;
    int portfolio_count;
    bool (*is_usable)(const char *candidate, void *state); /* NULL: all are */
    void *state;
} tune_question;

enum { TUNE_SEEDS = 8, TUNE_REASON_SIZE = 256 };

/* Why there is nothing at T0 and T1: one more than tuff_tune_miss. */
typedef enum tune_miss {
    MISS_NONE,
    MISS_UNKNOWN = 1 + TUFF_TUNE_MISS_UNKNOWN,
    MISS_SEED = 1 + TUFF_TUNE_MISS_SEED,
    MISS_OLD_TEXTS = 1 + TUFF_TUNE_MISS_OTHER_KERNELS,
    MISS_UNUSABLE = 1 + TUFF_TUNE_MISS_UNUSABLE
} tune_miss;

typedef struct tune_answer {
    tune_tier tier;                /* the first that has something */
    bool deviates;                 /* the manifest does not say what the key runs with: why[TIER_OVERRIDE] */
    bool ignores_pin;              /* no kernel can be made of it: why[TIER_OVERRIDE] */
    tune_miss miss;                /* NONE at T0 and T1 */
    const char *candidate;         /* to run with at once: "" (the default) below T3. The question's or a store's */
    const tune_record *record;     /* that it, or the best seed, comes from; NULL where none does */
    const char *seeds[TUNE_SEEDS]; /* for a search, best first, portfolio included; none twice, never "" */
    int seed_count;
    char why[TIER_COUNT][TUNE_REASON_SIZE]; /* what each tier up to `tier` says; "" below */
} tune_answer;

void tuff__tune_lookup(const tune_question *question, tune_answer *out);

#endif
