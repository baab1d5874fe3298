/* tuff_recompute: segments of a graph of which gradients keep nothing but the inputs. tuff_gradients reads the values
   in between as copies of their nodes, built when the walk gets there. A copy carries the number of its recomputation,
   by which the compiler tells it from the original and runs it as late as it was built. */
#include "graph/segment.h"

#include "graph/builder.h"

/* The nodes of a segment: the result and what it is made of, back to the inputs and to values held in memory. All lie
   from `low` to the result. */
struct segment_copies {
    int low, size;        /* ids from low on; members among them */
    int number;           /* of the copies */
    bool *members;        /* by id - low */
    tuff_tensor **copies; /* likewise; NULL: none yet */
};

static bool is_input(const segment *of, const node *at)
{
    for (int i = 0; i < of->input_count; i++)
        if (of->inputs[i] == at)
            return true;
    return false;
}

/* Marks `from` and what it is made of: with a segment its members, which end before its inputs and what memory holds.
   Answers the lowest id marked. */
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

/* The graph of y and of inputs that y depends on; NULL with *answer set. */
static tuff_graph *check_segment(tuff_tensor *y, tuff_tensor *const *inputs, int count, tuff_tensor **answer)
{
    tuff_graph *graph = tuff__enter("recompute", &y, 1, answer);
    if (!graph)
        return NULL;
    if (count < 0 || (count > 0 && !inputs)) {
        *answer = tuff__graph_fail(graph, TUFF_E_USAGE, "recompute: %s %s: %s", tuff_dtype_name(y->dtype),
                                   SHAPE_TEXT(y->shape),
                                   count < 0 ? "the count of inputs is negative" : "the inputs are NULL");
        return NULL;
    }
    if (count > 0 && !tuff__enter("recompute", inputs, count, answer))
        return NULL;
    if (count > 0 && inputs[0]->graph != graph) {
        *answer = tuff__graph_fail(graph, TUFF_E_USAGE, "recompute: input 0, %s, belongs to another graph",
                                   SHAPE_TEXT(inputs[0]->shape));
        return NULL;
    }
    return graph;
}

tuff_tensor *tuff_recompute(tuff_tensor *y, tuff_tensor *const *inputs, int count)
{
    tuff_tensor *answer;
    tuff_graph *graph = check_segment(y, inputs, count, &answer);
    if (!graph)
        return answer;
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

static bool find_members(const tuff_graph *graph, int index, bool *marks, struct segment_copies *out)
{
    const segment *of = &graph->segments[index];
    const int last = of->result->id;
    for (int i = 0; i <= last; i++)
        marks[i] = false;
    out->low = mark_ancestors(graph, of->result, of, marks);
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

/* Random numbers depend on the step, an array. */
static void find_fixed(const tuff_graph *graph, bool *fixed)
{
    for (int i = 0; i < graph->node_count; i++) {
        const node *at = graph->nodes[i];
        fixed[i] = at->op == OP_CONSTANT || at->op == OP_IOTA || at->input_count > 0;
        for (int k = 0; k < at->input_count; k++)
            fixed[i] = fixed[i] && fixed[at->inputs[k]->node->id];
    }
}

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
        out->segments[i].number = ++graph->copy_count;
    }
    tuff__free(marks);
    if (!complete)
        return TUFF_E_OOM_HOST;
    find_fixed(graph, out->fixed);
    return TUFF_OK;
}

void tuff__recomputation_end(recomputation *with)
{
    for (int i = 0; i < with->count; i++) {
        tuff__free(with->segments[i].members);
        tuff__free(with->segments[i].copies);
    }
    tuff__free(with->segments);
    tuff__free(with->fixed);
    *with = (recomputation){.graph = NULL};
}

static bool is_member(const recomputation *with, int index, const node *at)
{
    const int last = with->graph->segments[index].result->id, low = with->segments[index].low;
    return at->id >= low && at->id <= last && with->segments[index].members[at->id - low];
}

/* Segments from the inside to the outside: by their members, and those of equal size in the order of their making. */
static bool is_inside(const recomputation *with, int index, int other)
{
    const int size = with->segments[index].size, other_size = with->segments[other].size;
    return size < other_size || (size == other_size && index < other);
}

