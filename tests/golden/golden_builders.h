/* The table of builders of golden ops: see golden_ops.h. */
#ifndef TUFF_TESTS_GOLDEN_BUILDERS_H
#define TUFF_TESTS_GOLDEN_BUILDERS_H

#include "golden_ops.h"

#endif
