/* Recordings: the measured times of many candidates of one key, on which searches can be replayed. Files are JSON
   Lines, a header and then a line for each candidate:

     {"t":"space","v":1,"name":TEXT,"device":TEXT,"default":CANDIDATE,"roofline":NS}
     {"t":"point","c":CANDIDATE,"g":GROUP_ITEMS,"p":PROGRAM,"e":COST,"ns":[NS...]}
     {"t":"point","c":CANDIDATE,"g":GROUP_ITEMS,"p":PROGRAM,"d":1,"why":EVALUATION}

   default has every tunable that lowering read, with its default value; kernels/config.h describes candidates. ns:
   times of single runs in the order of measurement, the first right after compilation. PROGRAM: a number that
   candidates with equal programs share. COST: the prediction of schedule/cost.h. why: the reason for which there are no
   times. d: the point was drawn at random. If a recording covers only part of a space, the other points lie near good
   ones and are therefore faster than random ones. */
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
    tune_evaluation result;  /* there are times if it is GOOD */
    int count;
    const uint64_t *nanoseconds;
    uint64_t median; /* see recording_median; set by recording_add */
} recorded_point;

/* Zero-initialized: empty. Owns its texts and times. */
typedef struct recording {
    const char *name, *device;
    tune_config defaults;
    uint64_t roofline; /* 0: not known */
    recorded_point *points;
    int count, capacity;
    int *index; /* hash table; 0: free, else the index of a point plus 1 */
    int index_size;
    arena memory;
} recording;

/* Begins a recording with its header; copies the texts. */
tuff_status recording_begin(recording *self, const char *name, const char *device, const tune_config *defaults,
                            uint64_t roofline);
/* Copies a point and its times. Fails with TUFF_E_USAGE if the candidate already has one. */
tuff_status recording_add(recording *self, const recorded_point *point);
void recording_free(recording *self);

/* Returns NULL if the candidate was not recorded. */
const recorded_point *recording_find(const recording *self, const tune_config *candidate);
/* Returns a candidate without the tunables that lowering does not read here or that have their default values. */
tune_config recording_reduce(const recording *self, const tune_config *candidate);
uint64_t recording_best(const recording *self); /* returns the least median */

/* Returns the median of all times but the first, right after compilation; of that one if it is the only one; 0 if there
   are none. */
uint64_t recording_median(const uint64_t *times, int count);

/* Append the line of the header or of a point. */
void recording_print_header(const recording *self, text *out);
void recording_print_point(const recorded_point *point, text *out);
/* Reads a file. Fails with TUFF_E_FORMAT, and a message with the line, or with TUFF_E_UNSUPPORTED for an unknown
   tunable or version. */
tuff_status recording_read(const char *path, recording *out);
tuff_status recording_parse(const char *name, const char *source, size_t size, recording *out);

#endif
