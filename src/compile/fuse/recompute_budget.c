/* Recomputation for a memory budget: ranks the values that are idle while memory use is at its peak, the cheapest for
   their size first. A copy of such a value is computed from values still in memory when its late readers run, and from
   copies of the others, including matmuls and attention. The caller decides how many to recompute: each prefix of the
   ranking is a valid plan. */
#include <string.h>

#include "compile/fuse/fuse.h"

#define SMALL_SHARE 16    /* a value's inputs of at most 1/16 of its size stay in memory for its copy */
#define MIN_SHARE 1024    /* values below 1/1024 of the peak are not worth recomputing */
#define EXPENSIVE_COST 16 /* cost of an exponential or the like, in additions */
#define TRAFFIC_COST 8    /* cost of writing an element and reading it again, in additions */
#define FOREVER INT32_MAX

typedef struct rewrite {
    struct fusion *fusion;
    tuff_graph *graph;
    int original_count; /* nodes from this id on are copies */
    int *first_late_reader; /* by node: the id from which on readers get its copy; 0 if it is not recomputed */
    int *last_reader;       /* by node: the id of the last node whose task reads its memory; FOREVER if kept */
    bool *copied;       /* by node: the values ranked so far need a copy of it */
    tuff_tensor **copy; /* by node: its copy */
    int *unchanged;     /* by inlined node: 1 + the id of the last reader for which no copies were under it */
    node **order;       /* the nodes in their new order */
    int order_count, order_capacity;
    int number; /* recomputation number of the copies made for the current reader */
} rewrite;

static int64_t bytes_of(const node *at)
{
    return 4 * tuff_shape_count(at->outputs[0].shape);
}

/* Returns the node whose memory holds `at`: a part of a concat lives as long as the concat. */
static const node *owner_of(const rewrite *self, const node *at)
{
    while (self->fusion->facts[at->id].placed_in != NULL)
        at = self->fusion->facts[at->id].placed_in;
    return at;
}

/* Fills in `last_reader`. Readers of an inlined node count as readers of the memory under it; a node that nothing reads
   does not count as a reader. */
static void find_last_readers(rewrite *self)
{
    for (int i = 0; i < self->original_count; ++i)
        self->last_reader[i] =
            self->fusion->facts[i].is_output || tuff__op_is_source(self->graph->nodes[i]->op) ? FOREVER : 0;
    for (int i = self->original_count - 1; i >= 0; --i) {
        const node *at = self->graph->nodes[i];
        const int reach = tuff__is_materialized(self->fusion, at) ? i : self->last_reader[i];
        for (int k = 0; k < at->input_count && self->last_reader[owner_of(self, at)->id] > 0; ++k) {
            const int input = owner_of(self, at->inputs[k]->node)->id;
            self->last_reader[input] = self->last_reader[input] < reach ? reach : self->last_reader[input];
        }
    }
}

/* Whether a copy made for `reader` can read the materialized node itself. Small nodes are kept in memory for it. */
static bool is_available(const rewrite *self, const node *at, int reader, int64_t size)
{
    const node *owner = owner_of(self, at);
    return self->first_late_reader[owner->id] == 0 &&
           (self->last_reader[owner->id] >= reader || bytes_of(owner) * SMALL_SHARE <= size);
}

static double cost_of(const rewrite *self, const node *at)
{
    const double count = (double)tuff_shape_count(at->outputs[0].shape);
    const double traffic = tuff__is_materialized(self->fusion, at) ? TRAFFIC_COST * count : 0;
    const tuff_shape *first = at->input_count > 0 ? &at->inputs[0]->shape : &at->outputs[0].shape;
    if (at->op == OP_MATMUL)
        return traffic + 2 * count * (double)first->extent[first->rank - 1];
    if (at->op == OP_ATTENTION)
        return traffic + 4 * count * (double)at->inputs[1]->shape.extent[1];
    if (tuff__op_is_view(at->op) || at->op == OP_ATTENTION_LSE)
        return traffic;
    if (tuff__op_is_expensive(at->op))
        return traffic + EXPENSIVE_COST * count;
    return traffic + count + (double)tuff_shape_count(*first);
}

