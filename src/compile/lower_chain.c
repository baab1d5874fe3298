/* Launches of elementwise and reducing chains: which body walks them, in what vectors, tiles and groups. */
#include <inttypes.h>
#include <stdio.h>

#include "compile/lower.h"

int64_t tuff__divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

bool tuff__is_vulkan(const lowered *with)
{
    return tuff__device_takes_glsl(with->device);
}

bool tuff__uses_registers(const lowered *with)
{
    const tuff_family family = tuff__family(with);
    if (family == TUFF_FAMILY_REGISTER || family == TUFF_FAMILY_LOCAL)
        return family == TUFF_FAMILY_REGISTER;
    return tuff__device_info(with->device)->device_class == TUFF_DEVICE_CPU;
}

static int usual_value(const lowered *with, tunable of)
{
    const tuff_device_info *info = tuff__device_info(with->device);
    if (info->device_class != TUFF_DEVICE_CPU || !tuff__uses_registers(with))
        return tuff__tunable_usual(of, KERNELS_GPU, info->vendor_id);
    return tuff__tunable_usual(of, tuff__is_vulkan(with) ? KERNELS_VULKAN_CPU : KERNELS_OPENCL_CPU, info->vector_width);
}

/* What the choice says, else the usual value, which those who want to know what was asked for are told. */
static int value_of(const lowered *with, tunable of, int usual)
{
    if (with->usual != NULL)
        usual = tuff__choice_value(with->usual, of, usual);
    if (with->consulted != NULL && !tuff__choice_has(with->consulted, of))
        tuff__choice_set(with->consulted, of, usual);
    return with->choice == NULL ? usual : tuff__choice_value(with->choice, of, usual);
}

int tuff__tuned(const lowered *with, tunable of)
{
    return value_of(with, of, usual_value(with, of));
}

tuff_family tuff__family(const lowered *with)
{
    if (with->family != TUFF_FAMILY_DEVICE)
        return with->family;
    const int wanted = value_of(with, TUNABLE_task_family, TUFF_FAMILY_DEVICE);
    return wanted > TUFF_FAMILY_COOPERATIVE ? TUFF_FAMILY_DEVICE : (tuff_family)wanted;
}

tuff_matmul_library tuff__library(const lowered *with)
{
    const bool wanted = with->family == TUFF_FAMILY_DEVICE &&
                        value_of(with, TUNABLE_task_family, TUFF_FAMILY_DEVICE) > TUFF_FAMILY_COOPERATIVE;
    return wanted ? TUFF_MATMUL_CLBLAST : with->library;
}

int tuff__native_lanes(const lowered *with)
{
    const uint32_t lanes = tuff__device_info(with->device)->vector_width;
    if (tuff__is_vulkan(with) || !tuff__uses_registers(with))
        return 4;
    const int wanted = value_of(with, TUNABLE_task_lanes, 0);
    return wanted >= 4 ? wanted : lanes > 0 && lanes < 8 ? 4 : lanes == 8 ? 8 : 16;
}

int tuff__vector_registers(const lowered *with, int lanes)
{
    const int own = (int)tuff__device_info(with->device)->vector_width;
    return !tuff__is_vulkan(with) && own > 0 && lanes > own ? lanes / own : 1;
}

int tuff__vector_width(const lowered *with, int64_t extent)
{
    int width = tuff__native_lanes(with);
    while (width > 4 && width > extent)
        width /= 2;
    return extent < 4 ? 1 : width;
}

static int64_t extent_of_vector_axis(const fused_chain *chain, bool loops)
{
    for (int i = chain->rank - 1; i >= 0; --i)
        if ((chain->classes[i] == AXIS_LOOP) == loops)
            return chain->extent[i];
    return 1;
}

/* The product of the extents of one class of axes. */
static int64_t count_of(const fused_chain *chain, axis_class class)
{
    int64_t count = 1;
    for (int i = 0; i < chain->rank; ++i)
        if (chain->classes[i] == class)
            count *= chain->extent[i];
    return count;
}

