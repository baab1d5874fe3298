/* What tests of journals share: processes that die in the midst of something, and what is told of them. */
#ifndef TESTS_JOURNAL_FIXTURE_H
#define TESTS_JOURNAL_FIXTURE_H

#include <sys/types.h>

#include "tunedb/journal_format.h"

/* For children, in which cmocka's asserts would go on with the parent's tests. */
void check(bool condition);
/* Wait for a child and assert how it ended. */
void killed(pid_t child);
void ended(pid_t child);

/* The latest strike, and how many there were. */
typedef struct told_strike {
    int count;
    journal_phase phase;
    bool rebooted;
    uint64_t time;
    char environment[JOURNAL_TEXTS], op[JOURNAL_TEXTS], candidate[JOURNAL_TEXTS];
} told_strike;
extern told_strike last;
tuff_status note(const journal_strike *strike, void *state);
/* Reads the journals of the scratch folder; `last` is told anew. */
journal_counts recover(void);
void assert_counts(journal_counts counts, int strikes, int idle, int alive, int damaged);

int count_files(void); /* in inflight/ */
void clear_files(void);
journal *open_journal(void); /* in the scratch folder, without trouble */
/* A child that dies within a step, or between steps. */
void die(journal_phase entered, journal_phase moved, bool leave);
/* Writes a journal of whoever, which nobody locks, by its own name in inflight/. */
void craft(const char *name, const journal_owner *owner, bool locked, journal_phase phase);
/* An owner like this process, but one that ended. */
journal_owner dead_owner(void);
/* Writes the journal of a dead process by the name dead.1.2, and reads it back to be changed; the caller frees it. */
journal_slot *craft_dead(journal_phase phase, size_t *size);

/* Zeroed memory that a process shares with its children. */
void *share_memory(size_t size);
void unshare_memory(void *memory, size_t size);

#endif
