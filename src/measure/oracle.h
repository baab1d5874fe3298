/* The oracle for the results of kernels: the host's arithmetic in float64, with bounds on rounding. */
#ifndef TUFF_MEASURE_ORACLE_H
#define TUFF_MEASURE_ORACLE_H

#include "measure/test_buffers.h"

/* Compares the results that the test buffers keep as correct with the host's: all elements, or a sample if there are
   many. *fault describes the first difference, "" if there is none. TUFF_E_UNSUPPORTED: the host cannot compute the
   task, or would take too long. */
tuff_status tuff__oracle_check(tuff_device *device, const test_buffers *buffers, const struct fusion *fusion, int task,
                               char *fault, size_t size);
/* Runs a task of the same structure but with odd extents in the given configuration, and compares all results with the
   host's. kept: test buffers of a task that is too large for the host, or NULL. If that task is a matmul or attention,
   and its kept results are all 0 although the host's results for odd extents are not, they are wrong.
   TUFF_E_UNSUPPORTED, TUFF_E_LIMIT: there is no such task, or the configuration does not fit it. */
tuff_status tuff__oracle_check_ragged(tuff_device *device, const struct fusion *fusion,
                                      const tuff_compile_options *options, int task, const tune_config *config,
                                      const test_buffers *kept, char *fault, size_t size);

#endif
