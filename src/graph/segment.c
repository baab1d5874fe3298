/* tuff_recompute: segments of a graph of which gradients keep only the inputs (gradient checkpointing). If the
   traversal in autodiff.c reads a value inside a segment, it gets a copy of the node, recomputed from the segment's
   inputs; memory of the original can be reused in between. A copy carries the number of its recomputation: by it the
   compiler never merges the copy with the original, and runs it as late as it was built. Segments may nest: a copy made
   for an outer segment reads results of inner segments as copies, too. */
#include "graph/segment.h"

#include "graph/builder.h"

/* The nodes of a segment: its result and all nodes that the result depends on, back to the segment's inputs and to
   values held in memory. Their ids range from `low` to the result's. */
struct segment_copies {
    int low, size;        /* lowest id; number of members */
    int number;           /* recomputation number of the copies */
    bool *members;        /* by id - low */
    tuff_tensor **copies; /* by id - low; NULL: not yet made */
};

/* Linear search: segments have few inputs. */
static bool is_input(const segment *part, const node *at)
{
    for (int i = 0; i < part->input_count; i++)
        if (part->inputs[i] == at)
            return true;
    return false;
}

/* Marks `from` and all nodes that it depends on. With `stop`, marks only the members of that segment: the
   traversal stops short of its inputs and of values that are in memory anyway. Returns the lowest marked id. */
static int mark_ancestors(const tuff_graph *graph, const node *from, const segment *stop, bool *marks)
{
    int low = from->id;
    marks[from->id] = true;
    for (int i = from->id; i >= 0; i--) {
        const node *at = graph->nodes[i];
        if (!marks[i])
            continue;
        if (stop && (is_input(stop, at) || tuff__op_is_source(at->op))) {
            marks[i] = false;
            continue;
        }
        low = i;
        for (int k = 0; k < at->input_count; k++)
            marks[at->inputs[k]->node->id] = true;
    }
    return low;
}

/* Returns the graph of y and of its segment's inputs, or NULL with *failure set. */
static tuff_graph *check_segment(tuff_tensor *y, tuff_tensor *const *inputs, int count, tuff_tensor **failure)
{
    tuff_graph *graph = tuff__check_operands("recompute", &y, 1, failure);
    if (!graph)
        return NULL;
    if (count < 0 || (count > 0 && !inputs)) {
        *failure = tuff__graph_fail(graph, TUFF_E_USAGE, "recompute: %s %s: %s", tuff_dtype_name(y->dtype),
                                    SHAPE_TEXT(y->shape),
                                    count < 0 ? "the count of inputs is negative" : "the inputs are NULL");
        return NULL;
    }
    if (count > 0 && !tuff__check_operands("recompute", inputs, count, failure))
        return NULL;
    if (count > 0 && inputs[0]->graph != graph) {
        *failure = tuff__graph_fail(graph, TUFF_E_USAGE, "recompute: input 0, %s, belongs to another graph",
                                    SHAPE_TEXT(inputs[0]->shape));
        return NULL;
    }
    return graph;
}

/* Only records the segment: copies are made when gradients are built. */
tuff_tensor *tuff_recompute(tuff_tensor *y, tuff_tensor *const *inputs, int count)
{
    tuff_tensor *failure;
    tuff_graph *graph = check_segment(y, inputs, count, &failure);
    if (!graph)
        return failure;
    const node **kept = tuff__arena_alloc(&graph->arena, ((size_t)count + 1) * sizeof(node *));
    bool *marks = tuff__calloc((size_t)graph->node_count, sizeof *marks);
    if (!kept || !marks || !GROW(graph->segments, graph->segment_count, graph->segment_capacity)) {
        tuff__free(marks);
        return tuff__graph_fail(graph, TUFF_E_OOM_HOST, "recompute: out of host memory for %d nodes",
                                graph->node_count);
    }
    mark_ancestors(graph, y->node, NULL, marks);
    for (int i = 0; i < count; i++) {
        kept[i] = inputs[i]->node;
        if (!marks[kept[i]->id])
            tuff__graph_fail(graph, TUFF_E_USAGE, "recompute: %s does not depend on input %d, %s", SHAPE_TEXT(y->shape),
                             i, SHAPE_TEXT(inputs[i]->shape));
    }
    tuff__free(marks);
    if (graph->status != TUFF_OK)
        return &graph->failed;
    graph->segments[graph->segment_count++] = (segment){.result = y->node, .inputs = kept, .input_count = count};
    return y;
}

