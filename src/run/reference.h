/* The executor of the reference device: walks a graph with the float64 evaluator. Values between ops stay double; inputs,
   outputs, casts and assigned arrays round to their dtypes. */
#ifndef TUFF_RUN_REFERENCE_H
#define TUFF_RUN_REFERENCE_H

#include "graph/graph.h"

typedef struct reference_plan reference_plan;

/* Takes the graph, which must have no error and no dead nodes, and destroys it with the plan (on failure it does not). */
tuff_status tuff__reference_create(tuff_graph *graph, reference_plan **out);
void tuff__reference_destroy(reference_plan *plan); /* NULL is allowed */
tuff_status tuff__reference_write(reference_plan *plan, const char *name, const void *data, size_t size);
tuff_status tuff__reference_run(reference_plan *plan);
tuff_status tuff__reference_read(reference_plan *plan, const char *name, void *data, size_t size);

#endif
