/* Persistent kernels: on devices whose groups keep running, consecutive short launches of an executable are recorded as
   one dispatch of a kernel that runs them all. */
#ifndef TUFF_EXEC_PERSISTENT_H
#define TUFF_EXEC_PERSISTENT_H

#include "device/device.h"

struct executable;
struct recording_options;

/* The commands that are recorded in place of an executable's. Zero: it is recorded as it is. */
typedef struct persistent_launches {
    command *commands;
    int *first; /* by command: the first of the executable's commands that it runs */
    int command_count;
    bool *is_member; /* by command of the executable: runs in a persistent kernel */
    storage *rows, *counters;
} persistent_launches;

/* Finds the launches to be merged, and makes their program, the last of self->programs. Leaves self->persistent zero if
   there are too few of them, or if the driver cannot build the program. The commands of the executable have their
   bindings, and no programs. */
tuff_status tuff__persistent_create(struct executable *self, const struct recording_options *options);
/* Frees *self after a failure. Returns whether launches that are not merged may succeed; the log then says why. */
bool tuff__persistent_give_up(persistent_launches *self, tuff_status why);
/* Copies the programs of the other commands, once they are known. */
void tuff__persistent_copy_programs(struct executable *self);
void tuff__persistent_free(persistent_launches *self);

#endif
