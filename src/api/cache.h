/* What the tuner's memory (tune/cache.h) needs to know of devices. */
#ifndef TUFF_API_CACHE_H
#define TUFF_API_CACHE_H

#include "tunedb/cache/cache.h"

/* What --device and tuff_cache_open take, as the stores know it: the environment of a device that is here where it is
   named by its number ("opencl:0"), else the text itself. buffer has ENVIRONMENT_SIZE bytes. TUFF_E_NO_DEVICE. */
tuff_status tuff__cache_select(const char *device, char *buffer, const char **out);
/* Tells the cache which devices are here, once. They are described, not opened. */
tuff_status tuff__cache_find_here(tuff_cache *self);

#endif
