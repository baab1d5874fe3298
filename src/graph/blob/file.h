/* Graph files from the inside: for tests, and for the fuzz target. The public side is tuff/graph_file.h. */
#ifndef TUFF_GRAPH_BLOB_FILE_H
#define TUFF_GRAPH_BLOB_FILE_H

#include "graph/blob/blob.h"
#include "tuff/graph_file.h"

/* As tuff_graph_parse, with arrays as memory says. *out is NULL after a failure. */
tuff_status tuff__graph_file_read(tuff_device *device, const void *data, size_t size, graph_memory memory,
                                  tuff_graph_file_info *info, tuff_graph **out);
/* Appends what tuff_graph_save writes, of a graph and options that it would take. */
tuff_status tuff__graph_file_put(const tuff_graph *graph, const tuff_graph_save_options *options, text *out);
/* Writes the hash of a file in memory, of at least 40 bytes, into it. */
void tuff__graph_file_seal(void *data, size_t size);

#endif
