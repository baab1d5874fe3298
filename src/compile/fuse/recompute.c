/* Cheap recomputation: a value that the backward pass reads once more is recomputed instead of kept, if elementwise ops
   can make it from values that are still in memory then. Its nodes are cloned, and late uses read the clones, which
   fusion usually turns into one more output of a kernel that reads the same memory anyway. */
#include <string.h>

#include "compile/fuse/fuse.h"

#define MIN_BYTES (256 << 10) /* size of a value that is worth recomputing */
#define MAX_OPS 24
#define MAX_LEAVES 6
#define FOREVER INT32_MAX

typedef struct rewrite {
    struct fusion *fusion;
    tuff_graph *graph;
    int original_count; /* nodes from this id on are late copies */
    int *last_reader;   /* by node: the id of the last node whose task reads its memory; FOREVER if kept */
    int *insert_before; /* by late copy: the id of the original node in front of which it goes */
    int insert_before_count, insert_before_capacity;
    tuff_tensor **copy; /* by node: its late copy, for the value being recomputed */
    bool changed;
} rewrite;

/* Whether `at` is the value, or a view of it without memory of its own. */
static bool is_view_of(const rewrite *self, const node *at, const node *value)
{
    while (at != value && at->id < self->original_count && tuff__op_is_view(at->op) &&
           !tuff__is_materialized(self->fusion, at))
        at = at->inputs[0]->node;
    return at == value;
}

/* Fills in `last_reader`. Readers of an inlined node count as readers of the memory under it. */
static void find_last_readers(rewrite *self)
{
    memset(self->last_reader, 0, (size_t)self->original_count * sizeof *self->last_reader);
    for (int i = 0; i < self->original_count; ++i)
        if (self->fusion->facts[i].is_output)
            self->last_reader[i] = FOREVER;
    for (int i = self->graph->node_count - 1; i >= 0; --i) {
        const node *at = self->graph->nodes[i];
        const bool is_copy = i >= self->original_count, ends = is_copy || tuff__is_materialized(self->fusion, at);
        const int id = is_copy ? self->insert_before[i - self->original_count] : i;
        const int reach = ends || self->last_reader[i] < id ? id : self->last_reader[i];
        for (int k = 0; k < at->input_count; ++k) {
            const int input = at->inputs[k]->node->id;
            if (input < self->original_count && self->last_reader[input] < reach)
                self->last_reader[input] = reach;
        }
    }
}

typedef struct chain_cost {
    int ops, leaves;
    bool possible;
} chain_cost;

/* Adds the cost of recomputing a node just before node `late_reader`. Clears cost->possible if an input is no longer in
   memory then, or the limits on ops or leaves are exceeded. */
static void measure(rewrite *self, const node *at, bool root, int late_reader, chain_cost *cost)
{
    struct fusion *fusion = self->fusion;
    if (at->id >= self->original_count)
        cost->possible = false;
    if (!cost->possible || fusion->marks[at->id] == fusion->mark)
        return;
    fusion->marks[at->id] = fusion->mark;
    if (!root && tuff__is_materialized(self->fusion, at)) {
        cost->leaves += at->op != OP_CONSTANT;
        cost->possible =
            cost->leaves <= MAX_LEAVES && (tuff__op_is_source(at->op) || self->last_reader[at->id] >= late_reader);
        return;
    }
    const bool copied = tuff__op_is_elementwise(at->op) || tuff__op_is_view(at->op) || at->op == OP_RANDOM;
    cost->ops += tuff__op_is_elementwise(at->op) || at->op == OP_RANDOM;
    cost->possible = (copied || at->op == OP_IOTA) && cost->ops <= MAX_OPS;
    for (int i = 0; i < at->input_count; ++i)
        measure(self, at->inputs[i]->node, false, late_reader, cost);
}

/* Returns the id of the first reader after the widest gap between readers; 0 if no gap is wide enough. */
static int find_late_reader(const rewrite *self, const node *value)
{
    int previous = value->id, late_reader = 0, widest = LATE_GAP;
    for (int i = value->id + 1; i < self->original_count; ++i) {
        const node *at = self->graph->nodes[i];
        bool reads = false;
        for (int k = 0; k < at->input_count && !reads; ++k)
            reads = is_view_of(self, at->inputs[k]->node, value);
        if (!reads || is_view_of(self, at, value))
            continue;
        if (i - previous > widest) {
            widest = i - previous;
            late_reader = i;
        }
        previous = i;
    }
    return late_reader;
}

