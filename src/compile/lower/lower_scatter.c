/* Launches of scatter_add: indices become keys of rows, a counting sort orders list positions by key, and each row adds
   up its segment in list order. So results are bitwise reproducible, without atomics. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "compile/lower/lower.h"

#define BLOCK_SIZE 256
#define MAX_BLOCKS 64

/* The two kinds of axes of a scatter: along list axes the index varies; along the others whole rows are moved. */
typedef struct scatter_axes {
    const node *at;
    int axis, rank;
    bool list[TUFF_MAX_RANK];
    int order[TUFF_MAX_RANK]; /* list axes first */
    int64_t keys, list_size, columns;
} scatter_axes;

static scatter_axes split_axes(const launch_list *list, const node *at)
{
    scatter_axes result = {.at = at,
                           .axis = at->attributes.axis,
                           .rank = at->outputs[0].shape.rank,
                           .keys = 1,
                           .list_size = 1,
                           .columns = 1};
    view layout;
    tuff__operand_buffer(list, at->inputs[1], &layout);
    int count = 0;
    for (int i = 0; i < result.rank; ++i) {
        result.list[i] = i == result.axis || (layout.stride[i] != 0 && layout.extent[i] > 1);
        if (result.list[i]) {
            result.order[count++] = i;
            result.keys *= at->outputs[0].shape.extent[i];
            result.list_size *= at->inputs[2]->shape.extent[i];
        }
    }
    for (int i = 0; i < result.rank; ++i)
        if (!result.list[i]) {
            result.order[count++] = i;
            result.columns *= at->outputs[0].shape.extent[i];
        }
    return result;
}

static int add_op(fused_chain *chain, op_code op, int x, int y)
{
    chain_value value = tuff__chain_value(VALUE_OP, op == OP_LESS || op == OP_OR ? TUFF_BOOL : TUFF_I32);
    value.op = op;
    value.args[0] = x;
    value.args[1] = y;
    return x == NO_VALUE || y == NO_VALUE ? NO_VALUE : tuff__chain_append(chain, value);
}

static int add_constant(fused_chain *chain, int64_t number)
{
    chain_value value = tuff__chain_value(VALUE_CONSTANT, TUFF_I32);
    value.constant = (double)number;
    return tuff__chain_append(chain, value);
}

/* Builds the chain that copies an operand, with the list axes outermost, to contiguous memory. */
static tuff_status build_copy_chain(const launch_list *list, const scatter_axes *scatter, const tuff_tensor *operand,
                                    bool list_only, int destination, fused_chain *out)
{
    view layout;
    const int source = tuff__operand_buffer(list, operand, &layout);
    *out = (fused_chain){.rank = scatter->rank};
    affine from = {.offset = layout.offset}, to = {.offset = 0};
    int64_t stride = 1;
    for (int i = scatter->rank - 1; i >= 0; --i) {
        const int axis = scatter->order[i];
        out->extent[i] = list_only && !scatter->list[axis] ? 1 : operand->shape.extent[axis];
        out->classes[i] = AXIS_OUTER;
        from.stride[i] = out->extent[i] > 1 ? layout.stride[axis] : 0;
        to.stride[i] = stride;
        stride *= out->extent[i];
    }
    return tuff__chain_copy(list, source, destination, tuff__compute_dtype(operand->dtype), &from, &to, out);
}

/* An operand as the sums read it: element `column` of row `row` of the list, or of the keys, lies at offset + row ·
   row_stride + column · column_stride. */
typedef struct operand_rows {
    int id;
    int64_t offset, row_stride, column_stride;
} operand_rows;

/* Finds a single stride for the list axes of a layout, or for the others, in their order. Returns false if there is
   none. */
static bool find_stride(const scatter_axes *scatter, const view *layout, bool list, int64_t *out)
{
    int64_t next = 0;
    bool found = false;
    *out = 0;
    for (int i = scatter->rank - 1; i >= 0; --i) {
        if (scatter->list[i] != list || layout->extent[i] == 1)
            continue;
        if (found && layout->stride[i] != next)
            return false;
        if (!found)
            *out = layout->stride[i];
        found = true;
        next = layout->stride[i] * layout->extent[i];
    }
    return true;
}