/* Whether an input must be copied together with its reader: one kernel computes attention and its log-sum-exp. */
static bool must_follow(const node *reader, int input)
{
    return reader->op == OP_ATTENTION && input == tuff__attention_inputs(reader->op, reader->attributes.options).lse;
}

/* Returns the cost of a copy of the node for `reader`, on top of the copies that exist. If `mark` is set, it counts as
   one of them from now on. */
static double chain_cost(rewrite *self, const node *at, int reader, int64_t size, bool mark)
{
    struct fusion *fusion = self->fusion;
    if (fusion->marks[at->id] == fusion->mark || self->copied[at->id])
        return 0;
    fusion->marks[at->id] = fusion->mark;
    self->copied[at->id] = mark;
    double cost = cost_of(self, at);
    for (int i = 0; i < at->input_count; ++i) {
        const node *input = at->inputs[i]->node;
        if (input->op == OP_IOTA || (tuff__is_materialized(self->fusion, input) &&
                                     is_available(self, input, reader, size) && !must_follow(at, i)))
            continue;
        cost += chain_cost(self, input, reader, size, mark);
    }
    return cost;
}

static tuff_status begin(struct fusion *fusion, rewrite *out)
{
    const size_t count = (size_t)fusion->graph->node_count + 1;
    *out = (rewrite){.fusion = fusion, .graph = fusion->graph, .original_count = fusion->graph->node_count};
    out->first_late_reader = tuff__calloc(count, sizeof *out->first_late_reader);
    out->last_reader = tuff__calloc(count, sizeof *out->last_reader);
    out->copied = tuff__calloc(count, sizeof *out->copied);
    out->copy = tuff__calloc(count, sizeof(tuff_tensor *));
    out->unchanged = tuff__calloc(count, sizeof *out->unchanged);
    if (out->first_late_reader == NULL || out->last_reader == NULL || out->copied == NULL || out->copy == NULL ||
        out->unchanged == NULL)
        return TUFF_E_OOM_HOST;
    find_last_readers(out);
    return TUFF_OK;
}

static void finish(rewrite *self)
{
    tuff__free(self->first_late_reader);
    tuff__free(self->last_reader);
    tuff__free(self->copied);
    tuff__free(self->copy);
    tuff__free(self->unchanged);
    tuff__free(self->order);
}

/* Returns the bytes of a temporary that could be recomputed; 0 for nodes that stay in memory in any case. Values
   compared for equality do, because they must be computed only once. */
static int64_t idle_size(const struct fusion *fusion, const node *at)
{
    const node_facts *facts = &fusion->facts[at->id];
    const bool temporary =
        facts->materialized && !facts->is_output && !facts->compared && facts->placed_in == NULL && facts->task >= 0;
    return temporary && at->op != OP_ATTENTION_LSE ? bytes_of(at) : 0;
}

static int oldest_root(const struct task *task)
{
    int oldest = INT32_MAX;
    for (int i = 0; i < task->root_count; ++i)
        oldest = task->roots[i]->id < oldest ? task->roots[i]->id : oldest;
    return oldest;
}

/* Returns the task during which temporaries that could be recomputed take most memory, and sets *most to their size.
   change is zeroed scratch, one element longer than the list of tasks. */
static int find_peak(const struct fusion *fusion, int64_t *change, int64_t *most)
{
    for (int i = 0; i < fusion->graph->node_count; ++i) {
        const node *at = fusion->graph->nodes[i];
        const int64_t size = idle_size(fusion, at);
        if (size == 0)
            continue;
        int last = fusion->facts[i].task;
        for (int k = last + 1; k < fusion->task_count; ++k)
            last = tuff__task_reads(&fusion->tasks[k], at) ? k : last;
        change[fusion->facts[i].task] += size;
        change[last + 1] -= size;
    }
    int peak = 0;
    int64_t used = 0;
    for (int i = 0; i < fusion->task_count; ++i) {
        used += change[i];
        if (used > *most) {
            *most = used;
            peak = i;
        }
    }
    return peak;
}

