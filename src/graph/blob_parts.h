/* Between the files of the blob. */
#ifndef TUFF_GRAPH_BLOB_PARTS_H
#define TUFF_GRAPH_BLOB_PARTS_H

/* "TFGR", and a number that rises with every change of what stands behind it. */
#define BLOB_MAGIC 0x52474654u
#define BLOB_VERSION 1u

#endif
