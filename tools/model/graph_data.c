/* Finds out how a value is used by following it forward through the graph: views, copies and selections preserve it,
   arithmetic makes another number of it. */
#include "tools/model/graph_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "tools/model/random.h"

enum { DEFAULT_LIMIT = 128 };

/* How a node's value, found by its id, descends from a leaf. */
typedef enum descent { NOTHING, ITSELF, COMPUTED } descent;

/* An input or an array, and the constraints on its values. */
typedef struct leaf {
    tuff_dtype dtype;
    tuff_shape shape;
    int64_t limit; /* values are 0 to limit - 1; 0: any */
    bool under_root;
    bool is_input;
    double deviation; /* standard deviation of floats */
    uint64_t key;
} leaf;

static void lower_limit(leaf *self, int64_t extent)
{
    if (extent > 0 && (self->limit == 0 || extent < self->limit))
        self->limit = extent;
}

/* Whether each element of the result is an element of an operand or a fill value. */
static bool preserves_values(op_code op)
{
    return tuff__op_is_view(op) || op == OP_PAD || op == OP_CONCAT || op == OP_WHERE || op == OP_CAST;
}

/* Returns the extent whose positions the value holds, looking through views; 0 if it holds something else. */
static int64_t positions_of(const tuff_tensor *value)
{
    const node *n = value->node;
    while (tuff__op_is_view(n->op) || n->op == OP_CAST)
        n = n->inputs[0]->node;
    return n->op == OP_IOTA ? n->outputs[0].shape.extent[n->attributes.axis] : 0;
}

/* Applies the constraint of a node to the leaf: input number `input` of the node descends from it. */
static void apply_index_limit(leaf *self, const node *n, int input, descent has)
{
    const bool selects = (n->op == OP_GATHER || n->op == OP_SCATTER_ADD) && input == 1;
    if (selects)
        lower_limit(self, has == ITSELF ? n->inputs[0]->shape.extent[n->attributes.axis] : 1);
    else if (tuff__op_info(n->op)->kinds == OP_KIND_COMPARE && n->input_count == 2 && has == ITSELF)
        lower_limit(self, positions_of(n->inputs[1 - input]));
}

/* Integers: follows any elementwise op, so that an index computed from zeros is found too. */
static descent index_descent(const node *n, int input, descent has)
{
    const bool is_chosen = n->op != OP_WHERE || input > 0;
    if (preserves_values(n->op))
        return is_chosen ? has : NOTHING;
    if (n->op == OP_GATHER)
        return input == 0 ? has : NOTHING;
    return tuff__op_is_elementwise(n->op) && tuff__op_info(n->op)->kinds != OP_KIND_COMPARE ? COMPUTED : NOTHING;
}

/* Floats: follows ops that keep a non-negative number non-negative, as long as their other operands are so too. */
static descent root_descent(const node *n, int input, descent has)
{
    if (preserves_values(n->op))
        return n->op != OP_WHERE || input > 0 ? has : NOTHING;
    const bool is_square = n->op == OP_MUL && n->inputs[0] == n->inputs[1];
    return (n->op == OP_MUL && !is_square) || n->op == OP_ADD || n->op == OP_DIV ? COMPUTED : NOTHING;
}

static bool takes_root(op_code op)
{
    return op == OP_SQRT || op == OP_RSQRT || op == OP_LOG || op == OP_LOG2 || op == OP_POW;
}

/* Follows the leaf through the graph. The descents of its own nodes must be set. */
static void follow(const tuff_graph *graph, leaf *self, descent *descents)
{
    const bool is_float = tuff__dtype_is_float(self->dtype);
    for (int i = 0; i < graph->node_count; i++) {
        const node *n = graph->nodes[i];
        for (int k = 0; k < n->input_count; k++) {
            const descent has = descents[n->inputs[k]->node->id];
            if (has == NOTHING)
                continue;
            if (!is_float)
                apply_index_limit(self, n, k, has);
            self->under_root |= is_float && takes_root(n->op);
            const descent next = (is_float ? root_descent : index_descent)(n, k, has);
            descents[i] = next > descents[i] ? next : descents[i];
        }
    }
}

static bool is_leaf(const node *n, const node *input, const tuff_array *array)
{
    return n == input || (array && n->op == OP_ARRAY && n->attributes.array == array);
}

static tuff_status examine(const tuff_graph *graph, const node *input, const tuff_array *array, leaf *out)
{
    descent *descents = tuff__calloc((size_t)graph->node_count + 1, sizeof *descents);
    if (!descents)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < graph->node_count; i++)
        descents[i] = is_leaf(graph->nodes[i], input, array) ? ITSELF : NOTHING;
    follow(graph, out, descents);
    tuff__free(descents);
    return TUFF_OK;
}

