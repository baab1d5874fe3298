/* Shared code of the merges of matmuls: users of nodes, profitability, and the sorting of old and new nodes. */
#include "base/checked.h"
#include "compile/rewrite/matmul_merge.h"
#include "compile/schedule/cost.h"

node *tuff__only_user(const rewriting *self, const node *at)
{
    if (at->id >= self->original_count || self->use_count[at->id] != 1 || self->is_output[at->id])
        return NULL;
    return self->user[at->id];
}

/* Returns the seconds that compute units would idle during the last tiles of separate products, minus those of the
   joined product. */
static double idle_seconds_saved(const cost_parameters *on, const merge_cost *cost)
{
    const double tile = 2.0 * (double)(on->tile_rows * on->tile_columns * cost->inner) / on->rate;
    int64_t apart = 0, tiles = 0;
    if (cost->along_inner)
        return 0;
    for (int i = 0; i < cost->count; ++i) {
        const int64_t own =
            tuff__divide_up(cost->rows, on->tile_rows) * tuff__divide_up(cost->columns[i], on->tile_columns);
        apart += tuff__divide_up(own, on->units);
        tiles += own;
    }
    return (double)(apart - tuff__divide_up(tiles, on->units)) * tile;
}

bool tuff__merge_is_profitable(const rewriting *self, const merge_cost *cost)
{
    const cost_parameters on = tuff__cost_parameters(&self->target);
    const double saved = (double)cost->launches_saved * on.launch + idle_seconds_saved(&on, cost);
    return saved > cost->bytes_added / on.bandwidth;
}

/* Whether the value is already a part of a concat. */
static bool is_part(const rewriting *self, const node *at)
{
    for (int i = at->id + 1; i < self->original_count; ++i) {
        const node *user = self->graph->nodes[i];
        for (int k = 0; k < user->input_count && user->op == OP_CONCAT; ++k)
            if (user->inputs[k]->node == at)
                return true;
    }
    return false;
}

static bool can_be_placed(const rewriting *self, const tuff_tensor *value)
{
    const node *at = value->node;
    if (self->is_output[at->id] || is_part(self, at))
        return false;
    while (at->op == OP_RESHAPE || at->op == OP_PERMUTE)
        at = at->inputs[0]->node;
    const bool computed = tuff__op_is_elementwise(at->op) || at->op == OP_MATMUL || at->op == OP_SUM ||
                          (tuff__op_is_attention(at->op) && at->op != OP_ATTENTION_LSE);
    return computed && !self->is_output[at->id] && !self->taken[at->id];
}

/* Returns an existing concat of the values, or NULL. */
static tuff_tensor *find_concat(const rewriting *self, tuff_tensor *const *values, int count, int axis)
{
    for (int i = values[0]->node->id + 1; i < self->graph->node_count; ++i) {
        node *at = self->graph->nodes[i];
        bool same = at->op == OP_CONCAT && at->input_count == count && at->attributes.axis == axis;
        for (int k = 0; k < count && same; ++k)
            same = at->inputs[k] == values[k];
        if (same)
            return &at->outputs[0];
    }
    return NULL;
}

bool tuff__concat_is_free(const rewriting *self, tuff_tensor *const *values, int count, int axis)
{
    bool placed = true;
    if (find_concat(self, values, count, axis) != NULL)
        return true;
    for (int i = 0; i < count; ++i) {
        placed &= can_be_placed(self, values[i]);
        for (int k = 0; k < i; ++k)
            placed &= values[k] != values[i]; /* a value can have only one place */
    }
    return placed;
}

tuff_tensor *tuff__concat_as_view(rewriting *self, tuff_tensor *const *values, int count, int axis)
{
    tuff_tensor *found = find_concat(self, values, count, axis);
    for (int i = 0; i < count; ++i)
        self->taken[values[i]->node->id] = true;
    return found != NULL ? found : tuff_concat((tuff_tensor **)values, count, axis);
}

tuff_status tuff__rewriting_begin(rewriting *self, tuff_graph *graph)
{
    const size_t count = (size_t)graph->node_count + 1;
    *self =
        (rewriting){.graph = graph, .original_count = graph->node_count, .target = tuff__device_target(graph->device)};
    self->use_count = tuff__calloc(count, sizeof *self->use_count);
    self->user = tuff__calloc(count, sizeof *self->user);
    self->is_output = tuff__calloc(count, sizeof *self->is_output);
    self->taken = tuff__calloc(count, sizeof *self->taken);
    self->replacement = tuff__calloc(count, sizeof *self->replacement);
    if (self->use_count == NULL || self->user == NULL || self->is_output == NULL || self->taken == NULL ||
        self->replacement == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < graph->node_count; ++i)
        for (int k = 0; k < graph->nodes[i]->input_count; ++k) {
            const int input = graph->nodes[i]->inputs[k]->node->id;
            ++self->use_count[input];
            self->user[input] = graph->nodes[i];
        }
    for (int i = 0; i < graph->output_count; ++i)
        self->is_output[graph->outputs[i].tensor->node->id] = true;
    for (int i = 0; i < graph->assign_count; ++i)
        self->is_output[graph->assigns[i]->inputs[0]->node->id] = true;
    return TUFF_OK;
}

