/* Records: what the tuner remembers, and the lines that stores (store.h) consist of. A line is the CRC-32 of its JSON
   in eight hexadecimal digits, a blank, the JSON, a newline:

     {"t":"env","e":HASH,"text":ENVIRONMENT}
     {"t":"win","e":HASH,"k":HASH,"op":KEY,"kgen":TEXT,"c":CANDIDATE,"ns":[q25,median,q75],"n":SAMPLES,"def":NS,
      "top":[CANDIDATE...],"cold":TEXT,"bud":MS,"end":TEXT,"src":TEXT,"lib":VERSION,
      "all":[COUNT,least,q25,median,q75,most],"ts":SECONDS}
     {"t":"bad","e":HASH,"k":HASH,"op":KEY,"kgen":TEXT,"c":CANDIDATE,"why":REASON,"ph":PHASE,"ts":SECONDS}
     {"t":"pin","e":HASH,"k":HASH,"op":KEY,"c":CANDIDATE,"by":TEXT,"ts":SECONDS}

   Hashes are XXH3-128 of the text, in 32 digits. An empty candidate is the default. Unknown members are skipped, so
   that later versions can add some. */
#ifndef TUFF_TUNEDB_RECORD_H
#define TUFF_TUNEDB_RECORD_H

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"

typedef enum record_kind { RECORD_ENVIRONMENT, RECORD_WIN, RECORD_BAD, RECORD_PIN } record_kind;

#define RUNNERS_UP 3
#define SPREAD 5

/* Texts are never NULL; fields that a kind does not use are "" or 0. */
typedef struct tune_record {
    record_kind kind;
    hash128 environment;     /* of ENVIRONMENT that of op */
    hash128 key;             /* of op */
    const char *op;          /* the op key; of ENVIRONMENT its text */
    const char *generator;   /* hash of the texts the kernel was made from */
    const char *candidate;   /* "tile_rows=8;tile_columns=2" */
    uint64_t nanoseconds[3]; /* quartiles of one run */
    uint64_t samples;
    uint64_t default_nanoseconds;       /* of the default in the same race */
    const char *runners_up[RUNNERS_UP]; /* the next best */
    const char *cold;                   /* which inputs were not in the caches: "w": weights */
    uint64_t budget_milliseconds;       /* that all keys of the graph had */
    const char *end;                    /* what ended it: "budget", "patience"; "": there was nothing left to try */
    uint64_t timed;                     /* candidates of the search that have a time; 0: not said */
    uint64_t spread[SPREAD];            /* of their times: least, quartiles, most */
    const char *source;  /* "live", "import", "shipped"; "seed": a search starts from it, no task runs with it */
    const char *library; /* the version of tuff that wrote it */
    const char *reason;  /* BAD: "crash", "hang", "wrong", "race", "compile", "limits", "reboot";
                                           PIN: by whom */
    const char *phase;   /* BAD: "compile", "compile-ahead", "first-run", "bench", "verify",
                                           "launch" (of a plan) */
    uint64_t time;       /* seconds since 1970 */
} tune_record;

/* A record whose texts are all "". */
extern const tune_record tuff__empty_record;

/* A record about a key with the current time; a winner is marked as measured here by this version. The caller fills in
   the other fields of its kind. Texts are borrowed. */
tune_record tuff__record_of(record_kind kind, const char *environment, const char *op, const char *candidate);

hash128 tuff__hash_text(const char *source);
bool tuff__is_same_hash(hash128 a, hash128 b);

/* Whether a winner is only a seed: a search starts from it, no task runs with it. */
bool tuff__record_is_seed(const tune_record *win);

/* Whether a winner comes from elsewhere although an earlier one of the same key and kernel texts was measured here. */
bool tuff__record_is_foreign(const tune_record *later, const tune_record *earlier);
/* Whether a record from another file must not replace one: it is foreign, or has far fewer samples. A new measurement
   always replaces what is remembered: a default that nothing beat was not raced, and so has few samples. */
bool tuff__record_is_weaker(const tune_record *later, const tune_record *earlier);

/* Reasons of BAD records for a default during which a process ended, which can have other causes: the first and the
   second time. The third time the reason is "crash". */
enum { SUSPICIONS = 2 };
extern const char *const tuff__suspicions[SUSPICIONS];
bool tuff__record_is_suspicion(const tune_record *bad);
/* Whether a candidate must not run because of a BAD record, which may be NULL. Not if the record is of another
   generator, whose kernels may be right by now, and not if it is only a suspicion. An unknown generator (NULL, "")
   equals any. */
bool tuff__record_forbids(const tune_record *bad, const char *generator);

/* Appends the record's line. */
tuff_status tuff__record_write(const tune_record *record, text *out);

/* LINE_DAMAGED: the CRC is wrong. LINE_MALFORMED: it is right, but the line is no record. LINE_UNKNOWN: a whole line of
   a kind that this version does not know. */
typedef enum line_state { LINE_GOOD, LINE_DAMAGED, LINE_MALFORMED, LINE_UNKNOWN } line_state;
/* Reads a line without its newline; texts are copied to the arena. The candidate has today's names of tunables.
   TUFF_E_OOM_HOST is the only failure. */
tuff_status tuff__record_read(const char *line, size_t size, arena *texts, tune_record *out, line_state *state);

#endif
