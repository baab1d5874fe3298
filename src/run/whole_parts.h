/* Between the files of trials of whole graphs: stage.c has the graph and its arrays, whole.c the plans of it,
   whole_check.c looks at results. */
#ifndef TUFF_RUN_WHOLE_PARTS_H
#define TUFF_RUN_WHOLE_PARTS_H

#include "run/whole.h"

/* A storage of the program, and the one that stands for it. */
typedef struct mirrored {
    storage *from, *to;
    bool is_assigned; /* plans change what it holds */
    storage *first;   /* then: what it held at first */
} mirrored;

/* What a run leaves behind: an output, or (memory set) an array that was assigned. */
typedef struct result {
    const char *name;       /* of an output */
    const mirrored *memory; /* of an array */
    uint64_t offset, size;
    tuff_dtype dtype;
    void *right, *last; /* as it should be, and as it was seen last */
} result;

struct stage {
    tuff_device *device, *from;
    tuff_graph *graph; /* a copy of the program's */
    tuff_compile_options options;
    stage_guard guard;
    uint64_t most, used, own; /* own: of used, without plans */
    mirrored *storages;
    int storage_count, storage_capacity;
    tuff_array **arrays; /* of the graph; owned */
    int array_count, array_capacity;
    recording *restoring; /* of what storages held at first; NULL: none is assigned */
    result *results;
    int result_count;
    bool is_narrow;
    whole *first; /* all plans, the last used first */
};

struct whole {
    stage *on;
    choice by;
    tuff_plan *plan;    /* NULL while others have its memory */
    program **programs; /* then its programs, which are not compiled again */
    int program_count;
    uint64_t size; /* that it takes of the stage's bytes */
    whole *next;
};

/* Puts the plan into the stage's memory, where it is not; it is the last that makes way for others then. */
tuff_status tuff__whole_load(whole *self);

#endif
