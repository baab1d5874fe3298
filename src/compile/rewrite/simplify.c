/* Rebuilds a graph node by node, in order, and applies the rules to each node. */
#include "compile/rewrite/simplify.h"

#include <string.h>

typedef struct rebuild {
    tuff_graph *source, *target;
    tuff_tensor **map; /* by id in the source: the value in the target */
    bool *live;
    bool only_live;
} rebuild;

/* Marks the live nodes. Inputs always stay, so that the host may write them whether or not anything reads them. */
static void mark_live(const tuff_graph *source, bool *live)
{
    for (int i = 0; i < source->node_count; ++i)
        live[i] = source->nodes[i]->op == OP_INPUT;
    for (int i = 0; i < source->output_count; ++i)
        live[source->outputs[i].tensor->node->id] = true;
    for (int i = 0; i < source->assign_count; ++i)
        live[source->assigns[i]->id] = true;
    for (int i = source->node_count - 1; i >= 0; --i)
        for (int k = 0; k < source->nodes[i]->input_count && live[i]; ++k)
            live[source->nodes[i]->inputs[k]->node->id] = true;
}

/* Whether the attributes of two nodes agree as far as needed for both to compute the same. */
static bool same_attributes(op_code op, const op_attributes *a, const op_attributes *b, size_t data_size)
{
    if (op == OP_CONSTANT && (a->data == NULL) != (b->data == NULL))
        return false;
    if (op == OP_CONSTANT && a->data != NULL)
        return memcmp(a->data, b->data, data_size) == 0;
    return a->axes == b->axes && a->axis == b->axis && memcmp(a->order, b->order, sizeof a->order) == 0 &&
           memcmp(a->start, b->start, sizeof a->start) == 0 && memcmp(a->step, b->step, sizeof a->step) == 0 &&
           memcmp(&a->value, &b->value, sizeof a->value) == 0 && a->array == b->array && a->name == b->name &&
           a->seed == b->seed && a->ordinal == b->ordinal && a->options == b->options &&
           memcmp(&a->dropout, &b->dropout, sizeof a->dropout) == 0;
}

static bool same_node(const node *a, op_code op, tuff_dtype dtype, const tuff_shape *shape, tuff_tensor *const *inputs,
                      int input_count, const op_attributes *attributes)
{
    const tuff_tensor *value = &a->outputs[0];
    if (a->op != op || value->dtype != dtype || a->input_count != input_count ||
        !tuff_shape_equal(value->shape, *shape))
        return false;
    for (int i = 0; i < input_count; ++i)
        if (a->inputs[i] != inputs[i])
            return false;
    return same_attributes(op, &a->attributes, attributes, (size_t)tuff_shape_count(*shape) * tuff_dtype_size(dtype));
}

tuff_tensor *tuff__share_node(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape,
                              tuff_tensor *const *inputs, int input_count, const op_attributes *attributes)
{
    static const op_attributes none = {0};
    if (attributes == NULL)
        attributes = &none;
    for (int i = 0; i < input_count; ++i)
        if (inputs[i]->node == NULL)
            return inputs[i];
    if (op != OP_INPUT && op != OP_ASSIGN) {
        /* An equal node reads the same inputs, so it comes after the newest of them. */
        int first = 0;
        for (int i = 0; i < input_count; ++i)
            first = inputs[i]->node->id > first ? inputs[i]->node->id : first;
        for (int i = first; i < graph->node_count; ++i)
            if ((graph->nodes[i]->recomputation == graph->recomputation || op == OP_CONSTANT || op == OP_ARRAY) &&
                same_node(graph->nodes[i], op, dtype, &shape, inputs, input_count, attributes))
                return &graph->nodes[i]->outputs[0];
    }
    return tuff__node_create(graph, op, dtype, shape, inputs, input_count, attributes);
}

static bool is_identity_order(const tuff_tensor *x, const int *order)
{
    for (int i = 0; i < x->shape.rank; ++i)
        if (order[i] != i)
            return false;
    return true;
}

/* Simplifies views of views (a reshape of a reshape, a permute of a permute, an expand of an expand) and removes views
   that change nothing. */
static tuff_tensor *simplify_view(tuff_graph *graph, op_code op, tuff_shape shape, tuff_tensor *x,
                                  op_attributes *attributes)
{
    if (op == OP_RESHAPE) {
        while (x->node->op == OP_RESHAPE)
            x = x->node->inputs[0];
    } else if (op == OP_PERMUTE && x->node->op == OP_PERMUTE) {
        for (int i = 0; i < shape.rank; ++i)
            attributes->order[i] = x->node->attributes.order[attributes->order[i]];
        x = x->node->inputs[0];
    } else if (op == OP_EXPAND && x->node->op == OP_EXPAND) {
        x = x->node->inputs[0];
    }
    const bool same_shape = tuff_shape_equal(x->shape, shape);
    if ((op == OP_PERMUTE && is_identity_order(x, attributes->order)) ||
        (op != OP_PERMUTE && op != OP_SLICE && same_shape))
        return x;
    return tuff__share_node(graph, op, x->dtype, shape, &x, 1, attributes);
}

