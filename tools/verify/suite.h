/* The op suite: every primitive of ops.def, in every dtype it takes, with shapes and values that break kernels, run on
   a device and compared with the float64 reference, element by element. `tuff verify` prints its results,
   tests/ops/every_op.c requires that nothing fails, and tests/graph/gradients.c differentiates the same cases. */
#ifndef TUFF_TOOLS_VERIFY_SUITE_H
#define TUFF_TOOLS_VERIFY_SUITE_H

#include "ops/ops.h"
#include "tuff/graph.h"

typedef enum suite_fill {
    FILL_RANDOM, /* uniform between low and high */
    FILL_EDGES,  /* NaN, infinities, zeros, denormals, the largest numbers and ones, in all combinations */
    FILL_MIXED   /* edges first, then random */
} suite_fill;

/* How an operand reaches the op: directly, or through a view that the kernel must index. */
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
    const char *name; /* of the op or the composite */
    tuff_dtype dtype; /* under test */
    int operand_count;
    suite_operand operands[SUITE_MAX_OPERANDS];
    suite_view view;
    int parameter; /* further argument of the op: a mask of axes, an axis, a dtype, a variant */
    /* Adds the op to a graph. The operands have the shapes above. */
    tuff_tensor *(*build)(const suite_case *tried, tuff_graph *graph, tuff_tensor *const *operands);
};

/* Gets case number `index` (from 0) of an op in a dtype. Returns false after the last one, or if the op does not take
   the dtype. */
bool suite_case_at(op_code op, tuff_dtype dtype, int index, suite_case *out);

/* The same for composite number `index` of nn.h. Its op is one that is judged by the carried bound. */
bool suite_composite_at(int index, tuff_dtype dtype, suite_case *out);

/* Whether a case belongs to the short suite. All elementwise ops and all dtypes share the code for addressing, and
   compiling one program per case takes most of the time. So only f32 and one op of each kind see every shape, the
   others just the most informative ones. */
bool suite_is_in_short_suite(op_code op, tuff_dtype dtype, int index);

/* Returns the values of an operand, rounded to its dtype. seed determines the random ones. The caller frees them
   (tuff__free); NULL if out of memory. */
double *suite_values(const suite_case *test, int operand, uint32_t seed);

/* The result of an op in one dtype on a device. */
typedef struct suite_result {
    op_code op;
    tuff_dtype dtype;
    int case_count;
    int64_t element_count;
    int64_t failure_count; /* elements beyond their error bar, and cases that could not run */
    double worst;          /* largest error divided by its bar; at most 1 if all passed */
    char failure[384];     /* the first failure as text, or empty */
} suite_result;

/* Zero selects the default. */
typedef struct suite_options {
    tuff_compile_options compile;
    uint32_t seed;
    bool thorough; /* every op in every shape and view; else some ops stand for their kind */
} suite_options;

/* Runs all cases of an op in a dtype. Returns false, and leaves *result unchanged, if the op does not take the dtype.
   options may be NULL. */
bool suite_run(tuff_device *device, op_code op, tuff_dtype dtype, const suite_options *options, suite_result *result);

/* Runs one case and adds its result to *result. */
void suite_run_case(tuff_device *device, const suite_case *test, const suite_options *options, suite_result *result);

/* Compiles a case for the device and passes the plan, which lives only during the call, to `use`. Returns the status of
   `use`, or why there is no plan. */
tuff_status suite_with_plan(tuff_device *device, const suite_case *test, const tuff_compile_options *options,
                            tuff_status (*use)(void *state, const tuff_plan *plan), void *state);

/* Error of a result divided by its error bar: at most 1 if it passes. test and dtype determine the rule. bound: the
   reference's first-order error bound. keeps_denormals: the device is known not to flush them. */
double suite_error_ratio(const suite_case *test, tuff_dtype dtype, bool keeps_denormals, double got, double reference,
                         double bound);

#endif
