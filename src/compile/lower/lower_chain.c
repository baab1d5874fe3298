/* Launches of elementwise and reducing chains: their body, and its vectors, tiles and groups. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "compile/lower/lower.h"

enum {
    ROW_BYTES = 256, /* of registers that a lane of most GPUs can spare for a row */
    LANES_OF_32 = 4, /* of 32 bits make up 16 bytes */
    LANES_OF_16 = 8  /* of 16 bits do */
};

/* Returns the innermost of the loop axes, or of the others; -1 if there is none. */
static int find_vector_axis(const fused_chain *chain, bool loops)
{
    int axis = chain->rank - 1;
    while (axis >= 0 && (chain->classes[axis] == AXIS_LOOP) != loops)
        --axis;
    return axis;
}

static int64_t extent_of_vector_axis(const fused_chain *chain, bool loops)
{
    const int axis = find_vector_axis(chain, loops);
    return axis < 0 ? 1 : chain->extent[axis];
}

/* Returns the product of the extents of one class of axes. */
static int64_t count_of(const fused_chain *chain, axis_class class)
{
    int64_t count = 1;
    for (int i = 0; i < chain->rank; ++i)
        if (chain->classes[i] == class)
            count *= chain->extent[i];
    return count;
}

/* Whether all reductions are of floats. Integers are reduced element by element. */
static bool reduces_floats(const fused_chain *chain)
{
    bool floats = true;
    for (int i = 0; i < chain->reduction_count; ++i)
        if (chain->reductions[i].result != NO_VALUE)
            floats &= chain->values[chain->reductions[i].result].dtype == TUFF_F32;
    return floats;
}

/* Chooses the elements of a row that one item owns, and its rows. If items are lanes, neighbouring items take
   neighbouring vectors; otherwise large items are best. */
static void tile_map(const launch_list *list, int64_t rows, int64_t columns, int vec, int64_t *tile,
                     int64_t *rows_per_item)
{
    *rows_per_item = 1;
    *tile = vec;
    const int64_t most = tuff__tunable_value(&list->policy, TUNABLE_map_item_elements),
                  least = tuff__tunable_value(&list->policy, TUNABLE_map_least_elements);
    if (most == 0)
        return;
    const int64_t share = rows * columns / (8 * (int64_t)list->policy.target.info->compute_units + 1);
    const int64_t fair = share < least ? least : share > most ? most : share, wanted = fair < 1 ? 1 : fair;
    *tile = columns < wanted ? tuff__divide_up(columns, vec) * vec : tuff__divide_up(wanted, vec) * vec;
    *rows_per_item = columns < wanted ? tuff__divide_up(wanted, columns) : 1;
}

/* Lowers a tile until the end of the last one, which kernels compute in 32 bits, does not overflow. */
static void limit_tile(int64_t count, int vec, int64_t *tile)
{
    if (tuff__divide_up(count, *tile) * *tile > INT32_MAX)
        *tile = tuff__divide_up(count, vec) * vec > INT32_MAX ? 1 : vec;
}

/* Results too large to be still in a cache when they are read are stored past it, so that they evict nothing. */
static void stream_results(const launch_list *list, launch *kernel)
{
    if (!list->policy.target.has_memory_hints)
        return;
    const uint64_t least = (uint64_t)tuff__tunable_value(&list->policy, TUNABLE_map_nontemporal_mib) << 20;
    for (int i = 0; i < kernel->chain.buffer_count && least > 0; ++i) {
        chain_buffer *buffer = &kernel->chain.buffers[i];
        buffer->streamed = buffer->written && tuff__buffer_size(&list->buffers[buffer->id]) >= least;
    }
}

/* Whether a load suits vectors of so many elements, or a bound of a pad or concat: a vector across one is loaded
   element by element. */
static bool value_keeps_to_multiples(const fused_chain *chain, const chain_value *value, int axis, int lanes)
{
    affine address = value->address;
    if (value->kind == VALUE_LOAD)
        return tuff__keeps_to_multiples(chain, &address, axis, lanes);
    if (value->kind != VALUE_INSIDE || address.stride[axis] != 1)
        return true;
    address.offset -= value->low;
    return (value->high - value->low) % lanes == 0 && tuff__keeps_to_multiples(chain, &address, axis, lanes);
}