static void fill_floats(const leaf *self, int64_t first, int64_t count, double *out)
{
    float values[1024];
    random_normals(self->key, (uint64_t)first, self->deviation, values, count);
    for (int64_t i = 0; i < count; i++)
        out[i] = self->under_root && values[i] < 0 ? -values[i] : values[i];
}

static double integer_at(const leaf *self, int64_t index)
{
    const uint64_t bits = random_bits(self->key, (uint64_t)index);
    const int64_t range = self->dtype == TUFF_BOOL ? 2
                          : self->dtype == TUFF_I8 ? 128
                          : self->dtype == TUFF_U8 ? 256
                                                   : 0;
    int64_t limit = self->limit > 0 ? self->limit : range > 0 ? range : DEFAULT_LIMIT;
    limit = range > 0 && limit > range ? range : limit;
    return self->limit == 0 && !self->is_input ? 0 : (double)(bits % (uint64_t)limit);
}

/* Returns the values as they are laid out in memory; NULL if memory ran out. */
static void *values_of(const leaf *self, size_t *size)
{
    enum { PART = 1024 };
    double part[PART];
    const size_t element = tuff_dtype_size(self->dtype);
    const int64_t count = tuff_shape_count(self->shape);
    *size = (size_t)count * element;
    unsigned char *values = tuff__alloc(*size);
    for (int64_t first = 0; values && first < count; first += PART) {
        const int64_t some = count - first < PART ? count - first : PART;
        if (tuff__dtype_is_float(self->dtype))
            fill_floats(self, first, some, part);
        else
            for (int64_t i = 0; i < some; i++)
                part[i] = integer_at(self, first + i);
        tuff__from_double(self->dtype, part, some, values + (size_t)first * element);
    }
    return values;
}

static tuff_status write_input(const tuff_graph *graph, const node *input, uint64_t key, graph_data_writer *write,
                               void *to)
{
    const tuff_tensor *value = &input->outputs[0];
    leaf self = {.dtype = value->dtype, .shape = value->shape, .is_input = true, .deviation = 1, .key = key};
    size_t size = 0;
    TRY(examine(graph, input, NULL, &self));
    void *values = values_of(&self, &size);
    const tuff_status status = values ? write(to, input->attributes.name, values, size) : TUFF_E_OOM_HOST;
    tuff__free(values);
    return status;
}

/* Writes an array. Its values are as small as initial weights; the moments of optimizers are that small too. */
static tuff_status write_array(const tuff_graph *graph, tuff_array *array, uint64_t key)
{
    leaf self = {.dtype = array->dtype, .shape = array->shape, .deviation = 0.02, .key = key};
    size_t size = 0;
    TRY(examine(graph, NULL, array, &self));
    void *values = values_of(&self, &size);
    const tuff_status status = values ? tuff_array_write(array, values, size) : TUFF_E_OOM_HOST;
    tuff__free(values);
    return status;
}

/* Orders arrays by size, the largest first: if they share elements, the constraints of the smaller one win. */
static int by_size(const void *a, const void *b)
{
    const graph_array *first = *(const graph_array *const *)a, *second = *(const graph_array *const *)b;
    const uint64_t x = tuff_array_size(first->array), y = tuff_array_size(second->array);
    return x != y ? (x < y) - (x > y) : (first > second) - (first < second);
}

static tuff_status write_arrays(const tuff_graph *graph, uint64_t key)
{
    const graph_array **order = tuff__calloc((size_t)graph->array_count + 1, sizeof *order);
    tuff_status status = order ? TUFF_OK : TUFF_E_OOM_HOST;
    for (int i = 0; order && i < graph->array_count; i++)
        order[i] = &graph->arrays[i];
    if (status == TUFF_OK && graph->array_count > 0)
        qsort(order, (size_t)graph->array_count, sizeof *order, by_size);
    for (int i = 0; i < graph->array_count && status == TUFF_OK; i++)
        status = write_array(graph, order[i]->array, random_key_number(key, (uint64_t)(order[i] - graph->arrays)));
    tuff__free(order);
    return status;
}

tuff_status graph_data_make(const tuff_graph *graph, uint64_t seed, graph_data_writer *write, void *to)
{
    const uint64_t inputs = random_key(seed, "inputs");
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_INPUT)
            TRY(write_input(graph, graph->nodes[i], random_key_number(inputs, (uint64_t)i), write, to));
    return write_arrays(graph, random_key(seed, "arrays"));
}

static tuff_status write_to_plan(void *plan, const char *name, const void *data, size_t size)
{
    return tuff_plan_write(plan, name, data, size);
}

tuff_status graph_data_write(const tuff_graph *graph, uint64_t seed, tuff_plan *plan)
{
    return graph_data_make(graph, seed, write_to_plan, plan);
}
