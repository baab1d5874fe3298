/* Weights as a program meets them: gone from the caches since the last step. What a plan's runs read and never write,
   and what is an array or was made of arrays before the first run, is read from another place in a pool each time; when
   the first place comes again, at least twice what the caches hold was read in between. Values do not change how long a
   kernel takes; all of the pool are the same small number. */
#ifndef TUFF_RUN_COLD_H
#define TUFF_RUN_COLD_H

#include "run/plan.h"

enum { COLD_PLACES = 32, MOST_WEIGHTS = 16 };

/* The parts of memory that a plan's runs read as weights; those past MOST_WEIGHTS stay where they are. */
typedef struct cold_weights {
    struct cold_weight {
        const driver_buffer *buffer;
        uint64_t offset, size, at; /* at: from the beginning of a place */
    } all[MOST_WEIGHTS];
    int count;
    uint64_t size; /* of a place */
} cold_weights;

/* Walks over the whole plan: once for each. */
void tuff__cold_find(const tuff_plan *plan, cold_weights *out);

/* Bytes that a pool should have: twice the caches, as far as they are known, at most 512 MiB and a quarter of the
   memory; 0: too little for the caches. */
uint64_t tuff__cold_pool_size(const tuff_device *device);
/* Where all candidates of a device read their weights, one behind the other: also those of one round of a race. */
typedef struct cold_pool {
    storage *memory;
    uint64_t size, next; /* next: where the next run begins to read */
} cold_pool;

/* Makes and fills one; and frees its memory. */
tuff_status tuff__cold_pool_create(tuff_device *device, uint64_t size, cold_pool *out);
void tuff__cold_pool_free(cold_pool *self);

/* How many places the pool has for weights; 1: they stay where they are, because there are none, so few that what they
   take does not matter, or more than the caches hold anyway. */
int tuff__cold_places(const cold_weights *weights, const cold_pool *pool);
/* The place for the next run; so many are taken. */
int tuff__cold_take(cold_pool *self, int places, uint64_t size, int count);
/* Lets commands, copies of the plan's, read their weights at a place. */
void tuff__cold_bind(const cold_weights *weights, const cold_pool *pool, int place, command *commands, int count);

#endif
