/* What classes of devices take for what, roughly: for choices between plans. */
#ifndef TUFF_COMPILE_MACHINE_H
#define TUFF_COMPILE_MACHINE_H

#include "device/device.h"

/* Rough figures of a class of devices: they say which of two plans is better where the difference is large. */
typedef struct machine {
    double launch;    /* seconds from one dispatch to the next */
    double bandwidth; /* bytes a second */
    double cached;    /* the same of what is written and then read soon, where that is at most cache_size bytes */
    double cache_size;
    double rate; /* operations a second of one unit */
    int64_t units;
    int64_t tile_rows, tile_columns; /* of a matmul, in elements */
} machine;

machine tuff__machine_of(const tuff_device_info *info);

#endif