static bool is_narrow(const launch_list *list, const fused_chain *chain, int buffer)
{
    return tuff_dtype_size(list->buffers[chain->buffers[buffer].id].dtype) == 2;
}

/* Whether memory has 16-bit elements side by side along an axis. */
static bool moves_narrow_vectors(const launch_list *list, const fused_chain *chain, int axis)
{
    bool found = false;
    for (int i = 0; i < chain->value_count; ++i)
        found |= chain->values[i].kind == VALUE_LOAD && chain->values[i].address.stride[axis] == 1 &&
                 is_narrow(list, chain, chain->values[i].buffer);
    for (int i = 0; i < chain->output_count; ++i)
        found |= chain->outputs[i].address.stride[axis] == 1 && is_narrow(list, chain, chain->outputs[i].buffer);
    return found;
}

/* Returns the elements of a vector along an axis, `lanes` or more: on GPUs vectors of 16-bit elements have 16 bytes,
   too, and those of 32-bit elements beside them twice as many, unless rows would end within a vector or vectors would
   not be aligned. GLSL has none of eight elements. */
static int widen_for_narrow(const launch_list *list, const fused_chain *chain, int axis, int lanes)
{
    if (lanes != LANES_OF_32 || tuff__uses_registers(&list->policy) || list->policy.target.items_are_lanes)
        return lanes;
    bool fits = chain->extent[axis] % LANES_OF_16 == 0 && moves_narrow_vectors(list, chain, axis);
    for (int i = 0; i < chain->value_count && fits; ++i)
        fits = value_keeps_to_multiples(chain, &chain->values[i], axis, LANES_OF_16);
    for (int i = 0; i < chain->output_count && fits; ++i)
        fits = tuff__keeps_to_multiples(chain, &chain->outputs[i].address, axis, LANES_OF_16);
    return fits ? LANES_OF_16 : lanes;
}

/* Returns the elements of a vector of a map. */
static int map_vector(const launch_list *list, const fused_chain *chain, int64_t columns)
{
    const int lanes = tuff__vector_width(&list->policy, columns);
    bool narrow = true;
    for (int i = 0; i < chain->buffer_count; ++i)
        narrow &= is_narrow(list, chain, i);
    return narrow ? widen_for_narrow(list, chain, chain->rank - 1, lanes) : lanes;
}

tuff_status tuff__lower_map(launch_list *list, int task, fused_chain *chain)
{
    const bool empty = count_of(chain, AXIS_OUTER) == 0;
    launch *kernel = empty ? NULL : tuff__launch_add(list, "map", WALK_MAP, task);
    if (kernel == NULL) {
        tuff__chain_free(chain);
        return empty ? TUFF_OK : TUFF_E_OOM_HOST;
    }
    tuff__chain_swap_inner_axes(chain, 4);
    kernel->chain = *chain;
    const int64_t columns = extent_of_vector_axis(chain, false), rows = count_of(chain, AXIS_OUTER) / columns;
    kernel->vec = map_vector(list, chain, columns);
    int64_t tile, rows_per_item;
    tile_map(list, rows, columns, kernel->vec, &tile, &rows_per_item);
    limit_tile(columns, kernel->vec, &tile);
    limit_tile(rows, 1, &rows_per_item);
    const int64_t tiles = tuff__divide_up(columns, tile), items = tiles * tuff__divide_up(rows, rows_per_item);
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_map_local_size);
    kernel->groups = (uint64_t)tuff__divide_up(items, kernel->local_size);
    snprintf(kernel->defines, sizeof kernel->defines, "#define COLUMN_TAIL %d\n", columns % kernel->vec != 0);
    tuff__set_parameters(kernel, (int64_t[]){rows, columns, tiles, tile, rows_per_item, items}, 6);
    stream_results(list, kernel);
    return TUFF_OK;
}

tuff_status tuff__chain_copy(const launch_list *list, int source, int destination, tuff_dtype dtype, const affine *from,
                             const affine *to, fused_chain *out)
{
    out->buffers[0] = tuff__chain_buffer(list, source, false);
    out->buffers[1] = tuff__chain_buffer(list, destination, true);
    out->buffer_count = 2;
    chain_value load = tuff__chain_value(VALUE_LOAD, dtype);
    load.buffer = 0;
    load.address = *from;
    out->outputs[0] =
        (chain_output){.value = tuff__chain_append(out, load), .buffer = 1, .address = *to, .every_point = true};
    out->output_count = 1;
    return out->outputs[0].value == NO_VALUE ? TUFF_E_OOM_HOST : TUFF_OK;
}