/* Integers are reduced element by element. */
static bool reduces_floats(const fused_chain *chain)
{
    bool floats = true;
    for (int i = 0; i < chain->reduction_count; ++i)
        if (chain->reductions[i].result != NO_VALUE)
            floats &= chain->values[chain->reductions[i].result].dtype == TUFF_F32;
    return floats;
}

static void set_fixed(launch *of, const int64_t *values, int count)
{
    for (int i = 0; i < count; ++i) {
        of->fixed[i] = values[i];
        of->fixed_buffer[i] = -1;
    }
    of->fixed_count = count;
}

/* Elements of a row that one item owns, and rows. CPU devices behind OpenCL want large items; others want neighbouring
   items on neighbouring vectors. */
static void tile_map(const lowered *with, int64_t rows, int64_t columns, int vec, int64_t *tile, int64_t *rows_per_item)
{
    *rows_per_item = 1;
    *tile = vec;
    const int64_t most = tuff__tuned(with, TUNABLE_map_item_elements),
                  least = tuff__tuned(with, TUNABLE_map_least_elements);
    if (most == 0)
        return;
    const int64_t share = rows * columns / (8 * (int64_t)tuff__device_info(with->device)->compute_units + 1);
    const int64_t fair = share < least ? least : share > most ? most : share, wanted = fair < 1 ? 1 : fair;
    *tile = columns < wanted ? tuff__divide_up(columns, vec) * vec : tuff__divide_up(wanted, vec) * vec;
    *rows_per_item = columns < wanted ? tuff__divide_up(wanted, columns) : 1;
}

/* Results too large to be still in a cache when they are read need not push out what is. GLSL has no such stores. */
static void stream_results(const lowered *with, launch *of)
{
    if (tuff__is_vulkan(with))
        return;
    const uint64_t least = (uint64_t)tuff__tuned(with, TUNABLE_map_stream_mebibytes) << 20;
    for (int i = 0; i < of->chain.buffer_count && least > 0; ++i) {
        chain_buffer *buffer = &of->chain.buffers[i];
        buffer->streamed = buffer->written && tuff__buffer_size(&with->buffers[buffer->id]) >= least;
    }
}

tuff_status tuff__lower_map(lowered *with, int task, fused_chain *chain)
{
    const bool empty = count_of(chain, AXIS_OUTER) == 0;
    launch *of = empty ? NULL : tuff__launch_add(with, "map", WALK_MAP, task);
    if (of == NULL) {
        tuff__chain_free(chain);
        return empty ? TUFF_OK : TUFF_E_OOM_HOST;
    }
    tuff__chain_lengthen(chain, 4);
    of->chain = *chain;
    const int64_t columns = extent_of_vector_axis(chain, false), rows = count_of(chain, AXIS_OUTER) / columns;
    of->vec = tuff__vector_width(with, columns);
    int64_t tile, rows_per_item;
    tile_map(with, rows, columns, of->vec, &tile, &rows_per_item);
    const int64_t tiles = tuff__divide_up(columns, tile), items = tiles * tuff__divide_up(rows, rows_per_item);
    of->local_size = (uint32_t)tuff__tuned(with, TUNABLE_map_local_size);
    of->groups = (uint64_t)tuff__divide_up(items, of->local_size);
    snprintf(of->defines, sizeof of->defines, "#define COLUMN_TAIL %d\n", columns % of->vec != 0);
    set_fixed(of, (int64_t[]){rows, columns, tiles, tile, rows_per_item, items}, 6);
    stream_results(with, of);
    return TUFF_OK;
}

/* The most partial results up to the tunable that share the vectors of a row evenly. */
static int row_parts(const lowered *with, int64_t columns, int vec)
{
    int parts = tuff__tuned(with, TUNABLE_row_register_parts);
    while (parts > 1 && columns / vec % parts != 0)
        --parts;
    return parts;
}

/* How many rows of so many bytes an item owns; CPU devices behind OpenCL want large items. */
static int64_t rows_of_item(const lowered *with, int64_t rows, int64_t columns)
{
    const int64_t wanted = tuff__tuned(with, TUNABLE_row_register_item_elements);
    const int64_t share = rows / (8 * (int64_t)tuff__device_info(with->device)->compute_units + 1);
    const int64_t most = columns == 0 ? 1 : wanted / columns;
    const int64_t fair = share < most ? share : most;
    return fair < 1 ? 1 : fair;
}

