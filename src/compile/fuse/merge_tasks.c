/* Joins tasks that iterate over the same domain, so that values pass in registers instead of through memory: a row
   kernel with the maps around it, two reductions in one pass, a matmul with further outputs. */
#include "compile/fuse/fuse.h"

#define MIN_SHARED 1024 /* elements of a map that is worth joining for the memory that it shares */
#define NEAR 96         /* nodes between the results of tasks joined because they share reads, at most */

/* Returns the extent of the run of axes that begins at *axis and is either reduced or kept as a whole, and moves *axis
   past the run; 1 at the end of the domain. */
static int64_t next_extent(const struct task *task, int *axis, bool *reduced)
{
    int64_t extent = 1;
    bool any = false;
    for (; *axis < task->domain.rank; ++*axis) {
        const bool loops = (task->loop_axes >> *axis & 1) != 0;
        if (task->domain.extent[*axis] == 1)
            continue;
        if (any && loops != *reduced)
            break;
        any = true;
        *reduced = loops;
        extent *= task->domain.extent[*axis];
    }
    return extent;
}

static bool same_reduction_axes(const struct task *a, const struct task *b)
{
    int i = 0, k = 0;
    while (i < a->domain.rank || k < b->domain.rank) {
        bool a_reduces = false, b_reduces = false;
        if (next_extent(a, &i, &a_reduces) != next_extent(b, &k, &b_reduces) || a_reduces != b_reduces)
            return false;
    }
    return a->column_axes == 0 && b->column_axes == 0;
}

static int64_t kept_count(const struct task *task)
{
    int64_t count = 1;
    for (int i = 0; i < task->domain.rank; ++i)
        count *= (task->loop_axes >> i & 1) != 0 ? 1 : task->domain.extent[i];
    return count;
}

/* Whether the kinds and domains of two tasks allow one kernel for both, which then gets the domain of *wide. */
static bool are_compatible(const struct task *early, const struct task *late, const struct task **wide)
{
    const bool late_reduces = late->kind == TASK_ROW || late->kind == TASK_COLUMN;
    *wide = early;
    if (early->kind == late->kind && late_reduces)
        return same_reduction_axes(early, late);
    if (early->kind == TASK_MAP && late_reduces) {
        *wide = late;
        return early->count == late->count;
    }
    if (late->kind != TASK_MAP)
        return false;
    if (early->kind == TASK_MAP || early->kind == TASK_MATMUL)
        return early->count == late->count;
    if (early->kind == TASK_ROW)
        return early->count == late->count || late->count == kept_count(early);
    return early->kind == TASK_COLUMN && late->count == kept_count(early);
}

static bool is_needed_elsewhere(const struct fusion *fusion, const node *at, int first, int second)
{
    const node_facts *facts = &fusion->facts[at->id];
    if (facts->is_output || facts->placed_in != NULL)
        return true;
    for (int i = 0; i < fusion->task_count; ++i) {
        const struct task *task = &fusion->tasks[i];
        if (i != first && i != second && task->kind != TASK_NONE && tuff__task_reads(task, at))
            return true;
    }
    return false;
}

/* Collects the reductions and roots of both tasks. Returns false if a single kernel cannot take them all. */
static bool gather(const struct fusion *fusion, int first, int second, struct task *out)
{
    const struct task *early = &fusion->tasks[first], *late = &fusion->tasks[second];
    if (early->reduction_count + late->reduction_count > MAX_REDUCTIONS)
        return false;
    out->core = early->core;
    out->root_count = out->reduction_count = 0;
    const struct task *both[] = {early, late};
    for (int i = 0; i < 2; ++i) {
        for (int k = 0; k < both[i]->reduction_count; ++k)
            out->reductions[out->reduction_count++] = both[i]->reductions[k];
        for (int k = 0; k < both[i]->root_count; ++k) {
            if (!is_needed_elsewhere(fusion, both[i]->roots[k], first, second))
                continue;
            if (out->root_count == MAX_OUTPUTS)
                return false;
            out->roots[out->root_count++] = both[i]->roots[k];
        }
    }
    return out->root_count > 0;
}