/* Finds an operand in its own memory, whatever its dtype there, if rows and columns each have a single stride; else
   copies it with the list axes outermost. */
static tuff_status find_rows(launch_list *list, int index, const scatter_axes *scatter, int input, operand_rows *out)
{
    const tuff_tensor *operand = scatter->at->inputs[input];
    view layout;
    *out = (operand_rows){.id = tuff__operand_buffer(list, operand, &layout)};
    out->offset = layout.offset;
    if (find_stride(scatter, &layout, true, &out->row_stride) &&
        find_stride(scatter, &layout, false, &out->column_stride))
        return TUFF_OK;
    const tuff_dtype dtype = tuff__compute_dtype(operand->dtype);
    *out = (operand_rows){.id = tuff__buffer_add(list, dtype, tuff_shape_count(operand->shape)),
                          .row_stride = scatter->columns,
                          .column_stride = 1};
    if (out->id < 0)
        return TUFF_E_OOM_HOST;
    fused_chain copy;
    const tuff_status status = build_copy_chain(list, scatter, operand, false, out->id, &copy);
    return tuff__lower_built_map(list, index, status, &copy);
}

/* Builds the list of keys, relative to key `first` of a part: each index combined with the coordinates of the other
   list axes, or a key beyond all others if the index is out of range. */
static tuff_status build_key_chain(const launch_list *list, const scatter_axes *scatter, int64_t first, int destination,
                                   fused_chain *out)
{
    TRY(build_copy_chain(list, scatter, scatter->at->inputs[1], true, destination, out));
    const tuff_shape *shape = &scatter->at->outputs[0].shape;
    int64_t stride = 1, own_stride = 1;
    chain_value place = tuff__chain_value(VALUE_INDEX, TUFF_I32);
    place.address.offset = -first;
    for (int i = scatter->rank - 1; i >= 0; --i) {
        const int axis = scatter->order[i];
        if (!scatter->list[axis])
            continue;
        if (axis == scatter->axis)
            own_stride = stride;
        else
            place.address.stride[i] = stride;
        stride *= shape->extent[axis];
    }
    const int index = out->outputs[0].value;
    const int scaled = add_op(out, OP_MUL, index, add_constant(out, own_stride));
    const int key = add_op(out, OP_ADD, scaled, tuff__chain_append(out, place));
    const int below = add_op(out, OP_LESS, index, add_constant(out, 0));
    const int above = add_op(out, OP_LESS, add_constant(out, shape->extent[scatter->axis] - 1), index);
    chain_value select = tuff__chain_value(VALUE_OP, TUFF_I32);
    select.op = OP_WHERE;
    select.args[0] = add_op(out, OP_OR, below, above);
    select.args[1] = add_constant(out, scatter->keys);
    select.args[2] = key;
    const bool whole = select.args[0] != NO_VALUE && select.args[1] != NO_VALUE && key != NO_VALUE;
    out->outputs[0].value = whole ? tuff__chain_append(out, select) : NO_VALUE;
    return out->outputs[0].value == NO_VALUE ? TUFF_E_OOM_HOST : TUFF_OK;
}

/* Adds a launch of a body without a chain. access: a letter for each buffer id, 'r' read, 'w' written, 'b' both. The
   last parameters, one for each buffer, are offsets, to which those of the buffers are added. */
static tuff_status add_plain(launch_list *list, int index, const char *body, const int *ids, const char *access,
                             int64_t items, const int64_t *parameters, int parameter_count)
{
    launch *kernel = tuff__launch_add(list, body, WALK_MAP, index);
    if (kernel == NULL)
        return TUFF_E_OOM_HOST;
    const int count = (int)strlen(access);
    for (int i = 0; i < count; ++i) {
        kernel->chain.buffers[i] = tuff__chain_buffer(list, ids[i], access[i] == 'w');
        kernel->chain.buffers[i].written |= access[i] == 'b';
    }
    kernel->chain.buffer_count = count;
    for (int i = 0; i < parameter_count; ++i) {
        kernel->parameters[i] = parameters[i];
        kernel->parameter_buffers[i] = i >= parameter_count - count ? i - (parameter_count - count) : -1;
    }
    kernel->parameter_count = parameter_count;
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_scatter_local_size);
    kernel->groups = (uint64_t)tuff__divide_up(items, kernel->local_size);
    return TUFF_OK;
}