/* Whether all elements of a value are this constant. */
static bool is_constant(const tuff_tensor *x, double value)
{
    const node *at = tuff__skip_views(x->node);
    return tuff__is_scalar_constant(at) && at->attributes.value == value;
}

/* Returns x for x · 1, 1 · x and x / 1; else NULL. */
static tuff_tensor *simplify_identity(op_code op, tuff_tensor *const *inputs)
{
    if ((op == OP_MUL || op == OP_DIV) && is_constant(inputs[1], 1))
        return inputs[0];
    if (op == OP_MUL && is_constant(inputs[0], 1))
        return inputs[1];
    return NULL;
}

/* Returns a value that may have memory of its own: a source gets an identity reshape, which becomes a copy. */
static tuff_tensor *copy_if_source(tuff_graph *graph, tuff_tensor *x)
{
    if (!tuff__op_is_source(x->node->op))
        return x;
    return tuff__share_node(graph, OP_RESHAPE, x->dtype, x->shape, &x, 1, NULL);
}

/* Gives parts that are sources or occur twice a node of their own, which is never shared, so that each can be written
   into its place. */
static void copy_shared_parts(tuff_graph *graph, tuff_tensor **inputs, int count)
{
    for (int i = count - 1; i >= 0; --i) {
        bool separate = tuff__op_is_source(inputs[i]->node->op);
        for (int k = 0; k < i && !separate; ++k)
            separate = inputs[k] == inputs[i];
        if (separate)
            inputs[i] = tuff__node_create(graph, OP_RESHAPE, inputs[i]->dtype, inputs[i]->shape, &inputs[i], 1, NULL);
    }
}

/* Returns x + y as the concatenation of the values from which both were padded; NULL if it is none. */
static tuff_tensor *simplify_sum_of_pads(tuff_graph *graph, const tuff_tensor *sum, tuff_tensor *const *inputs)
{
    tuff_tensor *parts[8];
    op_attributes attributes = {.axis = 0};
    const int count = tuff__join_pads(inputs[0], inputs[1], parts, &attributes.axis);
    if (count == 0)
        return NULL;
    copy_shared_parts(graph, parts, count);
    return tuff__share_node(graph, OP_CONCAT, sum->dtype, sum->shape, parts, count, &attributes);
}

tuff_tensor *tuff__array_range(tuff_graph *graph, const tuff_array *model, uint64_t offset, int64_t count)
{
    tuff_array *range = tuff__arena_alloc(&graph->arena, sizeof *range);
    if (range == NULL)
        return tuff__graph_out_of_memory(graph);
    *range = *model;
    range->offset = offset;
    range->shape = TUFF_SHAPE(count);
    const op_attributes attributes = {.array = range, .options = ARRAY_OF_GRAPH};
    return tuff__node_create(graph, OP_ARRAY, range->dtype, range->shape, NULL, 0, &attributes);
}

/* Returns the `count` elements from the start of an array on, including those of arrays after it, as a single array. */
static tuff_tensor *array_spanning(tuff_graph *graph, const tuff_array *first, int64_t count)
{
    for (int i = 0; i < graph->node_count; ++i) {
        const op_attributes *other = &graph->nodes[i]->attributes;
        if (graph->nodes[i]->op == OP_ARRAY && other->options == ARRAY_OF_GRAPH &&
            other->array->storage == first->storage && other->array->offset == first->offset &&
            other->array->dtype == first->dtype && tuff_shape_equal(other->array->shape, TUFF_SHAPE(count)))
            return &graph->nodes[i]->outputs[0];
    }
    return tuff__array_range(graph, first, first->offset, count);
}

static tuff_tensor *view_of_range(tuff_graph *graph, const slice_range *found, tuff_shape shape)
{
    int64_t all = tuff_shape_count(found->source->shape);
    tuff_tensor *x = found->source;
    if (found->begin + found->count > all) {
        all = found->begin + found->count;
        x = array_spanning(graph, x->node->attributes.array, all);
    }
    if (found->count != all) {
        const op_attributes attributes = {.start = {found->begin}, .step = {1}};
        x = tuff__share_node(graph, OP_RESHAPE, x->dtype, TUFF_SHAPE(all), &x, 1, NULL);
        x = tuff__share_node(graph, OP_SLICE, x->dtype, TUFF_SHAPE(found->count), &x, 1, &attributes);
    }
    return tuff__share_node(graph, OP_RESHAPE, x->dtype, shape, &x, 1, NULL);
}

