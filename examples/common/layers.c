/* Builds layers from named parameters, and adds the parameters that they need to the model's list. */
#include "layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"

enum { NAME_SIZE = 56 };

void example_add_linear(example_parameters *list, int64_t in, int64_t out, const char *name, ...)
{
    char text[NAME_SIZE];
    EXAMPLE_FORMAT(text, name);
    example_add_parameter(list, TUFF_SHAPE(out, in), EXAMPLE_UNIFORM, sqrt(6.0 / (double)(in + out)), "%s.weight",
                          text);
    example_add_parameter(list, TUFF_SHAPE(out), EXAMPLE_CONSTANT, 0, "%s.bias", text);
}

void example_add_linears(example_parameters *list, int64_t in, int64_t out, const char *names)
{
    for (const char *at = names; *at;) {
        const int length = (int)strcspn(at, " ");
        example_add_linear(list, in, out, "%.*s", length, at);
        at += length + (at[length] == ' ');
    }
}

void example_add_norm(example_parameters *list, int64_t width, const char *name, ...)
{
    char text[NAME_SIZE];
    EXAMPLE_FORMAT(text, name);
    example_add_parameter(list, TUFF_SHAPE(width), EXAMPLE_CONSTANT, 1, "%s.gain", text);
    example_add_parameter(list, TUFF_SHAPE(width), EXAMPLE_CONSTANT, 0, "%s.bias", text);
}

tuff_tensor *example_linear(example_build *self, tuff_tensor *x, const char *name, ...)
{
    char text[NAME_SIZE];
    EXAMPLE_FORMAT(text, name);
    return tuff_linear(x, example_transpose(example_parameter(self, "%s.weight", text)),
                       example_parameter(self, "%s.bias", text));
}

tuff_tensor *example_norm(example_build *self, tuff_tensor *x, const char *name, ...)
{
    char text[NAME_SIZE];
    EXAMPLE_FORMAT(text, name);
    return tuff_layer_norm(x, example_parameter(self, "%s.gain", text), example_parameter(self, "%s.bias", text), 1,
                           1e-5);
}

tuff_tensor *example_integer_constant(example_build *self, int64_t value)
{
    return tuff_constant(self->graph, TUFF_I32, (double)value);
}

tuff_tensor *example_transpose(tuff_tensor *matrix)
{
    static const int turned[] = {1, 0};
    return tuff_permute(matrix, turned);
}

tuff_tensor *example_concat(tuff_tensor *x, tuff_tensor *y, int axis)
{
    tuff_tensor *const parts[] = {x, y};
    return tuff_concat(parts, 2, axis);
}

tuff_tensor *example_stack(tuff_tensor *const *values, int64_t count)
{
    tuff_tensor **rows = malloc((size_t)count * sizeof *rows);
    for (int64_t i = 0; rows && i < count; i++) {
        const tuff_shape from = tuff_tensor_shape(values[i]);
        rows[i] = tuff_reshape(values[i], from.rank == 1 ? TUFF_SHAPE(from.extent[0], 1)
                                                         : TUFF_SHAPE(from.extent[0], 1, from.extent[1]));
    }
    tuff_tensor *made = tuff_concat(rows, rows ? (int)count : 0, 1); /* without memory, the graph gets an error */
    free(rows);
    return made;
}

tuff_tensor *example_positions(tuff_graph *graph, int64_t count, int64_t width)
{
    float *values = malloc((size_t)(count * width) * sizeof *values);
    if (!values)
        return NULL; /* the op that reads it reports an error */
    for (int64_t i = 0; i < count * width; i++) {
        const double angle = (double)(i / width) * pow(10000, -(double)(i % width / 2 * 2) / (double)width);
        values[i] = (float)(i % width % 2 ? cos(angle) : sin(angle));
    }
    tuff_tensor *made = tuff_constant_data(graph, TUFF_F32, TUFF_SHAPE(count, width), values);
    free(values);
    return made;
}

tuff_tensor *example_attention_in_steps(tuff_tensor *const qkv[3], tuff_tensor *bias, double dropout)
{
    static const int heads_first[] = {0, 2, 1, 3}, transposed[] = {0, 1, 3, 2};
    tuff_tensor *q = tuff_permute(qkv[0], heads_first), *k = tuff_permute(qkv[1], heads_first),
                *v = tuff_permute(qkv[2], heads_first);
    const double width = (double)tuff_tensor_shape(q).extent[3];
    tuff_tensor *scale = tuff_constant(tuff_tensor_graph(q), TUFF_F32, 1 / sqrt(width));
    tuff_tensor *scores = tuff_add(tuff_mul(tuff_matmul(q, tuff_permute(k, transposed)), scale), bias);
    tuff_tensor *probabilities = tuff_softmax(scores, 3);
    probabilities = dropout > 0 ? tuff_dropout(probabilities, dropout) : probabilities;
    return tuff_permute(tuff_matmul(probabilities, v), heads_first);
}
