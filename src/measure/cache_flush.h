/* Cold weights: in a program, weights have left the caches by the next step, so they must not be cached either when a
   candidate is timed. Weights are buffers that a run reads and never writes, if they are arrays or were made from
   arrays by the setup. Each run reads them at another place in a pool. By the time the first place comes up again, at
   least twice the size of the caches has been read. The values do not affect the time: all of the pool is one small
   number. */
#ifndef TUFF_MEASURE_CACHE_FLUSH_H
#define TUFF_MEASURE_CACHE_FLUSH_H

#include "exec/executable.h"

enum { COLD_PLACES = 32, MAX_WEIGHTS = 16 };

/* The parts of memory that a plan's runs read as weights; those beyond MAX_WEIGHTS stay where they are. */
typedef struct flushed_weights {
    struct cold_weight {
        const driver_buffer *buffer;
        uint64_t offset, size, at; /* at: offset from the beginning of a place */
    } all[MAX_WEIGHTS];
    int count;
    uint64_t size; /* of a place */
} flushed_weights;

/* Finds the weights. Reads the whole plan, so call it only once for each. */
void tuff__cache_flush_find(const executable *self, flushed_weights *out);

/* Returns the size of the pool in bytes: twice the known caches, at most 512 MiB and a quarter of the memory; 0 if that
   is too little. */
uint64_t tuff__cache_flush_pool_size(const tuff_device *device);
/* The memory from which all candidates of a device read their weights, each run continuing where the last one stopped,
   also within a round of a race. A pool that is zero except for size is valid: its memory is created at first use. */
typedef struct cache_flush_pool {
    storage *memory;
    uint64_t size, next; /* next: where the next run begins to read. size 0: no pool, weights are warm */
} cache_flush_pool;

/* Creates and fills the memory of a pool that has none. If there is no room for it, the pool is disabled for good. */
tuff_status tuff__cache_flush_pool_fill(tuff_device *device, cache_flush_pool *self);
void tuff__cache_flush_pool_free(cache_flush_pool *self);

/* Returns the number of places that the pool has for the weights. 1: they stay where they are, because there are none,
   too few to matter, or more than the caches hold anyway. pool may be NULL. */
int tuff__cache_flush_places(const flushed_weights *weights, const cache_flush_pool *pool);
/* Returns the place for the next run, the first of `count` consecutive ones. */
int tuff__cache_flush_next(cache_flush_pool *self, int places, uint64_t size, int count);
/* Makes commands, which are copies of the plan's, read their weights at the given place. */
void tuff__cache_flush_bind(const flushed_weights *weights, const cache_flush_pool *pool, int place, command *commands,
                            int count);

#endif
