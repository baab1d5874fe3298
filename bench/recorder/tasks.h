/* The tasks that tuff-recorder measures: at least one of every family of kernels, the same ones on every device. */
#ifndef TUFF_BENCH_RECORDER_TASKS_H
#define TUFF_BENCH_RECORDER_TASKS_H

#include "tuff.h"

enum { RECORD_ARRAYS = 3, RECORD_DIMS = 4 };

/* A graph while a task is built, and the arrays that it reads. */
typedef struct record_graph {
    tuff_device *device;
    tuff_graph *graph;
    tuff_array *arrays[RECORD_ARRAYS];
    int input_count, array_count;
    tuff_status status; /* of what is no part of the graph */
} record_graph;

typedef struct record_task {
    const char *name;   /* begins with the family and a dash, and says the sizes */
    const char *family; /* of the key that is measured */
    bool last;          /* the last of the graph's keys of that family; else the first */
    void (*build)(record_graph *self, const int64_t *sizes);
    int64_t sizes[RECORD_DIMS];
} record_task;

/* Rows end with one whose name is NULL. */
extern const record_task record_tasks[];

/* self is to be ended whatever is returned. */
tuff_status record_graph_build(tuff_device *device, const record_task *task, record_graph *self);
void record_graph_end(record_graph *self);

#endif
