/* Some drivers end the loops of a kernel early, without an error (tuff_device_info.loop_limit). This file finds
   launches that exceed the limit, and configurations with shorter loops. */
#ifndef TUFF_COMPILE_LOWER_LOOP_LIMIT_H
#define TUFF_COMPILE_LOWER_LOOP_LIMIT_H

#include "compile/lower/launch_list.h"

/* Returns an upper bound of the iterations of all loops of an item. */
double tuff__loop_steps(const launch *kernel);
/* Returns the first launch, from index `first` on, with more iterations than the driver allows, or NULL. */
const launch *tuff__find_long_loop(const launch_list *list, int first);
/* Sets *defaults to those of another attempt (counted from 0) at a task whose loops are too long. Returns false if
   there are no more. */
bool tuff__shorten_loops(int attempt, tune_config *defaults);
/* Fails with TUFF_E_LIMIT; the message names the op, its extents and the driver's limit. */
tuff_status tuff__refuse_long_loop(const launch_list *list, const launch *kernel);

#endif
