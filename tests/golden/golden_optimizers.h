/* Golden cases of optimizers are in golden_optimizers.c: see golden_ops.h. */
#ifndef TUFF_TESTS_GOLDEN_OPTIMIZERS_H
#define TUFF_TESTS_GOLDEN_OPTIMIZERS_H

#include "golden_ops.h"

#endif
