/* The search space of a key: an axis for each tunable that lowering looked up, with the values worth trying. Whether a
   kernel can be made of a point is known only after lowering it. */
#ifndef TUFF_SEARCH_SPACE_H
#define TUFF_SEARCH_SPACE_H

#include "kernels/config.h"
#include "base/rng.h"

enum { AXIS_VALUES = 24 };

typedef struct space_axis {
    tunable parameter;
    int default_value;       /* the value that lowering takes by itself */
    int count;               /* of the values; 1: nothing to vary */
    int values[AXIS_VALUES]; /* rising; default is among them */
} space_axis;

/* Zero is a space of one point, the default. */
typedef struct tune_space {
    int count;
    space_axis axes[TUNABLE_COUNT];
} tune_space;

/* Adds the tunables that are set in `consulted`, with the values there as their default ones; those that the space has
   stay as they are. Values are the powers of two in the range of kernels.def, 0 if the range has it, for tiles also
   three quarters of the powers, and the default value. Returns how many axes were added. */
int tuff__space_add_tunables(tune_space *self, const tune_config *consulted);

/* The number of points, at most UINT64_MAX; and the point of an index, in no particular order. */
uint64_t tuff__space_count(const tune_space *self);
void tuff__space_at(const tune_space *self, uint64_t index, tune_config *out);
/* A point, all equally likely. */
void tuff__space_random(const tune_space *self, rng *from, tune_config *out);

/* Makes a configuration from elsewhere a point of the space: drops tunables that the space lacks, moves values to the
   nearest of their axis (the lesser of two), and drops values that are the default ones. */
void tuff__space_fit(const tune_space *self, tune_config *config);

/* Move number 0 to tuff__space_moves() - 1: the value of axis move / 2 goes up if move is even, else down. False at the
   end of the axis. The present value need not be one of the axis. */
int tuff__space_moves(const tune_space *self);
bool tuff__space_move(const tune_space *self, int move, tune_config *config);

#endif
