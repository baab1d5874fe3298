/* The inside of plans: recorded launches over planned memory, or the reference executor. */
#ifndef TUFF_EXEC_PLAN_H
#define TUFF_EXEC_PLAN_H

#include "exec/executable.h"
#include "exec/reference.h"
#include "tuff/profile.h"
#include "tunedb/kernel_hash.h"
#include "tunedb/key.h"

/* A key of the tuner, and the candidate chosen for it. */
typedef struct plan_key {
    char *text, *candidate; /* owned */
    const char *origin;
    char kernel_hash[KERNEL_HASH_SIZE];
    int task; /* one of the tasks with this key */
    uint64_t calls;
} plan_key;

typedef struct plan_keys {
    plan_key *items; /* valid if is_listed */
    int count;
    bool is_listed;
} plan_keys;

/* Gets notified of a plan's events. All functions may be NULL. */
typedef struct plan_observer {
    /* Called at the start of a run; may replace the executable. */
    void (*before_run)(void *self, tuff_plan *plan);
    /* Called if submitting a recording failed; may add to the error message, and returns the status. */
    tuff_status (*launch_failed)(const tuff_plan *plan, const recording *failed, tuff_status why);
    /* On destruction: stop is called before anything of the plan is freed, free after its executable is freed. */
    void (*stop)(void *self);
    void (*free)(void *self);
    /* Adds to *stats what was done outside the plan's runs. */
    void (*count)(void *self, tuff_tune_stats *stats);
    void *self;
} plan_observer;

struct tuff_plan {
    tuff_device *device;
    tuff_graph *graph; /* simplified; owned */
    struct fusion fusion;
    pass_choices passes; /* choices made when the graph was rewritten */
    executable executable;
    plan_keys keys;
    reference_plan *reference; /* set on the reference device, where device is the only other field used */
    bool barrier_everywhere;
    bool describes_only; /* has no programs and no recordings */
    bool *written; /* by input: the host has written it */
    bool has_run;
    bool discards_binaries; /* its programs are never needed again, so their binaries are not saved */
    uint64_t start_time;    /* time when its compilation began */
    tuff_tune_stats tuning;
    bool is_tunable;               /* its options permit tuning */
    bool has_uncounted_keys;       /* no key was in a store: keys are counted only on request */
    uint64_t profiled_nanoseconds; /* duration of the last profiled run in nanoseconds */
    plan_observer observer;
};

/* Creates a plan: rewrites the graph by passes, which may be NULL, then fuses and lowers it with default
   configurations. Does not record it. */
tuff_status tuff__plan_create(tuff_graph *graph, const tuff_compile_options *options, const tune_config *passes,
                              tuff_plan **out);
recording_options tuff__plan_recording_options(const tuff_plan *plan);
/* Records the plan, unless that was done, and allows the host to write inputs. */
tuff_status tuff__plan_record(tuff_plan *plan);

/* Fails unless the plan, which may be NULL, can run. call is for messages. */
tuff_status tuff__plan_check_run(const char *call, const tuff_plan *plan);

/* Returns the memory of an input, whose elements start at offset 0. Not for plans of the reference device. */
storage *tuff__plan_input_storage(const tuff_plan *plan, int index);

/* Replaces the list by one of `count` keys; all texts are NULL. */
tuff_status tuff__plan_keys_create(plan_keys *self, int count);
void tuff__plan_keys_free(plan_keys *self);

/* Submits the plan's commands, as recorded in `recorded`: see tuff__executable_submit. The arrays that they assign are
   marked as changed even if that fails: commands before the one that failed may have written. */
tuff_status tuff__plan_submit(tuff_plan *plan, recording *recorded, const recording **last);

#endif
