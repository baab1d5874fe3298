/* The executor of the reference device: walks a graph with the float64 evaluator. Values between ops stay double;
   inputs, outputs, casts and assigned arrays round to their dtypes. */
#ifndef TUFF_EXEC_REFERENCE_H
#define TUFF_EXEC_REFERENCE_H

#include "graph/graph.h"

typedef struct reference_plan reference_plan;

/* Takes the graph, which must have no error and no dead nodes, and destroys it with the plan (on failure it does
   not). */
tuff_status tuff__reference_create(tuff_graph *graph, reference_plan **out);
void tuff__reference_destroy(reference_plan *plan); /* NULL is allowed */
/* By name, all of it. */
tuff_status tuff__reference_write(reference_plan *plan, const char *name, const void *data, size_t size);
tuff_status tuff__reference_read(reference_plan *plan, const char *name, void *data, size_t size);
tuff_status tuff__reference_run(reference_plan *plan);

/* Inputs and outputs by index, in the order of the graph. Indices, offsets and sizes are checked by the caller: bytes
   of whole elements within the value. The first write of a part makes the rest zeros. */
int tuff__reference_input_count(const reference_plan *plan);
int tuff__reference_output_count(const reference_plan *plan);
const tuff_tensor *tuff__reference_input(const reference_plan *plan, int index, const char **name);
const tuff_tensor *tuff__reference_output(const reference_plan *plan, int index, const char **name);
tuff_status tuff__reference_write_at(reference_plan *plan, int index, uint64_t offset, const void *data, size_t size);
tuff_status tuff__reference_read_at(reference_plan *plan, int index, uint64_t offset, void *data, size_t size);

/* The same in double, past the dtypes of inputs and outputs: for gradient checks and for references of other devices.
   Values count as many as the input or output has elements. bounds: runs carry first-order error bounds as well (see
   ops/ops.h), for inputs that are exact; tuff__reference_bounds reads them. */
tuff_status tuff__reference_write_double(reference_plan *plan, const char *name, const double *values);
tuff_status tuff__reference_read_double(reference_plan *plan, const char *name, double *values);
void tuff__reference_carry_bounds(reference_plan *plan, bool carry);
/* Bounds allow that any float value was rounded to this dtype, f16 or bf16, as plans of that precision round some. */
void tuff__reference_set_storage(reference_plan *plan, tuff_dtype dtype);
/* Of that only the weights of attention, which its matrix units have as factors of 16 bits. */
void tuff__reference_set_factors(reference_plan *plan, tuff_dtype dtype);
/* Whoever allows so many times the bounds lets steps, such as a comparison's, be crossed by as much. */
void tuff__reference_set_slack(reference_plan *plan, double slack);
tuff_status tuff__reference_read_bounds(reference_plan *plan, const char *name, double *bounds);

/* Runs that round on the way, as kernels do which store with fewer bits: what such runs of one program differ by says
   how far rounding moves its results. Both lists are by the id of a node of the plan's graph. 11 bits have the least
   number of f16; nothing overflows. */
typedef struct reference_rounding {
    const unsigned char *results;  /* bits of the significands that a result is rounded to; 0: as it is */
    const unsigned char *operands; /* the same of what a node reads of its operands */
    double stretch;                /* of the grid that is rounded to, against that of the dtype: 1 to 2 */
} reference_rounding;
/* rounding must outlive the runs; NULL: none. */
void tuff__reference_set_rounding(reference_plan *plan, const reference_rounding *rounding);

#endif
