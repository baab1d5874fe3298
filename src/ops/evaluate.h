/* Shared by the files of the float64 reference: layouts and iteration over them, bounds of sums, and the function of
   each op. The entry point is evaluate.c. */
#ifndef TUFF_OPS_EVALUATE_H
#define TUFF_OPS_EVALUATE_H

#include "ops/ops.h"

/* Half a unit in the last place of f32, as a relative error. */
#define UNIT 5.9604644775390625e-08

/* Positions of elements: offset and stride of each axis, in elements. */
typedef struct layout {
    int64_t offset;
    int64_t stride[TUFF_MAX_RANK];
} layout;

layout tuff__row_major(tuff_shape shape);
/* Calls visit for every run of shape in row-major order: the count elements along the last axis, which begin at a and b
   in two layouts and have the steps step_a and step_b there. */
typedef void (*run_visitor)(void *user, int64_t a, int64_t b, int64_t count, int64_t step_a, int64_t step_b);
void tuff__for_each_run(tuff_shape shape, const layout *a, const layout *b, run_visitor visit, void *user);

/* Returns the bound on the rounding error of a sum of count terms in any order. */
double tuff__gamma(double count);

/* Evaluates one or several ops: `count` elements of e->value and, unless it is NULL, e->error. One function serves all
   elementwise rows of ops.def; the column `evaluate` names those of the other rows. */
typedef tuff_status (*evaluator)(const evaluation *e, int64_t count);
tuff_status tuff__evaluate_elementwise(const evaluation *e, int64_t count);
#define ELEMENTWISE(...)
#define SPECIAL(code, name, inputs, kinds, pattern, operands, axes, attributes, cost, evaluate, ...) \
    tuff_status tuff__evaluate_##evaluate(const evaluation *e, int64_t count);
#include "ops/ops.def"

/* Returns the random number in [0, 1) of element index, for the seed and ordinal of the attributes. */
double tuff__random_uniform(const op_attributes *attributes, int64_t index, double step);

/* Returns the value that 32-bit arithmetic keeps of an integer. Floats and bools are returned unchanged. */
double tuff__wrap(tuff_dtype dtype, double value);

#endif
