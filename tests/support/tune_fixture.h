/* A tuning key and an environment that match no real device, and the store of a real one. */
#ifndef TESTS_TUNE_FIXTURE_H
#define TESTS_TUNE_FIXTURE_H

#include "tuff/graph.h"
#include "tunedb/environment.h"
#include "tunedb/key.h"
#include "tunedb/store.h"

extern const tune_key fixture_product;
extern const tune_environment fixture_board; /* a GPU on OpenCL with driver 24.3 */

/* Opens the device's store and writes its environment's text to ENVIRONMENT_SIZE bytes. Fails the test if it does not
   open. */
tune_store *open_device_store(tuff_device *device, char *environment);

/* Returns the first record of a kind with that reason, or with any if reason is NULL; NULL if there is none. */
const tune_record *find_store_record(const tune_store *store, record_kind kind, const char *reason);

#endif
