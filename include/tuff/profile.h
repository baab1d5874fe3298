/* What a plan consists of: for tools, tests and people who want to know. */
#ifndef TUFF_PROFILE_H
#define TUFF_PROFILE_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_plan_info {
    int task_count;            /* fused tasks */
    int dispatch_count;        /* kernel launches a run */
    int copy_count;            /* buffer copies a run */
    int node_count;            /* nodes after simplification */
    int program_count;         /* different kernels */
    uint64_t memory_peak;      /* bytes of intermediates, known before allocation */
    uint64_t memory_unplanned; /* bytes if every intermediate had its own memory */
    uint64_t constant_size;    /* bytes of folded constants, and of packed copies of weights kept between runs */
    uint64_t run_nanoseconds;  /* wall clock of the last tuff_plan_profile; 0 before */
    uint64_t reserved[7];
} tuff_plan_info;
TUFF_API tuff_status tuff_plan_describe(const tuff_plan *plan, tuff_plan_info *info);

typedef struct tuff_task_info {
    const char *kind;    /* "map", "row", "column", "matmul", ... */
    const char *label;   /* the ops fused into the task, in order: "matmul add gelu" */
    const char *program; /* name of its kernel */
    const char *source;  /* the kernel as the driver sees it; NULL where it is none of ours */
    int op_count;        /* ops fused into it */
    uint64_t items;      /* elements of its iteration space */
    uint64_t bytes_read, bytes_written;
    double operations;    /* floating-point operations of matmuls; 0 for others */
    uint64_t nanoseconds; /* of the last tuff_plan_profile; 0 before */
    uint64_t reserved[8];
} tuff_task_info;
/* index from 0 to task_count - 1; strings live as long as the plan (with tune_background: until its next run). */
TUFF_API tuff_status tuff_plan_task(const tuff_plan *plan, int index, tuff_task_info *info);
/* Runs the plan with timestamps around every task; a plan that never ran runs once more before, because first runs pay
   for what comes once: memory that nobody touched, kernels that the driver finishes late. */
TUFF_API tuff_status tuff_plan_profile(tuff_plan *plan);

/* What the tuner calls a key: tasks that are alike, and the candidate that all of them run with. */
typedef struct tuff_plan_key_info {
    const char *key;       /* as `tuff cache show` names it */
    const char *candidate; /* "": the default */
    const char *origin;    /* where it came from: "override" (a pin, or a manifest), "same", "other driver", "nearest",
                              "measured", "default" */
    uint64_t calls;        /* tasks of this key in a run */
    uint64_t reserved[4];
} tuff_plan_key_info;
/* How many keys a plan has; -1 where they could not be listed. Plans without tuning (other families, libraries, without
   fusion, on the reference device) have none. Where nothing was remembered they are listed at the first call. */
TUFF_API int tuff_plan_key_count(tuff_plan *plan);
/* index from 0; strings live as long as the plan (with tune_background: until its next run). */
TUFF_API tuff_status tuff_plan_key(tuff_plan *plan, int index, tuff_plan_key_info *info);
/* 128 bits over what runs: the device and its driver, the kernels' texts, their parameters and grids, in their order.
   Plans of equal hashes give equal results for equal inputs, but for kernels of other libraries.
   TUFF_E_UNSUPPORTED on the reference device. */
TUFF_API tuff_status tuff_plan_hash(const tuff_plan *plan, uint64_t hash[2]);
/* Writes what each key of the plan runs with into a manifest, for tuff_compile_options.tune_manifest; keys of other
   plans that the file has already stay in it. */
TUFF_API tuff_status tuff_plan_lock(tuff_plan *plan, const char *path);

/* A program's own work, for devices to race in. */
typedef struct tuff_contest {
    const char *name; /* of the work, all that changes its time in it: the answer is remembered by it */
    /* A plan of the work on the device that is ready to run, its inputs written; NULL leaves the device out. What it
       stores in *entry is handed to leave. */
    tuff_plan *(*enter)(tuff_device *device, void *user, void **entry);
    void (*leave)(tuff_plan *plan, void *user, void *entry); /* frees both; where only one is there, that */
    void *user;
    uint64_t reserved[4];
} tuff_contest;

typedef struct tuff_contest_result {
    char selector[32], next[32];            /* of the fastest device and of the one after it; "": there is none */
    uint64_t nanoseconds, next_nanoseconds; /* of a run, medians; 0: not measured, as where there is one device only */
    int entrants;                           /* devices that were raced; 0 where nothing was */
    bool remembered;                        /* from the cache: nothing was measured */
    int left_out; /* devices that took no part because a process ended while they were in this race */
    uint64_t reserved[7];
} tuff_contest_result;
/* Opens the device that does the work in the least time: for machines that offer one piece of silicon through several
   drivers, or several devices. All but the reference device run it in turns, the median counts, and what takes four
   times as long as the best is not run again. The answer is kept in the cache for 30 days, as long as the same devices
   with the same drivers are there. A device that was at work in the race when a process ended is left out of that race
   for as long, which is a warning to the log (tuff_set_log) once: `tuff cache verify --retry`, or
   tuff_cache_forget_rejected, allows it again. NULL where no device does the work: tuff_error() has the last reason.
   result may be NULL. Close the device with tuff_device_close. */
TUFF_API tuff_device *tuff_device_open_fastest(const tuff_contest *of, tuff_contest_result *result);

/* What tuning did when the plan was compiled, and since then in the background. */
TUFF_API tuff_status tuff_plan_tuning(const tuff_plan *plan, tuff_tune_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
