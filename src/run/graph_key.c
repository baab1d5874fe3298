/* Keys of graphs: ops, dtypes and what they read as a hash, without extents; sums over these in clear. */
#include "run/graph_key.h"

#include <stdio.h>
#include <string.h>

static uint64_t hash_node(const node *at, uint64_t seed)
{
    const tuff_tensor *value = &at->outputs[0];
    const op_attributes *with = &at->attributes;
    const int64_t numbers[] = {(int64_t)at->op, (int64_t)value->dtype,  value->shape.rank,
                               at->input_count, (int64_t)with->axes,    with->axis,
                               at->copy != 0,   (int64_t)with->options, with->dropout > 0};
    seed = tuff__hash64(numbers, sizeof numbers, seed);
    seed = tuff__hash64(with->order, sizeof with->order, seed);
    for (int i = 0; i < at->input_count; ++i) {
        const int distance = at->id - at->inputs[i]->node->id;
        seed = tuff__hash64(&distance, sizeof distance, seed);
    }
    return seed;
}

static int64_t multiplications(const node *at)
{
    const tuff_shape *x = &at->inputs[0]->shape;
    return tuff_shape_count(at->outputs[0].shape) * x->extent[x->rank - 1];
}

static bool is_input(const node *at)
{
    return at->op == OP_INPUT || at->op == OP_ARRAY;
}

static int64_t at_least_one(int64_t count)
{
    return count < 1 ? 1 : count;
}

void tuff__graph_key(const tuff_graph *graph, tune_key *out)
{
    int64_t inputs = 0, values = 0, products = 0, largest = 0;
    bool is_mixed[TUFF_I64 + 1] = {false};
    *out = (tune_key){.family = FUSION_FAMILY, .alignment = 1, .math = "strict"};
    for (int i = 0; i < graph->node_count; ++i) {
        const node *at = graph->nodes[i];
        const int64_t count = tuff_shape_count(at->outputs[0].shape);
        out->structure = hash_node(at, out->structure);
        inputs += is_input(at) ? count : 0;
        values += is_input(at) ? 0 : count;
        products += at->op == OP_MATMUL ? multiplications(at) : 0;
        largest = count > largest ? count : largest;
        is_mixed[at->outputs[0].dtype] = true;
    }
    for (int i = 0; i < graph->output_count; ++i) {
        const int id = graph->outputs[i].tensor->node->id;
        out->structure = tuff__hash64(&id, sizeof id, out->structure);
    }
    for (int i = 0; i <= TUFF_I64; ++i) {
        const size_t length = strlen(out->dtypes);
        if (is_mixed[i])
            (void)snprintf(out->dtypes + length, sizeof out->dtypes - length, "%s%s", length > 0 ? "," : "",
                           tuff_dtype_name((tuff_dtype)i));
    }
    const int64_t dims[] = {graph->node_count, inputs, values, products, largest};
    out->dim_count = (int)(sizeof dims / sizeof *dims);
    for (int i = 0; i < out->dim_count; ++i)
        out->dims[i] = at_least_one(dims[i]);
}
