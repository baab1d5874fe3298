/* Makes a task of each materialized node, gives matmuls an epilogue of elementwise ops, and checks that one kernel can
   address each task. If it cannot, one more node is materialized and everything is grouped again. */
#include "compile/fuse/fuse.h"

#include "compile/schedule/kernel_policy.h"
#include "device/target.h"

/* Row tasks reduce the innermost axis with more than one element; column tasks keep it. */
static task_kind kind_of_reduction(const node *at)
{
    const int axis = tuff__innermost_axis(at->inputs[0]->shape);
    return axis < 0 || (at->attributes.axes >> axis & 1) != 0 ? TASK_ROW : TASK_COLUMN;
}

static struct task make_task(const node *at)
{
    struct task task = {.kind = TASK_MAP, .domain = at->outputs[0].shape, .roots = {at}, .root_count = 1};
    switch (tuff__op_info(at->op)->pattern) {
    case PATTERN_REDUCTION:
        task.kind = kind_of_reduction(at);
        task.domain = at->inputs[0]->shape;
        task.loop_axes = at->attributes.axes;
        task.reductions[task.reduction_count++] = at;
        break;
    case PATTERN_SCAN:
        task.kind = TASK_SCAN;
        task.core = at;
        task.loop_axes = 1u << at->attributes.axis;
        break;
    case PATTERN_MATMUL:
        task.kind = TASK_MATMUL;
        task.core = at;
        break;
    case PATTERN_SCATTER:
        task.kind = TASK_SCATTER;
        task.core = at;
        break;
    case PATTERN_ATTENTION: /* gather_attention chooses its core once it knows the nodes that the kernel stores */
        task.kind = TASK_ATTENTION;
        break;
    default:
        break;
    }
    task.count = tuff_shape_count(task.domain);
    return task;
}

/* Returns the log-sum-exp from which an attention result is computed; NULL if there is none. */
static const node *lse_of(const node *at)
{
    const int input = at->op == OP_ATTENTION ? tuff__attention_inputs(at->op, at->attributes.options).lse : -1;
    return input < 0 ? NULL : at->inputs[input]->node;
}

/* Returns the node that leads an attention task: for a log-sum-exp, the first result computed from it. Nothing that
   this result depends on needs the log-sum-exp. */
static const node *leader_of(const struct fusion *fusion, const node *at)
{
    for (int i = 0; i < fusion->attention_count && at->op == OP_ATTENTION_LSE; ++i)
        if (lse_of(fusion->attentions[i]) == at)
            return fusion->attentions[i];
    return at;
}

/* Whether two gradients belong to the same attention: such gradients differ only in their op. A gradient that is
   recomputed has a task of its own. */
static bool are_siblings(const node *a, const node *b)
{
    const op_attributes *x = &a->attributes, *y = &b->attributes;
    bool same = a->input_count == b->input_count && a->recomputation == b->recomputation &&
                tuff__op_is_attention_gradient(b->op) && x->value == y->value && x->start[0] == y->start[0] &&
                x->start[1] == y->start[1] && x->options == y->options && x->dropout == y->dropout &&
                x->seed == y->seed && x->ordinal == y->ordinal;
    for (int i = 0; i < a->input_count && same; ++i)
        same = a->inputs[i] == b->inputs[i];
    return same;
}

/* Whether the task of `leader` also stores `at`. */
static bool is_stored_with(const struct fusion *fusion, const node *leader, const node *at)
{
    if (leader->op == OP_ATTENTION)
        return at == lse_of(leader) && leader_of(fusion, at) == leader;
    return leader->op != OP_ATTENTION_LSE && are_siblings(leader, at);
}

static void gather_attention(struct fusion *fusion, struct task *task, int index)
{
    task->core = task->roots[0];
    fusion->facts[task->core->id].task = index;
    for (int i = 0; i < fusion->attention_count && task->root_count < MAX_OUTPUTS; ++i) {
        const node *at = fusion->attentions[i];
        if (at == task->core || fusion->facts[at->id].task >= 0 || !is_stored_with(fusion, task->core, at))
            continue;
        task->roots[task->root_count++] = at;
        fusion->facts[at->id].task = index;
    }
}

/* Returns the last node of the chain of elementwise ops that begins at the matmul and in which each value has the next
   as its only reader. */
static const node *end_of_epilogue(const struct fusion *fusion, const node *matmul)
{
    const node *end = matmul, *at = matmul;
    for (;;) {
        const node_facts *facts = &fusion->facts[at->id];
        if (facts->consumer_count != 1 || facts->is_output || facts->placed_in != NULL || facts->forced)
            return end;
        at = facts->consumer;
        if (fusion->facts[at->id].task >= 0 || (at->op != OP_RESHAPE && !tuff__op_is_elementwise(at->op)))
            return end;
        if (at->op != OP_RESHAPE)
            end = at;
    }
}

