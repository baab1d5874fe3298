/* A plan from the inside: recorded launches over planned memory, or the reference executor. */
#ifndef TUFF_EXEC_PLAN_H
#define TUFF_EXEC_PLAN_H

#include "exec/executable.h"
#include "exec/reference.h"
#include "tuff/profile.h"
#include "tunedb/kernel_hash.h"
#include "tunedb/key.h"

/* A key of the tuner, and what it runs with. */
typedef struct plan_key {
    char *text, *candidate; /* owned */
    const char *origin;
    char generator[GENERATOR_SIZE];
    int task; /* one of them */
    uint64_t calls;
} plan_key;

typedef struct plan_keys {
    plan_key *items; /* where is_listed */
    int count;
    bool is_listed;
} plan_keys;

/* Who wants to know what a plan goes through; all functions may be NULL. */
typedef struct plan_observer {
    /* At the beginning of a run, and of its destruction: may exchange the executable. */
    void (*before_run)(void *self, tuff_plan *plan);
    /* Submitting a recording failed: may say more in the error; returns the status. first: index of the recording's
       first launch. */
    tuff_status (*launch_failed)(const tuff_plan *plan, const recording *failed, int first, tuff_status why);
    /* Before anything of the plan is freed; then, behind that. */
    void (*stop)(void *self);
    void (*free)(void *self);
    /* Adds what was done beside the plan's runs. */
    void (*count)(void *self, tuff_tune_stats *stats);
    void *self;
} plan_observer;

struct tuff_plan {
    tuff_device *device;
    tuff_graph *graph; /* simplified; owned */
    struct fusion fusion;
    pass_choices passes; /* how the graph was rewritten */
    executable executable;
    plan_keys keys;
    reference_plan *reference; /* set on the reference device, and then nothing of the rest but device */
    bool barrier_everywhere;
    bool *written; /* inputs that the host gave a value */
    bool has_run;
    bool discards_binaries; /* of what was compiled for it; nobody will want them again */
    uint64_t begun;   /* when its compilation was */
    tuff_tune_stats tuning;
    bool is_tunable;         /* nothing in its options forbids it */
    bool has_uncounted_keys; /* nothing was remembered of any: they are counted where somebody asks */
    uint64_t profiled;       /* nanoseconds of the last profiled run */
    plan_observer observer;
};

/* A plan whose graph is fused and lowered with default configurations, passes apart; not recorded yet. */
tuff_status tuff__plan_create(tuff_graph *graph, const tuff_compile_options *options, const tune_config *passes,
                              tuff_plan **out);
/* Records it, where that was not done, and lets the host write its inputs. */
tuff_status tuff__plan_record(tuff_plan *plan);

/* Where an input's elements are, from offset 0 on; not of plans of the reference device. */
storage *tuff__plan_input_storage(const tuff_plan *plan, int index);

/* Makes room for so many keys; all texts are NULL. */
tuff_status tuff__plan_keys_create(plan_keys *self, int count);
void tuff__plan_keys_free(plan_keys *self);

/* The arrays that runs assign are others than before: to be called after each that was submitted, whatever came of it,
   as commands before the one that failed may have written. */
void tuff__touch_assigned(const tuff_plan *plan);

#endif
