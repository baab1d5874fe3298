/* Internals of graph files, for tests and the fuzz target. The public interface is tuff/graph_file.h. */
#ifndef TUFF_GRAPH_BLOB_FILE_H
#define TUFF_GRAPH_BLOB_FILE_H

#include "graph/blob/blob.h"
#include "tuff/graph_file.h"

/* Like tuff_graph_parse, with arrays as `memory` says. On failure, sets *out to NULL. */
tuff_status tuff__graph_file_read(tuff_device *device, const void *data, size_t size, graph_memory memory,
                                  tuff_graph_file_info *info, tuff_graph **out);
/* Appends the file that tuff_graph_save writes. Graph and options must be valid for it. */
tuff_status tuff__graph_file_write(const tuff_graph *graph, const tuff_graph_save_options *options, text *out);
/* Updates the hash in a file image of at least 40 bytes. */
void tuff__graph_file_set_hash(void *data, size_t size);

#endif
