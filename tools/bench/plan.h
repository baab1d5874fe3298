/* A plan as an implementation: its graph, its operands, its compilation. */
#ifndef TUFF_TOOLS_BENCH_PLAN_H
#define TUFF_TOOLS_BENCH_PLAN_H

#include "tools/bench/bench.h"

#define BENCH_OPERANDS 12

/* An operand of a graph under construction. */
typedef struct bench_operand {
    char name[16]; /* of an input; empty for an array */
    tuff_dtype dtype;
    tuff_shape shape;
    uint32_t seed;
    int64_t limit; /* i32 values lie in 0 .. limit - 1 */
} bench_operand;

typedef struct bench_plan {
    tuff_device *device;
    tuff_precision precision;
    tuff_graph *graph;
    tuff_plan *plan;
    bench_operand operands[BENCH_OPERANDS];
    int operand_count;
    tuff_array *arrays[BENCH_OPERANDS];
    int array_count;
    tuff_tensor *result; /* what is compared: the output "result" */
    tuff_status status;  /* of the building */
    bool waits;          /* after every run, not only after the last of a sample */
    bool only_submits;   /* what is timed is the host's part: the calls that hand recorded work to the device */
} bench_plan;

/* Builds the graph of a work into self->graph; what names the work. Sets self->result. */
typedef void (*bench_builder)(bench_plan *self, const void *problem);

/* For builders: an input that the host wrote once, or an array, which the compiler may treat as a weight. The values
   are those of bench_fill with the seed. */
tuff_tensor *bench_input(bench_plan *self, tuff_dtype dtype, tuff_shape shape, uint32_t seed);
tuff_tensor *bench_weight(bench_plan *self, tuff_dtype dtype, tuff_shape shape, uint32_t seed);
/* An input stored with the precision of the plan, as f32. */
tuff_tensor *bench_operand_input(bench_plan *self, tuff_shape shape, uint32_t seed);
/* i32 values in 0 .. limit - 1. */
tuff_tensor *bench_indices(bench_plan *self, tuff_shape shape, int64_t limit, uint32_t seed);
/* The gradients of y, times values of its shape where it has one, by count tensors: answers the first, makes outputs
   of the others. */
tuff_tensor *bench_backward(bench_plan *self, tuff_tensor *y, tuff_tensor *const *wrt, int count);

/* Compiles the work fused or not, and adds it. what must live for the call only. */
tuff_status bench_plan_add(bench *self, bench_work *work, const char *name, tuff_fuse_mode fuse, bench_builder build,
                           const void *problem);
/* A fact: whether the two run other kernels. Where they do not, the ratio of their times is the noise of the run. */
tuff_status bench_plan_compare(bench_work *work, const tuff_plan *baseline, const tuff_plan *tuned);
/* The work tuned as --tune says, as "tuff, tuned"; adds nothing without --tune. The implementation before it is the
   same untuned. */
tuff_status bench_plan_add_tuned(bench *self, bench_work *work, bench_builder build, const void *problem);
/* The work with its matmuls left to CLBlast, as a peer; adds nothing where that is absent. */
tuff_status bench_plan_add_clblast(bench *self, bench_work *work, bench_builder build, const void *problem);
/* Facts about the plan of the last implementation that was added: dispatches, memory. */
tuff_status bench_plan_facts(bench_work *work);
/* "tuff", tuned where that is asked for, and unfused. */
tuff_status bench_plan_add_both(bench *self, bench_work *work, bench_builder build, const void *problem);

#endif
