/* Writes the chain of a task: walks from the stored nodes down to memory, carrying the path of movement ops and the
   guard under which reads are legal. Equal values are written once. */
#include <string.h>

#include "compile/fuse/fuse.h"

/* A value that was built: a node's, seen along a path, under a guard. */
typedef struct seen_value {
    const node *at;
    const path *along;
    int guard, value;
} seen_value;

#define MOST_SEEN 384 /* ways to see nodes: from then on one that branches again is materialised */

typedef struct builder {
    const struct fusion *fusion;
    const struct task *task;
    fused_chain *chain;
    arena paths;         /* steps of the paths that the walk follows */
    int first;           /* of the values that walk the same axes as the next */
    tuff_shape kept;     /* the domain with its loop axes at extent 1 */
    const node *give_up; /* must be materialised first */
    bool impossible;
    tuff_status status;
    seen_value *seen; /* hashed by what they are of; at is NULL where there is none */
    int seen_count, seen_capacity;
} builder;

static int build(builder *with, const node *at, const path *along, int guard);

static const path *keep_path(builder *with, path step)
{
    path *kept = tuff__arena_alloc(&with->paths, sizeof *kept);
    if (kept == NULL) {
        with->status = TUFF_E_OOM_HOST;
        return NULL;
    }
    *kept = step;
    return kept;
}

static bool same_value(const chain_value *a, const chain_value *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->cast_to == b->cast_to &&
           memcmp(a->args, b->args, sizeof a->args) == 0 && a->guard == b->guard && a->buffer == b->buffer &&
           memcmp(&a->address, &b->address, sizeof a->address) == 0 && a->low == b->low && a->high == b->high &&
           a->step == b->step && a->extent == b->extent &&
           memcmp(&a->constant, &b->constant, sizeof a->constant) == 0 && a->seed == b->seed &&
           a->ordinal == b->ordinal && a->index == b->index;
}

static int add(builder *with, const chain_value *fresh)
{
    fused_chain *chain = with->chain;
    for (int i = with->first; i < chain->value_count; ++i)
        if (same_value(&chain->values[i], fresh))
            return i;
    if (!GROW(chain->values, chain->value_count, chain->value_capacity)) {
        with->status = TUFF_E_OOM_HOST;
        return NO_VALUE;
    }
    chain->values[chain->value_count] = *fresh;
    return chain->value_count++;
}

/* A value with nothing set. */
static chain_value blank(value_kind kind, tuff_dtype dtype)
{
    return (chain_value){
        .kind = kind, .dtype = dtype, .args = {NO_VALUE, NO_VALUE, NO_VALUE}, .guard = NO_VALUE, .buffer = -1};
}

static int give_up(builder *with, const node *at)
{
    if (with->give_up == NULL)
        with->give_up = at;
    return NO_VALUE;
}

static bool failed(const builder *with)
{
    return with->give_up != NULL || with->impossible || with->status != TUFF_OK;
}

static affine affine_of(const view *layout)
{
    affine result = {.offset = layout->offset};
    for (int i = 0; i < layout->rank; ++i)
        result.stride[i] = layout->extent[i] > 1 ? layout->stride[i] : 0;
    return result;
}

/* Applies the path to a layout; where a step fails, its source must be materialised. */
static bool reach(builder *with, view *layout, const path *along)
{
    const path *stuck = NULL;
    if (tuff__view_along(layout, along, &stuck))
        return true;
    if (stuck->source == NULL)
        with->impossible = true;
    else
        give_up(with, stuck->source);
    return false;
}

static int buffer_of(builder *with, int id, tuff_dtype dtype, bool written)
{
    fused_chain *chain = with->chain;
    int i = 0;
    while (i < chain->buffer_count && chain->buffers[i].id != id)
        ++i;
    if (i == chain->buffer_count) {
        if (i == MAX_CHAIN_BUFFERS) {
            with->impossible = true;
            return 0;
        }
        chain->buffers[chain->buffer_count++] = (chain_buffer){.id = id, .dtype = dtype};
    }
    chain->buffers[i].read |= !written;
    chain->buffers[i].written |= written;
    return i;
}

