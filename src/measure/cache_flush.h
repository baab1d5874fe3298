/* Cold weights: in a program, weights are out of the caches again by the next step, so they must be when a candidate is
   timed. Weights are what a run reads and never writes, and what is an array or was made from arrays by the setup. Each
   run reads them at another place in a pool. When the first place comes again, at least twice the size of the caches
   was read in between. The values do not matter for the time: all of the pool is one small number. */
#ifndef TUFF_MEASURE_CACHE_FLUSH_H
#define TUFF_MEASURE_CACHE_FLUSH_H

#include "exec/executable.h"

enum { COLD_PLACES = 32, MAX_WEIGHTS = 16 };

/* The parts of memory that a plan's runs read as weights; those past MAX_WEIGHTS stay where they are. */
typedef struct flushed_weights {
    struct cold_weight {
        const driver_buffer *buffer;
        uint64_t offset, size, at; /* at: from the beginning of a place */
    } all[MAX_WEIGHTS];
    int count;
    uint64_t size; /* of a place */
} flushed_weights;

/* Walks over the whole plan: once for each. */
void tuff__cache_flush_find(const executable *self, flushed_weights *out);

/* Bytes for the pool: twice the known caches, at most 512 MiB and a quarter of the memory; 0: that is too little. */
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

/* How many places the pool has for weights. 1: they stay where they are, because there are none, too few to matter, or
   more than the caches hold anyway. pool may be NULL. */
int tuff__cache_flush_places(const flushed_weights *weights, const cache_flush_pool *pool);
/* The place for the next run, the first of count in a row. */
int tuff__cache_flush_next(cache_flush_pool *self, int places, uint64_t size, int count);
/* Lets commands, copies of the plan's, read their weights at a place. */
void tuff__cache_flush_bind(const flushed_weights *weights, const cache_flush_pool *pool, int place, command *commands,
                            int count);

#endif
