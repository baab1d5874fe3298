/* The tasks that tuff-recorder measures: at least one of each kernel family, the same on every device. */
#ifndef TUFF_BENCH_RECORDER_TASKS_H
#define TUFF_BENCH_RECORDER_TASKS_H

#include "tuff.h"

enum { RECORD_ARRAYS = 3, RECORD_DIMS = 4 };

/* The graph of a task, while it is built and used, and the arrays that it reads. */
typedef struct record_graph {
    tuff_device *device;
    tuff_graph *graph;
    tuff_array *arrays[RECORD_ARRAYS];
    int input_count, array_count;
    tuff_status status; /* first error outside the graph, such as a failed allocation of an array */
} record_graph;

typedef struct record_task {
    const char *name;   /* the family, a dash and the sizes */
    const char *family; /* of the measured key */
    bool last;          /* measures the graph's last key of that family, else the first */
    void (*build)(record_graph *self, const int64_t *sizes);
    int64_t sizes[RECORD_DIMS];
} record_task;

/* The last row has the name NULL. */
extern const record_task record_tasks[];

/* The caller must call record_graph_end even if this fails. */
tuff_status record_graph_build(tuff_device *device, const record_task *task, record_graph *self);
void record_graph_end(record_graph *self);

#endif