static int build_load(builder *with, const node *leaf, const path *along, int guard)
{
    view layout = tuff__fusion_layout(with->fusion, leaf);
    if (!reach(with, &layout, along))
        return NO_VALUE;
    const tuff_dtype dtype = leaf->outputs[0].dtype;
    chain_value load = blank(VALUE_LOAD, tuff__compute_dtype(dtype));
    load.buffer = buffer_of(with, leaf->id, dtype, false);
    load.address = affine_of(&layout);
    load.guard = guard;
    return add(with, &load);
}

/* The result of a reduction or a matmul of this task: only at its own coordinates. */
static int build_result(builder *with, const node *core, int index, const path *along)
{
    view layout = tuff__view_contiguous(core->outputs[0].shape);
    if (!reach(with, &layout, along))
        return NO_VALUE;
    view expected = tuff__view_contiguous(with->kept);
    const path spread = {.kind = STEP_EXPAND, .shape = with->task->domain};
    if (with->task->kind != TASK_CUMSUM)
        tuff__view_apply(&expected, &spread);
    else
        expected = tuff__view_contiguous(with->task->domain);
    if (!tuff__view_equal(&layout, &expected)) {
        with->impossible = true;
        return NO_VALUE;
    }
    chain_value result = blank(VALUE_RESULT, tuff__compute_dtype(core->outputs[0].dtype));
    result.index = index;
    return add(with, &result);
}

static seen_value *find_seen(const builder *with, const node *at, const path *along, int guard)
{
    const uint64_t key = ((uint64_t)(uintptr_t)along >> 4) + (uint64_t)at->id * 31 + (uint64_t)guard * 7;
    int i = (int)((key * 0x9e3779b97f4a7c15u >> 32) & (uint64_t)(with->seen_capacity - 1));
    while (with->seen[i].at != NULL &&
           (with->seen[i].at != at || with->seen[i].along != along || with->seen[i].guard != guard))
        i = (i + 1) & (with->seen_capacity - 1);
    return &with->seen[i];
}

/* Keeps the table at most half full. */
static bool grow_seen(builder *with)
{
    builder fresh = *with;
    fresh.seen_capacity = with->seen_capacity == 0 ? 64 : with->seen_capacity * 2;
    fresh.seen = tuff__calloc((size_t)fresh.seen_capacity, sizeof *fresh.seen);
    if (fresh.seen == NULL) {
        with->status = TUFF_E_OOM_HOST;
        return false;
    }
    for (int i = 0; i < with->seen_capacity; ++i)
        if (with->seen[i].at != NULL)
            *find_seen(&fresh, with->seen[i].at, with->seen[i].along, with->seen[i].guard) = with->seen[i];
    tuff__free(with->seen);
    *with = fresh;
    return true;
}

static int build_elementwise(builder *with, const node *at, const path *along, int guard)
{
    if (with->seen_count >= MOST_SEEN && at->input_count > 1 && !with->fusion->facts[at->id].anchor)
        return give_up(with, at);
    chain_value value = blank(VALUE_OP, tuff__compute_dtype(at->outputs[0].dtype));
    value.op = at->op;
    value.cast_to = at->op == OP_CAST ? at->outputs[0].dtype : TUFF_F32;
    for (int i = 0; i < at->input_count; ++i)
        value.args[i] = build(with, at->inputs[i]->node, along, guard);
    return failed(with) ? NO_VALUE : add(with, &value);
}

static int build_constant(builder *with, tuff_dtype dtype, double number)
{
    chain_value value = blank(VALUE_CONSTANT, tuff__compute_dtype(dtype));
    value.constant = number;
    return add(with, &value);
}

static int build_op(builder *with, op_code op, tuff_dtype dtype, int x, int y, int z)
{
    chain_value value = blank(VALUE_OP, dtype);
    value.op = op;
    value.args[0] = x;
    value.args[1] = y;
    value.args[2] = z;
    return failed(with) ? NO_VALUE : add(with, &value);
}

