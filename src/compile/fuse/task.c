/* Tasks: the nodes that they read and store, which of them need each other, and whether two may run together. */
#include <string.h>

#include "compile/fuse/fuse.h"

bool tuff__task_is_empty(const struct task *task)
{
    for (int i = 0; i < task->root_count; ++i)
        if (tuff_shape_count(task->roots[i]->outputs[0].shape) > 0)
            return false;
    return true;
}

bool tuff__task_computes(const struct task *task, const node *at)
{
    bool found = at == task->core;
    for (int i = 0; i < task->root_count; ++i)
        found |= task->roots[i] == at;
    for (int i = 0; i < task->reduction_count; ++i)
        found |= task->reductions[i] == at;
    return found;
}

bool tuff__task_reads(const struct task *task, const node *at)
{
    for (int i = 0; i < task->read_count; ++i)
        if (task->reads[i] == at)
            return true;
    return false;
}

/* Walks from a node down to memory and adds the nodes that the task must read to task->reads. */
static tuff_status find_reads(struct fusion *fusion, struct task *task, const node *at, int *capacity)
{
    if (fusion->marks[at->id] == fusion->mark)
        return TUFF_OK;
    fusion->marks[at->id] = fusion->mark;
    const bool inner = tuff__task_computes(task, at);
    if (!inner && tuff__is_materialized(fusion, at)) {
        if (!GROW(task->reads, task->read_count, *capacity))
            return TUFF_E_OOM_HOST;
        task->reads[task->read_count++] = at;
        return TUFF_OK;
    }
    for (int i = 0; i < at->input_count; ++i)
        TRY(find_reads(fusion, task, at->inputs[i]->node, capacity));
    return TUFF_OK;
}

tuff_status tuff__task_find_reads(struct fusion *fusion, struct task *task)
{
    int capacity = 0;
    ++fusion->mark;
    ++fusion->task_version;
    task->reads = NULL;
    task->read_count = 0;
    for (int i = 0; i < task->root_count; ++i)
        TRY(find_reads(fusion, task, task->roots[i], &capacity));
    for (int i = 0; i < task->reduction_count; ++i)
        TRY(find_reads(fusion, task, task->reductions[i], &capacity));
    return TUFF_OK;
}

int tuff__task_writer(const struct fusion *fusion, const node *at)
{
    return tuff__op_is_source(at->op) ? -1 : fusion->facts[at->id].task;
}

bool tuff__any_source(struct fusion *fusion, const struct task *task, task_visitor visit, void *state)
{
    for (int i = 0; i < task->read_count; ++i) {
        const node *at = task->reads[i];
        const int writer = tuff__task_writer(fusion, at);
        if (writer >= 0 && visit(fusion, writer, state))
            return true;
        if (at->op != OP_CONCAT || writer >= 0)
            continue;
        for (const node *part = fusion->facts[at->id].first_part; part != NULL;
             part = fusion->facts[part->id].next_part) {
            const int task_index = fusion->facts[part->id].task;
            if (task_index >= 0 && visit(fusion, task_index, state))
                return true;
        }
    }
    return false;
}

/* Values of task_order.needs. */
enum { NOT_KNOWN, DOES_NOT_NEED, DOES_NEED };

bool tuff__task_order_init(const struct fusion *fusion, struct task_order *out)
{
    *out = (struct task_order){.task = -1,
                               .needed = tuff__calloc((size_t)fusion->task_count + 1, sizeof *out->needed),
                               .needs = tuff__calloc((size_t)fusion->task_count + 1, sizeof *out->needs)};
    return out->needed != NULL && out->needs != NULL;
}

void tuff__task_order_free(struct task_order *order)
{
    tuff__free(order->needed);
    tuff__free(order->needs);
}

static bool mark_needed(struct fusion *fusion, int index, void *state)
{
    bool *needed = state;
    if (!needed[index]) {
        needed[index] = true;
        (void)tuff__any_source(fusion, &fusion->tasks[index], mark_needed, needed);
    }
    return false;
}

/* Forgets what is known, and marks the tasks that `task` needs through at least one other task. */
static void search_from(struct fusion *fusion, int index, struct task_order *order)
{
    const struct task *task = &fusion->tasks[index];
    order->task = index;
    order->version = fusion->task_version;
    memset(order->needed, 0, (size_t)fusion->task_count * sizeof *order->needed);
    memset(order->needs, NOT_KNOWN, (size_t)fusion->task_count * sizeof *order->needs);
    for (int i = 0; i < task->read_count; ++i) {
        const int writer = tuff__task_writer(fusion, task->reads[i]);
        const struct task one = {.reads = &task->reads[i], .read_count = 1};
        (void)tuff__any_source(fusion, writer >= 0 ? &fusion->tasks[writer] : &one, mark_needed, order->needed);
    }
}

/* Whether a task needs results of order->task, directly or through others. */
static bool needs(struct fusion *fusion, int index, void *state)
{
    struct task_order *order = state;
    if (index == order->task)
        return true;
    if (order->needs[index] == NOT_KNOWN) {
        order->needs[index] = DOES_NOT_NEED;
        if (tuff__any_source(fusion, &fusion->tasks[index], needs, order))
            order->needs[index] = DOES_NEED;
    }
    return order->needs[index] == DOES_NEED;
}

int tuff__task_newest_root(const struct task *task)
{
    int newest = -1;
    for (int i = 0; i < task->root_count; ++i)
        newest = task->roots[i]->id > newest ? task->roots[i]->id : newest;
    return newest;
}

int tuff__task_recomputation_begin(const struct fusion *fusion, const struct task *task)
{
    int begin = 0;
    for (int i = 0; i < task->root_count; ++i)
        if (fusion->recomputation_begins[task->roots[i]->recomputation] > begin)
            begin = fusion->recomputation_begins[task->roots[i]->recomputation];
    return begin;
}

/* Whether joining two tasks would compute a copy too early: a late copy never joins a task that runs much earlier, nor
   a recomputation a task from before it. Its result would be kept from then on, which recomputing is meant to avoid. */
static bool is_too_early(const struct fusion *fusion, const struct task *early, const struct task *late)
{
    if (tuff__task_newest_root(early) < tuff__task_recomputation_begin(fusion, late) ||
        tuff__task_newest_root(late) < tuff__task_recomputation_begin(fusion, early))
        return true;
    for (int i = 0; i < late->root_count; ++i)
        if (late->roots[i]->is_late_copy && tuff__task_newest_root(early) < late->roots[i]->id - LATE_GAP / 2)
            return true;
    return false;
}

bool tuff__order_allows_merge(struct fusion *fusion, int first, int second, struct task_order *order)
{
    if (is_too_early(fusion, &fusion->tasks[first], &fusion->tasks[second]))
        return false;
    if (order->task != second || order->version != fusion->task_version)
        search_from(fusion, second, order);
    return !order->needed[first] && !tuff__any_source(fusion, &fusion->tasks[first], needs, order);
}

bool tuff__may_join(struct fusion *fusion, int first, int second, struct task_order *order)
{
    const struct task *early = &fusion->tasks[first], *late = &fusion->tasks[second];
    const int64_t count = late->count;
    bool same_memory = false;
    for (int i = 0; i < late->read_count; ++i) {
        const node *at = late->reads[i];
        const bool shared = tuff__task_writer(fusion, at) == first || tuff__task_reads(early, at);
        same_memory |= shared && tuff_shape_count(at->outputs[0].shape) == count;
    }
    return same_memory && tuff__order_allows_merge(fusion, first, second, order);
}