static bool unite(const struct fusion *fusion, int first, int second, struct task *out)
{
    const struct task *wide;
    if (!are_compatible(&fusion->tasks[first], &fusion->tasks[second], &wide))
        return false;
    *out = *wide;
    return gather(fusion, first, second, out);
}

/* Unites a row task with a column task, whose columns it sums while it passes over its rows. */
static bool unite_columns(const struct fusion *fusion, int row, int column, struct task *out)
{
    const struct task *early = &fusion->tasks[row], *late = &fusion->tasks[column];
    int64_t block_rows;
    if (tuff__fit_columns(fusion, early, late, &block_rows) != COLUMNS_FIT)
        return false;
    *out = *early;
    out->in_columns = early->in_columns | ((1u << late->reduction_count) - 1) << early->reduction_count;
    if (early->column_axes != 0)
        return gather(fusion, row, column, out);
    out->domain = late->domain;
    out->count = late->count;
    out->column_axes = late->loop_axes;
    out->loop_axes = 0;
    for (int i = late->domain.rank - 1; i >= 0 && (late->loop_axes >> i & 1) == 0; --i)
        out->loop_axes |= 1u << i;
    return gather(fusion, row, column, out);
}

static void set_task(struct fusion *fusion, const struct task *task, int index, bool materialized)
{
    for (int i = 0; i < task->root_count; ++i) {
        fusion->facts[task->roots[i]->id].materialized = materialized;
        fusion->facts[task->roots[i]->id].task = index;
    }
}

/* Replaces two tasks by their union if one kernel can address it. */
static tuff_status replace(struct fusion *fusion, int first, int second, struct task united, bool *merged)
{
    set_task(fusion, &fusion->tasks[first], first, false);
    set_task(fusion, &fusion->tasks[second], second, false);
    set_task(fusion, &united, first, true);
    fused_chain chain;
    const node *give_up;
    bool impossible;
    TRY(tuff__chain_build(fusion, &united, &chain, &give_up, &impossible));
    *merged = give_up == NULL && !impossible && tuff__can_bind(fusion, &chain);
    tuff__chain_free(&chain);
    if (!*merged) {
        set_task(fusion, &fusion->tasks[first], first, true);
        set_task(fusion, &fusion->tasks[second], second, true);
        return TUFF_OK;
    }
    const tuff_status status = tuff__task_find_reads(fusion, &united);
    if (status != TUFF_OK) {
        tuff__free(united.reads);
        return status;
    }
    tuff__free(fusion->tasks[first].reads);
    tuff__free(fusion->tasks[second].reads);
    fusion->tasks[first] = united;
    fusion->tasks[second] = (struct task){.kind = TASK_NONE};
    return TUFF_OK;
}

static tuff_status try_merge(struct fusion *fusion, int first, int second, bool *merged)
{
    struct task united;
    *merged = false;
    if (!unite(fusion, first, second, &united))
        return TUFF_OK;
    const bool has_rows = united.kind == TASK_ROW || united.kind == TASK_COLUMN;
    if (!tuff__pass_decides(fusion->passes, has_rows ? TUNABLE_fusion_rows : TUNABLE_fusion_maps, true))
        return TUFF_OK;
    return replace(fusion, first, second, united, merged);
}

static bool shares_a_read(const struct task *a, const struct task *b)
{
    for (int i = 0; i < a->read_count; ++i)
        if (a->reads[i]->op != OP_CONSTANT && tuff__task_reads(b, a->reads[i]))
            return true;
    return false;
}

/* Whether a map reads the same elements as another task, at about the same time. */
static bool is_map_of_same_elements(const struct task *early, const struct task *late)
{
    const int64_t count = late->count;
    const int distance = tuff__task_newest_root(early) - tuff__task_newest_root(late);
    if (late->kind != TASK_MAP || early->kind == TASK_COLUMN || count < MIN_SHARED || early->count != count ||
        distance > NEAR || distance < -NEAR)
        return false;
    for (int i = 0; i < early->read_count; ++i)
        if (tuff_shape_count(early->reads[i]->outputs[0].shape) == count && tuff__task_reads(late, early->reads[i]))
            return true;
    return false;
}

