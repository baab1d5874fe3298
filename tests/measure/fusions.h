/* Graphs as the compiler sees them, for tests of its tasks. */
#ifndef TESTS_FUSIONS_H
#define TESTS_FUSIONS_H

#include "compile/fuse/fuse.h"
#include "measure/candidate_run.h"
#include "tunedb/key.h"

/* Called for a task of a fused graph. key is the text of its key; state is the caller's. */
typedef void (*key_visitor)(const struct fusion *fusion, int task, const char *key, void *state);

/* Simplifies and fuses a graph, which it destroys, and visits one task for each different value of `number`, a function
   of its key. */
void for_each_task(tuff_graph *graph, const tuff_compile_options *options, uint64_t (*number)(const tune_key *key),
                   key_visitor visit, void *state);

/* Lowers a task with a configuration, all ops fused, and creates its run on the buffers, with warm weights. */
tuff_status lower_and_create(tuff_device *device, const struct fusion *fusion, int task, const tune_config *config,
                             test_buffers *buffers, candidate_run **out);

#endif