/* bool: low <= the coordinate along axis of a tensor of this shape < high. */
static int build_inside(builder *with, tuff_shape shape, int axis, const path *along, int64_t low, int64_t high)
{
    view layout = tuff__view_contiguous(shape);
    memset(layout.stride, 0, sizeof layout.stride);
    layout.stride[axis] = 1;
    if (!reach(with, &layout, along))
        return NO_VALUE;
    chain_value inside = blank(VALUE_INSIDE, TUFF_BOOL);
    inside.address = affine_of(&layout);
    inside.low = low;
    inside.high = high;
    return add(with, &inside);
}

static int both(builder *with, int a, int b)
{
    if (a == NO_VALUE || b == NO_VALUE)
        return a == NO_VALUE ? b : a;
    return build_op(with, OP_AND, TUFF_BOOL, a, b, NO_VALUE);
}

static int build_pad(builder *with, const node *pad, const path *along, int guard)
{
    const tuff_shape *inner = &pad->inputs[0]->shape, *outer = &pad->outputs[0].shape;
    int inside = NO_VALUE;
    for (int i = 0; i < outer->rank && !failed(with); ++i)
        if (inner->extent[i] != outer->extent[i]) {
            const int64_t before = pad->attributes.start[i];
            inside = both(with, inside, build_inside(with, *outer, i, along, before, before + inner->extent[i]));
        }
    if (failed(with))
        return NO_VALUE;
    const int fill = build_constant(with, pad->outputs[0].dtype, pad->attributes.value);
    if (tuff_shape_count(*inner) == 0)
        return fill;
    const path *step = keep_path(with, tuff__path_of(pad, along));
    if (step == NULL)
        return NO_VALUE;
    const int value = build(with, pad->inputs[0]->node, step, both(with, guard, inside));
    if (failed(with) || inside == NO_VALUE)
        return value;
    return build_op(with, OP_WHERE, with->chain->values[value].dtype, inside, value, fill);
}

static int build_concat(builder *with, const node *concat, const path *along, int guard)
{
    const int axis = concat->attributes.axis;
    int result = NO_VALUE;
    int64_t end = concat->outputs[0].shape.extent[axis];
    for (int i = concat->input_count - 1; i >= 0 && !failed(with); --i) {
        const int64_t start = end - concat->inputs[i]->shape.extent[axis];
        if (start == end)
            continue;
        const int inside = build_inside(with, concat->outputs[0].shape, axis, along, start, end);
        const path *step = keep_path(with, tuff__path_of_part(concat, i, along));
        if (step == NULL || failed(with))
            return NO_VALUE;
        const int part = build(with, concat->inputs[i]->node, step, both(with, guard, inside));
        if (failed(with))
            return NO_VALUE;
        result =
            result == NO_VALUE ? part : build_op(with, OP_WHERE, with->chain->values[part].dtype, inside, part, result);
        end = start;
    }
    return result;
}

static int build_index(builder *with, value_kind kind, const node *at, const path *along)
{
    view layout = tuff__view_contiguous(at->outputs[0].shape);
    if (kind == VALUE_INDEX) {
        memset(layout.stride, 0, sizeof layout.stride);
        layout.stride[at->attributes.axis] = 1;
    }
    if (!reach(with, &layout, along))
        return NO_VALUE;
    chain_value value = blank(kind, kind == VALUE_INDEX ? TUFF_I32 : TUFF_F32);
    value.address = affine_of(&layout);
    if (kind == VALUE_RANDOM) {
        tuff_shape ones = at->outputs[0].shape;
        for (int i = 0; i < ones.rank; ++i)
            ones.extent[i] = 1;
        const path *spread =
            keep_path(with, (path){.kind = STEP_EXPAND, .shape = at->outputs[0].shape, .outer = along});
        const path *unit = keep_path(with, tuff__path_reshape(ones, spread));
        if (unit == NULL || spread == NULL)
            return NO_VALUE;
        value.args[0] = build(with, at->inputs[0]->node, unit, NO_VALUE);
        value.seed = at->attributes.seed;
        value.ordinal = at->attributes.ordinal;
    }
    return failed(with) ? NO_VALUE : add(with, &value);
}