static bool reads_array(const struct task *task, const tuff_array *array)
{
    for (int i = 0; i < task->read_count; ++i)
        if (task->reads[i]->op == OP_ARRAY && tuff__arrays_overlap(task->reads[i]->attributes.array, array))
            return true;
    return false;
}

/* Whether a map assigns to arrays that it reads, as optimizers do. It then writes them in place, in step with its
   reads; kernels of reductions would have to write copies. */
static bool writes_in_place(const struct fusion *fusion, const struct task *map)
{
    const tuff_graph *graph = fusion->graph;
    for (int i = 0; i < graph->assign_count && map->kind == TASK_MAP; ++i)
        for (int k = 0; k < map->root_count; ++k)
            if (graph->assigns[i]->inputs[0]->node == map->roots[k] &&
                reads_array(map, graph->assigns[i]->attributes.array))
                return true;
    return false;
}

static bool reads_from(const struct fusion *fusion, const struct task *task, int writer)
{
    for (int i = 0; i < task->read_count; ++i)
        if (tuff__task_writer(fusion, task->reads[i]) == writer)
            return true;
    return false;
}

/* Whether both tasks finish column sums whose partial sums come from the same row task. */
static bool shares_a_writer(const struct fusion *fusion, const struct task *a, const struct task *b)
{
    for (int i = 0; i < a->read_count; ++i) {
        const int writer = tuff__task_writer(fusion, a->reads[i]);
        if (writer >= 0 && fusion->tasks[writer].in_columns != 0 && reads_from(fusion, b, writer))
            return true;
    }
    return false;
}

/* Tries to join task `second` with another one. */
static tuff_status merge_one(struct fusion *fusion, int second, struct task_order *order, bool *merged)
{
    for (int first = 0; first < fusion->task_count && !*merged; ++first) {
        const struct task *early = &fusion->tasks[first], *late = &fusion->tasks[second], *wide;
        if (first == second || early->kind == TASK_NONE || late->kind == TASK_NONE ||
            !are_compatible(early, late, &wide))
            continue;
        const bool vertical = reads_from(fusion, late, first);
        const bool horizontal =
            (early->kind == late->kind && early->kind != TASK_MAP && shares_a_read(early, late)) ||
            (is_map_of_same_elements(early, late) && (early->kind == TASK_MAP || !writes_in_place(fusion, late))) ||
            (early->kind == TASK_COLUMN && late->kind == TASK_COLUMN && shares_a_writer(fusion, early, late));
        if ((!vertical && !horizontal) || !tuff__order_allows_merge(fusion, first, second, order))
            continue;
        TRY(try_merge(fusion, first, second, merged));
    }
    return TUFF_OK;
}

static tuff_status merge_all(struct fusion *fusion, struct task_order *order)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < fusion->task_count; ++i) {
            bool merged = false;
            TRY(merge_one(fusion, i, order, &merged));
            again |= merged;
        }
    }
    return TUFF_OK;
}

static tuff_status join_columns(struct fusion *fusion, struct task_order *order)
{
    for (int second = 0; second < fusion->task_count; ++second)
        for (int first = 0; first < fusion->task_count && fusion->tasks[second].kind == TASK_COLUMN; ++first) {
            struct task united;
            bool merged;
            if (fusion->tasks[first].kind == TASK_ROW && tuff__may_join(fusion, first, second, order) &&
                unite_columns(fusion, first, second, &united) &&
                tuff__pass_decides(fusion->passes, TUNABLE_fusion_column_sums, true))
                TRY(replace(fusion, first, second, united, &merged));
        }
    return TUFF_OK;
}

tuff_status tuff__merge_tasks(struct fusion *fusion)
{
    struct task_order order;
    tuff_status status = tuff__task_order_init(fusion, &order) ? TUFF_OK : TUFF_E_OOM_HOST;
    if (status == TUFF_OK)
        status = merge_all(fusion, &order);
    if (status == TUFF_OK)
        status = join_columns(fusion, &order);
    if (status == TUFF_OK)
        status = merge_all(fusion, &order);
    tuff__task_order_free(&order);
    return status;
}
