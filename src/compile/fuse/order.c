/* The order of execution. In the order in which nodes were built, gradients would stay alive until the very end, when
   the weights are updated. So a task that frees at least as much memory as it takes runs as soon as it can, while its
   inputs are still in the caches; all others run in the order in which they were built. */
#include <stdlib.h>
#include <string.h>

#include "compile/fuse/fuse.h"

/* The task `reader` needs values that the task `source` stores. The same pair may occur twice. */
typedef struct edge {
    int source, reader;
} edge;

/* A task and its newest root. */
typedef struct task_age {
    int task, newest;
} task_age;

typedef struct ordering {
    struct task *placed;
    int count;    /* of placed tasks */
    int *waiting; /* by task: edges from sources not yet placed; -1: placed, or merged away */
    int *ready;   /* the tasks that wait for nothing, in any order */
    int ready_count;
    edge *edges; /* ordered by source */
    int edge_count, edge_capacity;
    int *first_edge;       /* by task: the first edge from it or, if it has none, from a later one */
    int *readers;          /* by node: unplaced tasks that read it */
    int *index;            /* by old index: the new one */
    bool *assigns;         /* by task: whether it computes what is assigned to an array */
    task_age *ages;        /* the tasks, the one with the oldest newest root first */
    int age_count, oldest; /* all before `oldest` are placed */
    int reader;            /* while edges are collected: the current task */
    bool out_of_memory;
} ordering;

static bool add_edge(struct fusion *fusion, int source, void *state)
{
    ordering *self = state;
    (void)fusion;
    if (!GROW(self->edges, self->edge_count, self->edge_capacity)) {
        self->out_of_memory = true;
        return true;
    }
    self->edges[self->edge_count++] = (edge){.source = source, .reader = self->reader};
    ++self->waiting[self->reader];
    return false;
}

static int smaller_source_first(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    return (x->source > y->source) - (x->source < y->source);
}

static int older_first(const void *a, const void *b)
{
    const task_age *x = a, *y = b;
    return (x->newest > y->newest) - (x->newest < y->newest);
}

static void sort_edges(const struct fusion *fusion, ordering *self)
{
    int next = 0;
    if (self->edge_count > 0)
        qsort(self->edges, (size_t)self->edge_count, sizeof *self->edges, smaller_source_first);
    for (int i = 0; i <= fusion->task_count; ++i) {
        while (next < self->edge_count && self->edges[next].source < i)
            ++next;
        self->first_edge[i] = next;
    }
}

static tuff_status collect(struct fusion *fusion, ordering *self)
{
    for (int i = 0; i < fusion->task_count; ++i) {
        const struct task *task = &fusion->tasks[i];
        self->waiting[i] = task->kind == TASK_NONE ? -1 : 0;
        if (task->kind == TASK_NONE)
            continue;
        self->reader = i;
        tuff__any_source(fusion, task, add_edge, self);
        for (int k = 0; k < task->read_count; ++k)
            ++self->readers[task->reads[k]->id];
        if (self->waiting[i] == 0)
            self->ready[self->ready_count++] = i;
        self->ages[self->age_count++] = (task_age){.task = i, .newest = tuff__task_newest_root(task)};
    }
    if (self->out_of_memory)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < fusion->graph->assign_count; ++i) {
        const int task = fusion->facts[fusion->graph->assigns[i]->inputs[0]->node->id].task;
        if (task >= 0)
            self->assigns[task] = true;
    }
    sort_edges(fusion, self);
    if (self->age_count > 0)
        qsort(self->ages, (size_t)self->age_count, sizeof *self->ages, older_first);
    return TUFF_OK;
}

/* Returns the bytes of a temporary; 0 for values that stay allocated whatever the order: sources, outputs, and parts of
   something larger. */
static int64_t temporary_size(const struct fusion *fusion, const node *at)
{
    const node_facts *facts = &fusion->facts[at->id];
    if (tuff__op_is_source(at->op) || facts->is_output || facts->placed_in != NULL || facts->task < 0)
        return 0;
    return 4 * tuff_shape_count(at->outputs[0].shape);
}

/* Returns the bytes that running the task next would free, minus the bytes that it takes. */
static int64_t net_bytes_freed(const struct fusion *fusion, const ordering *self, const struct task *task)
{
    int64_t gain = 0;
    for (int i = 0; i < task->read_count; ++i)
        if (self->readers[task->reads[i]->id] == 1)
            gain += temporary_size(fusion, task->reads[i]);
    for (int i = 0; i < task->root_count; ++i)
        gain -= temporary_size(fusion, task->roots[i]);
    return gain;
}

/* Whether a later task still reads an array that this task overwrites. If it ran now, the task would have to write
   elsewhere, and the result be copied. */