static void lower_row(lowered *with, launch *of)
{
    const fused_chain *chain = &of->chain;
    const int64_t columns = extent_of_vector_axis(chain, true), rows = count_of(chain, AXIS_OUTER);
    const int64_t runs = columns == 0 ? 0 : count_of(chain, AXIS_LOOP) / columns;
    const bool local = !tuff__uses_registers(with) && reduces_floats(chain);
    of->body = local ? "row_local" : "row_register";
    of->vec = reduces_floats(chain) ? tuff__vector_width(with, columns) : 1;
    const bool wide = columns >= tuff__tuned(with, TUNABLE_row_local_wide_columns);
    of->local_size = (uint32_t)tuff__tuned(with, !local ? TUNABLE_row_register_local_size
                                                 : wide ? TUNABLE_row_local_wide_size
                                                        : TUNABLE_row_local_local_size);
    const int64_t item_rows = chain->item_rows > 0 ? chain->item_rows : local ? 1 : rows_of_item(with, rows, columns);
    const int64_t items = tuff__divide_up(rows, item_rows);
    of->groups = (uint64_t)(local ? items : tuff__divide_up(items, of->local_size));
    const int64_t kept = tuff__tuned(with, TUNABLE_row_register_private_bytes);
    const int64_t most = tuff__most_array_bytes(with, of->local_size);
    of->private_bytes = local ? 0 : (int)(kept < most ? kept : most);
    of->array_bytes = of->private_bytes;
    const int64_t ahead = tuff__is_vulkan(with) ? 0 : tuff__tuned(with, TUNABLE_row_register_ahead_bytes);
    of->asks_ahead = !local && ahead > 0 && columns * (int64_t)sizeof(float) >= ahead;
    snprintf(of->defines, sizeof of->defines, "#define COLUMN_TAIL %d\n#define PARTS %d\n#define ONE_RUN %d\n",
             columns % of->vec != 0, local ? 1 : row_parts(with, columns, of->vec), runs == 1);
    set_fixed(of, (int64_t[]){rows, columns, runs, item_rows}, 4);
    if (!local)
        stream_results(with, of);
}

/* Vectors of columns that one item owns: the wider its stretch of a row, the faster memory is, but all compute units
   want work, and what the item adds up stays in the nearest cache. lavapipe loses sums of arrays of 24 vectors. */
static int64_t column_vectors(const lowered *with, const fused_chain *chain, int64_t rows, int64_t vectors)
{
    const int sums = chain->reduction_count < 1 ? 1 : chain->reduction_count;
    enum { MOST_ON_VULKAN = 16 };
    const int64_t allowed = tuff__divide_up(tuff__tuned(with, TUNABLE_column_register_vectors), sums);
    const int64_t most =
        tuff__is_vulkan(with) && allowed * sums > MOST_ON_VULKAN ? tuff__divide_up(MOST_ON_VULKAN, sums) : allowed;
    const int64_t items = 2 * (int64_t)tuff__device_info(with->device)->compute_units;
    const int64_t share = rows * vectors / (items < 1 ? 1 : items);
    const int64_t wanted = share < 1 ? 1 : share > most ? most : share;
    return tuff__divide_up(vectors, tuff__divide_up(vectors, wanted));
}

