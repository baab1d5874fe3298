/* Values that the forward pass leaves for the backward pass only because they are read there once more, though all that
   they are made of by elementwise ops is still in memory then: they are computed again instead of kept. A second, late
   copy of their nodes serves the late readers; fusion places it, mostly as one more output of a kernel that reads the
   same memory anyway. */
#include <string.h>

#include "compile/fuse/fuse.h"

#define LEAST_BYTES (256 << 10) /* of a value that is worth it */
#define MOST_OPS 24
#define MOST_LEAVES 6
#define FOREVER INT32_MAX

typedef struct rewrite {
    struct fusion *fusion;
    tuff_graph *graph;
    int original_count; /* nodes beyond are late copies */
    int *last;          /* by node: the id of the last node whose task reads its memory; FOREVER where kept */
    int *before;        /* by late copy: the id of the original node it comes in front of */
    int before_count, before_capacity;
    tuff_tensor **copy; /* by node: its late copy; for one value at a time */
    bool changed;
} rewrite;

static bool is_anchor(const rewrite *with, const node *at)
{
    return tuff__op_is_source(at->op) || with->fusion->facts[at->id].anchor;
}

/* Whether `at` is the value or a view of it without memory of its own. */
static bool stands_for(const rewrite *with, const node *at, const node *value)
{
    while (at != value && at->id < with->original_count && tuff__op_is_view(at->op) && !is_anchor(with, at))
        at = at->inputs[0]->node;
    return at == value;
}

/* Readers of an inlined node are readers of the memory behind it. */
static void find_last_readers(rewrite *with)
{
    memset(with->last, 0, (size_t)with->original_count * sizeof *with->last);
    for (int i = 0; i < with->original_count; ++i)
        if (with->fusion->facts[i].kept)
            with->last[i] = FOREVER;
    for (int i = with->graph->node_count - 1; i >= 0; --i) {
        const node *at = with->graph->nodes[i];
        const bool late = i >= with->original_count, ends = late || is_anchor(with, at);
        const int id = late ? with->before[i - with->original_count] : i;
        const int reach = ends || with->last[i] < id ? id : with->last[i];
        for (int k = 0; k < at->input_count; ++k) {
            const int input = at->inputs[k]->node->id;
            if (input < with->original_count && with->last[input] < reach)
                with->last[input] = reach;
        }
    }
}

typedef struct chain_cost {
    int ops, leaves;
    bool possible;
} chain_cost;

/* What computing a value again at `late` takes; impossible where something that it needs is gone by then. */
static void measure(rewrite *with, const node *at, bool root, int late, chain_cost *cost)
{
    struct fusion *fusion = with->fusion;
    if (at->id >= with->original_count)
        cost->possible = false;
    if (!cost->possible || fusion->marks[at->id] == fusion->mark)
        return;
    fusion->marks[at->id] = fusion->mark;
    if (!root && is_anchor(with, at)) {
        cost->leaves += at->op != OP_CONSTANT;
        cost->possible = cost->leaves <= MOST_LEAVES && (tuff__op_is_source(at->op) || with->last[at->id] >= late);
        return;
    }
    const bool copied = tuff__op_is_elementwise(at->op) || tuff__op_is_view(at->op) || at->op == OP_RANDOM;
    cost->ops += tuff__op_is_elementwise(at->op) || at->op == OP_RANDOM;
    cost->possible = (copied || at->op == OP_IOTA) && cost->ops <= MOST_OPS;
    for (int i = 0; i < at->input_count; ++i)
        measure(with, at->inputs[i]->node, false, late, cost);
}

/* The first reader beyond the widest gap between readers; 0 where no gap is wide. */
static int find_late_reader(const rewrite *with, const node *value)
{
    int previous = value->id, late = 0, widest = LATE_GAP;
    for (int i = value->id + 1; i < with->original_count; ++i) {
        const node *at = with->graph->nodes[i];
        bool reads = false;
        for (int k = 0; k < at->input_count && !reads; ++k)
            reads = stands_for(with, at->inputs[k]->node, value);
        if (!reads || stands_for(with, at, value))
            continue;
        if (i - previous > widest) {
            widest = i - previous;
            late = i;
        }
        previous = i;
    }
    return late;
}

