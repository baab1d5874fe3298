/* Fixtures for tests of journals: processes that die in the middle of something, and what their journals report. */
#ifndef TESTS_JOURNAL_FIXTURE_H
#define TESTS_JOURNAL_FIXTURE_H

#include <sys/types.h>

#include "tunedb/journal_format.h"

/* Ends the process if false: for child processes, in which cmocka's asserts would continue with the parent's tests. */
void check(bool condition);
/* Wait for a child and check how it ended. */
void killed(pid_t child);
void ended(pid_t child);

/* The latest crash, and the number of crashes. */
typedef struct reported_crash {
    int count;
    journal_phase phase;
    bool rebooted;
    uint64_t time;
    char environment[JOURNAL_TEXTS], op[JOURNAL_TEXTS], candidate[JOURNAL_TEXTS];
} reported_crash;
extern reported_crash last;
tuff_status note(const journal_crash *crash, void *state);
/* Reads the journals of the scratch folder and resets `last`. */
journal_counts recover(void);
void assert_counts(journal_counts counts, int crashes, int idle, int alive, int damaged);

int count_files(void); /* in inflight/ */
void clear_files(void);
journal *open_journal(void); /* in the scratch folder; must succeed */
/* Runs a child that dies within a step, or between steps. */
void die(journal_phase entered, journal_phase moved, bool leave);
/* Writes a journal of any owner, without a lock, by its name in inflight/. */
void write_journal(const char *name, const journal_owner *owner, bool locked, journal_phase phase);
/* Returns an owner like this process, but one that ended. */
journal_owner dead_owner(void);
/* Writes the journal of a dead process as dead.1.2, and returns its content, to be modified; the caller frees it. */
journal_slot *write_dead_journal(journal_phase phase, size_t *size);

/* Returns zeroed memory that a process shares with its children. */
void *share_memory(size_t size);
void unshare_memory(void *memory, size_t size);

#endif
