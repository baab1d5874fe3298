/* Made-up recordings, about as hard to search as the recorded spaces of other libraries that the search was designed
   on: one point in a thousand or fewer is within 5 % of the best, the middle one takes two to three times as long (in
   a flat family: less), random points reach 0.67 of the best after 8 and 0.88 after 256 (recorded ones: 0.68 and 0.91);
   registers and local memory end in cliffs; a device's best is 0.5 to 1.0 as good on another of its family; times
   scatter by 1 %, now and then by much more, and the first behind a compiling means little. */
#ifndef TESTS_SYNTHETIC_SPACE_H
#define TESTS_SYNTHETIC_SPACE_H

#include "bench/recorder/recording.h"

enum { SYNTHETIC_FAMILIES = 3, SYNTHETIC_DEVICES = 5, SYNTHETIC_PORTFOLIO = 8 };

/* The same for equal numbers. Families: 0 blocks in local memory, 1 tiles in registers, 2 bound by memory, flat. */
void synthetic_space(int family, int device, recording *out);
/* Eight choices that cover all recordings of a family but one: greedily, out of the best of each. */
void synthetic_portfolio(const recording *of_family, int count, int but, tune_config *out);

#endif
