/* Products of matrices for matrix_units.c: their graphs, their numbers, and the check of results, which are compared
   with sums in double. */
#ifndef TUFF_TESTS_UNIT_PRODUCTS_H
#define TUFF_TESTS_UNIT_PRODUCTS_H

#include "tuff.h"

/* x of rows by inner, y of inner by columns; either may be transposed in memory. */
typedef struct product_case {
    int64_t rows, columns, inner, batches;
    bool x_turned, y_turned, epilogue;
    tuff_dtype x_dtype, y_dtype;
    tuff_precision precision, factors; /* of the plan; to which f32 factors of matmuls may be rounded */
    bool backwards;                    /* the terms of y are reversed in memory */
    bool narrow;                       /* the result is stored in 16 bits, as x is */
} product_case;

/* Returns multiples of 1/8 up to 2, which every dtype holds exactly. The caller frees them. */
double *random_numbers(int64_t count);
/* Which numbers the next calls return. */
void seed_numbers(uint32_t seed);
/* Writes numbers to an input of the plan. */
void write_numbers(tuff_plan *plan, const char *name, tuff_dtype dtype, const double *numbers, int64_t count);

/* Makes a graph of inputs "x" and "y" and the output "result", max(x y, 0) / 2 + column with the epilogue. */
tuff_graph *build_product(tuff_device *device, const product_case *one, bool epilogue);
/* How the product is compiled: on matrix units, in its precisions. */
tuff_compile_options product_options(const product_case *one);
/* Reads the result, of count elements, as f32. */
tuff_status read_result(tuff_plan *plan, const product_case *one, int64_t count, float *out);
/* Fails the test if got, the result for these x and y, deviates by more than rounding. */
void check_elements(const product_case *one, const double *x, const double *y, const float *got);

#endif
