/* Graphs of tensors, their compilation to plans, and the running of plans. */
#ifndef TUFF_GRAPH_H
#define TUFF_GRAPH_H

#include "tuff/device.h"
#include "tuff/tune.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_graph tuff_graph;   /* owns its tensors */
typedef struct tuff_tensor tuff_tensor; /* a symbolic value in a graph */
typedef struct tuff_plan tuff_plan;     /* a compiled graph: recorded once, run many times */

/* Answers NULL on failure. */
TUFF_API tuff_graph *tuff_graph_create(tuff_device *device);
/* NULL is allowed. Plans compiled from the graph stay valid. */
TUFF_API void tuff_graph_destroy(tuff_graph *graph);

/* Graph builders never return NULL. The first error of a graph is kept by it, every builder called with that graph
   then answers a tensor that carries the error on, and tuff_compile returns it. TUFF_OK while there is none. */
TUFF_API tuff_status tuff_graph_status(const tuff_graph *graph);
/* The message of that first error; empty while there is none. Valid as long as the graph. */
TUFF_API const char *tuff_graph_error(const tuff_graph *graph);

/* The seed of tuff_random; 0 by default. */
TUFF_API void tuff_graph_seed(tuff_graph *graph, uint32_t seed);

/* Random numbers are keyed by (seed, step, ordinal of the op in building order). counter, an i32 array of rank 0,
   is the step; without it the graph keeps one of its own, which each run of a plan raises by one. With it, raising
   is the caller's affair (tuff_assign). The array must outlive the graph and its plans. */
TUFF_API void tuff_graph_step(tuff_graph *graph, tuff_array *counter);

/* A value the host writes before a run. The name is copied. */
TUFF_API tuff_tensor *tuff_input(tuff_graph *graph, const char *name, tuff_dtype dtype, tuff_shape shape);
/* The elements of an array at the start of a run. The array must outlive the graph's plans. */
TUFF_API tuff_tensor *tuff_array_tensor(tuff_graph *graph, tuff_array *array);
/* Names a value that the host may read after a run. The name is copied; names of outputs are unique. */
TUFF_API void tuff_output(tuff_graph *graph, const char *name, tuff_tensor *tensor);
/* At the end of a run, array's elements become value (same dtype and shape). Every read in the plan sees the elements
   at its start; the tensor returned is the new value. Two assigns to overlapping ranges are an error. */
TUFF_API tuff_tensor *tuff_assign(tuff_graph *graph, tuff_array *array, tuff_tensor *value);

/* As its builder derived it. NULL counts as an f32 scalar of no graph. */
TUFF_API tuff_dtype tuff_tensor_dtype(const tuff_tensor *tensor);
TUFF_API tuff_shape tuff_tensor_shape(const tuff_tensor *tensor);
TUFF_API tuff_graph *tuff_tensor_graph(const tuff_tensor *tensor);

/* Writes d target / d with[i] into gradients[i] for i < count, as tensors of the graph. target has rank 0.
   A tensor that target does not depend on gets zeros. Only f32, f16 and bf16 tensors have gradients. */
TUFF_API tuff_status tuff_gradients(tuff_tensor *target, tuff_tensor *const *with, int count, tuff_tensor **gradients);

/* Trades computation for memory: what lies between inputs and y is a segment of which gradients keep nothing; they
   compute it once more, from inputs, when they get there (torch.utils.checkpoint, jax.checkpoint). Values, random
   numbers among them, and gradients are the same. Answers y. Call it before tuff_gradients or tuff_optimizer_apply.
   Inputs, and arrays, inputs of the graph and constants, which are in memory anyway, end the segment: a value made
   before the segment that is none of them belongs in inputs, or it is computed once more too. y must depend on each
   input; y itself is no more kept than before, so that the next segment's inputs, or an output, may name it. Segments
   may lie in one another; the inner is then computed as often as its gradients and those around it ask. */
TUFF_API tuff_tensor *tuff_recompute(tuff_tensor *y, tuff_tensor *const *inputs, int count);

typedef enum tuff_fuse_mode {
    TUFF_FUSE_ALL, /* the default */
    TUFF_FUSE_NONE /* every op a dispatch of its own: the baseline, and the first to try when a result looks wrong */
} tuff_fuse_mode;

/* Which family of kernels a plan uses. */
typedef enum tuff_family {
    TUFF_FAMILY_DEVICE,     /* by the device's class: the default */
    TUFF_FAMILY_REGISTER,   /* one work-item owns a tile or a row; no local memory, no barriers: CPU devices */
    TUFF_FAMILY_LOCAL,      /* a work-group shares local memory: GPUs */
    TUFF_FAMILY_SUBGROUP,   /* matmuls whose lanes read each other's registers; everything else as by default.
                             tuff_compile answers NULL, with TUFF_E_UNSUPPORTED, where the self-test did not prove it */
    TUFF_FAMILY_COOPERATIVE /* matmuls of two operands that are stored as f16 on matrix units; everything else, and
                               where they are not proved, likewise. Sums are kept in f32, but how units round them is
                               their own affair */
} tuff_family;