static void lower_column(lowered *with, launch *of)
{
    const fused_chain *chain = &of->chain;
    const int64_t columns = extent_of_vector_axis(chain, false), rows = count_of(chain, AXIS_OUTER) / columns;
    const int64_t runs = count_of(chain, AXIS_LOOP);
    const bool local = !tuff__uses_registers(with) && reduces_floats(chain);
    of->body = local ? "column_local" : "column_register";
    of->vec = local || !reduces_floats(chain) ? 1 : tuff__vector_width(with, columns);
    of->local_size =
        (uint32_t)tuff__tuned(with, local ? TUNABLE_column_local_local_size : TUNABLE_column_register_local_size);
    const int64_t vectors =
        local || of->vec == 1 ? 1 : column_vectors(with, chain, rows, tuff__divide_up(columns, of->vec));
    const int64_t tiles = tuff__divide_up(columns, local ? 32 : vectors * of->vec), items = rows * tiles;
    of->groups = (uint64_t)(local ? items : tuff__divide_up(items, of->local_size));
    const int at_once = tuff__tuned(with, TUNABLE_column_register_rows_at_once);
    of->array_bytes = (int64_t)sizeof(float) * of->vec * (2 * vectors * chain->reduction_count + at_once);
    snprintf(of->defines, sizeof of->defines,
             "#define COLUMN_TAIL %d\n#define COLUMN_VECTORS %d\n#define ROWS_AT_ONCE %d\n", columns % of->vec != 0,
             (int)vectors, at_once);
    set_fixed(of, (int64_t[]){items, columns, tiles, runs}, 4);
}

static void lower_scan(lowered *with, launch *of)
{
    const int64_t columns = extent_of_vector_axis(&of->chain, true), rows = count_of(&of->chain, AXIS_OUTER);
    of->vec = 1;
    of->local_size = (uint32_t)tuff__tuned(with, TUNABLE_scan_local_size);
    of->groups = (uint64_t)tuff__divide_up(rows, of->local_size);
    set_fixed(of, (int64_t[]){rows, columns}, 2);
}

static tuff_status lower_reducing(lowered *with, int index, fused_chain *chain)
{
    const task_kind kind = with->fusion->tasks[index].kind;
    const bool row = kind == TASK_ROW;
    launch *of = tuff__launch_add(with, kind == TASK_CUMSUM ? "scan" : "",
                                  kind == TASK_CUMSUM ? WALK_SCAN
                                  : row               ? WALK_ROW
                                                      : WALK_COLUMN,
                                  index);
    if (of == NULL) {
        tuff__chain_free(chain);
        return TUFF_E_OOM_HOST;
    }
    of->chain = *chain;
    if (kind == TASK_CUMSUM)
        lower_scan(with, of);
    else if (row)
        lower_row(with, of);
    else
        lower_column(with, of);
    return TUFF_OK;
}

static tuff_status lower_task(lowered *with, int index)
{
    const struct task *task = &with->fusion->tasks[index];
    if (tuff__task_is_empty(task))
        return TUFF_OK;
    if (task->kind == TASK_SCATTER)
        return tuff__lower_scatter(with, index);
    if (task->kind == TASK_ATTENTION)
        return tuff__lower_attention(with, index);
    fused_chain chain;
    const node *give_up;
    bool impossible;
    TRY(tuff__chain_build((struct fusion *)with->fusion, task, &chain, &give_up, &impossible));
    if (give_up != NULL || impossible)
        return FAIL(TUFF_E_LIMIT, "compile: a fused task cannot be addressed");
    for (int i = 0; i < chain.buffer_count; ++i)
        chain.buffers[i].dtype = with->buffers[chain.buffers[i].id].dtype;
    tuff__chain_collapse(&chain);
    tuff__chain_analyse(&chain);
    switch (task->kind) {
    case TASK_MAP:
        return tuff__lower_map(with, index, &chain);
    case TASK_MATMUL:
        return tuff__lower_matmul(with, index, &chain);
    default:
        return lower_reducing(with, index, &chain);
    }
}

/* Drivers of CPUs keep the arrays of all items of a group on a thread's stack, and end the process where it is not
   large enough: PoCL's is the system's usual one, 2 MiB where the limit of a process's stack is "unlimited". */
int64_t tuff__most_array_bytes(const lowered *with, uint32_t local_size)
{
    enum { SAFE_ON_STACKS = 1 << 20 };
    return tuff__device_info(with->device)->device_class == TUFF_DEVICE_CPU ? SAFE_ON_STACKS / (int64_t)local_size
                                                                            : INT32_MAX;
}

/* Compilers of Vulkan drivers for CPUs take four times as long for twice as much that is unrolled, half a minute and
   more for what is behind the products of large tiles. */
