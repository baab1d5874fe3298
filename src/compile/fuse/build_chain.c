/* Builds the chain of a task: walks from the stored nodes down to memory, carrying the path of movement ops and the
   guard under which reads are legal. Equal values are shared. */
#include <string.h>

#include "compile/fuse/coordinates.h"
#include "compile/fuse/fuse.h"

/* A value that was built for a node, as seen along a path under a guard. */
typedef struct seen_value {
    const node *at;
    const path *along;
    int guard, value;
} seen_value;

#define MAX_SEEN 384 /* values built; beyond it, a node that would branch again is materialized instead */

typedef struct builder {
    const struct fusion *fusion;
    const struct task *task;
    fused_chain *chain;
    arena paths;         /* steps of the paths from stored nodes to memory */
    int first_shared;    /* index of the first value on the same axes as the next; earlier ones are not shared */
    tuff_shape reduced_domain; /* the domain with its loop axes at extent 1 */
    const node *give_up; /* the node that must be materialized first, or NULL */
    bool impossible;
    bool computes_coordinates; /* those that strides cannot express: in operands made of patches */
    bool computes_compared;    /* a value whose fact computed_once is set */
    tuff_status status;
    seen_value *seen; /* hash table keyed by node, path and guard; a free slot's at is NULL */
    int seen_count, seen_capacity;
} builder;

static int build(builder *self, const node *at, const path *along, int guard);

