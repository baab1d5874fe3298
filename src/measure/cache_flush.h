/* Weights as a program meets them: gone from the caches since the last step. What a plan's runs read and never write,
   and what is an array or was made of arrays before the first run, is read from another place in a pool each time; when
   the first place comes again, at least twice what the caches hold was read in between. Values do not change how long a
   kernel takes; all of the pool are the same small number. */
#ifndef TUFF_MEASURE_CACHE_FLUSH_H
#define TUFF_MEASURE_CACHE_FLUSH_H

#include "exec/executable.h"

enum { COLD_PLACES = 32, MOST_WEIGHTS = 16 };

/* The parts of memory that a plan's runs read as weights; those past MOST_WEIGHTS stay where they are. */
typedef struct flushed_weights {
    struct cold_weight {
        const driver_buffer *buffer;
        uint64_t offset, size, at; /* at: from the beginning of a place */
    } all[MOST_WEIGHTS];
    int count;
    uint64_t size; /* of a place */
} flushed_weights;

/* Walks over the whole plan: once for each. */
void tuff__cache_flush_find(const executable *self, flushed_weights *out);

/* Bytes that a pool should have: twice the caches, as far as they are known, at most 512 MiB and a quarter of the
   memory; 0: too little for the caches. */
uint64_t tuff__cache_flush_pool_size(const tuff_device *device);
/* Where all candidates of a device read their weights, one behind the other: also those of one round of a race. Zeroed
   but for its size it is one, whose memory is made where it is needed first. */
typedef struct cache_flush_pool {
    storage *memory;
    uint64_t size, next; /* next: where the next run begins to read. size 0: there is none, weights are warm */
} cache_flush_pool;

/* Makes and fills its memory, if it has none; without room for it there is no pool from now on. */
tuff_status tuff__cache_flush_pool_fill(tuff_device *device, cache_flush_pool *self);
void tuff__cache_flush_pool_free(cache_flush_pool *self);

/* How many places the pool has for weights; 1: they stay where they are, because there are none, so few that what they
   take does not matter, or more than the caches hold anyway. pool may be NULL. */
int tuff__cache_flush_places(const flushed_weights *weights, const cache_flush_pool *pool);
/* The place for the next run; so many are taken. */
int tuff__cache_flush_take(cache_flush_pool *self, int places, uint64_t size, int count);
/* Lets commands, copies of the plan's, read their weights at a place. */
void tuff__cache_flush_bind(const flushed_weights *weights, const cache_flush_pool *pool, int place, command *commands,
                            int count);

#endif
