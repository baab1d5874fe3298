/* The verifier of plans: proves the properties of launches over planned memory that running them relies on, from the
   launches, the memory and the graph. It shares no code with the passes that made them; of fusion's decisions it takes
   only the layouts of parts of a whole as given. */
#ifndef TUFF_COMPILE_LOWER_VERIFY_LAUNCHES_H
#define TUFF_COMPILE_LOWER_VERIFY_LAUNCHES_H

#include "compile/lower/lower.h"

/* Proves, for memory that was planned and allocated:
   - every node of the rewritten graph has the shape and dtype that its op makes of its inputs, which come before it;
   - every binding lies inside its storage; a part lies at its place in the whole and has its type; every address of a
     chain's stores, and of its loads and lookups without a guard, lies inside its buffer;
   - a launch that stores something has items, a map as many as it has points, and no two items store one element;
   - everything that is read was written before, whole and by one task, or by the host, and not overwritten since;
   - scratch that is updated in place, or used again by the next part of a task's work, was left there by the right
     launch (`handovers` in verify_launches.c) and is used by the next one, and the keys of a scatter are sorted once
     each;
   - memory that a launch both reads and writes is read and written in step, element by element;
   - every output and every assigned array holds its whole value at the end, in its type;
   - the next run finds inputs, constants, arrays to which nothing is assigned, and kept copies unchanged, and the
     sources of those copies do not change in a run.
   Fails with TUFF_E_COMPILE and a message that names launch and node if one of these does not hold: a compiler bug.

   Not checked: what kernels compute; where bodies without a chain (operands of products, attention, packing, scatters,
   conversions) load and store, which are assumed to write their results whole; the number of groups, except for maps;
   whether scratch is written whole; what a launch reads of a result that it also writes, as sums of columns do. */
tuff_status tuff__verify_launches(const launch_list *list);

#endif