typedef struct scratch {
    int list, counts, totals, sums, starts, positions;
} scratch;

/* The keys and list items that are sorted at once: all of them, unless the driver ends loops early. */
typedef struct scatter_part {
    int64_t key, keys, item, items; /* the first ones and their number */
    int64_t batches;                /* stretches of the list that share no keys with each other */
    int64_t blocks;                 /* blocks of each batch, whose items are counted in parallel */
} scatter_part;

static int64_t at_least_one(int64_t count)
{
    return count < 1 ? 1 : count;
}

/* Each block counts every key, so there are few blocks if there are many keys: the counts are at most one for each key
   and one more for each item. */
static int64_t block_count(const scatter_part *part)
{
    const int64_t keys = at_least_one(part->keys), fitting = (keys + part->items) / keys;
    int64_t blocks = tuff__divide_up(part->items / part->batches, BLOCK_SIZE);
    blocks = blocks > MAX_BLOCKS / part->batches ? MAX_BLOCKS / part->batches : blocks;
    return at_least_one(blocks > fitting ? fitting : blocks);
}

/* Returns the product of the extents of the list axes before the indexed one: items with different coordinates on these
   have no keys in common. */
static int64_t count_batches(const scatter_axes *scatter)
{
    int64_t batches = 1;
    for (int i = 0; i < scatter->axis; ++i)
        if (scatter->list[i])
            batches *= scatter->at->inputs[2]->shape.extent[i];
    return at_least_one(batches);
}

/* Returns how many columns one item adds up. */
static int64_t tile_columns(const launch_list *list, const scatter_axes *scatter)
{
    return tuff__uses_registers(&list->policy) && !list->policy.target.items_are_lanes ? scatter->columns : 1;
}

/* Returns the most keys and items of the list that every loop can iterate over, even if all items have the same key. */
static scatter_part largest_part(const launch_list *list, const scatter_axes *scatter)
{
    enum { SUM_BLOCK = 128, MIN_ITEMS = 16 };
    const int64_t limit = list->policy.target.info->loop_limit;
    scatter_part part = {.keys = scatter->keys, .items = scatter->list_size, .batches = 1};
    if (limit > 0) {
        const int64_t items = (limit / tile_columns(list, scatter) - MIN_ITEMS) * SUM_BLOCK / (SUM_BLOCK + 2);
        part.items = part.items > items ? items : part.items;
        part.items = part.items < MIN_ITEMS ? MIN_ITEMS : part.items;
        const int64_t length = (limit - MIN_ITEMS) / 2, keys = length < MIN_ITEMS ? MIN_ITEMS : length * length;
        part.keys = part.keys > keys ? keys : part.keys;
    }
    if (part.items >= scatter->list_size)
        part.batches = count_batches(scatter);
    part.blocks = block_count(&part);
    return part;
}

/* Returns the number of keys in a run. There are about as many runs as keys in a run, so that no loop over either is
   long. */
static int64_t run_length(int64_t keys)
{
    return at_least_one((int64_t)ceil(sqrt((double)keys)));
}

static tuff_status clear_buffer(launch_list *list, int index, int buffer, int64_t count)
{
    fused_chain chain = {.rank = 1, .extent = {count}, .classes = {AXIS_OUTER}, .buffer_count = 1, .output_count = 1};
    chain.buffers[0] = tuff__chain_buffer(list, buffer, true);
    chain.outputs[0] =
        (chain_output){.value = add_constant(&chain, 0), .buffer = 0, .address = {.stride = {1}}, .every_point = true};
    return tuff__lower_built_map(list, index, chain.outputs[0].value == NO_VALUE ? TUFF_E_OOM_HOST : TUFF_OK, &chain);
}

