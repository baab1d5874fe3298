/* What the merges of matmuls share: what uses what, whether a merge pays, and the sorting of old and new nodes. */
#include "base/checked.h"
#include "compile/rewrite/matmul_merge.h"
#include "compile/schedule/cost.h"

node *tuff__only_user(const rewriting *with, const node *at)
{
    if (at->id >= with->original_count || with->use_count[at->id] != 1 || with->kept[at->id])
        return NULL;
    return with->user[at->id];
}

/* Seconds that units wait for the last tiles of each product, which they need not when the products are one. */
static double waiting_saved(const cost_figures *on, const merge_cost *cost)
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

bool tuff__merge_pays(const rewriting *with, const merge_cost *cost)
{
    const cost_figures on = tuff__cost_figures(&with->target);
    const double saved = (double)cost->launches_saved * on.launch + waiting_saved(&on, cost);
    return saved > cost->bytes_added / on.bandwidth;
}

/* Whether a concat wants the value already. */
static bool is_part(const rewriting *with, const node *at)
{
    for (int i = at->id + 1; i < with->original_count; ++i) {
        const node *user = with->graph->nodes[i];
        for (int k = 0; k < user->input_count && user->op == OP_CONCAT; ++k)
            if (user->inputs[k]->node == at)
                return true;
    }
    return false;
}

static bool can_be_placed(const rewriting *with, const tuff_tensor *value)
{
    const node *at = value->node;
    if (with->kept[at->id] || is_part(with, at))
        return false;
    while (at->op == OP_RESHAPE || at->op == OP_PERMUTE)
        at = at->inputs[0]->node;
    const bool computed = tuff__op_is_elementwise(at->op) || at->op == OP_MATMUL || at->op == OP_SUM ||
                          (tuff__op_is_attention(at->op) && at->op != OP_ATTENTION_LSE);
    return computed && !with->kept[at->id] && !with->taken[at->id];
}

/* The concat of the values, where there is one. */
static tuff_tensor *find_concat(const rewriting *with, tuff_tensor *const *values, int count, int axis)
{
    for (int i = values[0]->node->id + 1; i < with->graph->node_count; ++i) {
        node *at = with->graph->nodes[i];
        bool same = at->op == OP_CONCAT && at->input_count == count && at->attributes.axis == axis;
        for (int k = 0; k < count && same; ++k)
            same = at->inputs[k] == values[k];
        if (same)
            return &at->outputs[0];
    }
    return NULL;
}

bool tuff__placing_is_free(const rewriting *with, tuff_tensor *const *values, int count, int axis)
{
    bool placed = true;
    if (find_concat(with, values, count, axis) != NULL)
        return true;
    for (int i = 0; i < count; ++i) {
        placed &= can_be_placed(with, values[i]);
        for (int k = 0; k < i; ++k)
            placed &= values[k] != values[i]; /* a value has one place */
    }
    return placed;
}

tuff_tensor *tuff__place_together(rewriting *with, tuff_tensor *const *values, int count, int axis)
{
    tuff_tensor *found = find_concat(with, values, count, axis);
    for (int i = 0; i < count; ++i)
        with->taken[values[i]->node->id] = true;
    return found != NULL ? found : tuff_concat((tuff_tensor **)values, count, axis);
}

tuff_status tuff__rewriting_begin(rewriting *with, tuff_graph *graph)
{
    const size_t count = (size_t)graph->node_count + 1;
    *with =
        (rewriting){.graph = graph, .original_count = graph->node_count, .target = tuff__device_target(graph->device)};
    with->use_count = tuff__calloc(count, sizeof *with->use_count);
    with->user = tuff__calloc(count, sizeof *with->user);
    with->kept = tuff__calloc(count, sizeof *with->kept);
    with->taken = tuff__calloc(count, sizeof *with->taken);
    with->now = tuff__calloc(count, sizeof *with->now);
    if (with->use_count == NULL || with->user == NULL || with->kept == NULL || with->taken == NULL || with->now == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < graph->node_count; ++i)
        for (int k = 0; k < graph->nodes[i]->input_count; ++k) {
            const int input = graph->nodes[i]->inputs[k]->node->id;
            ++with->use_count[input];
            with->user[input] = graph->nodes[i];
        }
    for (int i = 0; i < graph->output_count; ++i)
        with->kept[graph->outputs[i].tensor->node->id] = true;
    for (int i = 0; i < graph->assign_count; ++i)
        with->kept[graph->assigns[i]->inputs[0]->node->id] = true;
    return TUFF_OK;
}

