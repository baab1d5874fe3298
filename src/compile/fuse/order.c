/* The order of execution. Building order by itself keeps gradients alive until their weights' turn at the very end: a
   task that frees at least the memory it takes runs as soon as it can, while what it reads is still in the caches;
   all others in the order in which they were built. */
#include <string.h>

#include "compile/fuse/fuse.h"

/* The reader needs what the source stores; the same pair may be there twice. */
typedef struct edge {
    int source, reader;
} edge;

typedef struct ordering {
    struct task *out;
    int count;    /* of placed tasks */
    int *waiting; /* by task: sources not yet placed; -1: placed, or merged away */
    edge *edges;
    int edge_count, edge_capacity;
    int *readers; /* by node: tasks still to come that read it */
    int *index;   /* old index to new */
    int reader;   /* while edges are collected */
    bool out_of_memory;
} ordering;

static bool add_edge(struct fusion *fusion, int source, void *state)
{
    ordering *with = state;
    (void)fusion;
    if (!GROW(with->edges, with->edge_count, with->edge_capacity)) {
        with->out_of_memory = true;
        return true;
    }
    with->edges[with->edge_count++] = (edge){.source = source, .reader = with->reader};
    ++with->waiting[with->reader];
    return false;
}

static tuff_status collect(struct fusion *fusion, ordering *with)
{
    for (int i = 0; i < fusion->task_count; ++i) {
        const struct task *task = &fusion->tasks[i];
        with->waiting[i] = task->kind == TASK_NONE ? -1 : 0;
        if (task->kind == TASK_NONE)
            continue;
        with->reader = i;
        tuff__any_source(fusion, task, add_edge, with);
        for (int k = 0; k < task->read_count; ++k)
            ++with->readers[task->reads[k]->id];
    }
    return with->out_of_memory ? TUFF_E_OOM_HOST : TUFF_OK;
}

/* Bytes of a temporary; 0 for what stays allocated whatever the order: sources, outputs, parts of something larger. */
static int64_t temporary_size(const struct fusion *fusion, const node *at)
{
    const node_facts *facts = &fusion->facts[at->id];
    if (tuff__op_is_source(at->op) || facts->kept || facts->placed != NULL || facts->task < 0)
        return 0;
    return 4 * tuff_shape_count(at->outputs[0].shape);
}

static bool reads(const struct task *task, const node *at)
{
    for (int i = 0; i < task->read_count; ++i)
        if (task->reads[i] == at)
            return true;
    return false;
}

/* Bytes that running the task next would free, less those that it takes. */
static int64_t gain_of(const struct fusion *fusion, const ordering *with, const struct task *task)
{
    int64_t gain = 0;
    for (int i = 0; i < task->read_count; ++i)
        if (with->readers[task->reads[i]->id] == 1)
            gain += temporary_size(fusion, task->reads[i]);
    for (int i = 0; i < task->root_count; ++i)
        gain -= temporary_size(fusion, task->roots[i]);
    return gain;
}

/* Whether tasks still to come, other than this one, read an array that it gives new elements: it would have to write
   them elsewhere, to be copied. */
static bool overwrites_too_early(const struct fusion *fusion, const ordering *with, int index)
{
    const tuff_graph *graph = fusion->graph;
    for (int i = 0; i < graph->assign_count; ++i) {
        if (fusion->facts[graph->assigns[i]->inputs[0]->node->id].task != index)
            continue;
        for (int k = 0; k < graph->node_count; ++k) {
            const node *at = graph->nodes[k];
            if (at->op != OP_ARRAY || !tuff__arrays_overlap(at->attributes.array, graph->assigns[i]->attributes.array))
                continue;
            if (with->readers[k] > (reads(&fusion->tasks[index], at) ? 1 : 0))
                return true;
        }
    }
    return false;
}

/* The lowest of what tasks still to come store last: a recomputation begins once all that was built before is done. */
static int oldest_to_come(const struct fusion *fusion, const ordering *with)
{
    int oldest = INT32_MAX;
    for (int i = 0; i < fusion->task_count; ++i)
        if (with->waiting[i] >= 0 && tuff__task_newest(&fusion->tasks[i]) < oldest)
            oldest = tuff__task_newest(&fusion->tasks[i]);
    return oldest;
}

/* The ready task that frees most, or else the first; -1 where none is ready. patience: leaves those out that others had
   better run before: from 1 on recomputations, 2 those that overwrite too early. */
static int choose(const struct fusion *fusion, const ordering *with, int patience)
{
    const int oldest = oldest_to_come(fusion, with);
    int best = -1;
    int64_t most = 0;
    for (int i = 0; i < fusion->task_count; ++i) {
        if (with->waiting[i] != 0 || (patience >= 1 && oldest < tuff__task_begin(fusion, &fusion->tasks[i])) ||
            (patience >= 2 && overwrites_too_early(fusion, with, i)))
            continue;
        const int64_t gain = gain_of(fusion, with, &fusion->tasks[i]);
        if (best < 0 || (gain >= 0 && gain > most)) {
            best = i;
            most = gain;
        }
    }
    return best;
}

static int next_task(const struct fusion *fusion, const ordering *with)
{
    int next = -1;
    for (int patience = 2; patience >= 0 && next < 0; --patience)
        next = choose(fusion, with, patience);
    return next;
}

static void place(const struct fusion *fusion, ordering *with, int index)
{
    const struct task *task = &fusion->tasks[index];
    with->waiting[index] = -1;
    with->index[index] = with->count;
    with->out[with->count++] = *task;
    for (int i = 0; i < task->read_count; ++i)
        --with->readers[task->reads[i]->id];
    for (int i = 0; i < with->edge_count; ++i)
        if (with->edges[i].source == index)
            --with->waiting[with->edges[i].reader];
}

static tuff_status order(struct fusion *fusion, ordering *with)
{
    TRY(collect(fusion, with));
    for (int next = next_task(fusion, with); next >= 0; next = next_task(fusion, with))
        place(fusion, with, next);
    for (int i = 0; i < fusion->task_count; ++i)
        if (with->waiting[i] > 0)
            return FAIL(TUFF_E_LIMIT, "compile: tasks wait for each other");
    memcpy(fusion->tasks, with->out, (size_t)with->count * sizeof *with->out);
    fusion->task_count = with->count;
    for (int i = 0; i < fusion->graph->node_count; ++i)
        if (fusion->facts[i].task >= 0)
            fusion->facts[i].task = with->index[fusion->facts[i].task];
    return TUFF_OK;
}

tuff_status tuff__order_tasks(struct fusion *fusion)
{
    const size_t count = (size_t)fusion->task_count + 1, nodes = (size_t)fusion->graph->node_count + 1;
    ordering with = {.out = tuff__calloc(count, sizeof *with.out),
                     .waiting = tuff__calloc(count, sizeof *with.waiting),
                     .index = tuff__calloc(count, sizeof *with.index),
                     .readers = tuff__calloc(nodes, sizeof *with.readers)};
    tuff_status status = TUFF_E_OOM_HOST;
    if (with.out != NULL && with.waiting != NULL && with.index != NULL && with.readers != NULL)
        status = order(fusion, &with);
    tuff__free(with.out);
    tuff__free(with.waiting);
    tuff__free(with.index);
    tuff__free(with.readers);
    tuff__free(with.edges);
    return status;
}
