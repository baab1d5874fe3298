/* Graphs in files: what a program compiles, for others to compile: another start of the program, another machine, the
   command-line tool. With such a file `tuff tune warm` fills a cache for a program that is not installed on this
   machine.

   A file holds the nodes of a graph with their phases, the names of inputs, outputs and arrays, constants with their
   elements, and the options that the program compiles the graph with. It holds no elements of arrays: weights are not
   in it, and a graph that is loaded has arrays of zeros. Saved and loaded, a graph compiles to the same plan
   (tuff_plan_hash) and gives the same bits.

   The format is little-endian, versioned and checked by a hash (XXH3). This version writes and reads format 1; later
   ones will read it. A file is untrusted input: what is loaded is a graph that the functions of tuff/ops.h could have
   made. */
#ifndef TUFF_GRAPH_FILE_H
#define TUFF_GRAPH_FILE_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TUFF_GRAPH_NAME_SIZE 64 /* bytes of tuff_graph_file_info.name, with its 0 */

/* What is saved with a graph. Zero every field that you do not set. */
typedef struct tuff_graph_save_options {
    const char *name; /* of the work, at most TUFF_GRAPH_NAME_SIZE - 1 bytes: "train"; NULL: none */
    /* How the program compiles the graph; NULL: with the defaults. Of its tuning only `deterministic` is kept: the rest
       is a matter of the machine. */
    const tuff_compile_options *compile;
    /* Names of arrays of the graph, such as those of tuff_parameters_at; array_count of each. An array that the graph
       does not use is passed over; one without a name can only be found by its index; those of a loaded graph keep
       theirs. No two may have one name. */
    tuff_array *const *arrays;
    const char *const *names;
    int array_count;
    uint32_t reserved[15];
} tuff_graph_save_options;

/* What a file says beside its graph. */
typedef struct tuff_graph_file_info {
    char name[TUFF_GRAPH_NAME_SIZE]; /* "" where it has none */
    tuff_compile_options compile;    /* as saved, but for tuning, which is NULL */
    bool deterministic;              /* tuff_tune_options.deterministic, as saved */
    uint32_t format;
    uint32_t reserved[15];
} tuff_graph_file_info;

/* Writes the graph to path, under a temporary name beside it that is flushed and renamed; on failure path is as it was.
   options may be NULL. The graph must have no error and something to compute. Gradients that composites bring along and
   segments of tuff_recompute are lost: call tuff_gradients or tuff_optimizer_apply before. TUFF_E_IO; TUFF_E_USAGE
   where the graph has no outputs and assigns nothing, or two arrays have one name; TUFF_E_LIMIT for a name of more than
   4095 bytes; the graph's error. */
TUFF_API tuff_status tuff_graph_save(const tuff_graph *graph, const char *path, const tuff_graph_save_options *options);

/* Reads a graph from a file of at most 1 GiB and makes its arrays on the device, all zeros. They belong to the graph:
   destroy it after the plans that are compiled from it. info may be NULL. The graph may be extended. NULL on failure:
   TUFF_E_IO, TUFF_E_FORMAT; TUFF_E_UNSUPPORTED for a later format, or an op that this version lacks; TUFF_E_LIMIT where
   the file or its arrays are too large; TUFF_E_OOM_DEVICE, TUFF_E_OOM_HOST. */
TUFF_API tuff_graph *tuff_graph_load(tuff_device *device, const char *path, tuff_graph_file_info *info);
/* The same for a file in memory: size bytes, of which nothing is kept. */
TUFF_API tuff_graph *tuff_graph_parse(tuff_device *device, const void *data, size_t size, tuff_graph_file_info *info);

/* An array of a loaded graph. */
typedef struct tuff_graph_array {
    const char *name;  /* "" where it has none */
    tuff_array *array; /* both belong to the graph */
    bool is_assigned;  /* a run changes some of its elements */
    uint32_t reserved[3];
} tuff_graph_array;

/* The arrays that came with a loaded graph, in the order in which it was built; 0 for a graph that was not loaded, -1
   where graph is NULL. Arrays may share elements, as parameters do with their slab. The counter of random numbers that
   a graph keeps for itself (tuff_graph_step) is not among them. */
TUFF_API int tuff_graph_array_count(const tuff_graph *graph);
/* index is 0 to count - 1; TUFF_E_USAGE where it is not. */
TUFF_API tuff_status tuff_graph_array_at(const tuff_graph *graph, int index, tuff_graph_array *array);
/* The array of that name; NULL, without an error, where there is none. */
TUFF_API tuff_array *tuff_graph_find_array(const tuff_graph *graph, const char *name);

#ifdef __cplusplus
}
#endif
#endif