/* Joins neighbouring parts that are also neighbours in one value. Returns the number of parts left; if memory ran out,
   returns 1, with a part that has no node. */
static int join_parts(tuff_graph *graph, tuff_tensor **parts, int count, int axis)
{
    int kept = 0;
    for (int i = 0; i < axis; ++i)
        if (parts[0]->shape.extent[i] != 1)
            return count;
    for (int i = 0; i < count; ++kept) {
        slice_range found;
        const int taken = tuff__slice_run(parts + i, count - i, &found);
        tuff_shape shape = parts[i]->shape;
        for (int k = 1; k < taken; ++k)
            shape.extent[axis] += parts[i + k]->shape.extent[axis];
        parts[kept] = taken == 1 ? parts[i] : view_of_range(graph, &found, shape);
        i += taken;
        if (parts[kept]->node == NULL) {
            parts[0] = parts[kept];
            return 1;
        }
    }
    return kept;
}

static tuff_tensor *simplify_concat(tuff_graph *graph, const node *at, tuff_tensor **inputs)
{
    const tuff_tensor *value = &at->outputs[0];
    for (int i = 0; i < at->input_count; ++i)
        if (inputs[i]->node == NULL)
            return inputs[i];
    const int count = join_parts(graph, inputs, at->input_count, at->attributes.axis);
    if (count == 1)
        return inputs[0];
    copy_shared_parts(graph, inputs, count);
    return tuff__share_node(graph, OP_CONCAT, value->dtype, value->shape, inputs, count, &at->attributes);
}

static tuff_tensor *apply_rules(rebuild *self, const node *at, tuff_tensor **inputs)
{
    tuff_graph *graph = self->target;
    const tuff_tensor *value = &at->outputs[0];
    op_attributes attributes = at->attributes;
    const op_pattern pattern = tuff__op_info(at->op)->pattern;
    if (pattern == PATTERN_VIEW)
        return simplify_view(graph, at->op, value->shape, inputs[0], &attributes);
    tuff_tensor *found = tuff__fold(graph, at->op, value->dtype, value->shape, inputs, at->input_count, &attributes);
    if (found == NULL && at->input_count == 2)
        found = simplify_identity(at->op, inputs);
    if (found == NULL && at->op == OP_ADD)
        found = simplify_sum_of_pads(graph, value, inputs);
    if (found != NULL)
        return found;
    if (pattern == PATTERN_REDUCTION)
        return tuff__split_reduction(graph, at->op, inputs[0], attributes.axes);
    if (pattern == PATTERN_SCAN)
        return tuff__split_scan(graph, at->op, inputs[0], attributes.axis);
    if (at->op == OP_CONCAT)
        return simplify_concat(graph, at, inputs);
    if ((found = tuff__split_bias_gradient(graph, at, inputs)) != NULL)
        return found;
    if (at->op == OP_ASSIGN)
        inputs[0] = copy_if_source(graph, inputs[0]);
    return tuff__share_node(graph, at->op, value->dtype, value->shape, inputs, at->input_count, &attributes);
}

/* Copies names, data, and arrays that the graph owns into the new graph's arena. */
static tuff_status copy_attributes(tuff_graph *graph, op_attributes *attributes, const tuff_tensor *value)
{
    if (attributes->array != NULL && attributes->options == ARRAY_OF_GRAPH) {
        tuff_array *copy = tuff__arena_alloc(&graph->arena, sizeof *copy);
        if (copy == NULL)
            return TUFF_E_OOM_HOST;
        *copy = *attributes->array;
        attributes->array = copy;
    }
    if (attributes->name != NULL && (attributes->name = tuff__arena_strdup(&graph->arena, attributes->name)) == NULL)
        return TUFF_E_OOM_HOST;
    if (attributes->data == NULL)
        return TUFF_OK;
    const size_t size = (size_t)tuff_shape_count(value->shape) * tuff_dtype_size(value->dtype);
    void *copy = tuff__arena_alloc(&graph->arena, size == 0 ? 1 : size);
    if (copy == NULL)
        return TUFF_E_OOM_HOST;
    memcpy(copy, attributes->data, size);
    attributes->data = copy;
    return TUFF_OK;
}

/* Returns an assigned value as its array stores it, rounded by a cast between equal dtypes: values that ops pass on are
   wider than narrow floats in memory. No op builder makes such a cast. */
static tuff_tensor *stored_value(tuff_graph *graph, const node *assign)
{
    tuff_tensor *x = assign->inputs[0];
    const tuff_dtype dtype = assign->outputs[0].dtype;
    if (!tuff__dtype_is_float(dtype) || dtype == TUFF_F32)
        return x;
    return tuff__share_node(graph, OP_CAST, dtype, x->shape, &x, 1, NULL);
}