/* If the value is idle at the peak, returns the id from which on its readers run after the peak; else 0. */
static int find_first_late_reader(const struct fusion *fusion, const node *at, int peak)
{
    int late = INT32_MAX, early = at->id;
    if (idle_size(fusion, at) == 0 || fusion->facts[at->id].task >= peak)
        return 0;
    for (int i = fusion->facts[at->id].task + 1; i < fusion->task_count; ++i) {
        const struct task *task = &fusion->tasks[i];
        if (!tuff__task_reads(task, at))
            continue;
        if (i == peak)
            return 0;
        if (i < peak && tuff__task_newest_root(task) > early)
            early = tuff__task_newest_root(task);
        if (i > peak && oldest_root(task) < late)
            late = oldest_root(task);
    }
    return late == INT32_MAX || late <= early ? 0 : late;
}

/* Returns the index of the next value to recompute: the one with the least cost per byte. */
static int choose(rewrite *self, const recomputed *from, int count)
{
    int best = -1;
    double least = 0;
    for (int i = 0; i < count; ++i) {
        const node *at = self->graph->nodes[from[i].id];
        ++self->fusion->mark;
        const double cost = chain_cost(self, at, from[i].first_late_reader, bytes_of(at), false) / (double)bytes_of(at);
        if (best < 0 || cost < least) {
            best = i;
            least = cost;
        }
    }
    return best;
}

static tuff_status rank(rewrite *self, recomputed **out, int *count)
{
    struct fusion *fusion = self->fusion;
    int capacity = 0;
    int64_t most = 0, *change = tuff__calloc((size_t)fusion->task_count + 2, sizeof *change);
    if (change == NULL)
        return TUFF_E_OOM_HOST;
    const int peak = find_peak(fusion, change, &most);
    tuff__free(change);
    for (int i = 0; i < self->original_count; ++i) {
        const int late = find_first_late_reader(fusion, self->graph->nodes[i], peak);
        if (late == 0 || bytes_of(self->graph->nodes[i]) * MIN_SHARE < most)
            continue;
        if (!GROW(*out, *count, capacity))
            return TUFF_E_OOM_HOST;
        (*out)[(*count)++] = (recomputed){.id = i, .first_late_reader = late};
    }
    for (int i = 0; i < *count; ++i) {
        const int next = i + choose(self, *out + i, *count - i);
        const recomputed chosen = (*out)[next];
        const node *at = self->graph->nodes[chosen.id];
        memmove(*out + i + 1, *out + i, (size_t)(next - i) * sizeof chosen);
        (*out)[i] = chosen;
        ++fusion->mark;
        chain_cost(self, at, chosen.first_late_reader, bytes_of(at), true);
        self->first_late_reader[chosen.id] = chosen.first_late_reader;
    }
    return TUFF_OK;
}

tuff_status tuff__rank_recomputed(struct fusion *fusion, recomputed **out, int *count)
{
    rewrite self;
    *out = NULL;
    *count = 0;
    tuff_status status = begin(fusion, &self);
    if (status == TUFF_OK)
        status = rank(&self, out, count);
    finish(&self);
    return status;
}

static bool append_node(rewrite *self, node *at)
{
    if (!GROW(self->order, self->order_count, self->order_capacity))
        return false;
    self->order[self->order_count++] = at;
    return true;
}

/* Copies the node with other inputs and appends the copy to the new order. Returns NULL if memory ran out. */
static tuff_tensor *make_copy(rewrite *self, const node *at, tuff_tensor *const *inputs)
{
    const tuff_tensor *value = &at->outputs[0];
    tuff_tensor *made =
        tuff__node_create(self->graph, at->op, value->dtype, value->shape, inputs, at->input_count, &at->attributes);
    if (made->node == NULL || !append_node(self, made->node))
        return NULL;
    made->node->is_late_copy = true;
    made->node->recomputation = self->number;
    return self->copy[at->id] = made;
}

static tuff_tensor *value_for_copy(rewrite *self, tuff_tensor *value, int reader, int64_t size, bool follows);

/* Returns the copy of a node, or the node itself if it is an inlined view whose input needs no copy; NULL if memory ran
   out. */
