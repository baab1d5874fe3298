/* Small plans that tests of the tuner compile in different ways, and whose results they compare. */
#ifndef TESTS_PRODUCT_RUNS_H
#define TESTS_PRODUCT_RUNS_H

#include "tuff.h"

enum { ROWS = 24, INNER = 32, COLUMNS = 48 };

typedef struct product_result {
    float y[ROWS * COLUMNS];
} product_result;

/* Compiles and runs a matmul of ROWS × INNER and INNER × COLUMNS, or the softmax of its rows. Returns the statistics of
   its tuning. */
tuff_tune_stats run_product(tuff_device *device, const tuff_compile_options *options, product_result *out);
tuff_tune_stats run_softmax_of_product(tuff_device *device, const tuff_compile_options *options, product_result *out);
bool are_close(const product_result *a, const product_result *b);

#endif