tuff_status tuff__lower_built_map(launch_list *list, int task, tuff_status status, fused_chain *chain)
{
    if (status != TUFF_OK) {
        tuff__chain_free(chain);
        return status;
    }
    tuff__chain_collapse(chain);
    tuff__chain_analyse(chain);
    return tuff__lower_map(list, task, chain);
}

/* Returns the number of partial results for a row: the largest, up to the tunable, that divides the row's vectors
   evenly. */
static int row_parts(const launch_list *list, int64_t columns, int vec)
{
    int parts = tuff__tunable_value(&list->policy, TUNABLE_row_register_parts);
    while (parts > 1 && columns / vec % parts != 0)
        --parts;
    return parts;
}

/* Returns how many rows an item owns. */
static int64_t rows_of_item(const launch_list *list, int64_t rows, int64_t columns)
{
    const int64_t wanted = tuff__tunable_value(&list->policy, TUNABLE_row_register_item_elements);
    const int64_t share = rows / (8 * (int64_t)list->policy.target.info->compute_units + 1);
    const int64_t most = columns == 0 ? 1 : wanted / columns;
    const int64_t fair = share < most ? share : most;
    return fair < 1 ? 1 : fair;
}

/* Returns how many vectors of a row each of the lanes that share it keeps in registers; 0 if they are too many. */
static int row_steps(const launch *kernel, int64_t columns, int64_t runs, int group_rows)
{
    enum { MAX_ELEMENTS = 8 * LANES_OF_32 };
    const int64_t steps = tuff__divide_up(columns / kernel->vec, kernel->local_size / (uint32_t)group_rows);
    return kernel->vec > 1 && runs == 1 && steps * kernel->vec <= MAX_ELEMENTS ? (int)steps : 0;
}

/* Returns how many bytes of registers a lane may spend on vectors of a row. The rest is for addresses and what is
   computed. An Intel thread has a fixed number of registers for all its lanes, each as wide as the narrowest subgroup,
   and its compiler leaves arrays in memory if they would take too many: from about two thirds of them on. */
static int row_register_bytes(const target *device, uint32_t subgroup_size)
{
    enum { REGISTERS = 128 };
    const uint32_t narrowest = device->info->min_subgroup_size;
    if (device->is_cpu || device->info->vendor_id != VENDOR_INTEL || narrowest == 0)
        return ROW_BYTES;
    const uint32_t lanes = subgroup_size > narrowest ? subgroup_size : narrowest; /* 0: the compiler chooses */
    const uint32_t half = (uint32_t)sizeof(float) * REGISTERS * narrowest / lanes / 2;
    return half < ROW_BYTES ? (int)half : ROW_BYTES;
}

/* Decides how much of a row lanes keep in registers. If they have too few, the compiler gives them twice as many, or
   they keep less and load it again. Of several vectors of eight they keep one less than of four, since what is computed
   from each takes more registers, too: Intel's compiler was seen to leave two of them in memory. */
static tuff_status choose_row_registers(const launch_list *list, launch *kernel)
{
    const target *device = &list->policy.target;
    const int most = row_register_bytes(device, kernel->subgroup_size);
    const bool several = kernel->vec > LANES_OF_32 && kernel->row_steps > 1;
    const int fitting = several ? most - kernel->vec * (int)sizeof(float) : most;
    int needed = 0;
    kernel->private_bytes = ROW_BYTES;
    if (fitting < ROW_BYTES)
        TRY(tuff__count_row_bytes(&kernel->chain, kernel->vec, ROW_BYTES, kernel->row_steps, &needed));
    if (needed <= fitting)
        return TUFF_OK;
    const int granted = device->doubles_registers ? 2 * most : most;
    kernel->private_bytes = granted < ROW_BYTES ? granted : ROW_BYTES;
    kernel->registers = device->doubles_registers ? REGISTERS_MANY : kernel->registers;
    return TUFF_OK;
}

