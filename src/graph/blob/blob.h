/* A graph as bytes, for another process: nodes, names, the data of constants; of arrays what kernels depend on, which
   is shape, dtype and which of them share memory, but not a single element. A graph that is read back compiles to the
   same tasks as the one that was written. It cannot be run: its arrays are stand-ins without memory. */
#ifndef TUFF_GRAPH_BLOB_BLOB_H
#define TUFF_GRAPH_BLOB_BLOB_H

#include "graph/graph.h"

/* What a blob begins with: "TFGR", and a number that rises with every change of the format. */
enum { BLOB_MAGIC = 0x52474654, BLOB_VERSION = 1 };

/* Appends the graph, which must be in order (status TUFF_OK). Only host memory can be lacking. */
tuff_status tuff__graph_write(const tuff_graph *graph, text *out);

/* A graph that was read, and the memory that its arrays stand for. Zero is none. */
typedef struct graph_copy {
    tuff_graph *graph;
    storage **storages;
    int storage_count;
} graph_copy;
/* Reads what was written, to its last byte. TUFF_E_FORMAT: damaged, of another version, or no graph that builders could
   have made. *out is zero after a failure. */
tuff_status tuff__graph_read(tuff_device *device, const void *data, size_t size, graph_copy *out);
void tuff__graph_copy_free(graph_copy *copy);

/* For tuff__graph_read and the verifier of plans (check.c): whether a node's inputs, attributes and shape fit each
   other as builders would make them, so that nothing that compiles it can stumble. The inputs are sound. */
bool tuff__node_is_plausible(const node *n);

#endif
