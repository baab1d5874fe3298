/* Shared by the writer and the reader in this folder. */
#ifndef TUFF_GRAPH_BLOB_PARTS_H
#define TUFF_GRAPH_BLOB_PARTS_H

enum {
    NAME_SIZE = 4096, /* bytes of a name with its terminating 0 */
    /* Groups of a node's attributes that are written; those of other groups are zero. */
    GROUP_AXES = 1,
    GROUP_STEPS = 2,
    GROUP_VALUE = 4,
    GROUP_RANDOM = 8,
    GROUP_OPTIONS = 16,
    GROUP_ALL = 31
};

/* Returns a name that is in the list twice, or NULL; empty names are ignored. Sorts the list. */
const char *tuff__duplicate_name(const char **names, int count);

#endif