/* The index of a reduction of this task, or -1. */
static int find_reduction(const struct task *task, const node *at)
{
    for (int i = 0; i < task->reduction_count; ++i)
        if (task->reductions[i] == at)
            return i;
    return -1;
}

/* Whether a reduction is known only when the last row of an item is done. */
static bool is_in_columns(const struct task *task, int reduction)
{
    return reduction >= 0 && (task->in_columns >> reduction & 1) != 0;
}

static bool is_stored_here(const struct task *task, const node *at)
{
    for (int i = 0; i < task->root_count; ++i)
        if (task->roots[i] == at)
            return true;
    return false;
}

static bool is_computed_here(const struct task *task, const node *at)
{
    return at == task->core || find_reduction(task, at) >= 0 || is_stored_here(task, at);
}

static int build_lookup(builder *with, const node *gather, const path *along, int guard)
{
    const int axis = gather->attributes.axis;
    view layout;
    const node *missing = NULL;
    const node *base = tuff__operand_view(with->fusion, gather->inputs[0], &layout, &missing);
    if (missing != NULL)
        return give_up(with, missing);
    const int64_t step = layout.stride[axis], extent = layout.extent[axis];
    layout.stride[axis] = 0;
    layout.extent[axis] = gather->outputs[0].shape.extent[axis];
    if (!reach(with, &layout, along))
        return NO_VALUE;
    const int index = build(with, gather->inputs[1]->node, along, guard);
    if (failed(with))
        return NO_VALUE;
    if (is_computed_here(with->task, base)) {
        with->impossible = true;
        return NO_VALUE;
    }
    chain_value value = blank(VALUE_LOOKUP, tuff__compute_dtype(base->outputs[0].dtype));
    value.buffer = buffer_of(with, base->id, base->outputs[0].dtype, false);
    value.address = affine_of(&layout);
    value.args[0] = index;
    value.guard = guard;
    value.step = step;
    value.extent = extent;
    return add(with, &value);
}

static int build_movement(builder *with, const node *at, const path *along, int guard)
{
    const path *step = keep_path(with, tuff__path_of(at, along));
    return step == NULL ? NO_VALUE : build(with, at->inputs[0]->node, step, guard);
}

static int build_fresh(builder *with, const node *at, const path *along, int guard)
{
    if (tuff__op_is_elementwise(at->op))
        return build_elementwise(with, at, along, guard);
    if (tuff__op_is_view(at->op))
        return build_movement(with, at, along, guard);
    switch (at->op) {
    case OP_PAD:
        return build_pad(with, at, along, guard);
    case OP_CONCAT:
        return build_concat(with, at, along, guard);
    case OP_IOTA:
        return build_index(with, VALUE_INDEX, at, along);
    case OP_RANDOM:
        return build_index(with, VALUE_RANDOM, at, along);
    case OP_GATHER:
        return build_lookup(with, at, along, guard);
    case OP_ASSIGN:
        return build(with, at->inputs[0]->node, along, guard);
    default:
        return give_up(with, at);
    }
}

/* What several nodes use is built once. */
static int build_inner(builder *with, const node *at, const path *along, int guard)
{
    if (with->seen_count * 2 >= with->seen_capacity && !grow_seen(with))
        return NO_VALUE;
    const seen_value *before = find_seen(with, at, along, guard);
    if (before->at != NULL)
        return before->value;
    const int value = build_fresh(with, at, along, guard);
    if (failed(with) || (with->seen_count * 2 >= with->seen_capacity && !grow_seen(with)))
        return NO_VALUE;
    *find_seen(with, at, along, guard) = (seen_value){at, along, guard, value};
    with->seen_count++;
    return value;
}

