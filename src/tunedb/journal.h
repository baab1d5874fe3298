/* The journal: which candidates this process is working on, in a file that outlives it. From the journal of a process
   that died, the next process learns which candidate killed it, or the machine, and never runs that again. The file is
   `inflight/<host>.<pid>.<start>` in the tuner's folder. It is mapped, and has a page per place, so that several
   threads can each enter a candidate. */
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

/* folder: the tuner's, in which inflight/ is created, or NULL. If it cannot be written, there is no file, entries are
   lost, and tuff__journal_error says why. The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__journal_open(const char *folder, journal **out);
void tuff__journal_close(journal *self);                /* removes the file; NULL is allowed */
/* Before the process ends at once, for no fault of what is in flight: removes the file, so that nobody is blamed,
   whatever threads enter meanwhile. May be called in a signal handler; what close frees stays. */
void tuff__journal_abandon(const journal *self);
const char *tuff__journal_error(const journal *self); /* "" if there is a file */

/* Call this before a step; uses place 0. The entry survives this process at once. With durable it also survives a crash
   of the machine, which is for the first compile and the first launch of a candidate. TUFF_E_LIMIT: the texts do not
   fit a page, so the candidate must not be tried. TUFF_E_IO: durable was not achieved. */
tuff_status tuff__journal_enter(journal *self, journal_phase phase, const char *environment, const char *op,
                                const char *candidate, bool durable);
/* The same candidate's next phase: a store of a few bytes. */
void tuff__journal_move(journal *self, journal_phase phase);
/* After the last step. */
void tuff__journal_leave(journal *self);
/* The same for any place. Threads may use different places at the same time. */
tuff_status tuff__journal_acquire_slot(journal *self, int place, journal_phase phase, const char *environment,
                                       const char *op, const char *candidate, bool durable);
void tuff__journal_release_slot(journal *self, int place);

typedef struct journal_strike {
    journal_phase phase;
    const char *environment, *op, *candidate; /* valid during the call */
    bool rebooted;                            /* the machine went down, not only the process */
    uint64_t time; /* seconds since 1970, when the last phase of the process began: strikes of one end have one time */
} journal_strike;

typedef struct journal_counts {
    int strikes;              /* reported: several for a process that had several candidates in flight */
    int idle, alive, damaged; /* files without an entry; of living processes; damaged in whole or in part */
} journal_counts;

/* Reads the journals of processes that ended, calls `strike` for each candidate that was within a step, then removes
   the files. If the visitor fails, its file stays, and its status is returned. When several processes do this at once,
   each strike reaches at least one of them, and more than one only if a process is killed in between or the file system
   has no locks. A folder that is missing, unreadable, or writable by others counts as empty. */
typedef tuff_status (*journal_visitor)(const journal_strike *strike, void *state);
tuff_status tuff__journal_recover(const char *folder, journal_visitor strike, void *state, journal_counts *out);

/* The file that names the boot, "/proc/sys/kernel/random/boot_id"; tests may put another path here. */
extern const char *tuff__boot_id_path;

#endif
