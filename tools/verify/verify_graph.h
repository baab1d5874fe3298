/* The part of `tuff verify` that compares the graph of a file instead of ops. */
#ifndef TUFF_TOOLS_VERIFY_VERIFY_GRAPH_H
#define TUFF_TOOLS_VERIFY_VERIFY_GRAPH_H

#include "tools/cli/cli.h"

typedef struct graph_verification {
    const char *file; /* a graph */
    const char *data; /* safetensors with inputs and arrays by name, or NULL; those that it lacks get random values */
    tuff_compile_options compile;
    uint64_t seed;    /* of random values */
    int64_t steps;
    bool json;
} graph_verification;

/* Runs the graph on the device and on the reference, with the same inputs and arrays, and compares every output and
   every array that a run changes. Before each step the device takes the reference's arrays, so that errors do not add
   up. Prints a row for each tensor, of its worst step. Returns an exit code. */
int verify_graph(const cli_verb *verb, tuff_device *device, const graph_verification *request);

#endif
