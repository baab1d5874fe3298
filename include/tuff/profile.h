/* What a plan consists of, how long its parts take, and which device runs it fastest. */
#ifndef TUFF_PROFILE_H
#define TUFF_PROFILE_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_plan_info {
    int task_count;            /* fused tasks */
    int dispatch_count;        /* kernel launches per run */
    int copy_count;            /* buffer copies per run */
    int node_count;            /* of the graph after simplification */
    int program_count;         /* distinct kernels */
    uint64_t memory_peak;      /* bytes of intermediates, known before allocation */
    uint64_t memory_unplanned; /* bytes if every intermediate had its own memory */
    uint64_t constant_size;    /* bytes of folded constants and of repacked copies of weights kept between runs */
    uint64_t run_nanoseconds;  /* wall-clock time of the last tuff_plan_profile; 0: not profiled yet */
    int matmul_count;          /* matmul kernels per run */
    int narrow_matmul_count;   /* those that read 16-bit elements of both operands */
    uint64_t reserved[6];
} tuff_plan_info;
/* Describes a plan. TUFF_E_USAGE if plan or info is NULL. On the reference device all fields are 0. */
TUFF_API tuff_status tuff_plan_describe(const tuff_plan *plan, tuff_plan_info *info);

typedef struct tuff_task_info {
    const char *kind;    /* "map", "row", "column", "matmul", ... */
    const char *label;   /* the ops fused into the task, in order: "matmul add gelu" */
    const char *program; /* name of its kernel */
    const char *source;  /* the kernel's text as passed to the driver; NULL for copies and kernels of other libraries */
    int op_count;        /* number of ops fused into it */
    uint64_t items;      /* elements of its iteration space */
    uint64_t bytes_read, bytes_written;
    /* Floating-point operations. For matmuls and attention: those of their products. For other tasks: one for each
       value that an op computes, whatever the op is (two if it multiplies and adds), and one for each element of a sum,
       a maximum or a cumulative sum; a value that is computed more than once counts once. Integer ops, comparisons,
       selections, conversions and scatters count as none. */
    double operations;
    uint64_t nanoseconds; /* in the last tuff_plan_profile; 0: not profiled yet */
    uint64_t start;       /* in that profile: nanoseconds since the start of the first task, by the device's clock */
    tuff_phase phase; /* for a task shared by several phases: that of its matmul, attention or scatter if it has one,
                         else the latest phase of the values it stores */
    uint32_t reserved32;
    uint64_t reserved[6];
} tuff_task_info;
/* Describes a task. index is 0 to task_count - 1; otherwise TUFF_E_USAGE. Strings are valid as long as the plan; with
   background tuning, until its next run. */
TUFF_API tuff_status tuff_plan_task(const tuff_plan *plan, int index, tuff_task_info *info);
/* Runs the plan with a timestamp around every task, and waits. A plan that has not run yet runs once before that,
   because the first run pays for first-touched memory and for kernels that the driver finishes late. All inputs must
   have been written. */
TUFF_API tuff_status tuff_plan_profile(tuff_plan *plan);
/* Runs the plan as tuff_plan_run does, with timestamps, and waits. Gets the wall-clock time of the run, and how much of
   it the device spent in kernels. This differs from a profile on CPUs with OpenCL, where one kernel runs several short
   tasks unless they are profiled. Otherwise like tuff_plan_profile. */
TUFF_API tuff_status tuff_plan_run_timed(tuff_plan *plan, uint64_t *nanoseconds, uint64_t *kernel_nanoseconds);

/* A key of the tuner: a group of equal tasks, all of which run with the same candidate. */
typedef struct tuff_plan_key_info {
    const char *key;       /* spelt as by `tuff cache show` */
    const char *candidate; /* "": the default */
    const char *origin;    /* origin of the candidate: "override" (a pin or a manifest), "same", "other driver",
                              "nearest", "measured", "default"; see tuff_tune_hit */
    uint64_t calls;        /* number of tasks with this key in a run */
    uint64_t reserved[4];
} tuff_plan_key_info;
/* Returns the number of keys; -1, with the thread's last error set, if they cannot be listed. Plans without tuning
   (another family or library, no fusion, the reference device) have none. If the cache was empty, the first call
   determines the keys. */
TUFF_API int tuff_plan_key_count(tuff_plan *plan);
/* Describes a key. index is 0 to count - 1; otherwise TUFF_E_USAGE. Strings are valid as long as the plan; with
   background tuning, until its next run. */
TUFF_API tuff_status tuff_plan_key(tuff_plan *plan, int index, tuff_plan_key_info *info);
/* Writes a 128-bit hash of what runs: the device and its driver, the kernels' texts, their parameters, grids and
   operands, in order, the names of inputs and outputs, and the graph's constants. Plans with equal hashes give equal
   results for equal inputs and arrays (arrays in the order in which the graph has them), unless kernels of another
   library are used. TUFF_E_UNSUPPORTED on the reference device. */
TUFF_API tuff_status tuff_plan_hash(const tuff_plan *plan, uint64_t hash[2]);
/* Writes what each key of the plan runs with to a manifest for tuff_tune_options.manifest. If the file exists, the keys
   of other plans in it are kept; processes that save to the same file take turns by locking PATH.lock, a file that
   stays. TUFF_E_IO if the manifest cannot be written, TUFF_E_TIMEOUT if another process holds the lock for ten seconds:
   it is then unchanged. */
TUFF_API tuff_status tuff_plan_save_manifest(tuff_plan *plan, const char *path);
/* Reports what tuning did when the plan was compiled and, with background tuning, since then. */
TUFF_API tuff_status tuff_plan_tune_stats(const tuff_plan *plan, tuff_tune_stats *stats);

/* A workload of the program, run by all devices in a race. */
typedef struct tuff_device_race {
    const char *name; /* of the workload, including everything that affects its time: results are cached under it */
    /* Returns a plan of the workload on the device, ready to run with its inputs written; NULL excludes the device.
       Both callbacks get `user`; a pointer that setup stores in *state is passed to teardown. */
    tuff_plan *(*setup)(tuff_device *device, void *user, void **state);
    /* Frees plan and state. Either may be NULL if setup failed halfway. */
    void (*teardown)(tuff_plan *plan, void *user, void *state);
    void *user;
    uint64_t reserved[4];
} tuff_device_race;

typedef struct tuff_device_race_result {
    char selector[32], runner_up[32];            /* of the fastest device and of the next one; "": there is none */
    uint64_t nanoseconds, runner_up_nanoseconds; /* medians of one run; 0: not measured, as with a single device */
    int candidate_count;                         /* number of devices in the race; 0: nothing was measured */
    bool is_cached;                              /* the result is from the cache */
    int left_out; /* number of devices left out because a process ended while they were in this race */
    uint64_t reserved[7];
} tuff_device_race_result;
/* Opens the device that runs the workload fastest, for machines with several devices or several drivers for one device.
   All devices but the reference device run it in turns; the median counts, and a device that takes four times as long
   as the best is not run again. The result is kept in the cache for 30 days, as long as the same devices have the same
   drivers. If a process ended while a device was in the race, the device is left out of that race for as long, with one
   warning in the log; `tuff cache verify --retry` or tuff_cache_forget_rejected readmits it. Returns NULL if no device
   runs the workload, with the last device's error. result may be NULL. Close the device with tuff_device_close. */
TUFF_API tuff_device *tuff_device_open_fastest(const tuff_device_race *race, tuff_device_race_result *result);

#ifdef __cplusplus
}
#endif
#endif
