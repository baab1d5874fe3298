/* Launches of scatter_add: the indices become keys of rows, the list positions are sorted by key through counting, and
   each row adds its segment in list order. The same bits every time, no atomics, and no scan of the whole list for
   each row. */
#include <stdio.h>
#include <string.h>

#include "compile/lower.h"

#define BLOCK_SIZE 256
#define MOST_BLOCKS 64

/* How a scatter's axes fall apart: along list axes the index varies; along the others whole rows move. */
typedef struct split {
    const node *at;
    int axis, rank;
    bool list[TUFF_MAX_RANK];
    int order[TUFF_MAX_RANK]; /* list axes first */
    int64_t keys, list_size, columns;
} split;

static split split_axes(const struct fusion *fusion, const node *at)
{
    split result = {.at = at,
                    .axis = at->attributes.axis,
                    .rank = at->outputs[0].shape.rank,
                    .keys = 1,
                    .list_size = 1,
                    .columns = 1};
    view layout;
    const node *missing = NULL;
    tuff__operand_view(fusion, at->inputs[1], &layout, &missing);
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

static chain_value plain_value(value_kind kind, tuff_dtype dtype)
{
    return (chain_value){
        .kind = kind, .dtype = dtype, .args = {NO_VALUE, NO_VALUE, NO_VALUE}, .guard = NO_VALUE, .buffer = -1};
}

static int add_value(fused_chain *chain, chain_value value)
{
    if (!GROW(chain->values, chain->value_count, chain->value_capacity))
        return NO_VALUE;
    chain->values[chain->value_count++] = value;
    return chain->value_count - 1;
}

static int add_op(fused_chain *chain, op_code op, int x, int y)
{
    chain_value value = plain_value(VALUE_OP, op == OP_LESS || op == OP_OR ? TUFF_BOOL : TUFF_I32);
    value.op = op;
    value.args[0] = x;
    value.args[1] = y;
    return x == NO_VALUE || y == NO_VALUE ? NO_VALUE : add_value(chain, value);
}

static int add_constant(fused_chain *chain, int64_t number)
{
    chain_value value = plain_value(VALUE_CONSTANT, TUFF_I32);
    value.constant = (double)number;
    return add_value(chain, value);
}

static chain_buffer buffer_for(const lowered *with, int id, bool written)
{
    return (chain_buffer){.id = id, .dtype = with->buffers[id].dtype, .read = !written, .written = written};
}

/* The chain that copies an operand, walked with the list axes outermost, to contiguous memory. */
static tuff_status copying_chain(const lowered *with, const split *of, const tuff_tensor *operand, bool list_only,
                                 int target, fused_chain *out)
{
    view layout;
    const node *missing = NULL;
    const node *base = tuff__operand_view(with->fusion, operand, &layout, &missing);
    *out = (fused_chain){.rank = of->rank};
    affine from = {.offset = layout.offset}, to = {.offset = 0};
    int64_t stride = 1;
    for (int i = of->rank - 1; i >= 0; --i) {
        const int axis = of->order[i];
        out->extent[i] = list_only && !of->list[axis] ? 1 : operand->shape.extent[axis];
        out->classes[i] = AXIS_OUTER;
        from.stride[i] = out->extent[i] > 1 ? layout.stride[axis] : 0;
        to.stride[i] = stride;
        stride *= out->extent[i];
    }
    out->buffers[0] = buffer_for(with, base->id, false);
    out->buffers[1] = buffer_for(with, target, true);
    out->buffer_count = 2;
    chain_value load = plain_value(VALUE_LOAD, tuff__compute_dtype(operand->dtype));
    load.buffer = 0;
    load.address = from;
    out->outputs[0] = (chain_output){.value = add_value(out, load), .buffer = 1, .address = to, .every_point = true};
    out->output_count = 1;
    return out->outputs[0].value == NO_VALUE ? TUFF_E_OOM_HOST : TUFF_OK;
}

static tuff_status finish_copy(lowered *with, int index, tuff_status status, fused_chain *chain)
{
    if (status != TUFF_OK) {
        tuff__chain_free(chain);
        return status;
    }
    tuff__chain_collapse(chain);
    tuff__chain_analyse(chain);
    return tuff__lower_map(with, index, chain);
}

/* An operand's elements with the list axes outermost: its own memory where they lie so, else a copy. */
static tuff_status ordered_operand(lowered *with, int index, const split *of, int input, int *out)
{
    const tuff_tensor *operand = of->at->inputs[input];
    const tuff_dtype dtype = tuff__compute_dtype(operand->dtype);
    *out = tuff__buffer_add(with, dtype, tuff_shape_count(operand->shape));
    if (*out < 0)
        return TUFF_E_OOM_HOST;
    fused_chain copy;
    const tuff_status status = copying_chain(with, of, operand, false, *out, &copy);
    return finish_copy(with, index, status, &copy);
}

/* The list of keys, counted from the first of a part of them on: each index with the coordinates of the other list
   axes, or a key beyond all where it is outside. */
static tuff_status key_chain(const lowered *with, const split *of, int64_t first, int target, fused_chain *out)
{
    TRY(copying_chain(with, of, of->at->inputs[1], true, target, out));
    const tuff_shape *shape = &of->at->outputs[0].shape;
    int64_t stride = 1, own_stride = 1;
    chain_value place = plain_value(VALUE_INDEX, TUFF_I32);
    place.address.offset = -first;
    for (int i = of->rank - 1; i >= 0; --i) {
        const int axis = of->order[i];
        if (!of->list[axis])
            continue;
        if (axis == of->axis)
            own_stride = stride;
        else
            place.address.stride[i] = stride;
        stride *= shape->extent[axis];
    }
    const int index = out->outputs[0].value;
    const int scaled = add_op(out, OP_MUL, index, add_constant(out, own_stride));
    const int key = add_op(out, OP_ADD, scaled, add_value(out, place));
    const int below = add_op(out, OP_LESS, index, add_constant(out, 0));
    const int above = add_op(out, OP_LESS, add_constant(out, shape->extent[of->axis] - 1), index);
    chain_value select = plain_value(VALUE_OP, TUFF_I32);
    select.op = OP_WHERE;
    select.args[0] = add_op(out, OP_OR, below, above);
    select.args[1] = add_constant(out, of->keys);
    select.args[2] = key;
    const bool whole = select.args[0] != NO_VALUE && select.args[1] != NO_VALUE && key != NO_VALUE;
    out->outputs[0].value = whole ? add_value(out, select) : NO_VALUE;
    return out->outputs[0].value == NO_VALUE ? TUFF_E_OOM_HOST : TUFF_OK;
}

/* A launch of a plain body: buffers by id with what is done to them ('r', 'w', 'b' both), parameters, and for the last
   count of them the buffers whose offsets they are. */
static tuff_status add_plain(lowered *with, int index, const char *body, const int *ids, const char *access,
                             int64_t items, const int64_t *fixed, int fixed_count)
{
    launch *of = tuff__launch_add(with, body, WALK_MAP, index);
    if (of == NULL)
        return TUFF_E_OOM_HOST;
    const int count = (int)strlen(access);
    for (int i = 0; i < count; ++i) {
        of->chain.buffers[i] = buffer_for(with, ids[i], access[i] == 'w');
        of->chain.buffers[i].written |= access[i] == 'b';
    }
    of->chain.buffer_count = count;
    for (int i = 0; i < fixed_count; ++i) {
        of->fixed[i] = fixed[i];
        of->fixed_buffer[i] = i >= fixed_count - count ? i - (fixed_count - count) : -1;
    }
    of->fixed_count = fixed_count;
    of->vec = 1;
    of->local_size = (uint32_t)tuff__tuned(with, TUNABLE_scatter_local_size);
    of->groups = (uint64_t)tuff__divide_up(items, of->local_size);
    return TUFF_OK;
}

typedef struct scratch {
    int list, counts, totals, starts, positions;
} scratch;

/* What one sorting is of: all keys and the whole list, unless the driver ends loops before. */
typedef struct part {
    int64_t key, keys, item, items; /* of the list: the first one and their number */
} part;

static int64_t blocks_of(int64_t items)
{
    const int64_t blocks = tuff__divide_up(items, BLOCK_SIZE);
    return blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks < 1 ? 1 : blocks;
}

/* Columns that one item adds up. */
static int64_t tile_of(const lowered *with, const split *of)
{
    return tuff__uses_registers(with) && !tuff__is_vulkan(with) ? of->columns : 1;
}

/* The most keys and items of the list that every loop can walk, though all may have the same key. */
static part largest_part(const lowered *with, const split *of)
{
    enum { SUM_BLOCK = 128, LEAST = 16 };
    const int64_t limit = tuff__device_info(with->device)->loop_limit;
    part all = {.keys = of->keys, .items = of->list_size};
    if (limit == 0)
        return all;
    const int64_t items = (limit / tile_of(with, of) - LEAST) * SUM_BLOCK / (SUM_BLOCK + 2);
    all.items = all.items > items ? items : all.items;
    all.items = all.items < LEAST ? LEAST : all.items;
    const int64_t keys = limit - tuff__divide_up(all.items, blocks_of(all.items)) - LEAST;
    all.keys = all.keys > keys ? keys : all.keys;
    all.keys = all.keys < LEAST ? LEAST : all.keys;
    return all;
}

/* Sorts list positions by key: positions[starts[key] .. starts[key + 1]], counted from the part's first item on. */
static tuff_status sort_list(lowered *with, int index, const part *of, const scratch *use)
{
    const int64_t blocks = blocks_of(of->items), size = tuff__divide_up(of->items, blocks);
    TRY(add_plain(with, index, "scatter_count", (int[]){use->list, use->counts}, "rw", blocks,
                  (int64_t[]){blocks, size, of->items, of->keys, of->item, 0}, 6));
    TRY(add_plain(with, index, "scatter_offsets", (int[]){use->counts, use->totals}, "bw", of->keys,
                  (int64_t[]){of->keys, blocks, 0, 0}, 4));
    TRY(add_plain(with, index, "scatter_starts", (int[]){use->totals, use->starts}, "rw", 1,
                  (int64_t[]){of->keys, 0, 0}, 3));
    return add_plain(with, index, "scatter_place", (int[]){use->list, use->counts, use->starts, use->positions}, "rbrw",
                     blocks, (int64_t[]){blocks, size, of->items, of->keys, of->item, 0, 0, 0}, 8);
}

static tuff_status sum_segments(lowered *with, int index, const split *of, const part *which, const scratch *use,
                                int source, int x, int result)
{
    const int64_t tile = tile_of(with, of), tiles = tuff__divide_up(of->columns, tile), items = tiles * which->keys;
    const int64_t from = which->item * of->columns, row = which->key * of->columns;
    TRY(add_plain(with, index, "scatter_sum", (int[]){use->starts, use->positions, source, x, result}, "rrrrw", items,
                  (int64_t[]){items, of->columns, tiles, tile, 0, 0, from, row, row}, 9));
    const tuff_dtype dtype = with->buffers[result].dtype;
    launch *last = &with->launches[with->launch_count - 1];
    last->terms = (double)which->items;
    snprintf(last->defines, sizeof last->defines, "#define VALUE_TYPE %s\n",
             dtype == TUFF_F32   ? "precise float"
             : dtype == TUFF_I32 ? "int"
                                 : "uint");
    return TUFF_OK;
}

/* The rows of some keys: adds up one part of the list after another, from `x` to `result`. */
static tuff_status add_parts(lowered *with, int index, const split *of, part which, const scratch *use, int source,
                             int x, int result)
{
    const int64_t most = which.items < 1 ? 1 : which.items;
    fused_chain keys;
    const tuff_status status = key_chain(with, of, which.key, use->list, &keys);
    TRY(finish_copy(with, index, status, &keys));
    for (which.item = 0; which.item == 0 || which.item < of->list_size; which.item += most) {
        const int64_t left = of->list_size - which.item;
        which.items = left < most ? left : most;
        const int to =
            left <= most ? result : tuff__buffer_add(with, with->buffers[result].dtype, with->buffers[result].count);
        if (to < 0)
            return TUFF_E_OOM_HOST;
        TRY(sort_list(with, index, &which, use));
        TRY(sum_segments(with, index, of, &which, use, source, x, to));
        x = to;
    }
    return TUFF_OK;
}

/* The result's memory has the list axes outermost; where the node's own has not, a copy puts the axes back. */
static tuff_status put_back(lowered *with, int index, const split *of, int result)
{
    fused_chain copy = {.rank = of->rank};
    const tuff_shape *shape = &of->at->outputs[0].shape;
    const view layout = tuff__fusion_layout(with->fusion, of->at);
    affine from = {.offset = 0}, to = {.offset = 0};
    int64_t strides[TUFF_MAX_RANK], stride = 1;
    for (int i = of->rank - 1; i >= 0; --i) {
        strides[of->order[i]] = stride;
        stride *= shape->extent[of->order[i]];
    }
    for (int i = 0; i < of->rank; ++i) {
        copy.extent[i] = shape->extent[i];
        copy.classes[i] = AXIS_OUTER;
        from.stride[i] = strides[i];
        to.stride[i] = layout.stride[i];
    }
    copy.buffers[0] = buffer_for(with, result, false);
    copy.buffers[1] = buffer_for(with, of->at->id, true);
    copy.buffer_count = 2;
    chain_value load = plain_value(VALUE_LOAD, tuff__compute_dtype(of->at->outputs[0].dtype));
    load.buffer = 0;
    load.address = from;
    copy.outputs[0] = (chain_output){.value = add_value(&copy, load), .buffer = 1, .address = to, .every_point = true};
    copy.output_count = 1;
    return finish_copy(with, index, copy.outputs[0].value == NO_VALUE ? TUFF_E_OOM_HOST : TUFF_OK, &copy);
}

/* Whether the result's own memory lies as the sums are made: list axes outermost, nothing in between. */
static bool keeps_order(const lowered *with, const split *of)
{
    const view layout = tuff__fusion_layout(with->fusion, of->at),
               contiguous = tuff__view_contiguous(of->at->outputs[0].shape);
    if (!tuff__view_equal(&layout, &contiguous))
        return false;
    for (int i = 0; i < of->rank; ++i)
        if (of->order[i] != i)
            return false;
    return true;
}

tuff_status tuff__lower_scatter(lowered *with, int index)
{
    const node *at = with->fusion->tasks[index].core;
    const split of = split_axes(with->fusion, at);
    part which = largest_part(with, &of);
    int source, x, result = at->id;
    TRY(ordered_operand(with, index, &of, 0, &x));
    if (!keeps_order(with, &of))
        result = tuff__buffer_add(with, with->buffers[at->id].dtype, tuff_shape_count(at->outputs[0].shape));
    const int64_t counts = MOST_BLOCKS * which.keys, most = which.keys < 1 ? 1 : which.keys;
    scratch use = {.list = tuff__buffer_add(with, TUFF_I32, of.list_size),
                   .counts = tuff__buffer_add(with, TUFF_I32, counts)};
    use.totals = tuff__buffer_add(with, TUFF_I32, which.keys);
    use.starts = tuff__buffer_add(with, TUFF_I32, which.keys + 1);
    use.positions = tuff__buffer_add(with, TUFF_I32, of.list_size);
    if (use.list < 0 || use.counts < 0 || use.totals < 0 || use.starts < 0 || use.positions < 0 || result < 0)
        return TUFF_E_OOM_HOST;
    TRY(ordered_operand(with, index, &of, 2, &source));
    for (; which.key == 0 || which.key < of.keys; which.key += most) {
        which.keys = of.keys - which.key < most ? of.keys - which.key : most;
        TRY(add_parts(with, index, &of, which, &use, source, x, result));
    }
    return result == at->id ? TUFF_OK : put_back(with, index, &of, result);
}
