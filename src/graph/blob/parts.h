/* Between the files of this folder: what writer and reader share. */
#ifndef TUFF_GRAPH_BLOB_PARTS_H
#define TUFF_GRAPH_BLOB_PARTS_H

enum {
    NAME_SIZE = 4096, /* of a name, with its 0 */
    /* Which of a node's numbers are there; the others are zeros. */
    GROUP_AXES = 1,
    GROUP_STEPS = 2,
    GROUP_VALUE = 4,
    GROUP_RANDOM = 8,
    GROUP_OPTIONS = 16,
    GROUP_ALL = 31
};

/* A name that is in the list twice, or NULL; empty ones do not count. Sorts the list. */
const char *tuff__name_twice(const char **names, int count);

#endif
