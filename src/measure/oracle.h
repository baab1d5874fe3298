/* Who says what is right when the tuner looks at kernels: the host's arithmetic in float64, with bounds on what
   rounding may do. */
#ifndef TUFF_MEASURE_ORACLE_H
#define TUFF_MEASURE_ORACLE_H

#include "measure/test_buffers.h"

/* Compares what the test buffers keeps as right with what the host computes, at all places, or at some where they are
   many. *wrong is a line about the first difference, "" where there is none. TUFF_E_UNSUPPORTED: the host would need
   too long, or cannot: nothing is said. */
tuff_status tuff__oracle_ground(tuff_device *device, const test_buffers *buffers, const struct fusion *fusion, int task,
                                char *wrong, size_t size);
/* Runs a task of the same structure, but of odd extents, by a choice, and compares all it stores with the host's.
   kept: the test buffers of a task that the host cannot do as it is: a product or attention whose kept results are 0
   throughout is wrong where the host has others here; NULL: there is none.
   TUFF_E_UNSUPPORTED, TUFF_E_LIMIT: there is no such task, or this choice is not for it. */
tuff_status tuff__oracle_ragged(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                                int task, const tune_config *config, const test_buffers *kept, char *wrong,
                                size_t size);

#endif
