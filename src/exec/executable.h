/* An executable: launches over planned memory, with compiled programs and recorded commands. Plans own one that they
   replay, candidates of the tuner one for a single task. */
#ifndef TUFF_EXEC_EXECUTABLE_H
#define TUFF_EXEC_EXECUTABLE_H

#include "base/hash.h"
#include "compile/lower/lower.h"
#include "exec/texts.h"

/* What can be told of a launch after it is recorded. */
typedef struct task_record {
    char *label, *source; /* owned */
    char name[KERNEL_NAME];
    const char *kind;
    int op_count;
    uint64_t items, bytes_read, bytes_written, nanoseconds, start;
    double operations;
    tuff_phase phase;
} task_record;

typedef struct executable {
    launch_list launches; /* set before it is recorded; owned */
    storage *parameters;
    program **programs; /* one a launch, NULL for copies */
    command *commands;
    recording *setup, *recording; /* setup: the copies kept between runs; NULL where there are none */
    int setup_count;              /* of commands */
    uint64_t *versions;           /* by copy: of what it was made from, and 1; 0: not made yet */
    task_record *records;         /* one a launch */
    int command_count;
    int failed_task; /* whose program could not be compiled; -1: none */
    hash128 hash;    /* of the commands' kernels: texts, parameters, grids */
} executable;

typedef struct recording_options {
    bool barrier_everywhere;
    /* Where not NULL: called before each program that the device is asked for; a failure ends the recording. */
    tuff_status (*before_program)(void *state, const program_request *request);
    void *state;
} recording_options;

/* Assembles, compiles and records everything; options may be NULL. After a failure the executable is to be freed. */
tuff_status tuff__executable_record(executable *self, const recording_options *options);
/* Frees what tuff__executable_record made, waiting for its runs; the launches stay. */
void tuff__executable_unrecord(executable *self);
/* The launches, too. */
void tuff__executable_free(executable *self);

/* Makes the kept copies anew where what they were made from changed since. */
tuff_status tuff__executable_refresh(executable *self);
/* The same, then submits the commands. *failed: the recording that a failure is of. */
tuff_status tuff__executable_submit(executable *self, const recording **failed);
/* A hash of the commands with the values that each has, and of constants: equal ones compute the same. */
hash128 tuff__executable_hash(const executable *self);
/* Describes a launch for people: its ops in order, its bytes and operations. */
tuff_status tuff__describe_launch(const executable *self, int index, task_record *out);

#endif
