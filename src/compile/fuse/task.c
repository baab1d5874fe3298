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

static bool computes(const struct task *task, const node *at)
{
    bool found = at == task->core;
    for (int i = 0; i < task->root_count; ++i)
        found |= task->roots[i] == at;
    for (int i = 0; i < task->reduction_count; ++i)
        found |= task->reductions[i] == at;
    return found;
}

/* Walks from a node down to memory and adds the nodes that the task must read to task->reads. */
static tuff_status find_reads(struct fusion *fusion, struct task *task, const node *at, int *capacity)
{
    if (fusion->marks[at->id] == fusion->mark)
        return TUFF_OK;
    fusion->marks[at->id] = fusion->mark;
    const bool inner = computes(task, at);
    if (!inner && (tuff__op_is_source(at->op) || fusion->facts[at->id].materialized)) {
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

typedef struct search {
    int wanted, skipped;
    bool *seen;
} search;

static bool leads_to(struct fusion *fusion, int index, void *state)
{
    search *walk = state;
    if (index == walk->skipped || walk->seen[index])
        return false;
    if (index == walk->wanted)
        return true;
    walk->seen[index] = true;
    return tuff__any_source(fusion, &fusion->tasks[index], leads_to, state);
}

/* Whether `from` needs results of `wanted` through at least one other task or, if direct is set, also directly. */
static bool needs(struct fusion *fusion, int from, int wanted, bool *seen, bool direct)
{
    memset(seen, 0, (size_t)fusion->task_count * sizeof *seen);
    search state = {.wanted = wanted, .skipped = -1, .seen = seen};
    if (direct)
        return tuff__any_source(fusion, &fusion->tasks[from], leads_to, &state);
    const struct task *task = &fusion->tasks[from];
    for (int i = 0; i < task->read_count; ++i) {
        const struct task one = {.reads = &task->reads[i], .read_count = 1};
        if (tuff__task_writer(fusion, task->reads[i]) != wanted && tuff__any_source(fusion, &one, leads_to, &state))
            return true;
    }
    return false;
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

bool tuff__order_allows_merge(struct fusion *fusion, int first, int second, bool *seen)
{
    return !is_too_early(fusion, &fusion->tasks[first], &fusion->tasks[second]) &&
           !needs(fusion, first, second, seen, true) && !needs(fusion, second, first, seen, false);
}

bool tuff__may_join(struct fusion *fusion, int first, int second, bool *seen)
{
    const struct task *early = &fusion->tasks[first], *late = &fusion->tasks[second];
    const int64_t count = tuff_shape_count(late->domain);
    bool same_memory = false;
    for (int i = 0; i < late->read_count; ++i) {
        const node *at = late->reads[i];
        bool shared = tuff__task_writer(fusion, at) == first;
        for (int k = 0; k < early->read_count; ++k)
            shared |= early->reads[k] == at;
        same_memory |= shared && tuff_shape_count(at->outputs[0].shape) == count;
    }
    return same_memory && tuff__order_allows_merge(fusion, first, second, seen);
}
