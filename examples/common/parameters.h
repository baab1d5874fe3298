/* Creates a model's parameters on a device, with initial values. */
#ifndef TUFF_EXAMPLES_PARAMETERS_H
#define TUFF_EXAMPLES_PARAMETERS_H

#include "example.h"

/* Creates and initializes the parameters of a model. If noise > 0, constants get normal noise of that size and copies
   get values of their own, so that a check does not depend on zeros, ones or equal layers. The caller destroys the set.
   NULL on failure. */
tuff_parameters *example_parameters_make(const example *model, const void *config, tuff_device *device, uint64_t seed,
                                         double noise);
/* Why an object that needs memory of the host too is NULL: the status of the last error of tuff, TUFF_E_OOM_HOST if
   tuff has not failed. */
tuff_status example_creation_status(void);

#endif
