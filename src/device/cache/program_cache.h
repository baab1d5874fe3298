/* Entries of the cache folder: bytes stored under a key text, and checked for damage before they are returned. Used for
   programs and for self-test results. The cache is optional: every failure means "not found" or "not kept". */
#ifndef TUFF_DEVICE_CACHE_PROGRAM_CACHE_H
#define TUFF_DEVICE_CACHE_PROGRAM_CACHE_H

#include "device/driver.h"

/* kind is the extension of the file name: "program", "seen" (marks the text of a program whose bytes were not kept),
   "pipelines" (those that a Vulkan driver compiled) or "device". */
typedef struct cache_key {
    const char *kind, *text;
} cache_key;

/* Whether there is a cache folder. If not, bytes need not be made for it. */
bool tuff__program_cache_is_on(void);
/* Returns true if the folder has an intact entry for exactly this key; the caller frees payload->data. */
bool tuff__program_cache_load(cache_key key, blob *payload);
/* Returns whether the entry is in the folder now. */
bool tuff__program_cache_store(cache_key key, blob payload);
/* Removes an entry that turned out to be unusable. */
void tuff__program_cache_drop(cache_key key);

/* How many bytes of programs may stay in the folder when a tuner is done with it. */
#define CACHE_LIMIT ((uint64_t)1 << 30)
/* If the programs, the marks of those seen and the pipelines take more than `limit` bytes, removes the least recently
   used ones (read or written) until half of that is left. */
void tuff__program_cache_trim(uint64_t limit);

#endif