/* Returns how many lanes combine the results of all lanes: about the square root of their number, so that each combines
   about as many. */
static int joined_lanes(uint32_t lanes)
{
    int joined = 1;
    while ((uint32_t)(joined * joined * 4) <= lanes)
        joined *= 2;
    return joined;
}

/* Returns how many lanes a row needs, a power of two, if each handles as many vectors as the tunable says. If the
   tunable is 0, there is no limit. Two vectors of eight count as four: they take as many registers, since these hold 32
   bits for each element, and what is computed from one takes twice as many. */
static int64_t wanted_lanes(const launch_list *list, const launch *kernel, int64_t columns)
{
    const int64_t vectors = tuff__tunable_value(&list->policy, TUNABLE_row_local_lane_vectors);
    const int64_t each = kernel->vec > LANES_OF_32 ? LANES_OF_32 / 2 : kernel->vec;
    const int64_t elements = vectors * each > kernel->vec ? vectors * each : kernel->vec;
    int64_t lanes = 1;
    while (vectors > 0 && lanes * elements < columns)
        lanes *= 2;
    return vectors > 0 ? lanes : INT32_MAX;
}

/* Whether there are enough groups to keep the device busy, so that they may be smaller or share rows. */
static bool fills_device(const launch_list *list, int64_t groups)
{
    return groups >= 4 * tuff__processor_count(list->policy.target.info);
}

/* Returns the lanes of a group. Long rows get as many as the tunable allows, fewer if there are many rows and each lane
   would have too little to do. */
static uint32_t row_group_size(const launch_list *list, const launch *kernel, int64_t rows, int64_t columns)
{
    enum { MIN_LANES = 64 };
    if (columns < tuff__tunable_value(&list->policy, TUNABLE_row_local_wide_columns))
        return (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_row_local_local_size);
    int64_t lanes = tuff__tunable_value(&list->policy, TUNABLE_row_local_wide_size);
    while (fills_device(list, rows) && lanes > MIN_LANES && lanes / 2 >= wanted_lanes(list, kernel, columns))
        lanes /= 2;
    return (uint32_t)lanes;
}

/* Returns how many rows a group computes at a time: several if so few lanes suffice for one row that every lane can
   combine the results of all lanes of its row. Column sums that are computed along with rows cover the rows of a group
   one after another. */
static int rows_of_group(const launch_list *list, const launch *kernel, int64_t rows, int64_t columns)
{
    enum { MAX_LANES = 32 };
    const int64_t wanted = wanted_lanes(list, kernel, columns);
    int lanes = (int)kernel->local_size, group_rows = 1;
    while (kernel->chain.item_rows == 0 && wanted <= MAX_LANES && lanes % 2 == 0 && lanes / 2 >= wanted &&
           fills_device(list, rows / (2 * group_rows))) {
        lanes /= 2;
        group_rows *= 2;
    }
    return group_rows;
}

/* Makes the lanes of a subgroup combine their results in registers, if the self-test proved that they can, whole
   subgroups make up the group, and each row has whole subgroups or an equal part of one. Writes what the body must know
   to `macros`. */
static void exchange_registers(const launch_list *list, launch *kernel, int group_rows, char *macros, size_t size)
{
    const tuff_device_info *info = list->policy.target.info;
    const uint32_t lanes = info->exchange_lanes, row_lanes = kernel->local_size / (uint32_t)group_rows;
    if (!tuff__tunable_value(&list->policy, TUNABLE_row_local_exchange) || info->exchange_form == TUFF_EXCHANGE_NONE ||
        lanes == 0 || kernel->local_size % lanes != 0 || (row_lanes % lanes != 0 && lanes % row_lanes != 0))
        return;
    kernel->exchange_form = info->exchange_form;
    kernel->subgroup_size = info->exchange_form == TUFF_EXCHANGE_KHR ? lanes : 0; /* the others have a single width */
    snprintf(macros, size, "#define EXCHANGE_FORM %u\n#define EXCHANGE_LANES %u\n", (unsigned)info->exchange_form,
             (unsigned)lanes);
}