/* Redirects all uses of replaced nodes. */
static void redirect(const rewriting *self)
{
    for (int i = 0; i < self->graph->node_count; ++i) {
        node *at = self->graph->nodes[i];
        for (int k = 0; k < at->input_count; ++k) {
            const int input = at->inputs[k]->node->id;
            if (input < self->original_count && self->replacement[input] != NULL)
                at->inputs[k] = self->replacement[input];
        }
    }
    for (int i = 0; i < self->graph->output_count; ++i) {
        const int id = self->graph->outputs[i].tensor->node->id;
        if (id < self->original_count && self->replacement[id] != NULL)
            self->graph->outputs[i].tensor = self->replacement[id];
    }
}

typedef struct sort_state {
    node **sorted;
    int count;
    bool *placed; /* by old id */
} sort_state;

/* Places a node after everything that it needs. */
static void place(sort_state *self, node *at)
{
    if (self->placed[at->id])
        return;
    self->placed[at->id] = true;
    for (int i = 0; i < at->input_count; ++i)
        place(self, at->inputs[i]->node);
    self->sorted[self->count++] = at;
}

/* Fills in, for every new node from the first one on, the id of the last old node that it needs; -1 if it needs none.
   New nodes were made after the nodes that they need. */
static void find_last_needed(const rewriting *self, int *last)
{
    const tuff_graph *graph = self->graph;
    for (int i = self->original_count; i < graph->node_count; ++i) {
        int *latest = &last[i - self->original_count];
        *latest = -1;
        for (int k = 0; k < graph->nodes[i]->input_count; ++k) {
            const int input = graph->nodes[i]->inputs[k]->node->id;
            const int needed = input < self->original_count ? input : last[input - self->original_count];
            *latest = needed > *latest ? needed : *latest;
        }
    }
}

/* Places every old node, in order, and after it the new nodes that can be computed from then on. first and next are
   scratch: linked lists of new nodes, by old node. */
static void place_all(const rewriting *self, sort_state *all, const int *last, int *first, int *next)
{
    const tuff_graph *graph = self->graph;
    const int old = self->original_count;
    for (int i = 0; i < old; ++i)
        first[i] = -1;
    for (int i = graph->node_count - 1; i >= old; --i)
        if (last[i - old] >= 0) {
            next[i - old] = first[last[i - old]];
            first[last[i - old]] = i;
        }
    for (int i = 0; i < old; ++i) {
        place(all, graph->nodes[i]);
        for (int k = first[i]; k >= 0; k = next[k - old])
            place(all, graph->nodes[k]);
    }
}

/* Sorts the nodes: old nodes keep their order as far as possible, new ones come as early as possible, and dead ones are
   dropped. */
static tuff_status sort(const rewriting *self)
{
    tuff_graph *graph = self->graph;
    const size_t size = (size_t)graph->node_count + 1;
    sort_state all = {.sorted = tuff__calloc(size, sizeof(node *)), .placed = tuff__calloc(size, sizeof(bool))};
    int *numbers = tuff__calloc(3 * size, sizeof *numbers);
    tuff_status status = TUFF_E_OOM_HOST;
    if (all.sorted != NULL && all.placed != NULL && numbers != NULL) {
        find_last_needed(self, numbers);
        place_all(self, &all, numbers, numbers + size, numbers + 2 * size);
        status = tuff__graph_reorder(graph, all.sorted, all.count);
    }
    tuff__free(all.sorted);
    tuff__free(all.placed);
    tuff__free(numbers);
    return status;
}

tuff_status tuff__rewriting_end(rewriting *self, tuff_status status)
{
    tuff__graph_set_origin(self->graph, NULL);
    if (status == TUFF_OK)
        status = self->graph->status;
    if (status == TUFF_OK && self->graph->node_count > self->original_count) {
        redirect(self);
        status = sort(self);
    }
    tuff__free(self->use_count);
    tuff__free(self->user);
    tuff__free(self->is_output);
    tuff__free(self->taken);
    tuff__free(self->replacement);
    return status;
}