static void fuse_epilogue(struct fusion *fusion, struct task *task, int index)
{
    const node *end = end_of_epilogue(fusion, task->core);
    fusion->facts[end->id].task = index;
    if (end == task->core)
        return;
    fusion->facts[task->core->id].materialized = false;
    fusion->facts[task->core->id].has_layout = false;
    fusion->facts[end->id].materialized = true;
    task->roots[0] = end;
}

static tuff_status add_task(struct fusion *fusion, const node *at)
{
    if (!GROW(fusion->tasks, fusion->task_count, fusion->task_capacity))
        return TUFF_E_OOM_HOST;
    struct task *task = &fusion->tasks[fusion->task_count];
    *task = make_task(tuff__op_is_attention(at->op) ? leader_of(fusion, at) : at);
    if (task->kind == TASK_ATTENTION)
        gather_attention(fusion, task, fusion->task_count);
    else if (task->kind == TASK_MATMUL && fusion->mode == TUFF_FUSE_ALL && !fusion->by_library &&
             !fusion->facts[at->id].no_epilogue)
        fuse_epilogue(fusion, task, fusion->task_count);
    else
        fusion->facts[at->id].task = fusion->task_count;
    ++fusion->task_count;
    return TUFF_OK;
}

static void free_tasks(struct fusion *fusion)
{
    for (int i = 0; i < fusion->task_count; ++i)
        tuff__free(fusion->tasks[i].reads);
    fusion->task_count = 0;
}

static tuff_status make_tasks(struct fusion *fusion)
{
    tuff_graph *graph = fusion->graph;
    free_tasks(fusion);
    for (int i = graph->node_count - 1; i >= 0; --i)
        if (graph->nodes[i]->op == OP_MATMUL)
            TRY(add_task(fusion, graph->nodes[i]));
    for (int i = 0; i < graph->node_count; ++i) {
        const node *at = graph->nodes[i];
        const node_facts *facts = &fusion->facts[i];
        if (facts->materialized && facts->task < 0 && facts->first_part == NULL)
            TRY(add_task(fusion, at));
    }
    for (int i = 0; i < fusion->task_count; ++i)
        TRY(tuff__task_find_reads(fusion, &fusion->tasks[i]));
    return TUFF_OK;
}

/* Makes a node that has a layout of its own row-major, in case this layout is why it cannot be addressed. Returns
   whether the node changed. */
static bool make_row_major(struct fusion *fusion, const node *at)
{
    node_facts *facts = &fusion->facts[at->id];
    const bool changed = facts->materialized && facts->has_layout && !facts->row_major;
    facts->row_major |= changed;
    return changed;
}

/* Checks the operands of scatters and attention, whose kernels address memory themselves; attention reads rows as
   vectors. An operand that was a view when the nodes to materialize were chosen may have another layout since, as a
   part of a concat. */
static tuff_status check_operands(struct fusion *fusion, const struct task *task, bool *again)
{
    for (int i = 0; i < task->core->input_count; ++i) {
        const tuff_tensor *operand = task->core->inputs[i];
        view layout;
        const node *missing = NULL, *base = tuff__operand_view(fusion, operand, &layout, &missing);
        const bool in_steps = missing == NULL && task->kind == TASK_ATTENTION && layout.rank == 4 &&
                              layout.extent[3] > 1 && layout.stride[3] != 1;
        if (missing == NULL && !in_steps)
            continue;
        const node *at = missing != NULL ? missing : base;
        if (!fusion->facts[at->id].materialized && !fusion->facts[at->id].forced && !tuff__op_is_source(at->op))
            fusion->facts[at->id].forced = true;
        else if (!make_row_major(fusion, at))
            return FAIL(TUFF_E_LIMIT, "compile: %s has an operand %s whose memory layout no kernel supports",
                        tuff__op_info(task->core->op)->name, SHAPE_TEXT(operand->shape));
        *again = true;
        return TUFF_OK;
    }
    return TUFF_OK;
}

/* Checks that one kernel can address a task. Sets *again if another node must be materialized first, or a layout
   changed. */