static tuff_status rebuild_node(rebuild *self, const node *at)
{
    tuff_graph *graph = self->target;
    tuff_tensor **inputs = tuff__arena_alloc(&graph->arena, (size_t)(at->input_count + 1) * sizeof(tuff_tensor *));
    node copy = *at;
    if (inputs == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < at->input_count; ++i)
        inputs[i] = self->map[at->inputs[i]->node->id];
    if (at->op == OP_INPUT || at->op == OP_CONSTANT || at->op == OP_ARRAY)
        TRY(copy_attributes(graph, &copy.attributes, &at->outputs[0]));
    tuff__graph_set_origin(graph, at);
    tuff_tensor *made = self->only_live ? tuff__node_create(graph, at->op, at->outputs[0].dtype, at->outputs[0].shape,
                                                            inputs, at->input_count, &copy.attributes)
                                        : apply_rules(self, &copy, inputs);
    graph->recomputation = 0;
    if (made->node == NULL)
        return graph->status;
    self->map[at->id] = made;
    if (at->op != OP_ASSIGN)
        return TUFF_OK;
    if (!GROW(graph->assigns, graph->assign_count, graph->assign_capacity))
        return TUFF_E_OOM_HOST;
    graph->assigns[graph->assign_count++] = made->node;
    if (!self->only_live)
        self->map[at->id] = stored_value(graph, made->node);
    return self->map[at->id]->node == NULL ? graph->status : TUFF_OK;
}

static tuff_status rebuild_outputs(rebuild *self)
{
    tuff_graph *graph = self->target;
    for (int i = 0; i < self->source->output_count; ++i) {
        const graph_output *output = &self->source->outputs[i];
        tuff_tensor *value = self->map[output->tensor->node->id];
        if (!self->only_live)
            value = copy_if_source(graph, value);
        const char *name = tuff__arena_strdup(&graph->arena, output->name);
        if (name == NULL || value->node == NULL || !GROW(graph->outputs, graph->output_count, graph->output_capacity))
            return TUFF_E_OOM_HOST;
        graph->outputs[graph->output_count++] = (graph_output){.name = name, .tensor = value};
    }
    return TUFF_OK;
}

/* Appends an increment of the step counter if the graph owns one, so that it rises by one with each run. */
static tuff_status increment_step(rebuild *self)
{
    tuff_graph *source = self->source, *graph = self->target;
    if (!source->owns_step)
        return TUFF_OK;
    graph->step_array = tuff_array_view(source->step_array, 0, TUFF_SCALAR);
    if (graph->step_array == NULL)
        return tuff_last_status();
    graph->owns_step = true;
    for (int i = 0; i < graph->node_count; ++i)
        if (graph->nodes[i]->op == OP_ARRAY && graph->nodes[i]->attributes.array == source->step_array)
            graph->nodes[i]->attributes.array = graph->step_array;
    tuff_assign(graph, graph->step_array, tuff_add(tuff_step(graph), tuff_constant(graph, TUFF_I32, 1)));
    return graph->status;
}

static tuff_status rebuild_all(rebuild *self)
{
    mark_live(self->source, self->live);
    for (int i = 0; i < self->source->node_count; ++i)
        if (self->live[i])
            TRY(rebuild_node(self, self->source->nodes[i]));
    tuff__graph_set_origin(self->target, NULL);
    TRY(rebuild_outputs(self));
    return increment_step(self);
}

/* Returns a rebuilt copy of a graph; NULL on failure. Without only_live the rules may leave nodes that nothing reads: a
   second pass over the result removes them. */
static tuff_graph *rebuild_graph(tuff_graph *source, bool only_live)
{
    tuff_graph *target = tuff_graph_create(source->device);
    const size_t count = (size_t)source->node_count + 1;
    rebuild self = {.source = source, .target = target, .only_live = only_live};
    self.map = tuff__calloc(count, sizeof(tuff_tensor *));
    self.live = tuff__calloc(count, sizeof *self.live);
    tuff_status status = target == NULL || self.map == NULL || self.live == NULL ? TUFF_E_OOM_HOST : rebuild_all(&self);
    tuff__free(self.map);
    tuff__free(self.live);
    if (status == TUFF_OK)
        return target;
    tuff_graph_destroy(target);
    return NULL;
}

tuff_graph *tuff__simplify(tuff_graph *source, bool only_live)
{
    tuff_graph *first = rebuild_graph(source, only_live);
    if (only_live || first == NULL)
        return first;
    const bool owned = first->owns_step;
    first->owns_step = false; /* the increment is in the graph already */
    tuff_graph *second = rebuild_graph(first, true);
    if (second != NULL) {
        second->step_array = first->step_array;
        second->owns_step = owned;
    } else {
        first->owns_step = owned;
    }
    tuff_graph_destroy(first);
    return second;
}
