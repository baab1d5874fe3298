/* Differential tests of graphs: one graph, compiled in different ways for different devices, each result held against
   the float64 reference element by element, within twice the error bound that the reference carries. */
#ifndef TESTS_DIFFERENTIAL_H
#define TESTS_DIFFERENTIAL_H

#include "tuff.h"

/* Builds a graph: the same one each time. Inputs come from ranged_input. */
typedef void (*graph_builder)(tuff_graph *graph, const void *context);

/* An input whose elements differential_create draws between low and high; integers both ends included. */
tuff_tensor *ranged_input(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, double low, double high);
tuff_tensor *float_input(tuff_graph *graph, tuff_shape shape); /* f32 between -1 and 1 */
/* Outputs get their names from their order. */
void add_output(tuff_graph *graph, tuff_tensor *tensor);
/* Outputs value, and the gradients of the sum of tanh of it by count tensors. */
void add_with_gradients(tuff_graph *graph, tuff_tensor *value, tuff_tensor *const *wrt, int count);

#define DIFFERENTIAL_MAX 48

/* A graph's input data, and what must come out. */
typedef struct differential {
    const char *name;
    graph_builder build;
    const void *context;
    tuff_precision precision; /* that the bounds are for */
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

/* Runs the reference. Fails the test where the graph has an error, or where the bounds are so wide that a comparison
   within them means little. */
void differential_create(differential *self, const char *name, graph_builder build, const void *context, uint64_t seed);
/* The same with bounds for plans of a precision, however wide: those of 16 bits are held to the average error too. */
void differential_create_mixed(differential *self, const char *name, graph_builder build, const void *context,
                               uint64_t seed, tuff_precision precision);
/* The same for a graph that nobody chose: false where its bounds are so wide. */
bool differential_prepare(differential *self, const char *name, graph_builder build, const void *context,
                          uint64_t seed);
void differential_destroy(differential *self);

/* Compiles, runs and compares; the number of elements that fail, the first of each output told. What does not compile
   or run counts as one. */
int64_t differential_run(const differential *self, tuff_device *device, const tuff_compile_options *options);

/* The bytes of all outputs after the last of `runs` runs, each of which must give the same; caller frees with free.
   NULL where something failed, which is told. */
unsigned char *differential_bytes(const differential *self, tuff_device *device, const tuff_compile_options *options,
                                  int runs, size_t *size);

/* How far got is from value: at most 1 where it passes. */
double differential_ratio(tuff_dtype dtype, double got, double value, double bound);

#endif