static bool takes_long_to_compile(const lowered *with, const launch *of)
{
    enum { USUAL_TILE = 128 * sizeof(float), MOST_UNROLLED = 6000 };
    return tuff__is_vulkan(with) && tuff__device_info(with->device)->device_class == TUFF_DEVICE_CPU &&
           of->array_bytes > USUAL_TILE && of->unrolled > MOST_UNROLLED;
}

/* What a choice asks for may be more than the device has; the usual values never are. */
static tuff_status check_groups(const lowered *with, int first)
{
    const tuff_device_info *info = tuff__device_info(with->device);
    for (int i = first; i < with->launch_count && (with->choice != NULL || with->usual != NULL); ++i) {
        const launch *of = &with->launches[i];
        if (of->kind != LAUNCH_KERNEL)
            continue;
        if (of->local_size > info->max_group_size)
            return FAIL(TUFF_E_LIMIT, "compile: groups of %u items, %s has at most %u", of->local_size, info->name,
                        info->max_group_size);
        if (of->local_bytes > info->local_memory_size)
            return FAIL(TUFF_E_LIMIT, "compile: groups of %u bytes of local memory, %s has %u", of->local_bytes,
                        info->name, info->local_memory_size);
        if (of->array_bytes > tuff__most_array_bytes(with, of->local_size))
            return FAIL(TUFF_E_LIMIT, "compile: %u items of %" PRId64 " bytes of arrays are more than a thread's stack",
                        of->local_size, of->array_bytes);
        if (takes_long_to_compile(with, of))
            return FAIL(TUFF_E_LIMIT,
                        "compile: a tile of %" PRId64 " bytes is too long a kernel with what is behind it",
                        of->array_bytes);
    }
    return TUFF_OK;
}

/* Where an attempt at a task began. */
typedef struct beginning {
    int launches, buffers, copies;
    uint64_t constant_size;
    choice consulted;
} beginning;

static beginning begin_attempt(const lowered *with)
{
    beginning now = {.launches = with->launch_count,
                     .buffers = with->buffer_count,
                     .copies = with->copy_count,
                     .constant_size = with->constant_size};
    if (with->consulted != NULL)
        now.consulted = *with->consulted;
    return now;
}

/* Drops all that was made since. */
static void go_back(lowered *with, const beginning *to)
{
    while (with->launch_count > to->launches)
        tuff__chain_free(&with->launches[--with->launch_count].chain);
    while (with->copy_count > to->copies)
        tuff__storage_release(with->copies[--with->copy_count].kept);
    with->buffer_count = to->buffers;
    with->constant_size = to->constant_size;
    if (with->consulted != NULL)
        *with->consulted = to->consulted;
}

static tuff_status attempt_task(lowered *with, int index, bool *too_long)
{
    const int first = with->launch_count;
    TRY(lower_task(with, index));
    TRY(check_groups(with, first));
    const launch *of = tuff__find_long_loop(with, first);
    *too_long = of != NULL;
    return of == NULL ? TUFF_OK : tuff__refuse_long_loop(with, of);
}

/* Where the driver would end loops early, with other usual values than those that are best elsewhere. */
static tuff_status shorten_task(lowered *with, int index, const beginning *start)
{
    char reason[400];
    choice usual;
    tuff_status status = TUFF_E_LIMIT;
    (void)snprintf(reason, sizeof reason, "%s", tuff_error());
    for (int i = 0; status == TUFF_E_LIMIT && tuff__shorten_loops(i, &usual); ++i) {
        bool too_long = false;
        go_back(with, start);
        with->usual = &usual;
        status = attempt_task(with, index, &too_long);
    }
    with->usual = NULL;
    return status == TUFF_E_LIMIT ? FAIL(TUFF_E_LIMIT, "%s", reason) : status;
}

tuff_status tuff__lower_task(lowered *with, int index, const choice *what)
{
    const beginning start = begin_attempt(with);
    bool too_long = false;
    with->choice = what;
    tuff_status status = attempt_task(with, index, &too_long);
    if (too_long)
        status = shorten_task(with, index, &start);
    with->choice = NULL;
    return status;
}
