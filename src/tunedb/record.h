/* Records: what the tuner caches, and the lines of a store (store.h). A line is the CRC-32 of its JSON as eight
   hexadecimal digits, a space, the JSON, and a newline:

     {"t":"env","e":HASH,"text":ENVIRONMENT}
     {"t":"win","e":HASH,"k":HASH,"op":KEY,"kgen":TEXT,"c":CANDIDATE,"ns":[q25,median,q75],"n":SAMPLES,"def":NS,
      "top":[CANDIDATE...],"cold":TEXT,"bud":MS,"end":TEXT,"src":TEXT,"lib":VERSION,
      "all":[COUNT,least,q25,median,q75,most],"ts":SECONDS}
     {"t":"bad","e":HASH,"k":HASH,"op":KEY,"kgen":TEXT,"c":CANDIDATE,"why":REASON,"ph":PHASE,"ts":SECONDS}
     {"t":"pin","e":HASH,"k":HASH,"op":KEY,"c":CANDIDATE,"by":TEXT,"ts":SECONDS}

   Hashes are the XXH3-128 of the text, as 32 digits. The empty candidate is the default. Unknown members are skipped,
   so that later versions can add new ones. */
#ifndef TUFF_TUNEDB_RECORD_H
#define TUFF_TUNEDB_RECORD_H

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"

typedef enum record_kind { RECORD_ENVIRONMENT, RECORD_WIN, RECORD_REJECTION, RECORD_PIN } record_kind;

#define RUNNERS_UP 3
#define SPREAD 5

/* Texts are never NULL; fields that a kind does not use are "" or 0. */
typedef struct tune_record {
    record_kind kind;
    hash128 environment;     /* of the environment's text; for ENVIRONMENT, of op */
    hash128 key;             /* of op */
    const char *op;          /* the op key; for ENVIRONMENT, the environment's text */
    const char *kernel_hash; /* hash of the texts that the kernel was made from */
    const char *candidate;   /* "tile_rows=8;tile_columns=2" */
    uint64_t nanoseconds[3]; /* quartiles of one run */
    uint64_t samples;
    uint64_t default_nanoseconds;       /* of the default in the same race */
    const char *runners_up[RUNNERS_UP]; /* the next best candidates */
    const char *cold;                   /* the inputs that were kept out of the caches: "w" for weights */
    uint64_t budget_milliseconds;       /* shared by all keys of the graph */
    const char *end;                    /* why the search ended: "budget", "patience"; "" if nothing was left to try */
    uint64_t timed;                     /* candidates of the search that have a time; 0 if unknown */
    uint64_t spread[SPREAD];            /* of their times: minimum, quartiles, maximum */
    const char *source;  /* "live", "import", "shipped"; "seed" if it only starts a search and no task runs with it */
    const char *library; /* the version of tuff that wrote it */
    const char *reason;  /* REJECTION: "crash", "hang", "wrong", "race", "compile", "limits", "reboot";
                            PIN: who set it */
    const char *phase;   /* REJECTION: "compile", "compile-ahead", "first-run", "bench", "verify",
                            "launch" (of a plan) */
    uint64_t time;       /* seconds since 1970 */
} tune_record;

/* A record whose texts are all "". */
extern const tune_record tuff__empty_record;

/* Returns a record about a key, with the current time; a winner is marked as measured here by this version. The caller
   fills in the other fields of its kind. Texts are borrowed. */
tune_record tuff__record_make(record_kind kind, const char *environment, const char *op, const char *candidate);

hash128 tuff__hash_text(const char *source);
const char *tuff__record_kind_text(record_kind kind); /* "env", "win", "bad", "pin" */
uint64_t tuff__record_now(void);                      /* seconds since 1970 */

/* Whether it is a winner or a rejection: these belong to a kernel hash, and grow old. */
bool tuff__record_is_result(record_kind kind);

/* Whether a winner is only a seed: it starts a search, but no task runs with it. */
bool tuff__record_is_seed(const tune_record *win);

/* Whether a winner comes from elsewhere although an earlier one of the same key and kernel texts was measured here. */
bool tuff__record_is_foreign(const tune_record *later, const tune_record *earlier);
/* Whether a record from another file must not replace an existing one, because it is foreign or has far fewer samples.
   Not meant for new measurements, which always replace what is stored: a default that no candidate beat was not raced,
   and so has few samples. */
bool tuff__record_is_weaker(const tune_record *later, const tune_record *earlier);

/* Reasons of rejections of a default candidate whose process died the first and the second time, which can have other
   causes. The third time the reason is "crash". */
enum { SUSPICIONS = 2 };
extern const char *const tuff__suspicions[SUSPICIONS];
bool tuff__record_is_suspicion(const tune_record *rejection);
/* Whether a rejection (may be NULL) keeps its candidate from running. It does not if it belongs to another kernel hash,
   whose kernels may have been fixed since, or if it is only a suspicion. An unknown kernel hash (NULL, "") matches
   any. */
bool tuff__record_rejects(const tune_record *rejection, const char *kernel_hash);

/* Appends the record's line. */
tuff_status tuff__record_write(const tune_record *record, text *out);

/* LINE_DAMAGED: the CRC does not match. LINE_MALFORMED: it matches, but the line is not a valid record. LINE_UNKNOWN:
   an intact line of a kind that this version does not know. */
typedef enum line_state { LINE_GOOD, LINE_DAMAGED, LINE_MALFORMED, LINE_UNKNOWN } line_state;
/* Reads a line without its newline; texts are copied to the arena. Former names of tunables in the candidate are
   replaced by their current names. The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__record_read(const char *line, size_t size, arena *texts, tune_record *out, line_state *state);

#endif
