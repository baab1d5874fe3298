/* Differential tests of graphs: one graph is compiled in different ways for different devices, and each result is
   compared with the float64 reference element by element, within twice the error bound that the reference computes. */
#ifndef TESTS_DIFFERENTIAL_H
#define TESTS_DIFFERENTIAL_H

#include "tuff.h"

/* Builds a graph, the same one on each call. Inputs come from ranged_input. */
typedef void (*graph_builder)(tuff_graph *graph, const void *context);

/* Adds an input whose elements differential_create draws between low and high, inclusive for integers. */
tuff_tensor *ranged_input(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, double low, double high);
tuff_tensor *float_input(tuff_graph *graph, tuff_shape shape); /* f32 between -1 and 1 */
/* Adds an output, which gets its name from its position. */
void add_output(tuff_graph *graph, tuff_tensor *tensor);
/* Adds value as an output, and the gradients of sum(tanh(value)) with respect to count tensors. */
void add_with_gradients(tuff_graph *graph, tuff_tensor *value, tuff_tensor *const *wrt, int count);

#define DIFFERENTIAL_MAX 48

/* A graph's input data and expected outputs. */
typedef struct differential {
    const char *name;
    graph_builder build;
    const void *context;
    tuff_precision precision; /* for which the bounds hold */
    tuff_plan *(*compile)(tuff_graph *graph, const tuff_compile_options *options); /* NULL: tuff_compile */
    int input_count, output_count;
    struct {
        char name[64];
        void *data;
        size_t size;
    } inputs[DIFFERENTIAL_MAX];
    struct {
        char name[16];
        tuff_dtype dtype;
        int64_t count;
        double *values, *bounds;
    } outputs[DIFFERENTIAL_MAX];
} differential;

/* Runs the reference. Fails the test if the graph has an error, or if the bounds are so wide that a comparison within
   them means little. */
void differential_create(differential *self, const char *name, graph_builder build, const void *context, uint64_t seed);
/* Like differential_create, with bounds for plans of the given precision, however wide. 16-bit results are checked for
   their average error, too. */
void differential_create_mixed(differential *self, const char *name, graph_builder build, const void *context,
                               uint64_t seed, tuff_precision precision);
/* Like differential_create, for random graphs: returns false if the bounds are too wide. */
bool differential_prepare(differential *self, const char *name, graph_builder build, const void *context,
                          uint64_t seed);
void differential_destroy(differential *self);

/* Compiles, runs and compares. Returns the number of elements that fail and prints the first one of each output. A
   graph that does not compile or run counts as one failure. */
int64_t differential_run(const differential *self, tuff_device *device, const tuff_compile_options *options);

/* Returns the bytes of all outputs after the last of `runs` runs, which must all give the same; the caller frees them.
   Prints the reason and returns NULL on failure. */
unsigned char *differential_bytes(const differential *self, tuff_device *device, const tuff_compile_options *options,
                                  int runs, size_t *size);

/* Returns the distance of got from value relative to the tolerance; at most 1 if it passes. */
double differential_ratio(tuff_dtype dtype, double got, double value, double bound);

#endif
