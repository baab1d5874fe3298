/* Graphs in files: what one program compiles, another start of it, another machine or the command-line tool can compile
   too. With such a file, `tuff tune warm` fills a cache for a program that is not installed on this machine.

   A file holds the nodes of a graph with their phases, the names of inputs, outputs and arrays, constants with their
   elements, and the options with which the program compiles the graph. It does not hold the elements of arrays: it
   contains no weights, and a loaded graph has arrays of zeros. After saving and loading, a graph compiles to the same
   plan (tuff_plan_hash) and gives the same bits.

   The format is little-endian, versioned and protected by a hash (XXH3). This version writes and reads format 1; later
   ones will read it. A file is untrusted input: a loaded graph is always one that the functions of tuff/ops.h could
   have built. */
#ifndef TUFF_GRAPH_FILE_H
#define TUFF_GRAPH_FILE_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TUFF_GRAPH_NAME_SIZE 64 /* size of tuff_graph_file_info.name in bytes, with its terminating 0 */

/* What is saved with a graph. Set every field that you do not use to zero. */
typedef struct tuff_graph_save_options {
    const char *name; /* name of the workload, at most TUFF_GRAPH_NAME_SIZE - 1 bytes: "train"; NULL: none */
    /* How the program compiles the graph; NULL: with the defaults. Of the tuning options only `deterministic` is saved:
       the others depend on the machine. */
    const tuff_compile_options *compile;
    /* Arrays of the graph and their names, such as those of tuff_parameters_at; array_count of each. An array that the
       graph does not use is skipped; an array without a name can be found only by its index; arrays of a loaded graph
       keep their names. Names must be unique. */
    tuff_array *const *arrays;
    const char *const *names;
    int array_count;
    uint32_t reserved[15];
} tuff_graph_save_options;

/* What a file contains besides its graph. */
typedef struct tuff_graph_file_info {
    char name[TUFF_GRAPH_NAME_SIZE]; /* "" if it has none */
    tuff_compile_options compile;    /* as saved, except for tuning, which is NULL */
    bool deterministic;              /* tuff_tune_options.deterministic, as saved */
    uint32_t format;
    uint32_t reserved[15];
} tuff_graph_file_info;

/* Writes the graph to path, under a temporary name next to it that is flushed and renamed; on failure path is
   unchanged. options may be NULL. The graph must have no error and something to compute. Gradients defined by
   composites and segments of tuff_recompute are lost: call tuff_gradients or tuff_optimizer_apply first. TUFF_E_IO;
   TUFF_E_USAGE if the graph has no outputs and assigns nothing, or two arrays have the same name; TUFF_E_LIMIT for a
   name of more than 4095 bytes; the graph's error. */
TUFF_API tuff_status tuff_graph_save(const tuff_graph *graph, const char *path, const tuff_graph_save_options *options);

/* Reads a graph from a file of at most 1 GiB and creates its arrays on the device, all zeros. They belong to the graph:
   destroy it after the plans that are compiled from it. info may be NULL. The graph may be extended. NULL on failure:
   TUFF_E_IO, TUFF_E_FORMAT; TUFF_E_UNSUPPORTED for a later format or an op that this version lacks; TUFF_E_LIMIT if the
   file or its arrays are too large; TUFF_E_OOM_DEVICE, TUFF_E_OOM_HOST. */
TUFF_API tuff_graph *tuff_graph_load(tuff_device *device, const char *path, tuff_graph_file_info *info);
/* The same for a file in memory: size bytes, which are not kept. */
TUFF_API tuff_graph *tuff_graph_parse(tuff_device *device, const void *data, size_t size, tuff_graph_file_info *info);

/* An array of a loaded graph. */
typedef struct tuff_graph_array {
    const char *name;  /* "" if it has none */
    tuff_array *array; /* name and array belong to the graph */
    bool is_assigned;  /* a run changes some of its elements */
    uint32_t reserved[3];
} tuff_graph_array;

/* Returns the number of arrays that came with a loaded graph, in the order in which it was built; 0 for a graph that
   was not loaded, -1 if graph is NULL. Arrays may share elements, as parameters do with their slab. The counter of
   random numbers that a graph keeps for itself (tuff_graph_step) is not among them. */
TUFF_API int tuff_graph_array_count(const tuff_graph *graph);
/* Describes an array. index is 0 to count - 1; otherwise TUFF_E_USAGE. */
TUFF_API tuff_status tuff_graph_array_at(const tuff_graph *graph, int index, tuff_graph_array *array);
/* Returns the array with that name; NULL, without an error, if there is none. */
TUFF_API tuff_array *tuff_graph_find_array(const tuff_graph *graph, const char *name);

#ifdef __cplusplus
}
#endif
#endif
