/* The search space of a key: an axis for each tunable that lowering read, with the values worth trying. Whether a point
   results in a kernel is known only after lowering it. */
#ifndef TUFF_SEARCH_SPACE_H
#define TUFF_SEARCH_SPACE_H

#include "kernels/config.h"
#include "base/rng.h"

enum { AXIS_VALUES = 24 };

typedef struct space_axis {
    tunable parameter;
    int default_value;       /* the value that lowering chooses by itself */
    int count;               /* number of values; 1: nothing to vary */
    int values[AXIS_VALUES]; /* ascending, including the default */
} space_axis;

/* All zero is a space of one point, the default. */
typedef struct tune_space {
    int count;
    space_axis axes[TUNABLE_COUNT];
} tune_space;

/* Adds the tunables that are set in `used_tunables`, with their values there as defaults; existing axes stay as they
   are. An axis has the values worth trying within the range of kernels.def: every value if these are alternatives
   (tuff__tunable_is_choice), else 0 and the powers of two, for tiles also three quarters of those; and the default.
   Returns the number of axes added. */
int tuff__space_add_tunables(tune_space *self, const tune_config *used_tunables);

/* Returns the number of points, at most UINT64_MAX; the point with the given index, in no particular order. */
uint64_t tuff__space_count(const tune_space *self);
void tuff__space_at(const tune_space *self, uint64_t index, tune_config *out);
/* Draws a point uniformly. */
void tuff__space_random(const tune_space *self, rng *from, tune_config *out);

/* Makes a configuration from elsewhere a point of the space: drops tunables that the space lacks, replaces values with
   the nearest ones of their axes (the lesser of two), and drops values that are the defaults. */
void tuff__space_fit(const tune_space *self, tune_config *config);

/* Moves are numbered 0 to tuff__space_moves() - 1: the value of axis move / 2 goes up if move is even, else down.
   tuff__space_move returns false at the end of the axis. The current value need not be on the axis. */
int tuff__space_moves(const tune_space *self);
bool tuff__space_move(const tune_space *self, int move, tune_config *config);

#endif
