/* A key and an environment that no device here has, and the store of one that is here. */
#ifndef TESTS_TUNE_FIXTURE_H
#define TESTS_TUNE_FIXTURE_H

#include "tuff/graph.h"
#include "tunedb/environment.h"
#include "tunedb/key.h"
#include "tunedb/store.h"

extern const tune_key fixture_product;
extern const tune_environment fixture_board; /* a GPU behind OpenCL, with a driver 24.3 */

/* The device's store, and its environment's text in ENVIRONMENT_SIZE bytes; fails the test where it does not open. */
tune_store *open_device_store(tuff_device *device, char *environment);

/* The first record of a kind whose reason is that one, or any where it is NULL; NULL where there is none. */
const tune_record *find_store_record(const tune_store *store, record_kind kind, const char *reason);

#endif
