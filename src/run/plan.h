/* A plan from the inside: recorded launches over planned memory, or the reference executor. */
#ifndef TUFF_RUN_PLAN_H
#define TUFF_RUN_PLAN_H

#include "compile/lower.h"
#include "run/reference.h"
#include "tuff/profile.h"

/* What can be told of a launch after it is recorded. */
typedef struct task_record {
    char *label, *source; /* owned */
    char name[48];
    const char *kind;
    int op_count;
    uint64_t items, bytes_read, bytes_written, nanoseconds;
    double operations;
} task_record;

struct tuff_plan {
    tuff_device *device;
    tuff_graph *graph; /* simplified; owned */
    struct fusion fusion;
    lowered lowered;
    reference_plan *reference; /* set on the reference device, and then nothing of the rest but device */
    storage *parameters;
    program **programs; /* one a launch, NULL for copies */
    command *commands;
    recording *setup, *recording; /* setup: the copies kept between runs; NULL where there are none */
    int setup_count;              /* of commands */
    uint64_t *versions;           /* by copy: of what it was made from, and 1; 0: not made yet */
    task_record *records; /* one a launch */
    int command_count;
    bool barrier_everywhere;
    bool *written; /* inputs that the host gave a value */
    bool has_run;
    tuff_tune_stats tuning;
    uint64_t profiled; /* nanoseconds of the last profiled run */
};

/* Assembles, compiles and records everything. */
tuff_status tuff__record(tuff_plan *plan);
/* Frees what tuff__record made, waiting for its runs. */
void tuff__unrecord(tuff_plan *plan);
/* Describes a launch for people: its ops in order. */
tuff_status tuff__describe_launch(const tuff_plan *plan, int index, task_record *out);

#endif
