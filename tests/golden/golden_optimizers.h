/* Golden cases of optimizers: see golden_ops.h. */
#ifndef TUFF_TESTS_GOLDEN_OPTIMIZERS_H
#define TUFF_TESTS_GOLDEN_OPTIMIZERS_H

#include "golden_ops.h"

#endif
