/* Entries of the cache folder: bytes under a key text, proved undamaged before anybody sees them. Used for programs and
   for what self-tests found. The cache is optional: every failure means "not found" or "not kept". */
#ifndef TUFF_DEVICE_PROGRAM_CACHE_H
#define TUFF_DEVICE_PROGRAM_CACHE_H

#include "device/driver.h"

/* kind ends the file's name: "program", "seen" (a program's text, without its bytes) or "device". */
typedef struct cache_key {
    const char *kind, *text;
} cache_key;

/* Whether there is a folder: where there is none, nobody need make bytes for it. */
bool tuff__cache_is_on(void);
/* True where the folder has a whole entry for exactly this key; payload->data is freed by the caller. */
bool tuff__cache_load(cache_key key, blob *payload);
void tuff__cache_store(cache_key key, blob payload);
/* Removes an entry that turned out to be of no use. */
void tuff__cache_drop(cache_key key);

/* Bytes of programs that may lie in the folder when a tuner is done with it. */
#define CACHE_LIMIT ((uint64_t)1 << 30)
/* Where programs take more than that: removes those that were not read or written for the longest time, down to half of
   it. */
void tuff__cache_trim(uint64_t most);

#endif
