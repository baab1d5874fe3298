/* Golden training runs: see golden_common.h. Because of this header the .c file is part of other programs instead of a
   program of its own. */
#ifndef TUFF_TESTS_GOLDEN_TRAINING_H
#define TUFF_TESTS_GOLDEN_TRAINING_H

#include "golden_common.h"

#endif