static bool overwrites_too_early(const struct fusion *fusion, const ordering *self, int index)
{
    const tuff_graph *graph = fusion->graph;
    for (int i = 0; i < graph->assign_count; ++i) {
        if (fusion->facts[graph->assigns[i]->inputs[0]->node->id].task != index)
            continue;
        for (int k = 0; k < graph->node_count; ++k) {
            const node *at = graph->nodes[k];
            if (at->op != OP_ARRAY || !tuff__arrays_overlap(at->attributes.array, graph->assigns[i]->attributes.array))
                continue;
            if (self->readers[k] > (tuff__task_reads(&fusion->tasks[index], at) ? 1 : 0))
                return true;
        }
    }
    return false;
}

/* Returns the smallest tuff__task_newest_root of the tasks not placed yet: a recomputation begins only after everything
   that was built before it. */
static int oldest_unplaced(ordering *self)
{
    while (self->oldest < self->age_count && self->waiting[self->ages[self->oldest].task] < 0)
        ++self->oldest;
    return self->oldest < self->age_count ? self->ages[self->oldest].newest : INT32_MAX;
}

/* Returns the ready task that frees most, or else the first one; -1 if none is ready. From strictness 1 on,
   recomputations that would begin too early are skipped; at 2, so are tasks that overwrite an array too early. */
static int choose(const struct fusion *fusion, ordering *self, int strictness)
{
    const int oldest = oldest_unplaced(self);
    int first = -1, best = -1;
    int64_t most = 0;
    for (int i = 0; i < self->ready_count; ++i) {
        const int task = self->ready[i];
        if ((strictness >= 1 && oldest < tuff__task_recomputation_begin(fusion, &fusion->tasks[task])) ||
            (strictness >= 2 && self->assigns[task] && overwrites_too_early(fusion, self, task)))
            continue;
        const int64_t gain = net_bytes_freed(fusion, self, &fusion->tasks[task]);
        if (first < 0 || task < first)
            first = task;
        if (gain > most || (gain == most && (best < 0 || task < best))) {
            best = task;
            most = gain;
        }
    }
    return best >= 0 ? best : first;
}

static int next_task(const struct fusion *fusion, ordering *self)
{
    int next = -1;
    for (int strictness = 2; strictness >= 0 && next < 0; --strictness)
        next = choose(fusion, self, strictness);
    return next;
}

static void place(const struct fusion *fusion, ordering *self, int index)
{
    const struct task *task = &fusion->tasks[index];
    int at = 0;
    while (self->ready[at] != index)
        ++at;
    self->ready[at] = self->ready[--self->ready_count];
    self->waiting[index] = -1;
    self->index[index] = self->count;
    self->placed[self->count++] = *task;
    for (int i = 0; i < task->read_count; ++i)
        --self->readers[task->reads[i]->id];
    for (int i = self->first_edge[index]; i < self->first_edge[index + 1]; ++i) {
        const int reader = self->edges[i].reader;
        if (--self->waiting[reader] == 0)
            self->ready[self->ready_count++] = reader;
    }
}

static tuff_status order(struct fusion *fusion, ordering *self)
{
    TRY(collect(fusion, self));
    for (int next = next_task(fusion, self); next >= 0; next = next_task(fusion, self))
        place(fusion, self, next);
    for (int i = 0; i < fusion->task_count; ++i)
        if (self->waiting[i] > 0)
            return FAIL(TUFF_E_LIMIT, "compile: internal error: tasks depend on each other in a cycle");
    memcpy(fusion->tasks, self->placed, (size_t)self->count * sizeof *self->placed);
    fusion->task_count = self->count;
    for (int i = 0; i < fusion->graph->node_count; ++i)
        if (fusion->facts[i].task >= 0)
            fusion->facts[i].task = self->index[fusion->facts[i].task];
    return TUFF_OK;
}

tuff_status tuff__order_tasks(struct fusion *fusion)
{
    const size_t count = (size_t)fusion->task_count + 1, nodes = (size_t)fusion->graph->node_count + 1;
    ordering self = {.placed = tuff__calloc(count, sizeof *self.placed),
                     .waiting = tuff__calloc(count, sizeof *self.waiting),
                     .ready = tuff__calloc(count, sizeof *self.ready),
                     .first_edge = tuff__calloc(count, sizeof *self.first_edge),
                     .readers = tuff__calloc(nodes, sizeof *self.readers),
                     .index = tuff__calloc(count, sizeof *self.index),
                     .assigns = tuff__calloc(count, sizeof *self.assigns),
                     .ages = tuff__calloc(count, sizeof *self.ages)};
    const bool complete = self.placed != NULL && self.waiting != NULL && self.ready != NULL &&
                          self.first_edge != NULL && self.readers != NULL && self.index != NULL &&
                          self.assigns != NULL && self.ages != NULL;
    const tuff_status status = complete ? order(fusion, &self) : TUFF_E_OOM_HOST;
    tuff__free(self.placed);
    tuff__free(self.waiting);
    tuff__free(self.ready);
    tuff__free(self.first_edge);
    tuff__free(self.readers);
    tuff__free(self.index);
    tuff__free(self.assigns);
    tuff__free(self.ages);
    tuff__free(self.edges);
    return status;
}