static const path *keep_path(builder *self, path step)
{
    path *kept = tuff__arena_alloc(&self->paths, sizeof *kept);
    if (kept == NULL) {
        self->status = TUFF_E_OOM_HOST;
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

static int add(builder *self, const chain_value *value)
{
    fused_chain *chain = self->chain;
    for (int i = self->first_shared; i < chain->value_count; ++i)
        if (same_value(&chain->values[i], value))
            return i;
    if (!GROW(chain->values, chain->value_count, chain->value_capacity)) {
        self->status = TUFF_E_OOM_HOST;
        return NO_VALUE;
    }
    chain->values[chain->value_count] = *value;
    return chain->value_count++;
}

static int give_up(builder *self, const node *at)
{
    if (self->give_up == NULL)
        self->give_up = at;
    return NO_VALUE;
}

static bool failed(const builder *self)
{
    return self->give_up != NULL || self->impossible || self->status != TUFF_OK;
}

static affine affine_of(const view *layout)
{
    affine result = {.offset = layout->offset};
    for (int i = 0; i < layout->rank; ++i)
        result.stride[i] = layout->extent[i] > 1 ? layout->stride[i] : 0;
    return result;
}

/* Applies the path to a layout. If a step fails, gives up on the step's source, which must be materialized. */
static bool apply_path(builder *self, view *layout, const path *along)
{
    const path *failed_step = NULL;
    if (tuff__view_along(layout, along, &failed_step))
        return true;
    if (failed_step->source == NULL)
        self->impossible = true;
    else
        give_up(self, failed_step->source);
    return false;
}

static int buffer_of(builder *self, int id, tuff_dtype dtype, bool written)
{
    fused_chain *chain = self->chain;
    int i = 0;
    while (i < chain->buffer_count && chain->buffers[i].id != id)
        ++i;
    if (i == chain->buffer_count) {
        if (i == MAX_CHAIN_BUFFERS) {
            self->impossible = true;
            return 0;
        }
        chain->buffers[chain->buffer_count++] = (chain_buffer){.id = id, .dtype = dtype};
    }
    chain->buffers[i].read |= !written;
    chain->buffers[i].written |= written;
    return i;
}

static int add_to_builder(void *self, const chain_value *value)
{
    return add(self, value);
}

/* Whether strides cannot express the layout along the path, so that coordinates must be computed. */
static bool needs_coordinates(const builder *self, view layout, const path *along)
{
    return self->computes_coordinates && !tuff__view_along(&layout, along, NULL);
}

/* Computes the coordinates along a path. On failure gives up on the source of the path's first step, which must be
   materialized. */
static bool find_coordinates(builder *self, tuff_shape shape, const path *along, value_sink *sink, coordinate *out)
{
    *sink = (value_sink){.state = self, .add = add_to_builder};
    if (tuff__coordinates_along(sink, shape, along, out))
        return true;
    if (self->status == TUFF_OK && along->source != NULL)
        give_up(self, along->source);
    self->impossible |= along->source == NULL;
    return false;
}

static bool has_padding(const path *along)
{
    while (along != NULL && along->kind != STEP_PAD)
        along = along->outer;
    return along != NULL;
}

/* Whether all coordinates that depend on an axis of the domain are plain multiples of it within the tensor. In a padded
   tensor others may leave it. */
static bool stays_inside(const builder *self, tuff_shape shape, const coordinate *all, int axis)
{
    for (int i = 0; i < shape.rank; ++i) {
        const affine *linear = &all[i].linear;
        if (linear->stride[axis] == 0)
            continue;
        bool is_plain = linear->offset == 0 && all[i].value_count == 0 &&
                        (self->chain->extent[axis] - 1) * linear->stride[axis] < shape.extent[i];
        for (int k = 0; k < self->chain->rank; ++k)
            is_plain &= k == axis || linear->stride[k] == 0;
        if (!is_plain)
            return false;
    }
    return true;
}

/* Builds a load at a computed index. The matrices of a batch are a stride apart; the position inside a matrix is
   computed and looked up. No guard is needed: a lookup checks its bounds, so coordinates may be anything where a
   padding's guard is false. */
static int build_computed_load(builder *self, const node *leaf, const view *layout, const path *along)
{
    coordinate all[TUFF_MAX_RANK], sum = {.linear = {.offset = layout->offset}};
    value_sink sink;
    if (!find_coordinates(self, leaf->outputs[0].shape, along, &sink, all))
        return NO_VALUE;
    for (int i = 0; i < layout->rank; ++i)
        if (!tuff__coordinate_add(&sum, &all[i], layout->stride[i]))
            return give_up(self, leaf);
    const tuff_dtype dtype = leaf->outputs[0].dtype;
    chain_value load = tuff__chain_value(VALUE_LOOKUP, tuff__compute_dtype(dtype));
    load.extent = tuff__view_span(layout) + layout->offset;
    const bool is_padded = has_padding(along);
    for (int i = 0; i < self->chain->rank - 2; ++i)
        if (sum.linear.stride[i] > 0 && (!is_padded || stays_inside(self, leaf->outputs[0].shape, all, i))) {
            load.address.stride[i] = sum.linear.stride[i];
            load.extent -= (self->chain->extent[i] - 1) * sum.linear.stride[i];
            sum.linear.stride[i] = 0;
        }
    load.buffer = buffer_of(self, leaf->id, dtype, false);
    load.args[0] = tuff__coordinate_value(&sink, &sum);
    load.step = 1;
    return load.args[0] == NO_VALUE ? NO_VALUE : add(self, &load);
}

static int build_load(builder *self, const node *leaf, const path *along, int guard)
{
    view layout = tuff__fusion_layout(self->fusion, leaf);
    if (needs_coordinates(self, layout, along))
        return build_computed_load(self, leaf, &layout, along);
    if (!apply_path(self, &layout, along))
        return NO_VALUE;
    const tuff_dtype dtype = leaf->outputs[0].dtype;
    chain_value load = tuff__chain_value(VALUE_LOAD, tuff__compute_dtype(dtype));
    load.buffer = buffer_of(self, leaf->id, dtype, false);
    load.address = affine_of(&layout);
    load.guard = guard;
    return add(self, &load);
}

/* Builds a reference to the result of this task's reduction or matmul, which exists only at its own coordinates. */
static int build_result(builder *self, const node *core, int index, const path *along)
{
    view layout = tuff__view_contiguous(core->outputs[0].shape);
    if (!apply_path(self, &layout, along))
        return NO_VALUE;
    view expected = tuff__view_contiguous(self->reduced_domain);
    const path spread = {.kind = STEP_EXPAND, .shape = self->task->domain};
    if (self->task->kind != TASK_SCAN)
        tuff__view_apply(&expected, &spread);
    else
        expected = tuff__view_contiguous(self->task->domain);
    if (!tuff__view_equal(&layout, &expected)) {
        self->impossible = true;
        return NO_VALUE;
    }
    chain_value result = tuff__chain_value(VALUE_RESULT, tuff__compute_dtype(core->outputs[0].dtype));
    result.index = index;
    return add(self, &result);
}

static seen_value *find_seen(const builder *self, const node *at, const path *along, int guard)
{
    const uint64_t key = ((uint64_t)(uintptr_t)along >> 4) + (uint64_t)at->id * 31 + (uint64_t)guard * 7;
    int i = (int)((key * 0x9e3779b97f4a7c15u >> 32) & (uint64_t)(self->seen_capacity - 1));
    while (self->seen[i].at != NULL &&
           (self->seen[i].at != at || self->seen[i].along != along || self->seen[i].guard != guard))
        i = (i + 1) & (self->seen_capacity - 1);
    return &self->seen[i];
}

/* Doubles the table of seen values, which is kept at most half full. */
static bool grow_seen(builder *self)
{
    builder fresh = *self;
    fresh.seen_capacity = self->seen_capacity == 0 ? 64 : self->seen_capacity * 2;
    fresh.seen = tuff__calloc((size_t)fresh.seen_capacity, sizeof *fresh.seen);
    if (fresh.seen == NULL) {
        self->status = TUFF_E_OOM_HOST;
        return false;
    }
    for (int i = 0; i < self->seen_capacity; ++i)
        if (self->seen[i].at != NULL)
            *find_seen(&fresh, self->seen[i].at, self->seen[i].along, self->seen[i].guard) = self->seen[i];
    tuff__free(self->seen);
    *self = fresh;
    return true;
}

static int build_elementwise(builder *self, const node *at, const path *along, int guard)
{
    if (self->seen_count >= MAX_SEEN && at->input_count > 1 && !self->fusion->facts[at->id].materialized)
        return give_up(self, at);
    chain_value value = tuff__chain_value(VALUE_OP, tuff__compute_dtype(at->outputs[0].dtype));
    value.op = at->op;
    value.cast_to = at->op == OP_CAST ? at->outputs[0].dtype : TUFF_F32;
    for (int i = 0; i < at->input_count; ++i)
        value.args[i] = build(self, at->inputs[i]->node, along, guard);
    return failed(self) ? NO_VALUE : add(self, &value);
}

static int build_constant(builder *self, tuff_dtype dtype, double number)
{
    chain_value value = tuff__chain_value(VALUE_CONSTANT, tuff__compute_dtype(dtype));
    value.constant = number;
    return add(self, &value);
}

static int build_op(builder *self, op_code op, tuff_dtype dtype, int x, int y, int z)
{
    chain_value value = tuff__chain_value(VALUE_OP, dtype);
    value.op = op;
    value.args[0] = x;
    value.args[1] = y;
    value.args[2] = z;
    return failed(self) ? NO_VALUE : add(self, &value);
}

/* build_inside for a computed coordinate, with a single comparison: the unsigned distance from low wraps around below
   low. */
static int build_computed_inside(builder *self, tuff_shape shape, int axis, const path *along, int64_t low,
                                 int64_t high)
{
    coordinate all[TUFF_MAX_RANK];
    value_sink sink;
    if (!find_coordinates(self, shape, along, &sink, all))
        return NO_VALUE;
    all[axis].linear.offset -= low;
    const int distance = tuff__coordinate_value(&sink, &all[axis]);
    return tuff__index_op(&sink, OP_LESS, TUFF_BOOL, tuff__index_op(&sink, OP_CAST, TUFF_U32, distance, NO_VALUE),
                          tuff__index_constant(&sink, TUFF_U32, high - low));
}

/* Builds the bool low <= c < high, where c is the coordinate along `axis` of a tensor of this shape. */
static int build_inside(builder *self, tuff_shape shape, int axis, const path *along, int64_t low, int64_t high)
{
    view layout = tuff__view_contiguous(shape);
    memset(layout.stride, 0, sizeof layout.stride);
    layout.stride[axis] = 1;
    if (needs_coordinates(self, layout, along))
        return build_computed_inside(self, shape, axis, along, low, high);
    if (!apply_path(self, &layout, along))
        return NO_VALUE;
    chain_value inside = tuff__chain_value(VALUE_INSIDE, TUFF_BOOL);
    inside.address = affine_of(&layout);
    inside.low = low;
    inside.high = high;
    return add(self, &inside);
}

static int build_and(builder *self, int a, int b)
{
    if (a == NO_VALUE || b == NO_VALUE)
        return a == NO_VALUE ? b : a;
    return build_op(self, OP_AND, TUFF_BOOL, a, b, NO_VALUE);
}

static int build_pad(builder *self, const node *pad, const path *along, int guard)
{
    const tuff_shape *inner = &pad->inputs[0]->shape, *outer = &pad->outputs[0].shape;
    int inside = NO_VALUE;
    for (int i = 0; i < outer->rank && !failed(self); ++i)
        if (inner->extent[i] != outer->extent[i]) {
            const int64_t before = pad->attributes.start[i];
            inside = build_and(self, inside, build_inside(self, *outer, i, along, before, before + inner->extent[i]));
        }
    if (failed(self))
        return NO_VALUE;
    const int fill = build_constant(self, pad->outputs[0].dtype, pad->attributes.value);
    if (tuff_shape_count(*inner) == 0)
        return fill;
    const path *step = keep_path(self, tuff__path_of(pad, along));
    if (step == NULL)
        return NO_VALUE;
    const int value = build(self, pad->inputs[0]->node, step, build_and(self, guard, inside));
    if (failed(self) || inside == NO_VALUE)
        return value;
    return build_op(self, OP_WHERE, self->chain->values[value].dtype, inside, value, fill);
}

static int build_concat(builder *self, const node *concat, const path *along, int guard)
{
    /* Every part reaches the nodes below it by another path, so nested concats visit the lowest ones exponentially
       often. */
    if (self->seen_count >= MAX_SEEN && !self->fusion->facts[concat->id].materialized)
        return give_up(self, concat);
    const int axis = concat->attributes.axis;
    int result = NO_VALUE;
    int64_t end = concat->outputs[0].shape.extent[axis];
    for (int i = concat->input_count - 1; i >= 0 && !failed(self); --i) {
        const int64_t start = end - concat->inputs[i]->shape.extent[axis];
        if (start == end)
            continue;
        const int inside = build_inside(self, concat->outputs[0].shape, axis, along, start, end);
        const path *step = keep_path(self, tuff__path_of_part(concat, i, along));
        if (step == NULL || failed(self))
            return NO_VALUE;
        const int part = build(self, concat->inputs[i]->node, step, build_and(self, guard, inside));
        if (failed(self))
            return NO_VALUE;
        result =
            result == NO_VALUE ? part : build_op(self, OP_WHERE, self->chain->values[part].dtype, inside, part, result);
        end = start;
    }
    return result;
}

static int build_index(builder *self, value_kind kind, const node *at, const path *along)
{
    view layout = tuff__view_contiguous(at->outputs[0].shape);
    if (kind == VALUE_INDEX) {
        memset(layout.stride, 0, sizeof layout.stride);
        layout.stride[at->attributes.axis] = 1;
    }
    if (!apply_path(self, &layout, along))
        return NO_VALUE;
    chain_value value = tuff__chain_value(kind, kind == VALUE_INDEX ? TUFF_I32 : TUFF_F32);
    value.address = affine_of(&layout);
    if (kind == VALUE_RANDOM) {
        tuff_shape ones = at->outputs[0].shape;
        for (int i = 0; i < ones.rank; ++i)
            ones.extent[i] = 1;
        const path *spread =
            keep_path(self, (path){.kind = STEP_EXPAND, .shape = at->outputs[0].shape, .outer = along});
        const path *unit = keep_path(self, tuff__path_reshape(ones, spread));
        if (unit == NULL || spread == NULL)
            return NO_VALUE;
        value.args[0] = build(self, at->inputs[0]->node, unit, NO_VALUE);
        value.seed = at->attributes.seed;
        value.ordinal = at->attributes.ordinal;
    }
    return failed(self) ? NO_VALUE : add(self, &value);
}

/* Returns the index of a reduction of this task, or -1. */
static int find_reduction(const struct task *task, const node *at)
{
    for (int i = 0; i < task->reduction_count; ++i)
        if (task->reductions[i] == at)
            return i;
    return -1;
}

/* Whether a reduction sums columns, so that its result is known only after an item's last row. */
static bool is_in_columns(const struct task *task, int reduction)
{
    return reduction >= 0 && (task->in_columns >> reduction & 1) != 0;
}

static int build_lookup(builder *self, const node *gather, const path *along, int guard)
{
    const int axis = gather->attributes.axis;
    view layout;
    const node *missing = NULL;
    const node *base = tuff__operand_view(self->fusion, gather->inputs[0], &layout, &missing);
    if (missing != NULL)
        return give_up(self, missing);
    const int64_t step = layout.stride[axis], extent = layout.extent[axis];
    layout.stride[axis] = 0;
    layout.extent[axis] = gather->outputs[0].shape.extent[axis];
    if (!apply_path(self, &layout, along))
        return NO_VALUE;
    const int index = build(self, gather->inputs[1]->node, along, guard);
    if (failed(self))
        return NO_VALUE;
    if (tuff__task_computes(self->task, base)) {
        self->impossible = true;
        return NO_VALUE;
    }
    chain_value value = tuff__chain_value(VALUE_LOOKUP, tuff__compute_dtype(base->outputs[0].dtype));
    value.buffer = buffer_of(self, base->id, base->outputs[0].dtype, false);
    value.address = affine_of(&layout);
    value.args[0] = index;
    value.guard = guard;
    value.step = step;
    value.extent = extent;
    return add(self, &value);
}

static int build_movement(builder *self, const node *at, const path *along, int guard)
{
    const path *step = keep_path(self, tuff__path_of(at, along));
    return step == NULL ? NO_VALUE : build(self, at->inputs[0]->node, step, guard);
}

static int build_new(builder *self, const node *at, const path *along, int guard)
{
    if (tuff__op_is_elementwise(at->op))
        return build_elementwise(self, at, along, guard);
    if (tuff__op_is_view(at->op))
        return build_movement(self, at, along, guard);
    switch (at->op) {
    case OP_PAD:
        return build_pad(self, at, along, guard);
    case OP_CONCAT:
        return build_concat(self, at, along, guard);
    case OP_IOTA:
        return build_index(self, VALUE_INDEX, at, along);
    case OP_RANDOM:
        return build_index(self, VALUE_RANDOM, at, along);
    case OP_GATHER:
        return build_lookup(self, at, along, guard);
    case OP_ASSIGN:
        return build(self, at->inputs[0]->node, along, guard);
    default:
        return give_up(self, at);
    }
}

/* Refuses a second computation, for another element, of a node that must be computed only once. */
static void check_computed_once(builder *self, const node *at, int value)
{
    self->computes_compared = true;
    for (int i = 0; i < self->seen_capacity; ++i)
        self->impossible |= self->seen[i].at == at && self->seen[i].value != value;
}

/* Builds a node's value, or finds it if it was built before along the same path under the same guard. */
static int build_shared(builder *self, const node *at, const path *along, int guard)
{
    if (self->seen_count * 2 >= self->seen_capacity && !grow_seen(self))
        return NO_VALUE;
    const seen_value *before = find_seen(self, at, along, guard);
    if (before->at != NULL)
        return before->value;
    const int value = build_new(self, at, along, guard);
    if (self->fusion->facts[at->id].computed_once)
        check_computed_once(self, at, value);
    if (failed(self) || (self->seen_count * 2 >= self->seen_capacity && !grow_seen(self)))
        return NO_VALUE;
    *find_seen(self, at, along, guard) = (seen_value){at, along, guard, value};
    self->seen_count++;
    return value;
}

static int build(builder *self, const node *at, const path *along, int guard)
{
    if (failed(self))
        return NO_VALUE;
    if (tuff__is_scalar_constant(at))
        return build_constant(self, at->outputs[0].dtype, at->attributes.value);
    const int reduction = find_reduction(self->task, at);
    self->impossible |= is_in_columns(self->task, reduction);
    if (reduction >= 0)
        return build_result(self, at, reduction, along);
    if (at == self->task->core && self->task->kind == TASK_MATMUL)
        return build_result(self, at, 0, along);
    if (tuff__op_is_source(at->op) ||
        (self->fusion->facts[at->id].materialized && !tuff__task_computes(self->task, at)))
        return build_load(self, at, along, guard);
    return build_shared(self, at, along, guard);
}

/* Returns the path from a node of the task to its domain: the same elements in the same order, or one element for each
   point of the axes that are not reduced. */
static const path *path_to_domain(builder *self, tuff_shape shape)
{
    const tuff_shape *domain = &self->task->domain;
    if (tuff_shape_equal(shape, *domain))
        return NULL;
    if (tuff_shape_count(shape) == self->task->count)
        return keep_path(self, tuff__path_reshape(*domain, NULL));
    const path *spread = keep_path(self, (path){.kind = STEP_EXPAND, .shape = *domain});
    return keep_path(self, tuff__path_reshape(self->reduced_domain, spread));
}

/* Returns the path from column sums to the domain: all rows of an item see the same sums. */
static const path *path_from_columns(builder *self)
{
    tuff_shape reduced = self->task->domain;
    for (int i = 0; i < reduced.rank; ++i)
        reduced.extent[i] = (self->task->column_axes >> i & 1) != 0 ? 1 : reduced.extent[i];
    const path *spread = keep_path(self, (path){.kind = STEP_EXPAND, .shape = self->task->domain});
    return keep_path(self, tuff__path_reshape(reduced, spread));
}

static void build_reduction(builder *self, int index)
{
    const node *at = self->task->reductions[index];
    chain_reduction *reduction = &self->chain->reductions[index];
    reduction->in_columns = is_in_columns(self->task, index);
    const path *along = path_to_domain(self, at->inputs[0]->shape);
    reduction->op = at->op;
    reduction->input = build(self, at->inputs[0]->node, along, NO_VALUE);
    if (failed(self))
        return;
    chain_value result = tuff__chain_value(VALUE_RESULT, tuff__compute_dtype(at->outputs[0].dtype));
    result.index = index;
    reduction->result = add(self, &result);
    self->chain->reduction_count = index + 1;
}

/* Builds a root's value as it is stored: rounded first if its memory is wider than the dtype it is rounded to. */
static int build_stored(builder *self, const node *root, const path *along)
{
    const tuff_dtype rounding = self->fusion->facts[root->id].rounding;
    const int value = build(self, root, along, NO_VALUE);
    if (rounding == TUFF_F32 || failed(self))
        return value;
    chain_value rounded = tuff__chain_value(VALUE_OP, TUFF_F32);
    rounded.op = OP_CAST;
    rounded.cast_to = rounding;
    rounded.args[0] = value;
    return add(self, &rounded);
}

static void build_output(builder *self, const node *root)
{
    chain_output *output = &self->chain->outputs[self->chain->output_count];
    const int reduction = find_reduction(self->task, root);
    output->in_columns = is_in_columns(self->task, reduction);
    const path *along = output->in_columns ? path_from_columns(self) : path_to_domain(self, root->outputs[0].shape);
    view layout = tuff__fusion_layout(self->fusion, root);
    if (!apply_path(self, &layout, along))
        return;
    if (output->in_columns)
        output->value = self->chain->reductions[reduction].result;
    else
        output->value = self->task->kind == TASK_SCAN ? NO_VALUE : build_stored(self, root, along);
    output->address = affine_of(&layout);
    output->buffer = buffer_of(self, root->id, root->outputs[0].dtype, true);
    self->chain->buffers[output->buffer].read |= output->in_columns;
    output->every_point = !output->in_columns &&
                          (tuff_shape_count(root->outputs[0].shape) == self->task->count || self->task->loop_axes == 0);
    ++self->chain->output_count;
}

static void build_axes(builder *self)
{
    const struct task *task = self->task;
    self->chain->rank = task->domain.rank;
    self->reduced_domain = task->domain;
    for (int i = 0; i < task->domain.rank; ++i) {
        self->chain->extent[i] = task->domain.extent[i];
        const bool loop = (task->loop_axes >> i & 1) != 0;
        self->chain->classes[i] = loop ? AXIS_LOOP : AXIS_OUTER;
        if (loop)
            self->reduced_domain.extent[i] = 1;
        if ((task->column_axes >> i & 1) != 0)
            self->chain->item_rows =
                (self->chain->item_rows == 0 ? 1 : self->chain->item_rows) * task->domain.extent[i];
    }
    if (task->kind == TASK_MATMUL) {
        self->chain->classes[task->domain.rank - 2] = AXIS_ROW;
        self->chain->classes[task->domain.rank - 1] = AXIS_COLUMN;
    }
}

/* Starts a group of values that have other axes than those before and share nothing with them. */
static void begin_values(builder *self)
{
    tuff__free(self->seen);
    self->seen = NULL;
    self->seen_count = self->seen_capacity = 0;
    self->first_shared = self->chain->value_count;
}

/* Builds an operand as values over its own rows and columns. The address of an operand in memory is built elsewhere. */
static void build_producer(builder *self, int operand, bool computes_coordinates)
{
    fused_chain *chain = self->chain;
    const tuff_tensor *tensor = self->task->core->inputs[operand];
    chain_producer *made = &chain->producers[operand];
    begin_values(self);
    made->axis = tensor->shape.rank - 2;
    memcpy(made->extent, tensor->shape.extent + made->axis, sizeof made->extent);
    made->begin = chain->value_count;
    self->computes_coordinates = computes_coordinates;
    made->value = build(self, tensor->node, NULL, NO_VALUE);
    self->computes_coordinates = false;
    made->end = chain->value_count;
    begin_values(self);
    if (!failed(self))
        tuff__chain_set_operand_from_producer(chain, operand);
}

/* Adds the operands of a matmul: buffers 0 and 1 if they differ and lie in memory. */
static void build_operands(builder *self)
{
    fused_chain *chain = self->chain;
    for (int i = 0; i < 2 && !failed(self); ++i) {
        const tuff_tensor *operand = self->task->core->inputs[i];
        view layout;
        const node *missing = NULL;
        const node *base = tuff__factor_view(self->fusion, operand, &layout, &missing);
        if (missing != NULL) {
            give_up(self, missing);
            return;
        }
        if (tuff__task_computes(self->task, base)) {
            self->impossible = true;
            return;
        }
        const bool produced = self->fusion->facts[base->id].is_producer;
        chain->operand_buffers[i] = produced ? 0 : buffer_of(self, base->id, base->outputs[0].dtype, false);
        chain->operand_bases[i] = affine_of(&layout);
        for (int k = 0; k < 2; ++k) {
            const int axis = layout.rank - 2 + k;
            chain->operand_strides[i][k] = layout.stride[axis];
            chain->operand_bases[i].stride[axis] = 0;
        }
        chain->operand_names[i] = i == 0 ? "a" : "b";
        chain->operand_base_count = i + 1;
        if (produced)
            build_producer(self, i, self->fusion->facts[base->id].patches);
    }
}

tuff_status tuff__chain_build(const struct fusion *fusion, const struct task *task, fused_chain *out,
                              const node **give_up_on, bool *impossible)
{
    *out = (fused_chain){.rank = 0};
    builder self = {.fusion = fusion, .task = task, .chain = out};
    build_axes(&self);
    if (task->kind == TASK_SCAN) {
        out->reductions[0] = (chain_reduction){.op = OP_SUM, .result = NO_VALUE};
        out->reductions[0].input = build(&self, task->core->inputs[0]->node, NULL, NO_VALUE);
        out->reduction_count = 1;
    }
    if (task->kind == TASK_MATMUL) {
        out->factor_precision = tuff__factor_precision(fusion, task->core);
        build_operands(&self);
    }
    for (int i = 0; i < task->reduction_count && !failed(&self); ++i)
        build_reduction(&self, i);
    for (int i = 0; i < task->root_count && !failed(&self); ++i)
        build_output(&self, task->roots[i]);
    if (self.computes_compared && !failed(&self)) {
        tuff__chain_analyse(out);
        self.impossible |= tuff__chain_pass_count(out) > 1;
    }
    tuff__free(self.seen);
    tuff__arena_free(&self.paths);
    *give_up_on = self.give_up;
    *impossible = self.impossible;
    if (failed(&self))
        tuff__chain_free(out);
    return self.status == TUFF_OK ? TUFF_OK : FAIL(self.status, "compile: out of host memory while fusing");
}
