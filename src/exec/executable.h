/* An executable: launches over planned memory, with compiled programs and recorded commands. A plan owns one that it
   replays; a candidate of the tuner owns one for a single task. */
#ifndef TUFF_EXEC_EXECUTABLE_H
#define TUFF_EXEC_EXECUTABLE_H

#include "base/hash.h"
#include "compile/lower/lower.h"
#include "exec/persistent.h"
#include "exec/texts.h"

/* Description of a launch, kept after recording. */
typedef struct task_record {
    char *label, *source; /* owned */
    hash128 source_hash;
    char name[KERNEL_NAME];
    const char *kind;
    int op_count;
    uint64_t items, bytes_read, bytes_written, nanoseconds, start;
    double operations;
    tuff_phase phase;
} task_record;

typedef struct executable {
    launch_list launches; /* set before recording; owned */
    storage *parameters;
    program **programs; /* one per launch; NULL for copies, and for launches that run only in a persistent kernel, which
                           is behind them */
    command *commands;
    persistent_launches persistent;
    recording *setup, *recording; /* setup: the copies kept between runs; NULL if there are none */
    int setup_count;              /* number of commands in setup */
    uint64_t *versions;           /* by copy: 1 + sum of its sources' versions when it was made; 0: not made yet */
    task_record *records;         /* one per launch */
    int command_count;
    int failed_task; /* task whose program could not be compiled; -1: none */
    hash128 hash;    /* of the commands' kernels: source texts, parameters, grids */
} executable;

typedef struct recording_options {
    bool merges_launches; /* launches may run in persistent kernels */
    bool barrier_everywhere;
    bool describes_only; /* assembles and describes all launches, and compiles and records nothing */
    /* May be NULL. Called before each program is requested from the device; a failure ends the recording. */
    tuff_status (*before_program)(void *state, const program_request *request);
    void *state;
} recording_options;

/* Assembles, compiles and records all launches. options may be NULL. After a failure the executable must still be
   freed. */
tuff_status tuff__executable_record(executable *self, const recording_options *options);
/* Gets the programs of all launches, also of those that run in persistent kernels, so that the executable's commands
   can be recorded one by one. */
tuff_status tuff__executable_complete_programs(executable *self);
/* Returns the commands of a run as they are recorded: without those of setup, and merged. */
command *tuff__executable_run_commands(const executable *self, int *count);
/* After a failed submission: returns the launch that the driver refused; -1: none, or unknown. *was_merged: it refused
   merged launches. */
int tuff__executable_refused_launch(const executable *self, const recording *recorded, bool *was_merged);
/* Frees everything that tuff__executable_record made, after waiting for runs, and the launches. */
void tuff__executable_free(executable *self);

/* Updates the kept copies whose sources have changed, then submits `recorded`, which has the executable's commands
   (NULL: nothing). Between the two no other thread changes anything. `ended` (NULL is allowed) is called after that,
   even if it failed, with the device locked. Sets *last, unless NULL, to the recording that a failure belongs to. */
tuff_status tuff__executable_submit(executable *self, recording *recorded, void (*ended)(void *state), void *state,
                                    const recording **last);
/* Returns a hash of the commands, of the values that each reads and writes, and of constants. Executables with equal
   hashes compute the same. */
hash128 tuff__executable_hash(const executable *self);
/* Describes a launch for users: its ops in order, its bytes and its operations. */
tuff_status tuff__describe_launch(const executable *self, int index, task_record *out);

#endif
