/* The executor of the reference device: evaluates the nodes of a graph in float64, one by one. Values stay double
   between ops; inputs, outputs, casts and assigned arrays are rounded to their dtypes. */
#ifndef TUFF_EXEC_REFERENCE_H
#define TUFF_EXEC_REFERENCE_H

#include "graph/graph.h"

typedef struct reference_plan reference_plan;

/* Takes ownership of the graph, which must have no error and no dead nodes; not on failure. */
tuff_status tuff__reference_create(tuff_graph *graph, reference_plan **out);
void tuff__reference_destroy(reference_plan *plan); /* NULL is allowed */
/* Writes an input by name, as a whole. */
tuff_status tuff__reference_write(reference_plan *plan, const char *name, const void *data, size_t size);
tuff_status tuff__reference_run(reference_plan *plan);

/* Inputs and outputs by index, in the order of the graph. The caller must check indices, offsets and sizes: bytes of
   whole elements within the value. Before the first write, elements are zero. */
int tuff__reference_input_count(const reference_plan *plan);
int tuff__reference_output_count(const reference_plan *plan);
const tuff_tensor *tuff__reference_input(const reference_plan *plan, int index, const char **name);
const tuff_tensor *tuff__reference_output(const reference_plan *plan, int index, const char **name);
tuff_status tuff__reference_write_at(reference_plan *plan, int index, uint64_t offset, const void *data, size_t size);
tuff_status tuff__reference_read_at(reference_plan *plan, int index, uint64_t offset, void *data, size_t size);

/* The same in double, without rounding to the dtypes of inputs and outputs, for gradient checks and as a reference for
   other devices. An array has as many values as the input or output has elements. If bounds are enabled, runs also
   compute first-order error bounds (see ops/ops.h), taking inputs as exact; tuff__reference_read_bounds reads them. */
tuff_status tuff__reference_write_double(reference_plan *plan, const char *name, const double *values);
tuff_status tuff__reference_read_double(reference_plan *plan, const char *name, double *values);
void tuff__reference_enable_bounds(reference_plan *plan, bool enabled);
/* Makes bounds allow any float value to be rounded to this dtype, f16 or bf16, because plans of that precision round
   some. */
void tuff__reference_set_storage(reference_plan *plan, tuff_dtype dtype);
/* The same only for the weights of attention, which matrix units take as 16-bit factors. */
void tuff__reference_set_factors(reference_plan *plan, tuff_dtype dtype);
/* For callers that accept `slack` times the bounds: wherever results jump, as in comparisons, operands may be off by as
   much. */
void tuff__reference_set_slack(reference_plan *plan, double slack);
tuff_status tuff__reference_read_bounds(reference_plan *plan, const char *name, double *bounds);

/* Rounding of intermediate values, as in kernels that store fewer bits: by how much such runs of a program differ shows
   how far rounding moves its results. The arrays are indexed by node id. 11 bits imply the smallest number of f16;
   nothing overflows. */
typedef struct reference_rounding {
    const unsigned char *results;  /* bits of the significand that a result is rounded to; 0: not rounded */
    const unsigned char *operands; /* the same for operands as a node reads them */
    const unsigned char *inner;    /* the same for what attention computes for each query and key */
    double stretch;                /* values are scaled by it before rounding and back after: 1 to 2 */
} reference_rounding;
/* rounding must outlive the runs. NULL: no rounding. */
void tuff__reference_set_rounding(reference_plan *plan, const reference_rounding *rounding);

#endif
