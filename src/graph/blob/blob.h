/* Graphs as bytes: nodes, names, the data of constants; of arrays what kernels depend on, which is shape, dtype and
   which of them share memory, but not a single element. A graph that is read back compiles to the same tasks as the one
   that was written. Worker processes get the bytes of tuff__graph_write; files (file.c) have the same behind a head of
   their own. */
#ifndef TUFF_GRAPH_BLOB_BLOB_H
#define TUFF_GRAPH_BLOB_BLOB_H

#include "base/bytes.h"
#include "graph/graph.h"

/* What a blob begins with: "TFGR", and a number that rises with every change of the format. */
enum { BLOB_MAGIC = 0x52474654, BLOB_VERSION = 2 };

/* Names that arrays of a graph are written with. */
typedef struct array_names {
    tuff_array *const *arrays;
    const char *const *names;
    int count;
} array_names;

/* Appends the graph, which must be in order (status TUFF_OK), as bytes without a head. names may be NULL.
   TUFF_E_LIMIT: a name is too long; TUFF_E_USAGE: two arrays have one name. */
tuff_status tuff__graph_serialize(const tuff_graph *graph, const array_names *names, text *out);
/* The same with head and checksum. */
tuff_status tuff__graph_write(const tuff_graph *graph, text *out);

/* What the arrays of a graph that is read are. */
typedef enum graph_memory {
    GRAPH_PLACEHOLDERS, /* without memory: the graph can be compiled as far as launches, and not be run */
    GRAPH_ARRAYS        /* in the device's memory, all zeros */
} graph_memory;

/* Reads what tuff__graph_serialize wrote, up to the reader's last byte; the graph owns its arrays. TUFF_E_FORMAT:
   damaged, or no graph that builders could have made; TUFF_E_UNSUPPORTED: it has ops that this version lacks; with
   GRAPH_ARRAYS also TUFF_E_LIMIT and TUFF_E_OOM_DEVICE. *out is NULL after a failure. */
tuff_status tuff__graph_deserialize(tuff_device *device, byte_reader *from, graph_memory memory, tuff_graph **out);
/* The same for what tuff__graph_write wrote; TUFF_E_FORMAT for another version, too. The arrays are placeholders. */
tuff_status tuff__graph_read(tuff_device *device, const void *data, size_t size, tuff_graph **out);

/* For tuff__graph_deserialize and the verifier of plans (check.c): whether a node's inputs, attributes and shape fit
   each other as builders would make them, so that nothing that compiles it can stumble. The inputs are valid. */
bool tuff__node_is_plausible(const node *n);

#endif
