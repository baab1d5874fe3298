/* Synthetic recordings, about as hard to search as the recorded spaces of other libraries for which the search was
   designed. At most one point in a thousand is within 5 % of the best; the median takes two to three times as long
   (less in a flat family). The best of 8 random points reaches 0.67 of the best speed and that of 256 points 0.88
   (recorded spaces: 0.68 and 0.91). Registers and local memory end in cliffs. A device's best point reaches 0.5 to 1.0
   of the best speed on another device of its family. Times scatter by 1 %, occasionally by much more, and the first
   sample after compiling means little. */
#ifndef TESTS_SYNTHETIC_SPACE_H
#define TESTS_SYNTHETIC_SPACE_H

#include "bench/recorder/recording.h"

enum { SYNTHETIC_FAMILIES = 3, SYNTHETIC_DEVICES = 5, SYNTHETIC_PORTFOLIO = 8 };

/* Creates a recording, the same for equal arguments. Families: 0 blocks in local memory, 1 tiles in registers, 2
   memory-bound, flat. */
void synthetic_space(int family, int device, recording *out);
/* Chooses eight configurations that cover all recordings of a family but one, greedily from the best points of each. */
void synthetic_portfolio(const recording *of_family, int count, int but, tune_config *out);

#endif