static tuff_tensor *copy_of(rewrite *self, node *at, int reader, int64_t size)
{
    if (self->copy[at->id] != NULL)
        return self->copy[at->id];
    tuff_tensor **inputs = tuff__arena_alloc(&self->graph->arena, ((size_t)at->input_count + 1) * sizeof *inputs);
    bool same = tuff__op_is_view(at->op) && !tuff__is_materialized(self->fusion, at);
    for (int i = 0; i < at->input_count && inputs != NULL; ++i) {
        inputs[i] = value_for_copy(self, at->inputs[i], reader, size, must_follow(at, i));
        if (inputs[i] == NULL)
            return NULL;
        same = same && inputs[i] == at->inputs[i];
    }
    if (inputs == NULL)
        return NULL;
    return same ? &at->outputs[0] : make_copy(self, at, inputs);
}

/* Returns the value that a copy made for `reader` reads in place of this one; NULL if memory ran out. */
static tuff_tensor *value_for_copy(rewrite *self, tuff_tensor *value, int reader, int64_t size, bool follows)
{
    node *at = value->node;
    if (at->id >= self->original_count || at->op == OP_IOTA || tuff__op_is_source(at->op))
        return value;
    if (tuff__is_materialized(self->fusion, at) && !follows && is_available(self, at, reader, size)) {
        int *last = &self->last_reader[owner_of(self, at)->id];
        *last = *last < reader ? reader : *last;
        return value;
    }
    return copy_of(self, at, reader, size);
}

/* Returns the value that the original node `reader` reads in place of this one; NULL if memory ran out. */
static tuff_tensor *value_for_reader(rewrite *self, tuff_tensor *value, int reader)
{
    node *at = value->node;
    if (at->id >= self->original_count || at->op == OP_IOTA || tuff__op_is_source(at->op))
        return value;
    if (tuff__is_materialized(self->fusion, at)) {
        const int first_late = self->first_late_reader[at->id];
        return first_late == 0 || reader < first_late ? value : copy_of(self, at, reader, bytes_of(at));
    }
    if (self->copy[at->id] != NULL || self->unchanged[at->id] == reader + 1)
        return self->copy[at->id] != NULL ? self->copy[at->id] : value;
    tuff_tensor **inputs = tuff__arena_alloc(&self->graph->arena, ((size_t)at->input_count + 1) * sizeof *inputs);
    bool same = true;
    for (int i = 0; i < at->input_count && inputs != NULL; ++i) {
        inputs[i] = value_for_reader(self, at->inputs[i], reader);
        if (inputs[i] == NULL)
            return NULL;
        same = same && inputs[i] == at->inputs[i];
    }
    if (inputs == NULL)
        return NULL;
    self->unchanged[at->id] = reader + 1;
    return same ? value : make_copy(self, at, inputs);
}

static tuff_status rewrite_all(rewrite *self)
{
    tuff_graph *graph = self->graph;
    int first = self->original_count;
    for (int i = 0; i < self->original_count; ++i) {
        first =
            self->first_late_reader[i] > 0 && self->first_late_reader[i] < first ? self->first_late_reader[i] : first;
        self->number = graph->nodes[i]->recomputation > self->number ? graph->nodes[i]->recomputation : self->number;
    }
    ++self->number;
    for (int i = 0; i < self->original_count; ++i) {
        node *at = graph->nodes[i];
        const int before = graph->node_count;
        graph->phase = at->phase;
        for (int k = 0; k < at->input_count && i >= first; ++k)
            if ((at->inputs[k] = value_for_reader(self, at->inputs[k], i)) == NULL)
                return TUFF_E_OOM_HOST;
        self->number += graph->node_count > before;
        if (!append_node(self, at))
            return TUFF_E_OOM_HOST;
    }
    tuff__graph_set_origin(graph, NULL);
    return tuff__graph_reorder(graph, self->order, self->order_count);
}

tuff_status tuff__recompute_ranked(struct fusion *fusion, const recomputed *list, int count)
{
    rewrite self;
    tuff_status status = begin(fusion, &self);
    for (int i = 0; i < count && status == TUFF_OK; ++i)
        self.first_late_reader[list[i].id] = list[i].first_late_reader;
    if (status == TUFF_OK)
        status = rewrite_all(&self);
    finish(&self);
    return status;
}
