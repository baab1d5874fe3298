/* A plan from the inside: recorded launches over planned memory, or the reference executor. */
#ifndef TUFF_RUN_PLAN_H
#define TUFF_RUN_PLAN_H

#include "base/hash.h"
#include "compile/lower/lower.h"
#include "run/reference.h"
#include "run/texts.h"
#include "tuff/profile.h"
#include "tune/generator.h"
#include "tune/key.h"

/* What can be told of a launch after it is recorded. */
typedef struct task_record {
    char *label, *source; /* owned */
    char name[KERNEL_NAME];
    const char *kind;
    int op_count;
    uint64_t items, bytes_read, bytes_written, nanoseconds;
    double operations;
} task_record;

/* In place of a task: how all of them are fused. */
enum { WHOLE_GRAPH = -1 };

/* A key of the tuner, and what it runs with. */
typedef struct plan_key {
    char *text, *candidate; /* owned */
    const char *origin;
    char generator[GENERATOR_SIZE];
    int task; /* one of them, or WHOLE_GRAPH */
    uint64_t calls;
} plan_key;

struct background;

/* What of a plan follows from the choices for its tasks: another one of the same fusion can take its place. */
typedef struct made_plan {
    launch_list lowered;
    storage *parameters;
    program **programs; /* one a launch, NULL for copies */
    command *commands;
    recording *setup, *recording; /* setup: the copies kept between runs; NULL where there are none */
    int setup_count;              /* of commands */
    uint64_t *versions;           /* by copy: of what it was made from, and 1; 0: not made yet */
    task_record *records;         /* one a launch */
    int command_count;
    int failed_task; /* that the last program could not be had for; -1: none */
    plan_key *keys;  /* where keys_listed */
    int key_count;
    bool keys_listed;
    hash128 hash; /* of the commands */
} made_plan;

struct tuff_plan {
    tuff_device *device;
    tuff_graph *graph; /* simplified; owned */
    struct fusion fusion;
    pass_choices passes; /* how the graph was rewritten */
    tune_key graph_key;  /* of that; its family is "" where there is nothing to choose */
    made_plan made;
    reference_plan *reference; /* set on the reference device, and then nothing of the rest but device */
    bool barrier_everywhere;
    bool *written; /* inputs that the host gave a value */
    bool has_run;
    bool is_for_once; /* what was compiled for it is worth nobody's time */
    uint64_t begun;   /* when its compilation was */
    tuff_tune_stats tuning;
    bool is_tunable;               /* nothing in its options forbids it */
    bool has_uncounted_keys;       /* nothing was remembered of any: they are counted where somebody asks */
    uint64_t profiled;             /* nanoseconds of the last profiled run */
    struct background *background; /* its tuner, where it is tuned while it is used */
    /* Where not NULL: called before each program that tuff__record asks its device for; what fails ends that. */
    tuff_status (*before_program)(void *state, const program_request *what);
    void *before_state;
};

/* Makes room for so many keys; all texts are NULL. */
tuff_status tuff__plan_keys_create(tuff_plan *plan, int count);
void tuff__plan_keys_free(tuff_plan *plan);

/* Assembles, compiles and records everything. */
tuff_status tuff__record(tuff_plan *plan);
/* Frees what tuff__record made, waiting for its runs. */
void tuff__unrecord(tuff_plan *plan);
/* The arrays that runs assign are others than before: to be called after each that was submitted, whatever came of it,
   as commands before the one that failed may have written. */
void tuff__touch_assigned(const tuff_plan *plan);
/* Describes a launch for people: its ops in order. */
tuff_status tuff__describe_launch(const tuff_plan *plan, int index, task_record *out);

#endif
