/* Golden training runs: see golden_common.h. The header makes this file part of other programs, no program of its
   own. */
#ifndef TUFF_TESTS_GOLDEN_TRAINING_H
#define TUFF_TESTS_GOLDEN_TRAINING_H

#include "golden_common.h"

#endif
