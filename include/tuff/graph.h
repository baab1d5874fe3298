/* Graphs of tensors, compiling them to plans, and running plans. */
#ifndef TUFF_GRAPH_H
#define TUFF_GRAPH_H

#include "tuff/device.h"
#include "tuff/tune.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_graph tuff_graph;   /* owns its tensors */
typedef struct tuff_tensor tuff_tensor; /* a symbolic value of a graph */
typedef struct tuff_plan tuff_plan;     /* a compiled graph: recorded once, run many times */

/* Creates a graph without nodes. device must outlive it. NULL on failure. */
TUFF_API tuff_graph *tuff_graph_create(tuff_device *device);
/* Frees the graph and its tensors. Plans compiled from it stay valid, except those of a loaded graph
   (tuff/graph_file.h), which owns its arrays. NULL is allowed. */
TUFF_API void tuff_graph_destroy(tuff_graph *graph);

/* Returns the status of the graph's first error; TUFF_OK if there is none. Functions that build a graph never return
   NULL. The graph keeps its first error; from then on every builder returns a tensor that carries the error on, and
   tuff_compile fails with it. So a program may build without checks and check once at the end. */
TUFF_API tuff_status tuff_graph_status(const tuff_graph *graph);
/* Returns the message of that first error; empty if there is none. Valid as long as the graph. */
TUFF_API const char *tuff_graph_error(const tuff_graph *graph);

/* Sets the seed of tuff_random; 0 by default. */
TUFF_API void tuff_graph_seed(tuff_graph *graph, uint32_t seed);

/* Sets the step that random numbers depend on: they are keyed by (seed, step, ordinal of the op in building order).
   counter, an i32 array of rank 0, holds the step; the caller increments it (tuff_assign). It must outlive the graph
   and its plans. A graph without such an array has a counter of its own, which every run of a plan increments. */
TUFF_API void tuff_graph_step(tuff_graph *graph, tuff_array *counter);

/* Adds an input, a value that the host writes before a run. name is copied; names of inputs are unique. */
TUFF_API tuff_tensor *tuff_input(tuff_graph *graph, const char *name, tuff_dtype dtype, tuff_shape shape);
/* Adds a tensor with the elements that array has at the start of a run. array must outlive the graph's plans. */
TUFF_API tuff_tensor *tuff_array_tensor(tuff_graph *graph, tuff_array *array);
/* Names a value that the host may read after a run. name is copied; names of outputs are unique. */
TUFF_API void tuff_output(tuff_graph *graph, const char *name, tuff_tensor *tensor);
/* Assigns value to the array at the end of a run; value has the array's dtype and shape. All reads of the array in the
   plan see the elements that it had at the start; the returned tensor is the new value. Two assignments to overlapping
   ranges are an error. array must outlive the graph's plans. */
TUFF_API tuff_tensor *tuff_assign(tuff_graph *graph, tuff_array *array, tuff_tensor *value);

/* The part of a training step that a node belongs to, for profiles (tuff_task_info.phase). tuff_gradients makes nodes
   of the backward pass, and tuff_optimizer_apply adds those of the optimizer; all other nodes get the current phase of
   the graph, initially the forward pass. A node that reads a value of a later phase belongs to that phase. */
typedef enum tuff_phase { TUFF_PHASE_FORWARD, TUFF_PHASE_BACKWARD, TUFF_PHASE_OPTIMIZER } tuff_phase;
/* Sets the phase of nodes that are built from now on, for programs that write their own update with tuff_assign.
   Returns the previous phase, so that it can be restored. */
TUFF_API tuff_phase tuff_graph_phase(tuff_graph *graph, tuff_phase phase);
/* Returns "forward", "backward" or "optimizer". Static storage. */
TUFF_API const char *tuff_phase_name(tuff_phase phase);

