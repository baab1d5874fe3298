/* What this process is doing with which candidates, in a file that outlives it: `inflight/<host>.<pid>.<start>` in the
   tuner's folder, mapped, with a page for each of a few places, so that several threads can have a candidate each. The
   next process that starts there learns which candidate killed a process, or the
   machine, and never runs it again. */
#ifndef TUFF_TUNEDB_JOURNAL_H
#define TUFF_TUNEDB_JOURNAL_H

#include "base/status.h"

#define JOURNAL_PHASE_MAP(X)  \
    X(IDLE, "idle")           \
    X(COMPILE, "compile")     \
    X(LINK, "link")           \
    X(FIRST_RUN, "first-run") \
    X(BENCH, "bench")         \
    X(VERIFY, "verify")       \
    X(BESIDE, "compile-ahead") /* by another thread than the one that measures */

typedef enum journal_phase {
#define X(name, text) JOURNAL_##name,
    JOURNAL_PHASE_MAP(X)
#undef X
        JOURNAL_PHASES
} journal_phase;
const char *tuff__journal_phase_text(journal_phase phase);

/* Place 0 is the measuring thread's; the others are for threads that compile ahead of it. */
enum { JOURNAL_PREFETCH = 4, JOURNAL_PLACES = 1 + JOURNAL_PREFETCH };

typedef struct journal journal;

/* The folder is the tuner's, or NULL; inflight/ is made in it. Where that cannot be written there is no file, entries
   go nowhere and tuff__journal_trouble says why. Only host memory can be lacking. */
tuff_status tuff__journal_open(const char *folder, journal **out);
void tuff__journal_close(journal *self);                /* removes the file; NULL is allowed */
const char *tuff__journal_trouble(const journal *self); /* "" where the journal is kept */

/* Before a step: what is stored at once survives this process. durable: on return it survives the machine too; for the
   first compile and the first launch of a candidate. In place 0. TUFF_E_LIMIT where the texts do not fit a page (the
   candidate is not to be tried), TUFF_E_IO where durable was not reached. */
tuff_status tuff__journal_enter(journal *self, journal_phase phase, const char *environment, const char *op,
                                const char *candidate, bool durable);
/* The same candidate's next phase: a store of a few bytes. */
void tuff__journal_move(journal *self, journal_phase phase);
/* After the last step. */
void tuff__journal_leave(journal *self);
/* The same in any place: each may be another thread's, at once with all others. */
tuff_status tuff__journal_enter_place(journal *self, int place, journal_phase phase, const char *environment,
                                      const char *op, const char *candidate, bool durable);
void tuff__journal_leave_place(journal *self, int place);

typedef struct journal_strike {
    journal_phase phase;
    const char *environment, *op, *candidate; /* valid during the call */
    bool rebooted;                            /* the machine went down, not only the process */
    uint64_t time; /* seconds since 1970, when the last phase of the process began: strikes of one end have one time */
} journal_strike;

typedef struct journal_counts {
    int strikes;              /* that were told of: several of a process that had several candidates in flight */
    int idle, alive, damaged; /* files that told of nothing; are in use; were no use, in whole or in part */
} journal_counts;

/* Reads the journals of processes that are gone, calls `strike` for each candidate that was within a step, then removes
   them. A visitor that fails keeps that file, and ends the call with its status. Of several processes that do this at
   once each strike reaches at least one; more only if one is killed in between, or the file system has no locks. A
   folder that is missing, cannot be read, or others could write to has no journals. */
typedef tuff_status (*journal_visitor)(const journal_strike *strike, void *state);
tuff_status tuff__journal_recover(const char *folder, journal_visitor strike, void *state, journal_counts *out);

/* The file that names the boot, "/proc/sys/kernel/random/boot_id"; tests may put another path here. */
extern const char *tuff__boot_id_path;

#endif
