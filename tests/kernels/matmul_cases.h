/* Trials of one matmul on a device, against sums in double, element by element. */
#ifndef TUFF_TESTS_MATMUL_CASES_H
#define TUFF_TESTS_MATMUL_CASES_H

#include "exec/plan.h"
#include "tuff.h"

/* The memory layouts of operands. MIDDLE: the batch is between rows and terms, like agents or heads. */
typedef enum form { PLAIN, X_TRANSPOSED, Y_TRANSPOSED, BOTH_TRANSPOSED, BATCHED, MIDDLE } form;

typedef struct shape_case {
    int64_t rows, columns, inner, batches;
    form form;
    tuff_dtype dtype; /* of y */
} shape_case;

/* The kernels that a plan is expected to contain; NULL: any. */
typedef struct kernel_choice {
    const char *body, *sums; /* NULL: any; the kernel that adds partial sums */
    bool for_gpus;
    const char *config; /* tunables of the matmul; NULL: the defaults */
} kernel_choice;

/* Compiles and runs the matmul with several operands, alone or with an epilogue; y is an array whose elements change
   between runs, or an input. Fails the test if an element is wrong, or if the plan lacks a kernel that was expected;
   choice may be NULL. */
void try_case(tuff_device *device, const char *name, const shape_case *one, bool epilogue, bool array,
              const tuff_compile_options *options, const kernel_choice *choice);
/* Builds the matmul of inputs "x" and "y" as output "result". */
void build_case(const shape_case *one, tuff_graph *graph);
/* Whether a launch of the plan has this body. */
bool has_kernel(const tuff_plan *plan, const char *body);
/* Draws a number below count, of a sequence that all trials share; begin_sequence starts it anew. */
int64_t random_below(int64_t count);
void begin_sequence(uint64_t seed);

#endif