/* Dtype, shape and graph as derived by the tensor's builder. NULL counts as an f32 scalar of no graph. */
TUFF_API tuff_dtype tuff_tensor_dtype(const tuff_tensor *tensor);
TUFF_API tuff_shape tuff_tensor_shape(const tuff_tensor *tensor);
TUFF_API tuff_graph *tuff_tensor_graph(const tuff_tensor *tensor);

/* Sets gradients[i], for i < count, to d target / d wrt[i], a tensor of the same graph and of wrt[i]'s shape. target
   has rank 0. If target does not depend on wrt[i], the gradient is zeros. target and wrt[i] must be f32, f16 or bf16.
   If wrt[i] is a scalar constant and an op converts it to the dtype of its other operand (tuff_constant), the op reads
   a converted copy, and this use does not count in the gradient. Errors are returned and also kept by the graph. */
TUFF_API tuff_status tuff_gradients(tuff_tensor *target, tuff_tensor *const *wrt, int count, tuff_tensor **gradients);

/* Trades computation for memory: the backward pass keeps no value between inputs and y, but recomputes this segment
   from inputs when it needs it (like torch.utils.checkpoint and jax.checkpoint). Values, random numbers and gradients
   stay the same. Returns y. Call it before tuff_gradients or tuff_optimizer_apply. The segment ends at the count inputs
   and at arrays, graph inputs and constants, which are in memory anyway; any other value made before the segment must
   be listed in inputs, otherwise it is recomputed as well. y must depend on each input. y itself is kept only if
   something else needs it, for example as an input of the next segment or as an output. Segments may be nested; the
   inner one is then recomputed for its own gradients and for those of each enclosing segment. */
TUFF_API tuff_tensor *tuff_recompute(tuff_tensor *y, tuff_tensor *const *inputs, int count);

typedef enum tuff_fuse_mode {
    TUFF_FUSE_ALL, /* the default */
    TUFF_FUSE_NONE /* one kernel per op: a baseline, and the first thing to try when a result looks wrong */
} tuff_fuse_mode;

/* The family of kernels that a plan uses. */
typedef enum tuff_family {
    TUFF_FAMILY_DEVICE,   /* the default: the family for the device's class */
    TUFF_FAMILY_REGISTER, /* one work-item owns a tile or a row; no local memory, no barriers: CPUs */
    TUFF_FAMILY_LOCAL,    /* a work-group shares local memory: GPUs */
    TUFF_FAMILY_SUBGROUP, /* matmuls whose lanes read each other's registers; other kernels as by default. tuff_compile
                             fails with TUFF_E_UNSUPPORTED if the self-test did not prove such reads */
    TUFF_FAMILY_COOPERATIVE /* matmuls and attention on matrix units, for operands of f16, of bf16 if the units support
                               it, or that the plan's precision rounds to one of these; other kernels as by default.
                               Sums are f32, rounded as the hardware rounds them. tuff_compile fails with
                               TUFF_E_UNSUPPORTED if the self-test did not prove the units. If it did, they are used by
                               default for matrices of at least 16 rows and columns, and for attention of at least 16
                               queries and keys */
} tuff_family;

/* The library whose kernels compute matmuls. */
typedef enum tuff_matmul_library {
    TUFF_MATMUL_OWN,    /* the default */
    TUFF_MATMUL_CLBLAST /* CLBlast, loaded at run time, on OpenCL devices: for f32 matmuls whose operands have
                           contiguous rows or columns; tuff's own kernels for the others, and for products that by
                           what was measured so far take too long for one submission. Ops after such a matmul are
                           not fused into it. tuff_compile fails with TUFF_E_UNSUPPORTED if CLBlast is missing. CLBlast
                           compiles its kernels in the first run and may allocate device memory in every run. */
} tuff_matmul_library;

/* The precision of a plan: the type in which values are stored between kernels, whatever the dtypes of its graph.
   Arithmetic and accumulation are always f32. */
