/* Tuning in another process: the program's side, which is the thread of a plan's background as a rule. It finds the
   keys, says when there may be measuring, and makes plans ready; the helper (tools/tune_helper.c) measures, on a device
   that it opens for itself, and may be ended by a candidate. */
#ifndef TUFF_RUN_HELPER_H
#define TUFF_RUN_HELPER_H

#include "base/bytes.h"
#include "device/driver.h"
#include "run/tuner_parts.h"

struct background;
typedef struct helper helper;

/* What a helper is to do. Texts are where the message is. */
typedef struct helper_job {
    char cache[FOLDER_SIZE]; /* "": none */
    char selector[128], environment[ENVIRONMENT_SIZE], log[FOLDER_SIZE];
    tuff_compile_options options;
    tuff_tune_options tuning; /* of a job that was read: what options.tuning points at. progress is set, to nothing
                                     of use, where the program wants to hear */
    bool is_whole;            /* the graph is the program's, all of it is to be measured at once, and what follows
                                     down to graph_key is found there */
    int buffer_limit;         /* as the plan was fused with */
    choice passes;            /* likewise */
    tune_key graph_key;       /* of that, as tuff_plan.graph_key */
    uint64_t compile_patience;
    hash128 keys; /* tuff__helper_keys of the program's; nothing where is_whole */
    const void *graph;
    size_t graph_size;
} helper_job;
/* Of all subjects' keys, in their order. */
hash128 tuff__helper_keys(const tuner *of);
void tuff__helper_put_job(text *out, const helper_job *job);
/* TUFF_E_FORMAT where it is none. */
tuff_status tuff__helper_take_job(byte_reader *from, helper_job *out);

/* Starts one, where there is one to be had: sets self->helper, or leaves it NULL after a message. The tuner has looked
   up its keys. Only host memory can be lacking. */
tuff_status tuff__helper_start(struct background *self);
/* Ends it, in order where the plan goes on without. NULL is allowed. */
void tuff__helper_end(struct background *self);
void tuff__helper_free(struct background *self);

/* The silicon is the helper's, as of now. */
bool tuff__helper_take_silicon(struct background *self);
void tuff__helper_leave_silicon(struct background *self);
/* A program into the cache folder; only says so where that failed. */
void tuff__helper_compile(struct background *self, const program_request *what);
/* As tuff__tuner_measure_one. A helper that ends over it is started again, twice at most; after that self->helper is
   NULL. */
tuff_status tuff__helper_measure(subject *of, uint64_t budget);

/* For a compilation that waits: as tuff__tuner_measure where the silicon is taken, in helpers. Without one nothing is
   measured, and a warning says so. Only host memory can be lacking; in `refitted` as there. */
tuff_status tuff__helper_measure_whole(tuner *of);

#endif
