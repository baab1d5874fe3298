/* The measured times of many candidates of one key: a device that a search can be run on again and again. Files are
   JSON Lines, a header and then a line for each candidate:

     {"t":"space","v":1,"name":TEXT,"device":TEXT,"default":CANDIDATE,"roofline":NS}
     {"t":"point","c":CANDIDATE,"g":GROUP_ITEMS,"p":PROGRAM,"e":COST,"ns":[NS...]}
     {"t":"point","c":CANDIDATE,"g":GROUP_ITEMS,"p":PROGRAM,"d":1,"why":VERDICT}

   default has every tunable that was consulted, with the value it has by default; the others as in kernels/config.h.
   ns are times of single runs in the order they were taken in, the first one right behind the compiling. PROGRAM is a
   number that candidates of equal programs share. COST: what lowering foresaw, as schedule/cost.h says. why: what was
   found instead of times. d: the point was drawn at random; where a recording has some of a space only, the others
   are near good ones, and luck would find them less often. */
#ifndef TUFF_BENCH_RECORDER_RECORDING_H
#define TUFF_BENCH_RECORDER_RECORDING_H

#include "base/alloc.h"
#include "search/search.h"

typedef struct recorded_point {
    tune_config config;
    uint64_t program; /* not 0 */
    uint32_t group_items;
    double cost;             /* 0: not known */
    bool drawn;              /* at random */
    tune_evaluation verdict; /* GOOD: there are times */
    int count;
    const uint64_t *nanoseconds;
    uint64_t median; /* of all times but the first, by recording_add; 0 where there are none */
} recorded_point;

/* Zero is empty. Texts and times belong to the recording. */
typedef struct recording {
    const char *name, *device;
    tune_config defaults;
    uint64_t roofline; /* 0: not known */
    recorded_point *points;
    int count, capacity;
    int *index; /* by hash; 0: free, else a point's number plus 1 */
    int index_size;
    arena memory;
} recording;

/* The header; texts are copied. */
tuff_status recording_begin(recording *self, const char *name, const char *device, const tune_config *defaults,
                            uint64_t roofline);
/* Copies a point and its times. TUFF_E_USAGE where the choice is there already. */
tuff_status recording_add(recording *self, const recorded_point *point);
void recording_free(recording *self);

/* NULL where it was not recorded. */
const recorded_point *recording_find(const recording *self, const tune_config *candidate);
/* What a choice from elsewhere sets here: without what was not consulted, or is the default value. */
tune_config recording_reduce(const recording *self, const tune_config *candidate);
uint64_t recording_best(const recording *self); /* the least median */

/* Appends the header's line, or a point's. */
void recording_print_header(const recording *self, text *out);
void recording_print_point(const recorded_point *point, text *out);
/* Reads a file. TUFF_E_FORMAT names the line, TUFF_E_UNSUPPORTED a tunable or version that is not known. */
tuff_status recording_read(const char *path, recording *out);
tuff_status recording_parse(const char *name, const char *source, size_t size, recording *out);

#endif