/* Whose kernels compute matmuls. */
typedef enum tuff_matmul_library {
    TUFF_MATMUL_OWN,    /* the default */
    TUFF_MATMUL_CLBLAST /* CLBlast, found at run time, on OpenCL devices: for products of f32 whose rows or columns lie
                           side by side; own kernels for the others. What follows a product is then a kernel of its own.
                           tuff_compile answers NULL, with TUFF_E_UNSUPPORTED, where it cannot be had. Its kernels are
                           compiled in the first run, and it may allocate device memory of its own in every run. */
} tuff_matmul_library;

/* Zero is default. */
typedef struct tuff_compile_options {
    tuff_fuse_mode fuse;
    tuff_family family;
    bool barrier_everywhere; /* a full barrier before every command: results must not change */
    /* Bytes of intermediates at the peak (memory_peak of tuff_plan_info); 0: no limit. Where more would be needed,
       values that lie idle then are computed again instead of kept, the cheapest for their size first and about as many
       as it takes: results stay within the same bounds. TUFF_E_LIMIT, saying the least peak that was reached, where
       that is not enough. Inputs, outputs, arrays and constants are not counted. The reference device takes no
       notice. */
    uint64_t memory_budget;
    tuff_matmul_library matmul_library;
    /* Whether kernels are tuned to the device: see tuff/tune.h. With a family or a library other than the default's
       nothing is tuned. */
    tuff_tune_mode tune;
    uint32_t tune_milliseconds;       /* the most that measuring may take; 0: by the mode */
    tuff_tune_callback tune_progress; /* may be NULL */
    void *tune_user;
    /* A file that gets a line for every candidate tried, behind what is in it; "-": the error stream; NULL: none. The
       members of a line are separated by tabs: seconds since tuning began, verdict, nanoseconds of one run, samples,
       candidate, key, why it was rejected. */
    const char *tune_log;
    uint32_t tune_seed; /* of the random choices of searches: another one, another order of candidates */
    tuff_tune_environment tune_environment; /* which of the options of tuning the environment may change */
    /* A manifest of tuff_plan_lock or `tuff cache export --manifest`: every kernel runs with the candidate it names.
       TUFF_E_UNSUPPORTED, naming the key, where it does not have one, where the candidate cannot be used here, or was
       named for other kernel texts than this version's; and for options with which nothing is tuned. Nothing is
       measured then, and nothing else that is remembered is used. NULL: none. */
    const char *tune_manifest;
    /* Bytes of the device's memory that measuring may take beside the plan: a quarter of it at most. Tasks that do not
       fit side by side are measured after each other, what does not fit alone is left as it is. 0: 1 GiB on CPUs,
       8 GiB elsewhere. */
    uint64_t tune_memory;
    /* Results do not depend on what was measured, on this machine or elsewhere: nothing is measured, and of what is
       remembered (pins, winners of the same environment) only that is used which adds in the same order as the
       default. A manifest may say otherwise: it is the same for everybody who has it. */
    bool deterministic;
    /* tuff_compile measures nothing; what tune and tune_milliseconds ask for is measured later, while the program
       leaves the device alone: see "tuning in the background" in tuff/tune.h. TUFF_E_USAGE where tune is
       TUFF_TUNE_CACHED or TUFF_TUNE_OFF, with deterministic, and with a manifest. */
    bool tune_background;
    tuff_tune_isolation tune_isolate; /* whether kernels are tried in the program: see tuff/tune.h */
    uint32_t reserved[2];
} tuff_compile_options;

/* Compiles the graph for its device. options may be NULL. Answers NULL on failure, tuff_error() says why: the graph's
   first error, an op this device cannot run, memory. The graph can be compiled again, or extended and compiled. Plans
   are verified before they run, unless the environment says TUFF_VERIFY=0: TUFF_E_COMPILE where one is not sound. */
TUFF_API tuff_plan *tuff_compile(tuff_graph *graph, const tuff_compile_options *options);
/* NULL is allowed. Waits for the plan's runs. With a driver that compiles once more for a binary (PoCL), binaries of
   kernels that were run are made and kept here, so that the next start compiles nothing: this takes half as long as the
   plan was of use at most, as long as that for kernels which an earlier start met and did not keep, and only once. */
TUFF_API void tuff_plan_destroy(tuff_plan *plan);

/* Copies size bytes, which must be the input's, from data; data may be reused at once. Ordered before later runs. */
TUFF_API tuff_status tuff_plan_write(tuff_plan *plan, const char *name, const void *data, size_t size);
/* Enqueues one run and returns. All inputs must have been written once; they keep their values. Where the driver does
   not launch what the tuner found for a task, that is an error, which is remembered: a plan that is compiled then takes
   the next best, or the default. */
TUFF_API tuff_status tuff_plan_run(tuff_plan *plan);
/* Waits for the runs enqueued before, then copies size bytes, which must be the output's, to data. */
TUFF_API tuff_status tuff_plan_read(tuff_plan *plan, const char *name, void *data, size_t size);
/* Waits for everything enqueued on the plan's device. */
TUFF_API tuff_status tuff_plan_wait(tuff_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