static int build(builder *with, const node *at, const path *along, int guard)
{
    if (failed(with))
        return NO_VALUE;
    if (at->op == OP_CONSTANT && at->attributes.data == NULL)
        return build_constant(with, at->outputs[0].dtype, at->attributes.value);
    const int reduction = find_reduction(with->task, at);
    with->impossible |= is_in_columns(with->task, reduction);
    if (reduction >= 0)
        return build_result(with, at, reduction, along);
    if (at == with->task->core && with->task->kind == TASK_MATMUL)
        return build_result(with, at, 0, along);
    if (tuff__op_is_source(at->op) || (with->fusion->facts[at->id].anchor && !is_stored_here(with->task, at)))
        return build_load(with, at, along, guard);
    return build_inner(with, at, along, guard);
}

/* The path from a node of the task to its domain: the same elements in the same order, or one for each kept point. */
static const path *path_to_domain(builder *with, tuff_shape shape)
{
    const tuff_shape *domain = &with->task->domain;
    if (tuff_shape_equal(shape, *domain))
        return NULL;
    if (tuff_shape_count(shape) == tuff_shape_count(*domain))
        return keep_path(with, tuff__path_reshape(*domain, NULL));
    const path *spread = keep_path(with, (path){.kind = STEP_EXPAND, .shape = *domain});
    return keep_path(with, tuff__path_reshape(with->kept, spread));
}

/* The path from sums of columns: the same for all rows of an item. */
static const path *path_from_columns(builder *with)
{
    tuff_shape kept = with->task->domain;
    for (int i = 0; i < kept.rank; ++i)
        kept.extent[i] = (with->task->column_axes >> i & 1) != 0 ? 1 : kept.extent[i];
    const path *spread = keep_path(with, (path){.kind = STEP_EXPAND, .shape = with->task->domain});
    return keep_path(with, tuff__path_reshape(kept, spread));
}

static void build_reduction(builder *with, int index)
{
    const node *at = with->task->reductions[index];
    chain_reduction *reduction = &with->chain->reductions[index];
    reduction->in_columns = is_in_columns(with->task, index);
    const path *along = path_to_domain(with, at->inputs[0]->shape);
    reduction->op = at->op;
    reduction->input = build(with, at->inputs[0]->node, along, NO_VALUE);
    if (failed(with))
        return;
    chain_value result = blank(VALUE_RESULT, tuff__compute_dtype(at->outputs[0].dtype));
    result.index = index;
    reduction->result = add(with, &result);
    with->chain->reduction_count = index + 1;
}

static void build_output(builder *with, const node *root)
{
    chain_output *output = &with->chain->outputs[with->chain->output_count];
    const int reduction = find_reduction(with->task, root);
    output->in_columns = is_in_columns(with->task, reduction);
    const path *along = output->in_columns ? path_from_columns(with) : path_to_domain(with, root->outputs[0].shape);
    view layout = tuff__fusion_layout(with->fusion, root);
    if (!reach(with, &layout, along))
        return;
    if (output->in_columns)
        output->value = with->chain->reductions[reduction].result;
    else
        output->value = with->task->kind == TASK_CUMSUM ? NO_VALUE : build(with, root, along, NO_VALUE);
    output->address = affine_of(&layout);
    output->buffer = buffer_of(with, root->id, root->outputs[0].dtype, true);
    with->chain->buffers[output->buffer].read |= output->in_columns;
    output->every_point =
        !output->in_columns && (tuff_shape_count(root->outputs[0].shape) == tuff_shape_count(with->task->domain) ||
                                with->task->loop_axes == 0);
    ++with->chain->output_count;
}