/* Finds where each key's segment starts: the first launch adds up runs, the second makes the starts from these sums. */
static tuff_status find_starts(launch_list *list, int index, int64_t keys, const scratch *buffers)
{
    const int64_t length = run_length(keys), runs = at_least_one(tuff__divide_up(keys, length));
    const int64_t parameters[] = {keys, length, runs, 0, 0, 0};
    TRY(add_plain(list, index, "scatter_starts", (int[]){buffers->totals, buffers->sums}, "rw", runs, parameters, 6));
    launch *made = &list->launches[list->launch_count - 1];
    for (int i = 3; i < 6; ++i)
        made->parameter_buffers[i] = i < 5 ? i - 3 : -1; /* the first launch does not have the starts */
    snprintf(made->defines, sizeof made->defines, "#define RUN_SUMS\n");
    return add_plain(list, index, "scatter_starts", (int[]){buffers->totals, buffers->sums, buffers->starts}, "rrw",
                     runs, parameters, 6);
}

/* Sorts list positions by key: positions[starts[key] .. starts[key + 1]], relative to the part's first item. */
static tuff_status sort_list(launch_list *list, int index, const scatter_part *part, const scratch *buffers)
{
    const int64_t blocks = part->blocks, batch = part->items / part->batches, size = tuff__divide_up(batch, blocks);
    const int64_t items = part->batches * blocks;
    TRY(clear_buffer(list, index, buffers->counts, blocks * part->keys));
    TRY(add_plain(list, index, "scatter_count", (int[]){buffers->list, buffers->counts}, "rb", items,
                  (int64_t[]){items, blocks, size, batch, part->keys, part->item, 0}, 7));
    TRY(add_plain(list, index, "scatter_offsets", (int[]){buffers->counts, buffers->totals}, "bw", part->keys,
                  (int64_t[]){part->keys, blocks, 0, 0}, 4));
    TRY(find_starts(list, index, part->keys, buffers));
    return add_plain(list, index, "scatter_place",
                     (int[]){buffers->list, buffers->counts, buffers->starts, buffers->positions}, "rbrw", items,
                     (int64_t[]){items, blocks, size, batch, part->keys, part->item, 0, 0, 0}, 9);
}

/* Operands are loaded in the dtype that they have in memory. */
static void define_values(const launch_list *list, launch *kernel, int source, int x, tuff_dtype result)
{
    snprintf(kernel->defines, sizeof kernel->defines,
             "#define VALUE_TYPE %s\n#define LOAD_SOURCE(i) LOAD_%s(b2, i)\n#define LOAD_X(i) LOAD_%s(b3, i)\n",
             result == TUFF_F32   ? "precise float"
             : result == TUFF_I32 ? "int"
                                  : "uint",
             tuff_dtype_name(list->buffers[source].dtype), tuff_dtype_name(list->buffers[x].dtype));
}

static tuff_status sum_segments(launch_list *list, int index, const scatter_axes *scatter, const scatter_part *part,
                                const scratch *buffers, const operand_rows *source, const operand_rows *x, int result)
{
    const int64_t tile = tile_columns(list, scatter), tiles = tuff__divide_up(scatter->columns, tile);
    const int64_t items = tiles * part->keys;
    const int64_t parameters[] = {items,
                                  scatter->columns,
                                  tiles,
                                  tile,
                                  source->row_stride,
                                  source->column_stride,
                                  x->row_stride,
                                  x->column_stride,
                                  0,
                                  0,
                                  source->offset + part->item * source->row_stride,
                                  x->offset + part->key * x->row_stride,
                                  part->key * scatter->columns};
    TRY(add_plain(list, index, "scatter_sum", (int[]){buffers->starts, buffers->positions, source->id, x->id, result},
                  "rrrrw", items, parameters, sizeof parameters / sizeof *parameters));
    launch *last = &list->launches[list->launch_count - 1];
    last->k = (double)part->items;
    define_values(list, last, source->id, x->id, list->buffers[result].dtype);
    return TUFF_OK;
}

/* Computes the rows of some keys: adds up one part of the list after another, from `x` to `result`. */
static tuff_status add_parts(launch_list *list, int index, const scatter_axes *scatter, scatter_part part,
                             const scratch *buffers, const operand_rows *source, operand_rows x, int result)
{
    const int64_t most = at_least_one(part.items);
    fused_chain keys;
    const tuff_status status = build_key_chain(list, scatter, part.key, buffers->list, &keys);
    TRY(tuff__lower_built_map(list, index, status, &keys));
    for (part.item = 0; part.item == 0 || part.item < scatter->list_size; part.item += most) {
        const int64_t left = scatter->list_size - part.item;
        part.items = left < most ? left : most;
        const int to =
            left <= most ? result : tuff__buffer_add(list, list->buffers[result].dtype, list->buffers[result].count);
        if (to < 0)
            return TUFF_E_OOM_HOST;
        TRY(sort_list(list, index, &part, buffers));
        TRY(sum_segments(list, index, scatter, &part, buffers, source, &x, to));
        x = (operand_rows){.id = to, .row_stride = scatter->columns, .column_stride = 1};
    }
    return TUFF_OK;
}