/* The innermost segment outside of `inner` (-1: the innermost of all) that the node belongs to; -1 where there is
   none. */
static int segment_around(const recomputation *with, int inner, const node *at)
{
    int found = -1;
    for (int i = 0; i < with->count; i++)
        if (is_member(with, i, at) && (inner < 0 || is_inside(with, inner, i)) &&
            (found < 0 || is_inside(with, i, found)))
            found = i;
    return found;
}

static tuff_tensor *value_in(recomputation *with, int index, tuff_tensor *value);

/* Assigning is done once; what is assigned is the value. */
static tuff_tensor *copy_node(recomputation *with, int index, node *at)
{
    tuff_graph *graph = with->graph;
    tuff_tensor *value = &at->outputs[0], **inputs;
    if (with->fixed[at->id])
        return value;
    inputs = tuff__arena_alloc(&graph->arena, ((size_t)at->input_count + 1) * sizeof(tuff_tensor *));
    if (!inputs)
        return tuff__graph_fail(graph, TUFF_E_OOM_HOST, "gradients: out of host memory for a copy");
    bool same = true;
    for (int i = 0; i < at->input_count; i++) {
        inputs[i] = value_in(with, index, at->inputs[i]);
        same = same && inputs[i] == at->inputs[i];
        if (!tuff__is_sound(inputs[i]))
            return inputs[i];
    }
    if (at->op == OP_ASSIGN)
        return inputs[0];
    if (same && tuff__op_is_view(at->op))
        return value;
    graph->copy = with->segments[index].number;
    tuff_tensor *made =
        tuff__node_create(graph, at->op, value->dtype, value->shape, inputs, at->input_count, &at->attributes);
    graph->copy = 0;
    if (tuff__is_sound(made))
        made->node->stops_gradient = at->stops_gradient;
    return made;
}

/* What the member needs comes first, in building order: segments may be deep, so this does not recurse within one. */
static tuff_tensor *copy_of(recomputation *with, int index, node *at)
{
    tuff_tensor **copies = with->segments[index].copies;
    const int low = with->segments[index].low, last = at->id;
    if (copies[last - low])
        return copies[last - low];
    bool *needed = tuff__calloc((size_t)(last - low + 1), sizeof *needed);
    if (!needed)
        return tuff__graph_fail(with->graph, TUFF_E_OOM_HOST, "gradients: out of host memory for a segment");
    needed[last - low] = true;
    for (int i = last; i >= low; i--)
        for (int k = 0; k < with->graph->nodes[i]->input_count && needed[i - low]; k++) {
            const node *input = with->graph->nodes[i]->inputs[k]->node;
            if (is_member(with, index, input) && !copies[input->id - low])
                needed[input->id - low] = true;
        }
    for (int i = low; i <= last && with->graph->status == TUFF_OK; i++)
        if (needed[i - low])
            copies[i - low] = copy_node(with, index, with->graph->nodes[i]);
    tuff__free(needed);
    return with->graph->status == TUFF_OK ? copies[last - low] : &with->graph->failed;
}

/* A value as the nodes of a segment read it when they are computed again; index -1: as it is. The result of a segment
   is what those around it read. */
static tuff_tensor *value_in(recomputation *with, int index, tuff_tensor *value)
{
    while (index >= 0 && (!is_member(with, index, value->node) || with->graph->segments[index].result == value->node))
        index = segment_around(with, index, with->graph->segments[index].result);
    return index < 0 ? value : copy_of(with, index, value->node);
}

bool tuff__as_recomputed(recomputation *with, const node *of, node *out)
{
    tuff_graph *graph = with->graph;
    const int index = segment_around(with, -1, of);
    *out = *of;
    if (index < 0)
        return true;
    out->inputs = tuff__arena_alloc(&graph->arena, ((size_t)of->input_count + 1) * sizeof(tuff_tensor *));
    if (!out->inputs) {
        tuff__graph_fail(graph, TUFF_E_OOM_HOST, "gradients: out of host memory for a segment");
        return false;
    }
    for (int i = 0; i < of->input_count && graph->status == TUFF_OK; i++)
        out->inputs[i] = value_in(with, index, of->inputs[i]);
    if (graph->status == TUFF_OK)
        out->outputs = value_in(with, index, &of->outputs[0]);
    return graph->status == TUFF_OK;
}