/* All uses of what was replaced. */
static void redirect(const rewriting *with)
{
    for (int i = 0; i < with->graph->node_count; ++i) {
        node *at = with->graph->nodes[i];
        for (int k = 0; k < at->input_count; ++k) {
            const int input = at->inputs[k]->node->id;
            if (input < with->original_count && with->now[input] != NULL)
                at->inputs[k] = with->now[input];
        }
    }
    for (int i = 0; i < with->graph->output_count; ++i) {
        const int id = with->graph->outputs[i].tensor->node->id;
        if (id < with->original_count && with->now[id] != NULL)
            with->graph->outputs[i].tensor = with->now[id];
    }
}

typedef struct sorting {
    node **sorted;
    int count;
    bool *placed; /* by old id */
} sorting;

/* A node after everything that it needs. */
static void place(sorting *with, node *at)
{
    if (with->placed[at->id])
        return;
    with->placed[at->id] = true;
    for (int i = 0; i < at->input_count; ++i)
        place(with, at->inputs[i]->node);
    with->sorted[with->count++] = at;
}

/* For every new node the last old one that it needs, -1 where there is none, by id from the first new one on. New ones
   were made after what they need. */
static void find_last_needed(const rewriting *with, int *last)
{
    const tuff_graph *graph = with->graph;
    for (int i = with->original_count; i < graph->node_count; ++i) {
        int *of = &last[i - with->original_count];
        *of = -1;
        for (int k = 0; k < graph->nodes[i]->input_count; ++k) {
            const int input = graph->nodes[i]->inputs[k]->node->id;
            const int needed = input < with->original_count ? input : last[input - with->original_count];
            *of = needed > *of ? needed : *of;
        }
    }
}

/* Every old node, in order, and behind it the new ones that can be computed then. */
static void place_all(const rewriting *with, sorting *all, const int *last, int *first, int *next)
{
    const tuff_graph *graph = with->graph;
    const int old = with->original_count;
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

/* Old nodes keep their order as far as they can; new ones come as soon as they can; dead ones go. */
static tuff_status sort(const rewriting *with)
{
    tuff_graph *graph = with->graph;
    const size_t size = (size_t)graph->node_count + 1;
    sorting all = {.sorted = tuff__calloc(size, sizeof(node *)), .placed = tuff__calloc(size, sizeof(bool))};
    int *numbers = tuff__calloc(3 * size, sizeof *numbers);
    tuff_status status = TUFF_E_OOM_HOST;
    if (all.sorted != NULL && all.placed != NULL && numbers != NULL) {
        find_last_needed(with, numbers);
        place_all(with, &all, numbers, numbers + size, numbers + 2 * size);
        status = tuff__graph_reorder(graph, all.sorted, all.count);
    }
    tuff__free(all.sorted);
    tuff__free(all.placed);
    tuff__free(numbers);
    return status;
}

tuff_status tuff__rewriting_end(rewriting *with, tuff_status status)
{
    with->graph->copy = 0;
    if (status == TUFF_OK)
        status = with->graph->status;
    if (status == TUFF_OK && with->graph->node_count > with->original_count) {
        redirect(with);
        status = sort(with);
    }
    tuff__free(with->use_count);
    tuff__free(with->user);
    tuff__free(with->kept);
    tuff__free(with->taken);
    tuff__free(with->now);
    return status;
}
