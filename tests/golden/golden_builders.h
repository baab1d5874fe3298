/* The table from the names of golden ops to tuff's functions is golden_builders.c: see golden_ops.h. */
#ifndef TUFF_TESTS_GOLDEN_BUILDERS_H
#define TUFF_TESTS_GOLDEN_BUILDERS_H

#include "golden_ops.h"

#endif