/* The late copy of a node: itself where it has memory or costs nothing. NULL where memory ran out. */
static tuff_tensor *copy_of(rewrite *with, node *at, const node *value, int late)
{
    if (at->op == OP_IOTA || (at != value && is_anchor(with, at)))
        return &at->outputs[0];
    if (with->copy[at->id] != NULL)
        return with->copy[at->id];
    tuff_tensor *inputs[8];
    if (at->input_count > 8)
        return NULL;
    for (int i = 0; i < at->input_count; ++i)
        if ((inputs[i] = copy_of(with, at->inputs[i]->node, value, late)) == NULL)
            return NULL;
    if (!GROW(with->before, with->before_count, with->before_capacity))
        return NULL;
    const tuff_tensor *output = &at->outputs[0];
    tuff_tensor *made =
        tuff__node_create(with->graph, at->op, output->dtype, output->shape, inputs, at->input_count, &at->attributes);
    if (made->node == NULL)
        return NULL;
    made->node->is_late_copy = true;
    with->before[with->before_count++] = late;
    with->copy[at->id] = made;
    return made;
}

static tuff_status redirect(rewrite *with, node *value, int late)
{
    memset(with->copy, 0, (size_t)with->original_count * sizeof *with->copy);
    for (int i = late; i < with->original_count; ++i) {
        node *at = with->graph->nodes[i];
        if (stands_for(with, at, value))
            continue;
        for (int k = 0; k < at->input_count; ++k) {
            if (!stands_for(with, at->inputs[k]->node, value))
                continue;
            tuff_tensor *copy = copy_of(with, at->inputs[k]->node, value, late);
            if (copy == NULL)
                return TUFF_E_OOM_HOST;
            at->inputs[k] = copy;
        }
    }
    with->changed = true;
    return TUFF_OK;
}

static bool is_candidate(const rewrite *with, const node *at)
{
    const node_facts *facts = &with->fusion->facts[at->id];
    return facts->anchor && !facts->kept && facts->placed == NULL && tuff__op_is_elementwise(at->op) &&
           4 * tuff_shape_count(at->outputs[0].shape) >= LEAST_BYTES;
}

static tuff_status visit(rewrite *with, node *value)
{
    const int late = is_candidate(with, value) ? find_late_reader(with, value) : 0;
    if (late == 0)
        return TUFF_OK;
    find_last_readers(with);
    chain_cost cost = {.possible = true};
    ++with->fusion->mark;
    measure(with, value, true, late, &cost);
    const bool wanted = cost.possible && tuff__pass_decides(with->fusion->passes, TUNABLE_fusion_recompute, true);
    return wanted ? redirect(with, value, late) : TUFF_OK;
}

/* Late copies move in front of their first readers, and ids follow. */
static tuff_status sort(rewrite *with)
{
    tuff_graph *graph = with->graph;
    const int copies = graph->node_count - with->original_count;
    node **sorted = tuff__calloc((size_t)graph->node_count + 1, sizeof(node *));
    if (sorted == NULL)
        return TUFF_E_OOM_HOST;
    int count = 0;
    for (int i = 0; i < with->original_count; ++i) {
        for (int k = 0; k < copies; ++k)
            if (with->before[k] == i)
                sorted[count++] = graph->nodes[with->original_count + k];
        sorted[count++] = graph->nodes[i];
    }
    for (int i = 0; i < count; ++i)
        sorted[i]->id = i;
    memcpy(graph->nodes, sorted, (size_t)count * sizeof(node *));
    tuff__free(sorted);
    return TUFF_OK;
}

tuff_status tuff__recompute(struct fusion *fusion, bool *changed)
{
    tuff_graph *graph = fusion->graph;
    const size_t count = (size_t)graph->node_count + 1;
    rewrite with = {.fusion = fusion, .graph = graph, .original_count = graph->node_count};
    with.last = tuff__calloc(count, sizeof *with.last);
    with.copy = tuff__calloc(count, sizeof(tuff_tensor *));
    tuff_status status = with.last == NULL || with.copy == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    for (int i = 0; i < with.original_count && status == TUFF_OK; ++i)
        status = visit(&with, graph->nodes[i]);
    if (status == TUFF_OK && with.changed)
        status = sort(&with);
    tuff__free(with.last);
    tuff__free(with.copy);
    tuff__free(with.before);
    *changed = with.changed;
    return status;
}
