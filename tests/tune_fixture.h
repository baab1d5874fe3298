/* A key and an environment that no device here has. */
#ifndef TESTS_TUNE_FIXTURE_H
#define TESTS_TUNE_FIXTURE_H

#include "tune/environment.h"
#include "tune/key.h"

extern const tune_key fixture_product;
extern const tune_environment fixture_board; /* a GPU behind OpenCL, with a driver 24.3 */

#endif