/* Finds the members of one segment and allocates room for a copy of each. marks is scratch, one for each node. */
static bool find_members(const tuff_graph *graph, int index, bool *marks, struct segment_copies *out)
{
    const segment *part = &graph->segments[index];
    const int last = part->result->id;
    for (int i = 0; i <= last; i++)
        marks[i] = false;
    out->low = mark_ancestors(graph, part->result, part, marks);
    out->members = tuff__calloc((size_t)(last - out->low + 1), sizeof *out->members);
    out->copies = tuff__calloc((size_t)(last - out->low + 1), sizeof(tuff_tensor *));
    if (!out->members || !out->copies)
        return false;
    for (int i = out->low; i <= last; i++) {
        out->members[i - out->low] = marks[i];
        out->size += marks[i];
    }
    return true;
}

/* Finds nodes that depend only on constants: copying them would save no memory, since constants stay anyway. RANDOM is
   not one of them, as it depends on the step, an array. */
static void find_fixed(const tuff_graph *graph, bool *fixed)
{
    for (int i = 0; i < graph->node_count; i++) {
        const node *at = graph->nodes[i];
        fixed[i] = at->op == OP_CONSTANT || at->op == OP_IOTA || at->input_count > 0;
        for (int k = 0; k < at->input_count; k++)
            fixed[i] = fixed[i] && fixed[at->inputs[k]->node->id];
    }
}

/* Gives every segment a new number in each call: two calls of tuff_gradients never share copies. */
tuff_status tuff__recomputation_begin(tuff_graph *graph, recomputation *out)
{
    *out = (recomputation){.graph = graph};
    if (graph->segment_count == 0)
        return TUFF_OK;
    bool *marks = tuff__calloc((size_t)graph->node_count, sizeof *marks);
    out->fixed = tuff__calloc((size_t)graph->node_count, sizeof *out->fixed);
    out->segments = tuff__calloc((size_t)graph->segment_count, sizeof *out->segments);
    bool complete = marks && out->fixed && out->segments;
    for (int i = 0; i < graph->segment_count && complete; i++) {
        out->count++;
        complete = find_members(graph, i, marks, &out->segments[i]);
        out->segments[i].number = ++graph->recomputation_count;
    }
    tuff__free(marks);
    if (!complete)
        return TUFF_E_OOM_HOST;
    find_fixed(graph, out->fixed);
    return TUFF_OK;
}

void tuff__recomputation_end(recomputation *self)
{
    for (int i = 0; i < self->count; i++) {
        tuff__free(self->segments[i].members);
        tuff__free(self->segments[i].copies);
    }
    tuff__free(self->segments);
    tuff__free(self->fixed);
    *self = (recomputation){.graph = NULL};
}

/* Takes constant time, by the segment's member table. */
static bool is_member(const recomputation *self, int index, const node *at)
{
    const int last = self->graph->segments[index].result->id, low = self->segments[index].low;
    return at->id >= low && at->id <= last && self->segments[index].members[at->id - low];
}

/* Orders segments from inner to outer: by member count, then by age. */
static bool is_inside(const recomputation *self, int index, int other)
{
    const int size = self->segments[index].size, other_size = self->segments[other].size;
    return size < other_size || (size == other_size && index < other);
}

/* Returns the innermost segment that the node belongs to and that lies outside `inner` (-1: the innermost of all); -1
   if there is none. */
static int enclosing_segment(const recomputation *self, int inner, const node *at)
{
    int found = -1;
    for (int i = 0; i < self->count; i++)
        if (is_member(self, i, at) && (inner < 0 || is_inside(self, inner, i)) &&
            (found < 0 || is_inside(self, i, found)))
            found = i;
    return found;
}

static tuff_tensor *value_in_segment(recomputation *self, int index, tuff_tensor *value);

/* Returns a copy of the node that reads its inputs inside the segment. An assignment is not repeated: its copy is the
   assigned value, rounded as the array stores it. A view of values that are not copied is not copied either. */
