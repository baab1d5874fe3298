/* The op suite: every primitive of ops.def, in every dtype that it takes, over shapes and values that break kernels,
   run on a device and held against the float64 reference, element by element. `tuff verify` prints its results, and
   tests/every_op.c demands that there are no failures; tests/gradients.c differentiates the same cases. */
#ifndef TUFF_TOOLS_VERIFY_SUITE_H
#define TUFF_TOOLS_VERIFY_SUITE_H

#include "ops/ops.h"
#include "tuff/graph.h"

typedef enum suite_fill {
    FILL_RANDOM, /* uniform between low and high */
    FILL_EDGES,  /* NaN, infinities, zeros, denormals, the largest numbers, and ones, each against each */
    FILL_MIXED   /* edges first, then random */
} suite_fill;

/* How an operand reaches the op: as it lies in memory, or through a view that the kernel must index. */
typedef enum suite_view { VIEW_NONE, VIEW_PERMUTED, VIEW_FLIPPED } suite_view;

typedef struct suite_operand {
    tuff_dtype dtype;
    tuff_shape shape;
    double low, high;
    suite_fill fill;
} suite_operand;

#define SUITE_MAX_OPERANDS 4

/* One use of an op. */
typedef struct suite_case suite_case;
struct suite_case {
    op_code op;
    const char *name; /* the op's, or the composite's */
    tuff_dtype dtype; /* the dtype under test */
    int operand_count;
    suite_operand operands[SUITE_MAX_OPERANDS];
    suite_view view;
    int parameter; /* what the op needs besides operands: a mask of axes, an axis, a dtype, a variant */
    /* Adds the op to a graph; operands have the shapes above. */
    tuff_tensor *(*build)(const suite_case *tried, tuff_graph *graph, tuff_tensor *const *operands);
};

/* Writes case index (from 0) of an op in a dtype; false where there are no more, or none at all: the op does not take
   the dtype. */
bool suite_case_at(op_code op, tuff_dtype dtype, int index, suite_case *out);

/* The same for composite index of nn.h. Its op is one that is judged by the carried bound. */
bool suite_composite_at(int index, tuff_dtype dtype, suite_case *out);

/* Whether a case belongs to the short suite. Addressing is the same code for all elementwise ops and for all dtypes,
   and a program a case is what time goes into: so f32 and one op of each kind see every shape, the others the telling
   ones. */
bool suite_is_telling(op_code op, tuff_dtype dtype, int index);

/* The values of an operand, rounded to its dtype. seed chooses among random ones. Caller frees (tuff__free); NULL where
   memory ran out. */
double *suite_values(const suite_case *test, int operand, uint32_t seed);

/* What one op did in one dtype on a device. */
typedef struct suite_result {
    op_code op;
    tuff_dtype dtype;
    int case_count;
    int64_t element_count;
    int64_t failure_count; /* elements beyond their bar, and cases that could not run */
    double worst;          /* the largest error over its bar: at most 1 where all is well */
    char failure[384];     /* the first failure in words; empty where there is none */
} suite_result;

/* Zero is default. */
typedef struct suite_options {
    tuff_compile_options compile;
    uint32_t seed;
    bool thorough; /* every op in every shape and view; else the views of one op stand for those of its kind */
} suite_options;

/* Runs all cases of an op in a dtype. False where the op does not take the dtype: *result is then untouched. options
   may be NULL. */
bool suite_run(tuff_device *device, op_code op, tuff_dtype dtype, const suite_options *options, suite_result *result);

/* Runs one case and adds what it did to *result. */
void suite_run_case(tuff_device *device, const suite_case *test, const suite_options *options, suite_result *result);

/* Compiles a case for the device and shows the plan, which lives as long as the call; returns what use returns, or why
   there is no plan. */
tuff_status suite_with_plan(tuff_device *device, const suite_case *test, const tuff_compile_options *options,
                            tuff_status (*use)(void *state, const tuff_plan *plan), void *state);

/* How far a result is from its reference, over what is allowed: at most 1 where it passes. of and dtype tell the rule;
   bound is the reference's first-order error bound; keeps_denormals: the device is known not to flush them. */
double suite_error_ratio(const suite_case *test, tuff_dtype dtype, bool keeps_denormals, double got, double reference,
                         double bound);

#endif
