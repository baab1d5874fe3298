/* The journal: the candidates that this process is working on, in a file that outlives it. From the journal of a
   process that died, the next process learns which candidate brought down that process or the machine, and never runs
   it again. The file is `inflight/<host>.<pid>.<start>` in the tuner's folder. It is memory-mapped and has one page per
   place, so that several threads can each enter a candidate. */
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
    X(COMPILE_AHEAD, "compile-ahead") /* by a thread other than the measuring one */

typedef enum journal_phase {
#define X(name, text) JOURNAL_##name,
    JOURNAL_PHASE_MAP(X)
#undef X
        JOURNAL_PHASES
} journal_phase;
const char *tuff__journal_phase_text(journal_phase phase);

/* Place 0 belongs to the measuring thread; the others are for threads that compile ahead of it. */
enum { JOURNAL_PREFETCH = 4, JOURNAL_PLACES = 1 + JOURNAL_PREFETCH };

typedef struct journal journal;

/* folder is the tuner's folder, in which inflight/ is created, or NULL. If the folder cannot be written, there is no
   file, entries are lost, and tuff__journal_error gives the reason. The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__journal_open(const char *folder, journal **out);
void tuff__journal_close(journal *self);                /* removes the file; NULL is allowed */
/* For a process that is about to exit through no fault of the candidates in flight: removes the file, so that no
   candidate is blamed, even if other threads enter some meanwhile. May be called in a signal handler. Frees nothing. */
void tuff__journal_abandon(const journal *self);
const char *tuff__journal_error(const journal *self); /* "" if there is a file */

/* Enters a candidate before a step; uses place 0. The entry survives the death of this process. If durable, it also
   survives a crash of the machine; use that for the first compile and the first launch of a candidate. TUFF_E_LIMIT:
   the texts do not fit into a page, so the candidate must not be tried. TUFF_E_IO: the entry could not be made
   durable. */
tuff_status tuff__journal_enter(journal *self, journal_phase phase, const char *environment, const char *op,
                                const char *candidate, bool durable);
/* Sets the next phase of the same candidate. Cheap: a store of a few bytes. */
void tuff__journal_set_phase(journal *self, journal_phase phase);
/* Removes the entry after the last step. */
void tuff__journal_leave(journal *self);
/* The same for any place. Threads may use different places at the same time. */
tuff_status tuff__journal_acquire_slot(journal *self, int place, journal_phase phase, const char *environment,
                                       const char *op, const char *candidate, bool durable);
void tuff__journal_release_slot(journal *self, int place);

/* A candidate that was in the middle of a step when its process ended. */
typedef struct journal_crash {
    journal_phase phase;
    const char *environment, *op, *candidate; /* valid during the call */
    bool rebooted;                            /* the whole machine went down, not only the process */
    uint64_t time; /* seconds since 1970, when the last phase of the process began; the same for all crashes of one
                      process */
} journal_crash;

typedef struct journal_counts {
    int crashes;              /* crashes reported; several for a process that had several candidates in flight */
    int idle, alive, damaged; /* files without an entry; of living processes; damaged in whole or in part */
} journal_counts;

/* Reads the journals of processes that ended, calls `report` for each candidate that was in the middle of a step, then
   removes the files. If the visitor fails, that file is kept and the visitor's status is returned. If several processes
   do this at once, each crash reaches at least one of them; it reaches more than one only if a process is killed in
   between or the file system does not support locks. A folder that is missing, unreadable, or writable by others counts
   as empty. */
typedef tuff_status (*journal_visitor)(const journal_crash *crash, void *state);
tuff_status tuff__journal_recover(const char *folder, journal_visitor report, void *state, journal_counts *out);

/* The file that identifies the boot, "/proc/sys/kernel/random/boot_id". Tests may substitute another path. */
extern const char *tuff__boot_id_path;

#endif