typedef enum tuff_precision {
    TUFF_PRECISION_F32, /* the default: as the graph's dtypes say */
    /* Mixed precision (Micikevicius et al. 2018): f32 intermediates are stored as f16, and f32 inputs, arrays and
       constants that a matmul reads are converted to f16 once per run, so that matmuls and attention read 16 bits.
       These stay f32 in memory: inputs, outputs and arrays; values stored by tuff_assign, and the gradients that they
       are computed from elementwise; the optimizer phase, and squares that are summed, because those of small gradients
       would become 0; scalars, results of reductions and of scatters, and everything computed from them at their own
       shape (losses, statistics of norms and of softmax); floats that are compared for equality, such as a maximum and
       its operand, floats that are cast to integers, and random numbers. Stores round to nearest even; values too large
       for f16 become infinities, and values below 2^-24 may become 0: scale losses (tuff/train.h). If a device cannot
       store 16 bits, values are rounded in the same way but stored in 32 bits, and the log (tuff_set_log) says so. The
       reference device ignores precision. */
    TUFF_PRECISION_F16,
    TUFF_PRECISION_BF16 /* the same with bf16: the range of f32, 8 bits of significand */
} tuff_precision;

/* How a graph is compiled. Set every field that you do not use to zero, the default of each. tuff_compile copies what
   it needs. */
typedef struct tuff_compile_options {
    tuff_fuse_mode fuse;
    tuff_family family;
    tuff_matmul_library matmul_library;
    bool barrier_everywhere; /* for debugging: a full barrier before every command. Results must not change */
    /* Do not compile the plan's kernels, which takes most of the time: the plan can be described (tuff_plan_describe,
       tuff_plan_task, tuff_plan_hash, inputs, outputs, keys), but running it is TUFF_E_USAGE. The driver may refuse a
       kernel that the tuner found elsewhere; a plan that runs then has another one. Tuning measures as always, but
       cannot be in the background. */
    bool describe_only;
    /* Limit in bytes on the peak size of intermediates (tuff_plan_info.memory_peak); 0: none. If the graph needs more,
       values that stay unused for a while are recomputed instead of kept, beginning with those that save the most
       memory for their cost, and no more of them than necessary; results stay within the same error bounds. If that is
       not enough, tuff_compile fails with TUFF_E_LIMIT and reports the lowest peak it reached. Inputs, outputs, arrays
       and constants do not count. The reference device ignores the limit. */
    uint64_t memory_budget;
    /* How kernels are tuned for the device; NULL: TUFF_TUNE_CACHED and the defaults of tuff/tune.h. Nothing is tuned
       with TUFF_FUSE_NONE, or with a family or library other than the default. */
    const tuff_tune_options *tuning;
    tuff_precision precision;
    /* The type to which f32 factors of matmuls may be rounded on devices that multiply 16-bit factors faster, on matrix
       units that the self-test proved; sums and results stay f32. This includes the products of attention. Nothing else
       changes, neither memory nor any other op, as with TF32 in other libraries. TUFF_PRECISION_F32, the default: no
       rounding. TUFF_PRECISION_BF16 keeps the range of f32 with 8 bits of significand; TUFF_PRECISION_F16 has 11 bits,
       and factors beyond 65504 become infinities. Ignored on other devices, on the reference device, and if precision
       already determines what matmuls read. */
    tuff_precision matmul_precision;
    uint32_t reserved[14];
} tuff_compile_options;

/* Compiles the graph for its device. options may be NULL: the defaults. Returns NULL on failure; tuff_last_status() and
   tuff_error() then give the reason: the graph's first error, an op that the device cannot run, memory. The graph may
   be extended and compiled again. Kernels are compiled on all processors at once where the driver can do that. The plan
   is verified before it can run, unless the environment has TUFF_VERIFY=0; a failed verification is TUFF_E_COMPILE.
   Destroy the plan with tuff_plan_destroy before the device is closed. */