static tuff_tensor *copy_node(recomputation *self, int index, node *at)
{
    tuff_graph *graph = self->graph;
    tuff_tensor *value = &at->outputs[0], **inputs;
    if (self->fixed[at->id])
        return value;
    inputs = tuff__arena_alloc(&graph->arena, ((size_t)at->input_count + 1) * sizeof(tuff_tensor *));
    if (!inputs)
        return tuff__graph_fail(graph, TUFF_E_OOM_HOST, "gradients: out of host memory for a copy");
    bool same = true;
    for (int i = 0; i < at->input_count; i++) {
        inputs[i] = value_in_segment(self, index, at->inputs[i]);
        same = same && inputs[i] == at->inputs[i];
        if (!tuff__is_valid(inputs[i]))
            return inputs[i];
    }
    const bool narrows = tuff__dtype_is_float(value->dtype) && value->dtype != TUFF_F32;
    if (at->op == OP_ASSIGN && !narrows)
        return inputs[0];
    if (same && tuff__op_is_view(at->op))
        return value;
    const bool assigns = at->op == OP_ASSIGN;
    graph->recomputation = self->segments[index].number;
    tuff_tensor *made = tuff__node_create(graph, assigns ? OP_CAST : at->op, value->dtype, value->shape, inputs,
                                          at->input_count, assigns ? NULL : &at->attributes);
    graph->recomputation = 0;
    if (tuff__is_valid(made))
        made->node->stops_gradient = at->stops_gradient;
    return made;
}

/* Returns the copy of a member, after copying the members that it needs, in building order. Marks these in a table
   instead of recursing, since a segment may be thousands of nodes deep. */
static tuff_tensor *get_copy(recomputation *self, int index, node *at)
{
    tuff_tensor **copies = self->segments[index].copies;
    const int low = self->segments[index].low, last = at->id;
    if (copies[last - low])
        return copies[last - low];
    bool *needed = tuff__calloc((size_t)(last - low + 1), sizeof *needed);
    if (!needed)
        return tuff__graph_fail(self->graph, TUFF_E_OOM_HOST, "gradients: out of host memory for a segment");
    needed[last - low] = true;
    for (int i = last; i >= low; i--)
        for (int k = 0; k < self->graph->nodes[i]->input_count && needed[i - low]; k++) {
            const node *input = self->graph->nodes[i]->inputs[k]->node;
            if (is_member(self, index, input) && !copies[input->id - low])
                needed[input->id - low] = true;
        }
    for (int i = low; i <= last && self->graph->status == TUFF_OK; i++)
        if (needed[i - low])
            copies[i - low] = copy_node(self, index, self->graph->nodes[i]);
    tuff__free(needed);
    return self->graph->status == TUFF_OK ? copies[last - low] : &self->graph->failed;
}

/* Returns the value that copies in segment `index` read; index -1: the value itself. The result of a segment is kept
   for readers outside, so it is looked up in the enclosing segment. */
static tuff_tensor *value_in_segment(recomputation *self, int index, tuff_tensor *value)
{
    while (index >= 0 && (!is_member(self, index, value->node) || self->graph->segments[index].result == value->node))
        index = enclosing_segment(self, index, self->graph->segments[index].result);
    return index < 0 ? value : get_copy(self, index, value->node);
}

bool tuff__as_recomputed(recomputation *self, const node *n, node *out)
{
    tuff_graph *graph = self->graph;
    const int index = enclosing_segment(self, -1, n);
    *out = *n;
    if (index < 0)
        return true;
    out->inputs = tuff__arena_alloc(&graph->arena, ((size_t)n->input_count + 1) * sizeof(tuff_tensor *));
    if (!out->inputs) {
        tuff__graph_fail(graph, TUFF_E_OOM_HOST, "gradients: out of host memory for a segment");
        return false;
    }
    for (int i = 0; i < n->input_count && graph->status == TUFF_OK; i++)
        out->inputs[i] = value_in_segment(self, index, n->inputs[i]);
    /* The gradient of REDUCE_MAX compares the result with the operand, which is a copy here. So the result must be
       recomputed from that copy, even if it is a segment's kept result. */
    node *own = n->outputs[0].node;
    const bool compared = n->op == OP_REDUCE_MAX && is_member(self, index, own) && !self->fixed[own->id];
    if (graph->status == TUFF_OK)
        out->outputs = compared ? get_copy(self, index, own) : value_in_segment(self, index, &n->outputs[0]);
    return graph->status == TUFF_OK;
}
