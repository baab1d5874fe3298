/* The part of the tuner's cache (tunedb/cache/cache.h) that depends on devices. */
#ifndef TUFF_API_CACHE_H
#define TUFF_API_CACHE_H

#include "tunedb/cache/cache.h"

/* Translates the argument of --device and tuff_cache_open for the stores: a device number such as "opencl:0" becomes
   the environment of that device, any other text is passed through. buffer has ENVIRONMENT_SIZE bytes.
   TUFF_E_NO_DEVICE. */
tuff_status tuff__cache_resolve_device(const char *device, char *buffer, const char **out);
/* Tells the cache, once, which devices this machine has. They are described, not opened. */
tuff_status tuff__cache_list_local_devices(tuff_cache *self);

#endif
