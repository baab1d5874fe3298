/* Drivers that end the loops of a kernel early, without an error (tuff_device_info.loop_limit): which launches loop for
   longer, and what shortens their loops. */
#ifndef TUFF_COMPILE_LOWER_LOOP_LIMIT_H
#define TUFF_COMPILE_LOWER_LOOP_LIMIT_H

#include "compile/lower/launch_list.h"

/* How many iterations the loops of an item take together in a launch, at most. */
double tuff__loop_steps(const launch *kernel);
/* The first launch from there on with more iterations than the driver allows, or NULL. */
const launch *tuff__find_long_loop(const launch_list *list, int first);
/* Defaults for another attempt, from 0 on, at a task whose loops are too long; false: there are no more. */
bool tuff__shorten_loops(int attempt, tune_config *defaults);
/* TUFF_E_LIMIT, with the op, its extents and the driver's limit. */
tuff_status tuff__refuse_long_loop(const launch_list *list, const launch *kernel);

#endif
