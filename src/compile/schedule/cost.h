/* The cost model: how long kernels take on an average processor of a class, before anything is compiled. One model
   serves choices between graphs (in seconds), between tiles (in cycles of one step) and between candidates of a search
   (in cycles of a kernel). It only says which of two is better if they differ a lot; tests/search/tune_recordings.c
   measures how well. */
#ifndef TUFF_COMPILE_SCHEDULE_COST_H
#define TUFF_COMPILE_SCHEDULE_COST_H

#include "device/target.h"

/* Rough parameters of a class of devices, in seconds. */
typedef struct cost_parameters {
    double launch;    /* from one dispatch to the next */
    double bandwidth; /* bytes per second */
    double cached;    /* the same for data read soon after it was written, if at most cache_size bytes */
    double cache_size;
    double rate; /* operations per second of one unit */
    int64_t units;                   /* processors, see target.h */
    int64_t tile_rows, tile_columns; /* of a matmul's tile, in elements */
} cost_parameters;

cost_parameters tuff__cost_parameters(const target *device);

/* A batch of matmuls. */
typedef struct matmul_batch {
    int64_t batches, rows, columns, inner;
    bool has_strides; /* the terms of both operands lie apart in memory */
} matmul_batch;
/* Seconds of matmuls whose inner axis is split, including the sum over the parts. */
double tuff__cost_split_matmul(const target *device, const matmul_batch *product, int64_t split_k);

/* How the tiles of a matmul are distributed over groups. */
typedef struct tile_shares {
    int64_t whole;   /* tiles that have a group each; they come first */
    int64_t sharers; /* groups that share the terms of all other tiles evenly; 0: there are no others */
} tile_shares;

enum { SHARERS_OF_UNIT = 2 }; /* usual number: while one waits at a barrier, the other multiplies */

/* Distributes tiles with so many terms each: whole waves of `wave` tiles; what is left is shared, by at most as many
   groups, if that gives each of them less than a tile. */
tile_shares tuff__share_tiles(int64_t tiles, int64_t terms, int64_t wave);
/* Seconds of tiles of that size, each of which takes a unit tile_seconds, if they are distributed so. If none are
   shared, units idle during the last wave; else partial sums are stored, and added by a second launch. */
double tuff__cost_shared_tiles(const target *device, const tile_shares *shares, int64_t tiles, int64_t tile_elements,
                               double tile_seconds);

/* Seconds of a kernel with that many groups, operations and bytes moved. */
double tuff__cost_seconds(const target *device, double operations, double bytes, uint64_t groups);

/* Hardware registers that a vector of so many lanes takes: several if the device's own vectors are narrower. */
int tuff__vector_registers(const target *device, int lanes);
/* Vector registers of a CPU core whose vectors have so many lanes. */
int tuff__cpu_registers(int lanes);
/* Cycles of one step along k of a tile on a CPU core: rows × vectors accumulators. Those that do not fit into registers
   are loaded and stored in each step. */
double tuff__cost_tile_step(double rows, double vectors, int registers);

/* What the model knows of a kernel. */
typedef struct kernel_work {
    uint64_t groups;
    uint32_t local_size;
    int vec;
    int tile_rows, tile_columns; /* accumulators of an item, in vectors; 0: unknown */
    double k;                    /* steps of each accumulator */
    double multiply_adds;        /* of the whole kernel; used if it has no tile */
    uint32_t local_bytes;        /* local memory of a group */
    double local_traffic;        /* bytes read through local memory */
    double bytes;                /* that must move from or to memory */
} kernel_work;

/* Cycles of a kernel. Costs are comparable only on one device. */
double tuff__cost_kernel(const target *device, const kernel_work *work);

#endif