/* Returns the late copy of a node, or the node itself if it has memory or costs nothing; NULL if memory ran out. */
static tuff_tensor *copy_of(rewrite *self, node *at, const node *value, int late_reader)
{
    if (at->op == OP_IOTA || (at != value && tuff__is_materialized(self->fusion, at)))
        return &at->outputs[0];
    if (self->copy[at->id] != NULL)
        return self->copy[at->id];
    tuff_tensor *inputs[3]; /* enough for all elementwise ops and views */
    for (int i = 0; i < at->input_count; ++i)
        if ((inputs[i] = copy_of(self, at->inputs[i]->node, value, late_reader)) == NULL)
            return NULL;
    if (!GROW(self->insert_before, self->insert_before_count, self->insert_before_capacity))
        return NULL;
    const tuff_tensor *output = &at->outputs[0];
    tuff_tensor *made =
        tuff__node_create(self->graph, at->op, output->dtype, output->shape, inputs, at->input_count, &at->attributes);
    if (made->node == NULL)
        return NULL;
    made->node->is_late_copy = true;
    self->insert_before[self->insert_before_count++] = late_reader;
    self->copy[at->id] = made;
    return made;
}

static tuff_status redirect(rewrite *self, node *value, int late_reader)
{
    memset(self->copy, 0, (size_t)self->original_count * sizeof *self->copy);
    self->graph->phase = self->graph->nodes[late_reader]->phase;
    for (int i = late_reader; i < self->original_count; ++i) {
        node *at = self->graph->nodes[i];
        if (is_view_of(self, at, value))
            continue;
        for (int k = 0; k < at->input_count; ++k) {
            if (!is_view_of(self, at->inputs[k]->node, value))
                continue;
            tuff_tensor *copy = copy_of(self, at->inputs[k]->node, value, late_reader);
            if (copy == NULL)
                return TUFF_E_OOM_HOST;
            at->inputs[k] = copy;
        }
    }
    self->changed = true;
    return TUFF_OK;
}

/* Whether the node is a 16-bit copy of a source, which mixed precision makes once per run. */
static bool is_narrow_copy(const node *at)
{
    return at->op == OP_CAST && tuff_dtype_size(at->outputs[0].dtype) < 4 &&
           tuff__op_is_source(at->inputs[0]->node->op);
}

static bool is_candidate(const rewrite *self, const node *at)
{
    const node_facts *facts = &self->fusion->facts[at->id];
    if (is_narrow_copy(at) || facts->compared)
        return false;
    return facts->materialized && !facts->is_output && facts->placed_in == NULL && tuff__op_is_elementwise(at->op) &&
           4 * tuff_shape_count(at->outputs[0].shape) >= MIN_BYTES;
}

static tuff_status visit(rewrite *self, node *value)
{
    const int late_reader = is_candidate(self, value) ? find_late_reader(self, value) : 0;
    if (late_reader == 0)
        return TUFF_OK;
    find_last_readers(self);
    chain_cost cost = {.possible = true};
    ++self->fusion->mark;
    measure(self, value, true, late_reader, &cost);
    const bool wanted = cost.possible && tuff__pass_decides(self->fusion->passes, TUNABLE_fusion_recompute, true);
    return wanted ? redirect(self, value, late_reader) : TUFF_OK;
}

tuff_status tuff__recompute(struct fusion *fusion, bool *changed)
{
    tuff_graph *graph = fusion->graph;
    const size_t count = (size_t)graph->node_count + 1;
    rewrite self = {.fusion = fusion, .graph = graph, .original_count = graph->node_count};
    self.last_reader = tuff__calloc(count, sizeof *self.last_reader);
    self.copy = tuff__calloc(count, sizeof(tuff_tensor *));
    tuff_status status = self.last_reader == NULL || self.copy == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    for (int i = 0; i < self.original_count && status == TUFF_OK; ++i)
        status = visit(&self, graph->nodes[i]);
    tuff__graph_set_origin(graph, NULL);
    if (status == TUFF_OK && self.changed)
        status = tuff__graph_insert(graph, self.original_count, self.insert_before);
    tuff__free(self.last_reader);
    tuff__free(self.copy);
    tuff__free(self.insert_before);
    *changed = self.changed;
    return status;
}
