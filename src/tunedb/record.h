/* What the tuner remembers: records, and the lines they are stored as. A line is the CRC-32 of its JSON in eight
   hexadecimal digits, a blank, the JSON, a newline:

     {"t":"env","e":HASH,"text":ENVIRONMENT}
     {"t":"win","e":HASH,"k":HASH,"op":KEY,"kgen":TEXT,"c":CANDIDATE,"ns":[q25,median,q75],"n":SAMPLES,"def":NS,
      "top":[CANDIDATE...],"cold":TEXT,"bud":MS,"end":TEXT,"src":TEXT,"lib":VERSION,
      "all":[COUNT,least,q25,median,q75,most],"ts":SECONDS}
     {"t":"bad","e":HASH,"k":HASH,"op":KEY,"kgen":TEXT,"c":CANDIDATE,"why":REASON,"ph":PHASE,"ts":SECONDS}
     {"t":"pin","e":HASH,"k":HASH,"op":KEY,"c":CANDIDATE,"by":TEXT,"ts":SECONDS}

   Hashes are XXH3-128 of the text, in 32 digits. An empty candidate is the default. Other members are passed
   over, so that later versions may add some. */
#ifndef TUFF_TUNEDB_RECORD_H
#define TUFF_TUNEDB_RECORD_H

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"

typedef enum record_kind { RECORD_ENVIRONMENT, RECORD_WIN, RECORD_BAD, RECORD_PIN } record_kind;

#define RUNNERS_UP 3
#define SPREAD 5

/* Texts are never NULL; what a kind has no use for is "" or 0. */
typedef struct tune_record {
    record_kind kind;
    hash128 environment;     /* of ENVIRONMENT that of op */
    hash128 key;             /* of op */
    const char *op;          /* the op key; of ENVIRONMENT its text */
    const char *generator;   /* which texts the kernel was made from */
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
    const char *source;                 /* "live", "import", "shipped"; "seed": where a search may begin, no answer */
    const char *library;                /* the version of tuff that wrote it */
    const char *reason;                 /* BAD: "crash", "hang", "wrong", "race", "compile", "limits", "reboot";
                                           PIN: by whom */
    const char *phase;                  /* BAD: "compile", "compile-ahead", "first-run", "bench", "verify",
                                           "launch" (of a plan) */
    uint64_t time;                      /* seconds since 1970 */
} tune_record;

/* A record whose texts are all "". */
extern const tune_record tuff__empty_record;

/* One of now about a key; of a winner, as it is where it was measured here by this version. The caller adds what else
   its kind says. Texts are borrowed. */
tune_record tuff__record_of(record_kind kind, const char *environment, const char *op, const char *candidate);

hash128 tuff__hash_text(const char *source);
bool tuff__is_same_hash(hash128 a, hash128 b);

/* Whether a winner is only where a search begins, and answers nothing. */
bool tuff__record_is_seed(const tune_record *win);

/* Whether a winner comes from elsewhere where an earlier one of the same key and kernel texts was measured here. */
bool tuff__record_is_foreign(const tune_record *later, const tune_record *earlier);
/* Whether a record of other files must not replace one: it is foreign, or has far fewer samples. What is measured
   replaces whatever is remembered: a default that nothing beat needs no race, and has few. */
bool tuff__record_is_weaker(const tune_record *later, const tune_record *earlier);

/* Of BAD: a process ended while it tried a default, which may be anybody's fault: the first and the second time.
   SUSPICIONS texts, in this order; another time the reason is "crash". */
enum { SUSPICIONS = 2 };
extern const char *const tuff__suspicions[SUSPICIONS];
bool tuff__record_is_suspicion(const tune_record *bad);
/* Whether a candidate must not run because of a BAD record, which may be NULL: kernels of other texts than the
   generator's may be right now, and of what a process only may have died of nothing is known. Texts that neither side
   knows (NULL, "") are taken for the same. */
bool tuff__record_bars(const tune_record *bad, const char *generator);

/* Appends the record's line. */
tuff_status tuff__record_write(const tune_record *record, text *out);

/* LINE_DAMAGED: its check does not hold; LINE_MALFORMED: it holds, but the line says what no record says;
   LINE_UNKNOWN: whole, but of a kind that this version does not know. */
typedef enum line_state { LINE_GOOD, LINE_DAMAGED, LINE_MALFORMED, LINE_UNKNOWN } line_state;
/* Reads a line without its newline; texts are copied to the arena. The candidate has today's names of tunables. TUFF_E_OOM_HOST is the only failure. */
tuff_status tuff__record_read(const char *line, size_t size, arena *texts, tune_record *out, line_state *state);

#endif