TUFF_API tuff_plan *tuff_compile(tuff_graph *graph, const tuff_compile_options *options);
/* Waits for the plan's runs and frees it. NULL is allowed. On drivers that have to compile a kernel again to produce
   its binary (PoCL), this call produces and stores the binaries of kernels that ran, so that the next start compiles
   nothing. This takes at most half the time that the plan was in use, and as long again for kernels that an earlier
   start compiled but did not store. It happens once per kernel. */
TUFF_API void tuff_plan_destroy(tuff_plan *plan);

/* An input or output of a plan. */
typedef struct tuff_plan_value {
    const char *name; /* as given to tuff_input or tuff_output; valid as long as the plan */
    tuff_dtype dtype;
    tuff_shape shape;
    uint64_t size; /* bytes, row-major without padding */
    uint64_t reserved[4];
} tuff_plan_value;

/* Returns the number of inputs: all inputs of the graph, in building order, whether an output depends on them or not.
   -1 if plan is NULL. */
TUFF_API int tuff_plan_input_count(const tuff_plan *plan);
/* Returns the number of outputs, which are in the order of tuff_output. -1 if plan is NULL. */
TUFF_API int tuff_plan_output_count(const tuff_plan *plan);
/* Describes an input or output. index is 0 to count - 1; otherwise TUFF_E_USAGE. */
TUFF_API tuff_status tuff_plan_input_at(const tuff_plan *plan, int index, tuff_plan_value *value);
TUFF_API tuff_status tuff_plan_output_at(const tuff_plan *plan, int index, tuff_plan_value *value);
/* Returns the index of an input or output by name, valid as long as the plan; if there is none, returns -1 and sets the
   thread's last error to TUFF_E_USAGE. */
TUFF_API int tuff_plan_find_input(const tuff_plan *plan, const char *name);
TUFF_API int tuff_plan_find_output(const tuff_plan *plan, const char *name);

/* Copies an input's size bytes from data, which may be reused at once. Later runs see the new elements, earlier ones do
   not. TUFF_E_USAGE if the plan has no such input or size is not the input's. */
TUFF_API tuff_status tuff_plan_write(tuff_plan *plan, const char *name, const void *data, size_t size);
/* The same by index and for a part: bytes offset to offset + size of input `index`. offset and size are multiples of
   the dtype's size, and the part lies within the input. The first write to an input sets the bytes outside the part to
   zero; later writes leave them unchanged. A size of 0 writes nothing; it counts as a write only if the input has no
   elements. */
TUFF_API tuff_status tuff_plan_write_at(tuff_plan *plan, int index, uint64_t offset, const void *data, size_t size);
/* Enqueues one run and returns without waiting for it. Every input must have been written at least once; inputs keep
   their values from run to run. If the driver refuses to launch a candidate that the tuner found, the run fails; the
   tuner records that, and plans compiled afterwards use the next best candidate or the default. Waits for earlier runs
   if much work is pending, and on Vulkan now and then to divide the work into other parts. A run that fails, for
   example because such a wait ends with TUFF_E_TIMEOUT, may have enqueued a part of its work and changed some of the
   arrays that the plan assigns: write them again or load a checkpoint. */
TUFF_API tuff_status tuff_plan_run(tuff_plan *plan);
/* Waits for the runs enqueued so far, then copies an output's size bytes to data. TUFF_E_USAGE if the plan has no such
   output, size is not the output's, or no run has been enqueued yet. */
TUFF_API tuff_status tuff_plan_read(tuff_plan *plan, const char *name, void *data, size_t size);
/* The same by index and for a part: bytes offset to offset + size of output `index`. offset and size are multiples of
   the dtype's size, and the part lies within the output. A size of 0 reads nothing and does not wait. */
TUFF_API tuff_status tuff_plan_read_at(tuff_plan *plan, int index, uint64_t offset, void *data, size_t size);
/* Waits for everything enqueued on the plan's device, as tuff_device_wait does. */
TUFF_API tuff_status tuff_plan_wait(tuff_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
