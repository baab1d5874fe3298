/* The verifier of plans: proves of launches over planned memory what running them relies on, from the launches, the
   memory and the graph. No code is shared with the passes that made them; of what fusion decided it takes one thing as
   given, the layouts of parts of a whole. */
#ifndef TUFF_COMPILE_LOWER_VERIFY_H
#define TUFF_COMPILE_LOWER_VERIFY_H

#include "compile/lower/lower.h"

/* Proves, for memory that was planned and allocated:
   - every node of the rewritten graph has the shape and dtype that its op makes of its inputs, which come before it;
   - every binding lies inside its storage, a part where its whole has it and of its type; every address of a chain's
     store, and of its loads and lookups without a guard, inside its buffer;
   - a launch that stores something has items, a map as many as its points need, and no two of them store one element;
   - what is read was written before, whole and by one task, or by the host, and not overwritten since;
   - scratch that is changed in place, or used again by the next part of one task's work, was left there by the launch
     that belongs before (`handed_on` in verify.c), is used by the one that belongs behind, and the keys of a scatter
     are sorted each once;
   - memory that a launch both reads and writes is read and written in step, element by element;
   - every output and every assigned array holds its whole value at the end, in its type;
   - the next run finds inputs, constants, arrays that nobody assigns to, and kept copies as they were, and what those
     copies are made from does not change in a run.
   TUFF_E_COMPILE with a message that names launch and node where one of these is not so: a fault of the compiler.

   Not looked at: what kernels compute; where bodies that are no chains (operands of products, attention, packing,
   scatters, conversions) load and store, who are taken to write their results whole; the groups of all but maps;
   whether scratch is written whole; what a launch reads of a result that it writes too, as sums in columns do. */
tuff_status tuff__verify_launches(const launch_list *list);

#endif