static tuff_status write_local_row(const launch_list *list, launch *kernel, int group_rows)
{
    const size_t used = strlen(kernel->defines);
    char exchange[80] = "";
    exchange_registers(list, kernel, group_rows, exchange, sizeof exchange);
    if (kernel->row_steps > 0)
        TRY(choose_row_registers(list, kernel));
    snprintf(kernel->defines + used, sizeof kernel->defines - used,
             "%s%s#define ROW_STEPS %d\n#define GROUP_ROWS %d\n#define JOINED %d\n%s",
             kernel->row_steps > 0 ? "#define MANY_VALUES\n" : "",
             kernel->registers == REGISTERS_MANY ? "#define MANY_REGISTERS\n" : "", kernel->row_steps, group_rows,
             group_rows > 1 || kernel->exchange_form != TUFF_EXCHANGE_NONE ? 1 : joined_lanes(kernel->local_size),
             exchange);
    return TUFF_OK;
}

/* Decides which lanes share a row, and what they keep of it. Returns how many rows a group computes at a time. */
static int share_row(const launch_list *list, launch *kernel, int64_t rows, int64_t columns, int64_t runs)
{
    kernel->local_size = row_group_size(list, kernel, rows, columns);
    const int group_rows = rows_of_group(list, kernel, rows, columns);
    kernel->row_steps = row_steps(kernel, columns, runs, group_rows);
    return group_rows;
}

/* The same for vectors of eight, or of four where eight would cost too much. AMD's compiler interleaves what it
   computes from the elements of a vector: with two vectors of eight, lanes were seen to take up to twice the registers,
   and with four to spill. */
static int share_row_in_vectors(const launch_list *list, launch *kernel, int64_t rows, int64_t columns, int64_t runs)
{
    const int most_steps = list->policy.target.info->vendor_id == VENDOR_AMD ? 1 : INT32_MAX;
    const int group_rows = share_row(list, kernel, rows, columns, runs);
    if (kernel->vec <= LANES_OF_32 || kernel->row_steps <= most_steps)
        return group_rows;
    kernel->vec = LANES_OF_32;
    return share_row(list, kernel, rows, columns, runs);
}

static tuff_status lower_row(launch_list *list, launch *kernel)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t columns = extent_of_vector_axis(chain, true), rows = count_of(chain, AXIS_OUTER);
    const int64_t runs = columns == 0 ? 0 : count_of(chain, AXIS_LOOP) / columns;
    const bool local = !tuff__uses_registers(&list->policy) && reduces_floats(chain);
    kernel->body = local ? "row_local" : "row_register";
    kernel->vec = !reduces_floats(chain) ? 1
                                         : widen_for_narrow(list, chain, find_vector_axis(chain, true),
                                                            tuff__vector_width(&list->policy, columns));
    kernel->local_size = local ? 0 : (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_row_register_local_size);
    const int group_rows = local ? share_row_in_vectors(list, kernel, rows, columns, runs) : 1;
    const int64_t item_rows = chain->item_rows > 0 ? chain->item_rows
                              : local              ? group_rows
                                                   : rows_of_item(list, rows, columns);
    const int64_t items = tuff__divide_up(rows, item_rows);
    kernel->groups = (uint64_t)(local ? items : tuff__divide_up(items, kernel->local_size));
    const int64_t kept = tuff__tunable_value(&list->policy, TUNABLE_row_register_private_bytes);
    const int64_t most = tuff__max_array_bytes(&list->policy, kernel->local_size);
    kernel->private_bytes = local ? 0 : (int)(kept < most ? kept : most);
    kernel->array_bytes = kernel->private_bytes;
    const bool hints = list->policy.target.has_memory_hints;
    const int64_t prefetched = hints ? tuff__tunable_value(&list->policy, TUNABLE_row_register_prefetch_bytes) : 0;
    kernel->prefetches = !local && prefetched > 0 && columns * (int64_t)sizeof(float) >= prefetched;
    snprintf(kernel->defines, sizeof kernel->defines, "#define COLUMN_TAIL %d\n#define PARTS %d\n#define ONE_RUN %d\n",
             columns % kernel->vec != 0, local ? 1 : row_parts(list, columns, kernel->vec), runs == 1);
    if (local)
        TRY(write_local_row(list, kernel, group_rows));
    tuff__set_parameters(kernel, (int64_t[]){rows, columns, runs, item_rows}, 4);
    if (!local)
        stream_results(list, kernel);
    return TUFF_OK;
}

