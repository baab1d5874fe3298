/* Serialized graphs: nodes, names, the data of constants; of arrays only what kernels depend on, which is shape, dtype
   and which arrays share memory, but no elements. A graph that is read back compiles to the same tasks as the original.
   Worker processes get the bytes of tuff__graph_write; files (file.c) hold the same body after a header of their
   own. */
#ifndef TUFF_GRAPH_BLOB_BLOB_H
#define TUFF_GRAPH_BLOB_BLOB_H

#include "base/bytes.h"
#include "graph/graph.h"

/* Magic number of a blob, "TFGR", and the version of its format, raised by every change. */
enum { BLOB_MAGIC = 0x52474654, BLOB_VERSION = 2 };

/* Names under which arrays of a graph are written. */
typedef struct array_names {
    tuff_array *const *arrays;
    const char *const *names;
    int count;
} array_names;

/* Appends the graph, whose status must be TUFF_OK, as bytes without a header. names may be NULL. TUFF_E_LIMIT: a name
   is too long; TUFF_E_USAGE: two arrays have the same name. */
tuff_status tuff__graph_serialize(const tuff_graph *graph, const array_names *names, text *out);
/* The same with header and checksum. */
tuff_status tuff__graph_write(const tuff_graph *graph, text *out);

/* Memory of the arrays of a graph that is read. */
typedef enum graph_memory {
    GRAPH_PLACEHOLDERS, /* no memory: the graph can be lowered to launches, but not run */
    GRAPH_ARRAYS        /* device memory, all zeros */
} graph_memory;

/* Reads the bytes of tuff__graph_serialize, up to the reader's last byte. The graph owns its arrays. TUFF_E_FORMAT: the
   bytes are damaged, or builders could not have made the graph; TUFF_E_UNSUPPORTED: this version lacks an op; with
   GRAPH_ARRAYS also TUFF_E_LIMIT and TUFF_E_OOM_DEVICE. On failure, sets *out to NULL. */
tuff_status tuff__graph_deserialize(tuff_device *device, byte_reader *from, graph_memory memory, tuff_graph **out);
/* The same for the bytes of tuff__graph_write, with placeholders as arrays. TUFF_E_FORMAT also if another version wrote
   them. */
tuff_status tuff__graph_read(tuff_device *device, const void *data, size_t size, tuff_graph **out);

/* For tuff__graph_deserialize and the verifier of plans (check.c): whether a node's inputs, attributes and shape fit
   each other as builders would make them, so that it is safe to compile. The inputs must be valid. */
bool tuff__node_is_valid(const node *n);

#endif
