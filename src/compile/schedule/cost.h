/* The cost model: how long kernels take on an average processor of a class, before anything is compiled. There is one,
   for choices between graphs (in seconds), between tiles (in cycles of one step) and between candidates of a search (in
   cycles of a kernel). It tells which of two is better where the difference is large, and serves nothing else:
   tests/tune_recordings shows what it is worth. */
#ifndef TUFF_COMPILE_SCHEDULE_COST_H
#define TUFF_COMPILE_SCHEDULE_COST_H

#include "device/target.h"

/* Rough parameters of a class of devices, in seconds. */
typedef struct cost_parameters {
    double launch;    /* from one dispatch to the next */
    double bandwidth; /* bytes a second */
    double cached;    /* the same for what is written and then read soon, where that is at most cache_size bytes */
    double cache_size;
    double rate; /* operations a second of one unit */
    int64_t units;
    int64_t tile_rows, tile_columns; /* of a matmul, in elements */
} cost_parameters;

cost_parameters tuff__cost_parameters(const target *on);

/* Seconds of a batch of matmuls whose inner axis is split, with the sum over the parts. */
double tuff__cost_split_matmul(const target *on, int64_t batches, int64_t rows, int64_t columns, int64_t inner,
                               int64_t split_k);

/* Seconds of a kernel of so many groups that does so many operations and moves so many bytes. */
double tuff__cost_seconds(const target *on, double operations, double bytes, uint64_t groups);

/* Hardware registers that a vector of so many lanes takes: several, where the device's own vectors have fewer. */
int tuff__vector_registers(const target *on, int lanes);
/* Vector registers of a CPU core, by the lanes of its vectors. */
int tuff__cpu_registers(int lanes);
/* Cycles of one step along k of a tile on a CPU core: rows × vectors accumulators, of which those that find no register
   are loaded and stored in each step. */
double tuff__cost_tile_step(double rows, double vectors, int registers);

/* What a kernel does, as far as the model looks at it. */
typedef struct kernel_work {
    uint64_t groups;
    uint32_t local_size;
    int vec;
    int tile_rows, tile_columns; /* accumulators of an item, in vectors; 0: not known */
    double k;                    /* steps of each of them */
    double multiply_adds;        /* of the whole kernel, where there is no tile */
    uint32_t local_bytes;        /* of a group */
    double local_traffic;        /* bytes read by way of local memory */
    double bytes;                /* that must move from or to memory */
} kernel_work;

/* Cycles of a kernel. Only costs on one device can be compared. */
double tuff__cost_kernel(const target *on, const kernel_work *work);

#endif
