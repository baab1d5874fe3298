/* What a search may vary for one key: the tunables that lowering asked for, and the values worth trying of each.
   Whether a kernel can be made of a point only lowering knows. */
#ifndef TUFF_SEARCH_SPACE_H
#define TUFF_SEARCH_SPACE_H

#include "kernels/config.h"
#include "base/rng.h"

enum { AXIS_VALUES = 24 };

typedef struct space_axis {
    tunable parameter;
    int usual;               /* the value that lowering takes by itself */
    int count;               /* of the values; 1: nothing to vary */
    int values[AXIS_VALUES]; /* rising; usual is among them */
} space_axis;

/* Zero is a space of one point, the default. */
typedef struct tune_space {
    int count;
    space_axis axes[TUNABLE_COUNT];
} tune_space;

/* Adds the tunables that are set in `consulted`, with the values there as their usual ones; those that the space has
   stay as they are. Values are powers of two within the range of kernels.def, 0 where that is in it, of tiles also
   three quarters of them, and the usual one. Answers how many were added. */
int tuff__space_take(tune_space *self, const tune_config *consulted);

/* How many points there are, at most UINT64_MAX; and each of them, by an index from 0, in no order that means much. */
uint64_t tuff__space_count(const tune_space *self);
void tuff__space_at(const tune_space *self, uint64_t index, tune_config *out);
/* A point, all equally likely. */
void tuff__space_random(const tune_space *self, rng *from, tune_config *out);

/* Makes a choice from elsewhere one of the space's points: tunables that the space lacks go, values move to the nearest
   of the axis (the lesser of two), and what is the usual one is not set. */
void tuff__space_fit(const tune_space *self, tune_config *config);

/* Moves number 0 to tuff__space_moves() - 1: axis move / 2 to its next value, up where move is even, else down. False
   where there is none. The value of the choice need not be one of the axis. */
int tuff__space_moves(const tune_space *self);
bool tuff__space_move(const tune_space *self, int move, tune_config *config);

#endif
