/* Graphs to be timed: their inputs and weights, filled with reproducible values, and the time of their plans. */
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
    int64_t limit; /* i32 values are in 0 .. limit - 1 */
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
    tuff_tensor *result; /* compared between implementations: the output "result" */
    tuff_status status;  /* of building */
    bool waits;          /* after every run, not only after the last of a sample */
    bool only_submits;   /* measures only the calls that submit recorded commands */
} bench_plan;

/* Builds the graph of a work in self->graph and sets self->result. problem describes the work. */
typedef void (*bench_builder)(bench_plan *self, const void *problem);

/* For builders: an input that the host writes once, or an array, which the compiler may treat as a weight. The values
   are those of bench_fill with this seed. */
tuff_tensor *bench_input(bench_plan *self, tuff_dtype dtype, tuff_shape shape, uint32_t seed);
tuff_tensor *bench_weight(bench_plan *self, tuff_dtype dtype, tuff_shape shape, uint32_t seed);
/* An input stored in the precision of the plan, cast to f32. */
tuff_tensor *bench_operand_input(bench_plan *self, tuff_shape shape, uint32_t seed);
/* An input with i32 values in 0 .. limit - 1. */
tuff_tensor *bench_indices(bench_plan *self, tuff_shape shape, int64_t limit, uint32_t seed);
/* The gradients of y with respect to `count` tensors; if y is not a scalar, of y times values of its shape. Returns the
   first gradient and makes the others outputs. */
tuff_tensor *bench_backward(bench_plan *self, tuff_tensor *y, tuff_tensor *const *wrt, int count);

/* Compiles the work, fused or unfused, and adds it. problem needs to live only during the call. */
tuff_status bench_plan_add(bench *self, bench_work *work, const char *name, tuff_fuse_mode fuse, bench_builder build,
                           const void *problem);
/* Adds a fact: whether the two plans run different kernels. If not, the ratio of their times is just the noise of the
   run. */
tuff_status bench_plan_compare(bench_work *work, const tuff_plan *baseline, const tuff_plan *tuned);
/* Adds the work tuned as --tune says, as "tuff, tuned", or nothing without --tune. The previous implementation must be
   the same work untuned. */
tuff_status bench_plan_add_tuned(bench *self, bench_work *work, bench_builder build, const void *problem);
/* Adds the work with its matmuls left to CLBlast, as a peer, or nothing if CLBlast is absent. */
tuff_status bench_plan_add_clblast(bench *self, bench_work *work, bench_builder build, const void *problem);
/* Adds facts about the plan of the implementation added last: dispatches, memory. */
tuff_status bench_plan_facts(bench_work *work);
/* Adds facts about a plan and its unfused form: dispatches, memory. */
tuff_status bench_plan_pair_facts(bench_work *work, const tuff_plan *fused, const tuff_plan *unfused);
/* Adds "tuff", "tuff, tuned" if --tune requests it, and "tuff, unfused". */
tuff_status bench_plan_add_both(bench *self, bench_work *work, bench_builder build, const void *problem);

#endif
