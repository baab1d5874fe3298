/* Between the files of the blob. */
#ifndef TUFF_GRAPH_BLOB_PARTS_H
#define TUFF_GRAPH_BLOB_PARTS_H

/* "TFGR", and a number that rises with every change of what stands behind it. */
enum { BLOB_MAGIC = 0x52474654, BLOB_VERSION = 1 };

#endif