static tuff_status check_task(struct fusion *fusion, const struct task *task, bool *again)
{
    fused_chain chain;
    const node *give_up;
    bool impossible;
    if (tuff__task_is_empty(task))
        return TUFF_OK;
    if (task->kind == TASK_SCATTER || task->kind == TASK_ATTENTION)
        return check_operands(fusion, task, again);
    TRY(tuff__chain_build(fusion, task, &chain, &give_up, &impossible));
    const bool too_many_buffers = !tuff__can_bind(fusion, &chain);
    tuff__chain_free(&chain);
    /* Each of these can happen only once per node, so the loop in group_nodes() ends. */
    if (give_up != NULL && !fusion->facts[give_up->id].materialized && !fusion->facts[give_up->id].forced) {
        fusion->facts[give_up->id].forced = true;
        *again = true;
    } else if (give_up != NULL && make_row_major(fusion, give_up)) {
        *again = true;
    } else if (impossible && make_row_major(fusion, task->roots[0])) {
        *again = true;
    } else if ((give_up != NULL || impossible || too_many_buffers) && task->core != NULL &&
               task->roots[0] != task->core && !fusion->facts[task->core->id].no_epilogue) {
        fusion->facts[task->core->id].no_epilogue = true;
        *again = true;
    } else if (give_up != NULL || impossible || too_many_buffers) {
        return FAIL(TUFF_E_LIMIT,
                    "compile: %s %s needs more buffers, or more complex indexing, than one kernel supports",
                    tuff__op_info(task->roots[0]->op)->name, SHAPE_TEXT(task->domain));
    }
    return TUFF_OK;
}

static tuff_status group_nodes(struct fusion *fusion)
{
    bool again = true;
    while (again) {
        again = false;
        tuff__choose_materialized(fusion);
        TRY(make_tasks(fusion));
        for (int i = 0; i < fusion->task_count && !again; ++i)
            TRY(check_task(fusion, &fusion->tasks[i], &again));
    }
    return TUFF_OK;
}

static bool find_attentions(struct fusion *fusion)
{
    const tuff_graph *graph = fusion->graph;
    fusion->attentions = tuff__calloc((size_t)graph->node_count + 1, sizeof(node *));
    for (int i = 0; i < graph->node_count && fusion->attentions != NULL; ++i)
        if (tuff__op_is_attention(graph->nodes[i]->op))
            fusion->attentions[fusion->attention_count++] = graph->nodes[i];
    return fusion->attentions != NULL;
}

/* Fills in recomputation_begins. Nodes that no recomputation made have number 0. */
static bool find_recomputations(struct fusion *fusion)
{
    const tuff_graph *graph = fusion->graph;
    int most = 0;
    for (int i = 0; i < graph->node_count; ++i)
        most = graph->nodes[i]->recomputation > most ? graph->nodes[i]->recomputation : most;
    fusion->recomputation_begins = tuff__calloc((size_t)most + 1, sizeof *fusion->recomputation_begins);
    for (int i = graph->node_count - 1; i >= 0 && fusion->recomputation_begins != NULL; --i)
        if (graph->nodes[i]->recomputation != 0)
            fusion->recomputation_begins[graph->nodes[i]->recomputation] = i;
    return fusion->recomputation_begins != NULL;
}

tuff_status tuff__fuse(tuff_graph *graph, const tuff_compile_options *options, int buffer_limit, pass_choices *passes,
                       struct fusion *out)
{
    *out = (struct fusion){.graph = graph,
                           .mode = options->fuse,
                           .family = options->family,
                           .is_deterministic = tuff__is_deterministic(options),
                           .precision = options->precision,
                           .matmul_precision = tuff__device_target(graph->device).has_subgroup_matrices
                                                   ? options->matmul_precision
                                                   : TUFF_PRECISION_F32,
                           .by_library = options->matmul_library != TUFF_MATMUL_OWN,
                           .buffer_limit = buffer_limit,
                           .passes = passes};
    out->facts = tuff__calloc((size_t)graph->node_count + 1, sizeof *out->facts);
    out->marks = tuff__calloc((size_t)graph->node_count + 1, sizeof *out->marks);
    const bool complete = out->facts != NULL && out->marks != NULL && find_attentions(out) && find_recomputations(out);
    tuff_status status = complete ? group_nodes(out) : TUFF_E_OOM_HOST;
    if (status == TUFF_OK && options->fuse == TUFF_FUSE_ALL)
        status = tuff__merge_tasks(out);
    if (status == TUFF_OK && options->fuse == TUFF_FUSE_ALL)
        status = tuff__fuse_producers(out);
    if (status == TUFF_OK)
        status = tuff__choose_storage(out);
    if (status == TUFF_OK)
        status = tuff__order_tasks(out);
    if (status != TUFF_OK)
        tuff__fusion_free(out);
    return status;
}

void tuff__fusion_free(struct fusion *fusion)
{
    free_tasks(fusion);
    tuff__free(fusion->tasks);
    tuff__free(fusion->attentions);
    tuff__free(fusion->facts);
    tuff__free(fusion->marks);
    tuff__free(fusion->recomputation_begins);
    *fusion = (struct fusion){.graph = NULL};
}