static void build_axes(builder *with)
{
    const struct task *task = with->task;
    with->chain->rank = task->domain.rank;
    with->kept = task->domain;
    for (int i = 0; i < task->domain.rank; ++i) {
        with->chain->extent[i] = task->domain.extent[i];
        const bool loop = (task->loop_axes >> i & 1) != 0;
        with->chain->classes[i] = loop ? AXIS_LOOP : AXIS_OUTER;
        if (loop)
            with->kept.extent[i] = 1;
        if ((task->column_axes >> i & 1) != 0)
            with->chain->item_rows =
                (with->chain->item_rows == 0 ? 1 : with->chain->item_rows) * task->domain.extent[i];
    }
    if (task->kind == TASK_MATMUL) {
        with->chain->classes[task->domain.rank - 2] = AXIS_ROW;
        with->chain->classes[task->domain.rank - 1] = AXIS_COLUMN;
    }
}

/* Values built from here on walk other axes than those before. */
static void begin_values(builder *with)
{
    tuff__free(with->seen);
    with->seen = NULL;
    with->seen_count = with->seen_capacity = 0;
    with->first = with->chain->value_count;
}

/* The operand as values over its own rows and columns; where it is in memory its address is built already. */
static void build_producer(builder *with, int operand)
{
    fused_chain *chain = with->chain;
    const tuff_tensor *of = with->task->core->inputs[operand];
    chain_producer *made = &chain->producers[operand];
    begin_values(with);
    made->axis = of->shape.rank - 2;
    memcpy(made->extent, of->shape.extent + made->axis, sizeof made->extent);
    made->begin = chain->value_count;
    made->value = build(with, of->node, NULL, NO_VALUE);
    made->end = chain->value_count;
    begin_values(with);
    if (!failed(with))
        tuff__chain_lead(chain, operand);
}

/* The matrices of a matmul: buffers 0 and 1 where they differ and lie in memory. */
static void build_operands(builder *with)
{
    fused_chain *chain = with->chain;
    for (int i = 0; i < 2 && !failed(with); ++i) {
        const tuff_tensor *operand = with->task->core->inputs[i];
        view layout;
        const node *missing = NULL;
        const node *base = tuff__factor_view(with->fusion, operand, &layout, &missing);
        if (missing != NULL) {
            give_up(with, missing);
            return;
        }
        if (is_computed_here(with->task, base)) {
            with->impossible = true;
            return;
        }
        const bool produced = with->fusion->facts[base->id].absorbed;
        chain->operand_buffers[i] = produced ? 0 : buffer_of(with, base->id, base->outputs[0].dtype, false);
        chain->extra[i] = affine_of(&layout);
        for (int k = 0; k < 2; ++k) {
            const int axis = layout.rank - 2 + k;
            chain->operand_strides[i][k] = layout.stride[axis];
            chain->extra[i].stride[axis] = 0;
        }
        chain->operand_names[i] = i == 0 ? "a" : "b";
        chain->extra_count = i + 1;
        if (produced)
            build_producer(with, i);
    }
}

tuff_status tuff__chain_build(const struct fusion *fusion, const struct task *task, fused_chain *out,
                              const node **give_up_on, bool *impossible)
{
    *out = (fused_chain){.rank = 0};
    builder with = {.fusion = fusion, .task = task, .chain = out};
    build_axes(&with);
    if (task->kind == TASK_CUMSUM) {
        out->reductions[0] = (chain_reduction){.op = OP_SUM, .result = NO_VALUE};
        out->reductions[0].input = build(&with, task->core->inputs[0]->node, NULL, NO_VALUE);
        out->reduction_count = 1;
    }
    if (task->kind == TASK_MATMUL)
        build_operands(&with);
    for (int i = 0; i < task->reduction_count && !failed(&with); ++i)
        build_reduction(&with, i);
    for (int i = 0; i < task->root_count && !failed(&with); ++i)
        build_output(&with, task->roots[i]);
    tuff__free(with.seen);
    tuff__arena_free(&with.paths);
    *give_up_on = with.give_up;
    *impossible = with.impossible;
    if (failed(&with))
        tuff__chain_free(out);
    return with.status == TUFF_OK ? TUFF_OK : FAIL(with.status, "compile: out of host memory while fusing");
}