/* Returns how many vectors of columns one item owns. Memory is faster if an item's part of a row is wider, but all
   compute units need work, and the item's sums should stay in the L1 cache. */
static int64_t column_vectors(const launch_list *list, const fused_chain *chain, int64_t rows, int64_t vectors)
{
    const int sums = chain->reduction_count < 1 ? 1 : chain->reduction_count;
    const int longest = list->policy.target.max_array_vectors;
    const int64_t allowed = tuff__divide_up(tuff__tunable_value(&list->policy, TUNABLE_column_register_vectors), sums);
    const int64_t most = allowed * sums > longest ? tuff__divide_up(longest, sums) : allowed;
    const int64_t items = 2 * (int64_t)list->policy.target.info->compute_units;
    const int64_t share = rows * vectors / (items < 1 ? 1 : items);
    const int64_t wanted = share < 1 ? 1 : share > most ? most : share;
    return tuff__divide_up(vectors, tuff__divide_up(vectors, wanted));
}

static void lower_column(launch_list *list, launch *kernel)
{
    enum { LANE_COLUMNS = 4 }; /* of a lane, if columns can be divided so */
    const fused_chain *chain = &kernel->chain;
    const int64_t columns = extent_of_vector_axis(chain, false), rows = count_of(chain, AXIS_OUTER) / columns;
    const int64_t runs = count_of(chain, AXIS_LOOP);
    const bool local = !tuff__uses_registers(&list->policy) && reduces_floats(chain);
    kernel->body = local ? "column_local" : "column_register";
    kernel->vec = !reduces_floats(chain)        ? 1
                  : !local                      ? tuff__vector_width(&list->policy, columns)
                  : columns % LANE_COLUMNS == 0 ? LANE_COLUMNS
                                                : 1;
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, local ? TUNABLE_column_local_local_size
                                                                            : TUNABLE_column_register_local_size);
    const int64_t vectors =
        local || kernel->vec == 1 ? 1 : column_vectors(list, chain, rows, tuff__divide_up(columns, kernel->vec));
    const int64_t tiles = tuff__divide_up(columns, local ? 32 : vectors * kernel->vec), items = rows * tiles;
    kernel->groups = (uint64_t)(local ? items : tuff__divide_up(items, kernel->local_size));
    const int at_once = tuff__tunable_value(&list->policy, TUNABLE_column_register_rows_at_once);
    kernel->array_bytes = (int64_t)sizeof(float) * kernel->vec * (2 * vectors * chain->reduction_count + at_once);
    snprintf(kernel->defines, sizeof kernel->defines,
             "%s#define COLUMN_TAIL %d\n#define COLUMN_VECTORS %d\n#define ROWS_AT_ONCE %d\n",
             local && kernel->vec > 1 ? "#define MANY_VALUES\n" : "", columns % kernel->vec != 0, (int)vectors,
             at_once);
    tuff__set_parameters(kernel, (int64_t[]){items, columns, tiles, runs}, 4);
}

static void lower_scan(launch_list *list, launch *kernel)
{
    const int64_t columns = extent_of_vector_axis(&kernel->chain, true), rows = count_of(&kernel->chain, AXIS_OUTER);
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_scan_local_size);
    kernel->groups = (uint64_t)tuff__divide_up(rows, kernel->local_size);
    tuff__set_parameters(kernel, (int64_t[]){rows, columns}, 2);
}

tuff_status tuff__lower_reducing(launch_list *list, int index, fused_chain *chain)
{
    const task_kind kind = list->fusion->tasks[index].kind;
    const bool row = kind == TASK_ROW;
    launch *kernel = tuff__launch_add(list, kind == TASK_SCAN ? "scan" : "",
                                      kind == TASK_SCAN ? WALK_SCAN
                                      : row             ? WALK_ROW
                                                        : WALK_COLUMN,
                                      index);
    if (kernel == NULL) {
        tuff__chain_free(chain);
        return TUFF_E_OOM_HOST;
    }
    kernel->chain = *chain;
    if (row)
        return lower_row(list, kernel);
    if (kind == TASK_SCAN)
        lower_scan(list, kernel);
    else
        lower_column(list, kernel);
    return TUFF_OK;
}
