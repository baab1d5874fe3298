/* The verifier of plans: proves of launches over planned memory what running them relies on, from the launches, the
   memory and the graph. No code is shared with the passes that made them; of what fusion decided it takes one thing as
   given, the layouts of parts of a whole. */
#ifndef TUFF_COMPILE_VERIFY_H
#define TUFF_COMPILE_VERIFY_H

#include "compile/lower.h"

/* Proves, for memory that was planned and allocated:
   - every node of the rewritten graph has the shape and dtype that its op makes of its inputs, which come before it;
   - every binding lies inside its storage, every address of a store and every unguarded address of a load inside its
     buffer;
   - a launch that stores something has items, no two of which store the same element;
   - what is read was written before, whole and by one task, or by the host, and not overwritten since;
   - memory that a launch both reads and writes is read and written in step, element by element;
   - every output and every assigned array holds its whole value at the end, copies kept between runs too.
   TUFF_E_COMPILE with a message that names launch and node where one of these is not so: a fault of the compiler. */
tuff_status tuff__verify_lowered(const lowered *of);

#endif