/* Puts the axes back in the node's order: the result has the list axes outermost. */
static tuff_status restore_axis_order(launch_list *list, int index, const scatter_axes *scatter, int result)
{
    fused_chain copy = {.rank = scatter->rank};
    const tuff_shape *shape = &scatter->at->outputs[0].shape;
    const view layout = tuff__fusion_layout(list->fusion, scatter->at);
    affine from = {.offset = 0}, to = {.offset = 0};
    int64_t strides[TUFF_MAX_RANK], stride = 1;
    for (int i = scatter->rank - 1; i >= 0; --i) {
        strides[scatter->order[i]] = stride;
        stride *= shape->extent[scatter->order[i]];
    }
    for (int i = 0; i < scatter->rank; ++i) {
        copy.extent[i] = shape->extent[i];
        copy.classes[i] = AXIS_OUTER;
        from.stride[i] = strides[i];
        to.stride[i] = layout.stride[i];
    }
    const tuff_dtype dtype = tuff__compute_dtype(scatter->at->outputs[0].dtype);
    const tuff_status status = tuff__chain_copy(list, result, scatter->at->id, dtype, &from, &to, &copy);
    return tuff__lower_built_map(list, index, status, &copy);
}

/* Whether the sums can be stored in the node's own memory: it has the list axes outermost, and is contiguous. */
static bool keeps_order(const launch_list *list, const scatter_axes *scatter)
{
    const view layout = tuff__fusion_layout(list->fusion, scatter->at),
               contiguous = tuff__view_contiguous(scatter->at->outputs[0].shape);
    if (!tuff__view_equal(&layout, &contiguous))
        return false;
    int last = 0;
    for (int i = 0; i < scatter->rank; ++i) {
        const int axis = scatter->order[i];
        if (contiguous.extent[axis] == 1)
            continue;
        if (axis < last)
            return false;
        last = axis;
    }
    return true;
}

tuff_status tuff__lower_scatter(launch_list *list, int index)
{
    const node *at = list->fusion->tasks[index].core;
    const scatter_axes scatter = split_axes(list, at);
    scatter_part part = largest_part(list, &scatter);
    int result = at->id;
    operand_rows source, x;
    TRY(find_rows(list, index, &scatter, 0, &x));
    if (!keeps_order(list, &scatter))
        result = tuff__buffer_add(list, list->buffers[at->id].dtype, tuff_shape_count(at->outputs[0].shape));
    const int64_t most = at_least_one(part.keys);
    scratch buffers = {.list = tuff__buffer_add(list, TUFF_I32, scatter.list_size),
                       .counts = tuff__buffer_add(list, TUFF_I32, part.blocks * part.keys)};
    buffers.totals = tuff__buffer_add(list, TUFF_I32, part.keys);
    buffers.sums = tuff__buffer_add(list, TUFF_I32, run_length(part.keys));
    buffers.starts = tuff__buffer_add(list, TUFF_I32, part.keys + 1);
    buffers.positions = tuff__buffer_add(list, TUFF_I32, scatter.list_size);
    if (buffers.list < 0 || buffers.counts < 0 || buffers.totals < 0 || buffers.sums < 0 || buffers.starts < 0 ||
        buffers.positions < 0 || result < 0)
        return TUFF_E_OOM_HOST;
    TRY(find_rows(list, index, &scatter, 2, &source));
    for (; part.key == 0 || part.key < scatter.keys; part.key += most) {
        part.keys = scatter.keys - part.key < most ? scatter.keys - part.key : most;
        TRY(add_parts(list, index, &scatter, part, &buffers, &source, x, result));
    }
    return result == at->id ? TUFF_OK : restore_axis_order(list, index, &scatter, result);
}
