/* Launches of matmuls on matrix units, for devices whose self-test multiplied a block correctly: units of subgroups,
   then those that a whole work-group shares (VK_NV_cooperative_matrix2), which are tried first. */
#include "base/checked.h"
#include "compile/lower/loop_count.h"
#include "compile/lower/lower_matmul.h"

/* MIN_LINES: rows and columns from which on matrix units pay off. Of a warpgroup: lanes, rows and columns of its
   block. */
enum {
    MIN_LINES = 16,
    WARPGROUP_LANES = 128,
    WARPGROUP_ROWS = 64,
    MIN_WARPGROUP_COLUMNS = 64,
    MAX_WARPGROUP_COLUMNS = 128
};

/* How an operand lies in memory. */
typedef struct operand_form {
    tuff_dtype dtype;
    bool k_contiguous, in_parts; /* see matmul_cooperative.k */
} operand_form;

/* How subgroups and their blocks cover the result. */
typedef struct matrix_tile {
    int shape[3], lanes;  /* of a block of the units */
    bool is_padded;       /* lines of tiles are padded, as in the text for these units */
    bool uses_warpgroups; /* subgroups are warpgroups; the block of each is as wide as its part of the tile */
    int rows, columns, step, buffers, subgroup_rows, subgroup_columns;
    tuff_dtype dtype; /* of the factors */
    operand_form operands[2];
} matrix_tile;

static bool is_wide(const matrix_tile *tile, int operand)
{
    return tile->operands[operand].dtype != tile->dtype;
}

/* Returns an upper bound of the local memory in bytes: tiles of both operands, whose lines are padded by a part unless
   they are swizzled or stored in blocks. The sums are written out through the same memory. */
static uint32_t local_bytes(const matrix_tile *tile)
{
    const uint32_t lines = (uint32_t)(tile->rows + tile->columns), step = (uint32_t)tile->step,
                   own = tile->uses_warpgroups ? (uint32_t)(PIECE_PITCH * tile->subgroup_columns)
                                               : (uint32_t)(tile->columns + 4 * tile->subgroup_columns);
    const uint32_t pads = tile->is_padded ? (lines + 2 * step) * PART : 0;
    const uint32_t tiles = 2 * (uint32_t)tile->buffers * (lines * step + pads);
    const uint32_t results = 4 * (uint32_t)(tile->subgroup_rows * tile->shape[0]) * own;
    return tiles > results ? tiles : results;
}

static operand_form form_of(const launch_list *list, const fused_chain *chain, int operand, int64_t inner)
{
    const int64_t line = chain->operand_strides[operand][operand], term = chain->operand_strides[operand][1 - operand];
    const int64_t lines = chain->extent[chain->rank - 2 + operand];
    operand_form form = {.dtype = chain->buffers[chain->operand_buffers[operand]].dtype,
                         .k_contiguous = term == 1 || (line != 1 && term <= line)};
    const int64_t along = form.k_contiguous ? term : line, across = form.k_contiguous ? line : term;
    /* Parts are addressed forwards; lines that run backwards are loaded by element. */
    form.in_parts = along == 1 && across >= 0 && (form.k_contiguous ? inner : lines) % PART == 0 &&
                    tuff__operand_is_aligned_to(list, chain, operand, chain->rank - 2, across, PART);
    return form;
}

static tuff_dtype factor_dtype(const fused_chain *chain)
{
    const tuff_dtype dtypes[] = {chain->buffers[chain->operand_buffers[0]].dtype,
                                 chain->buffers[chain->operand_buffers[1]].dtype};
    return tuff__factor_dtype(dtypes, 2, chain->factor_precision);
}

/* Halves a side of the tile: its subgroups, or else the part of each. Returns false if it cannot be halved. */
static bool halve(int *side, int *subgroups, int block)
{
    if (*subgroups > 1)
        *subgroups /= 2;
    else if (*side / block % 2 != 0)
        return false;
    *side /= 2;
    return true;
}

/* The same for its columns; the block of a single warpgroup becomes narrower. */
static bool halve_columns(matrix_tile *tile)
{
    if (!tile->uses_warpgroups || tile->subgroup_columns > 1)
        return halve(&tile->columns, &tile->subgroup_columns, tile->shape[1]);
    if (tile->columns == MIN_WARPGROUP_COLUMNS)
        return false;
    tile->shape[1] = tile->columns /= 2;
    return true;
}

static int64_t groups_of(const matrix_tile *tile, int64_t rows, int64_t columns, int64_t batches)
{
    return tuff__divide_up(rows, tile->rows) * tuff__divide_up(columns, tile->columns) * batches;
}

/* Chooses smaller tiles if the matrix is small, or has fewer tiles than the device has processors. */
static void shrink(const launch_list *list, const fused_chain *chain, matrix_tile *tile)
{
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    const int64_t processors = tuff__processors_or_usual(&list->policy);
    bool more = true;
    while (tile->rows / 2 >= rows && halve(&tile->rows, &tile->subgroup_rows, tile->shape[0]))
        continue;
    while (tile->columns / 2 >= columns && halve_columns(tile))
        continue;
    while (more && tile->subgroup_rows * tile->subgroup_columns > 1 &&
           groups_of(tile, rows, columns, batches) < processors)
        more = tile->rows >= tile->columns && tile->subgroup_rows > 1
                   ? halve(&tile->rows, &tile->subgroup_rows, tile->shape[0])
               : tile->subgroup_columns > 1 ? halve_columns(tile)
                                            : halve(&tile->rows, &tile->subgroup_rows, tile->shape[0]);
}

/* Whether the hardware copies tiles to local memory, without registers. */
static bool copies_tiles(const tuff_device_info *info, const matrix_tile *tile)
{
    return info->cooperative_matrix == TUFF_MATRIX_NVIDIA && tile->buffers > 1 && !is_wide(tile, 0) &&
           !is_wide(tile, 1) && tile->operands[0].in_parts && tile->operands[1].in_parts;
}

/* Returns about how many registers a lane needs for its sums and for what it moves to local memory: the words, address
   and place of each part that is on its way, or a part that is loaded by element. */
static int registers_of(const tuff_device_info *info, const matrix_tile *tile)
{
    enum { OF_PART = 6, OF_ELEMENTS = 16 };
    const int lanes = tile->lanes * tile->subgroup_rows * tile->subgroup_columns;
    int registers = tile->rows * tile->columns / lanes;
    for (int i = 0; i < 2 && !copies_tiles(info, tile); ++i)
        registers +=
            tile->operands[i].in_parts
                ? OF_PART * (int)tuff__divide_up((i == 0 ? tile->rows : tile->columns) * tile->step / PART, lanes)
                : OF_ELEMENTS;
    return registers;
}

/* A group that became smaller has fewer lanes for the parts of a step, so it takes shorter steps, or subgroups compute
   less, until registers suffice: MAX_REGISTERS of 256, because factors need the others. LLVM reuses more of them for
   WMMA, but loads the factors of all blocks ahead if a step is a single block of terms. */
static void limit_registers(const tuff_device_info *info, matrix_tile *tile)
{
    enum { MAX_REGISTERS = 168, MAX_WITH_WMMA = 208 };
    const bool is_wmma = info->cooperative_matrix == TUFF_MATRIX_WMMA;
    while (registers_of(info, tile) > (is_wmma ? MAX_WITH_WMMA : MAX_REGISTERS)) {
        const int rows = tile->rows / tile->subgroup_rows, columns = tile->columns / tile->subgroup_columns;
        /* A shorter step helps only if there is room for the sums. */
        const bool fits_sums = rows * columns / tile->lanes < MAX_REGISTERS;
        if (!is_wmma && fits_sums && tile->step / 2 % tile->shape[2] == 0)
            tile->step /= 2;
        else if (rows >= columns && rows / 2 % tile->shape[0] == 0)
            tile->rows /= 2;
        else if (columns / 2 % tile->shape[1] == 0)
            tile->columns /= 2;
        else
            return;
    }
}

static bool fits(const tuff_device_info *info, const matrix_tile *tile)
{
    return local_bytes(tile) <= info->local_memory_size &&
           tile->lanes * tile->subgroup_rows * tile->subgroup_columns <= (int)info->max_group_size;
}

/* Switches to warpgroups on devices that have them, if they can divide the tile and none would be half empty. */
static void try_warpgroups(const launch_list *list, const fused_chain *chain, matrix_tile *tile)
{
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    if (!list->policy.target.info->matrix_warpgroup ||
        !tuff__tunable_value(&list->policy, TUNABLE_matmul_cooperative_warpgroups) || rows <= WARPGROUP_ROWS / 2 ||
        columns <= MIN_WARPGROUP_COLUMNS / 2 || tile->rows % WARPGROUP_ROWS != 0 ||
        (tile->columns != MIN_WARPGROUP_COLUMNS && tile->columns % MAX_WARPGROUP_COLUMNS != 0) ||
        (tile->step != 32 && tile->step != 64))
        return;
    tile->uses_warpgroups = true;
    tile->lanes = WARPGROUP_LANES;
    tile->shape[0] = WARPGROUP_ROWS;
    tile->shape[1] = tile->columns < MAX_WARPGROUP_COLUMNS ? tile->columns : MAX_WARPGROUP_COLUMNS;
    tile->subgroup_rows = tile->rows / WARPGROUP_ROWS;
    tile->subgroup_columns = tile->columns / tile->shape[1];
}

/* Four blocks of a subgroup lie side by side. In Vulkan at least 64 columns: with blocks of 8 columns, products of
   4096 x 4096 take 13 to 21 % less time on an H100 than with four blocks, since each factor is loaded less often. */
static int default_subgroup_columns(const tuff_device_info *info, const matrix_tile *tile)
{
    enum { MIN_COLUMNS = 64 };
    int own = 4 * tile->shape[1];
    if (info->cooperative_matrix <= TUFF_MATRIX_KHR && own < MIN_COLUMNS)
        own = MIN_COLUMNS;
    return tile->columns > own ? tile->columns / own : 1;
}

static tuff_status choose_matrix_tile(const launch_list *list, const fused_chain *chain, int64_t inner,
                                      matrix_tile *out)
{
    const tuff_device_info *info = list->policy.target.info;
    const kernel_policy *policy = &list->policy;
    *out = (matrix_tile){.shape = {(int)info->matrix_shape[0], (int)info->matrix_shape[1], (int)info->matrix_shape[2]},
                         .lanes = tuff__unit_lanes(info),
                         .is_padded = tuff__units_pad(info),
                         .rows = tuff__tunable_value(policy, TUNABLE_matmul_cooperative_block_rows),
                         .columns = tuff__tunable_value(policy, TUNABLE_matmul_cooperative_block_columns),
                         .step = tuff__tunable_value(policy, TUNABLE_matmul_cooperative_step_k),
                         .buffers = tuff__tunable_value(policy, TUNABLE_matmul_cooperative_buffers),
                         .subgroup_rows = tuff__tunable_value(policy, TUNABLE_matmul_cooperative_subgroup_rows),
                         .subgroup_columns = tuff__tunable_value(policy, TUNABLE_matmul_cooperative_subgroup_columns),
                         .dtype = factor_dtype(chain)};
    if (out->subgroup_columns == 0)
        out->subgroup_columns = default_subgroup_columns(info, out);
    for (int i = 0; i < 2; ++i)
        out->operands[i] = form_of(list, chain, i, inner);
    try_warpgroups(list, chain, out);
    if (out->rows % (out->subgroup_rows * out->shape[0]) != 0 ||
        out->columns % (out->subgroup_columns * out->shape[1]) != 0 || out->step % out->shape[2] != 0)
        return FAIL(TUFF_E_LIMIT,
                    "compile: a tile of %d x %d x %d does not divide into blocks of %d x %d x %d for each of "
                    "%d x %d subgroups",
                    out->rows, out->columns, out->step, out->shape[0], out->shape[1], out->shape[2], out->subgroup_rows,
                    out->subgroup_columns);
    const int subgroups = out->subgroup_rows * out->subgroup_columns;
    shrink(list, chain, out);
    if (out->subgroup_rows * out->subgroup_columns < subgroups && !out->uses_warpgroups)
        limit_registers(info, out);
    while (out->buffers > 1 && local_bytes(out) > info->local_memory_size)
        --out->buffers;
    while (!fits(info, out) && (halve(&out->rows, &out->subgroup_rows, out->shape[0]) || halve_columns(out)))
        continue;
    if (!fits(info, out))
        return FAIL(TUFF_E_LIMIT, "compile: a tile of %d x %d, with %u bytes of local memory, is too large for %s",
                    out->rows, out->columns, local_bytes(out), info->selector);
    return TUFF_OK;
}

static void define_operand(const fused_chain *chain, const matrix_tile *tile, int operand, text *out)
{
    const char name = operand == 0 ? 'A' : 'B';
    const int buffer = chain->operand_buffers[operand], bits = is_wide(tile, operand) ? 32 : 16;
    tuff__text_add(
        out,
        "#define LOAD_PART_%c(at, ahead) LOAD_PART_%d(b%d, at, ahead)\n#define LOAD_BITS_%c(i) LOAD_BITS_%d(b%d, i)\n"
        "#define PART_ADDRESS_%c(at, ahead) PART_ADDRESS(b%d, at, ahead)\n#define AT_%c(i) AT_%d(i)\n#define "
        "%c_K_CONTIGUOUS %d\n#define %c_PARTS %d\n",
        name, bits, buffer, name, bits, buffer, name, buffer, name, bits, name, tile->operands[operand].k_contiguous,
        name, tile->operands[operand].in_parts);
}

static tuff_status define(const tuff_device_info *info, launch *kernel, const matrix_tile *tile, int64_t inner)
{
    text defines = {0};
    define_operand(&kernel->chain, tile, 0, &defines);
    define_operand(&kernel->chain, tile, 1, &defines);
    tuff__text_add(&defines,
                   "#define MATRIX_M %d\n#define MATRIX_N %d\n#define MATRIX_K %d\n#define MATRIX_BF16 %d\n#define "
                   "MATRIX_LANES %d\n"
                   "#define BLOCK_ROWS %d\n#define BLOCK_COLUMNS %d\n#define STEP_K %d\n#define BUFFERS %d\n"
                   "#define SUBGROUP_ROWS %d\n#define SUBGROUP_COLUMNS %d\n#define K_TAIL %d\n#define ASYNC_COPY %d\n"
                   "#define MATRIX_WARPGROUP %d\n#define COLUMN_TAIL %d\n",
                   tile->shape[0], tile->shape[1], tile->shape[2], tile->dtype == TUFF_BF16, tile->lanes, tile->rows,
                   tile->columns, tile->step, tile->buffers, tile->subgroup_rows, tile->subgroup_columns,
                   inner % tile->step != 0, copies_tiles(info, tile), tile->uses_warpgroups,
                   kernel->chain.extent[kernel->chain.rank - 1] % kernel->vec != 0);
    return tuff__set_defines(kernel, &defines);
}

/* Results of 16 bits leave in vectors of 16 bytes if all vectors of the epilogue are then aligned. GLSL has none of
   eight elements. */
static int epilogue_vector(const launch_list *list, const fused_chain *chain)
{
    enum { LANES = 4, NARROW_LANES = 8 };
    const int axis = chain->rank - 1;
    bool has_narrow = false, aligned = chain->extent[axis] % NARROW_LANES == 0;
    for (int i = 0; i < chain->value_count; ++i)
        if (chain->values[i].kind == VALUE_LOAD)
            aligned &= tuff__keeps_to_multiples(chain, &chain->values[i].address, axis, NARROW_LANES);
    for (int i = 0; i < chain->output_count; ++i) {
        has_narrow |= tuff_dtype_size(chain->buffers[chain->outputs[i].buffer].dtype) == 2;
        aligned &= tuff__keeps_to_multiples(chain, &chain->outputs[i].address, axis, NARROW_LANES);
    }
    return has_narrow && aligned && !list->policy.target.items_are_lanes ? NARROW_LANES : LANES;
}

static tuff_status finish(const launch_list *list, launch *kernel, const matrix_tile *tile, int64_t inner)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    tuff__use_units(kernel, list->policy.target.info, tile->lanes);
    kernel->vec = epilogue_vector(list, chain);
    kernel->local_size = (uint32_t)(tile->lanes * tile->subgroup_rows * tile->subgroup_columns);
    kernel->local_bytes = local_bytes(tile);
    kernel->groups = (uint64_t)groups_of(tile, rows, columns, batches);
    tuff__set_parameters(kernel,
                         (int64_t[]){rows, columns, inner, tuff__divide_up(rows, tile->rows),
                                     tuff__divide_up(columns, tile->columns), batches, tuff__choose_band(&list->policy),
                                     chain->operand_strides[0][0], chain->operand_strides[0][1],
                                     chain->operand_strides[1][0], chain->operand_strides[1][1]},
                         11);
    return define(list->policy.target.info, kernel, tile, inner);
}

/* Accepts operands of 16 bits, or those that the plan's precision rounds to 16 bits. Small matrices are left to other
   forms unless the family is requested. */
static tuff_status suits_matrix_units(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits)
{
    const target *device = &list->policy.target;
    const bool requested = tuff__family(&list->policy) == TUFF_FAMILY_COOPERATIVE;
    *suits = false;
    if (!device->has_subgroup_matrices)
        return !requested ? TUFF_OK
                          : FAIL(TUFF_E_UNSUPPORTED, "compile: the self-test found no working matrix units on %s",
                                 device->info->selector);
    *suits =
        !tuff__is_produced(chain, 0) && !tuff__is_produced(chain, 1) &&
        tuff__units_multiply(device->info, factor_dtype(chain)) && inner > 0 &&
        (requested || (chain->extent[chain->rank - 2] >= MIN_LINES && chain->extent[chain->rank - 1] >= MIN_LINES));
    return TUFF_OK;
}

static tuff_status lower_cooperative(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    matrix_tile tile;
    TRY(choose_matrix_tile(list, chain, inner, &tile));
    launch *kernel = tuff__matmul_launch(list, "matmul_cooperative", index, chain, inner);
    return kernel == NULL ? TUFF_E_OOM_HOST : finish(list, kernel, &tile, inner);
}

const matmul_form tuff__matmul_cooperative = {
    .family = TUFF_FAMILY_COOPERATIVE, .is_default = true, .suits = suits_matrix_units, .lower = lower_cooperative};

/* Counts the steps, and the loops over blocks and vectors that are written out. */
double tuff__loops_matmul_cooperative(const launch *kernel)
{
    const double rows = quotient(defined(kernel, "BLOCK_ROWS"), greater(defined(kernel, "SUBGROUP_ROWS"), 1));
    const double columns = quotient(defined(kernel, "BLOCK_COLUMNS"), greater(defined(kernel, "SUBGROUP_COLUMNS"), 1));
    const double blocks = quotient(rows, greater(defined(kernel, "MATRIX_M"), 1));
    const double vectors = divide_up(quotient(defined(kernel, "MATRIX_M") * columns, kernel->vec),
                                     greater(defined(kernel, "MATRIX_LANES"), 1));
    return loop(quotient(parameter(kernel, 2), greater(defined(kernel, "STEP_K"), 1)), 0) +
           loop(blocks, loop(vectors, kernel->vec));
}

/* Of a work-group that shares units. SMALL_GROUP, LARGE_GROUP: items. LARGE_TILE: sums from which on a group is large.
   MAX_ITEM_SUMS: more leave too few registers for factors. MIN_GROUP_ROWS, MIN_GROUP_COLUMNS: of a tile. */
enum {
    SMALL_GROUP = 128,
    LARGE_GROUP = 256,
    LARGE_TILE = 128 * 128,
    MAX_ITEM_SUMS = 128,
    MIN_GROUP_ROWS = 32,
    MIN_GROUP_COLUMNS = 64
};

/* How an operand lies in memory. */
typedef struct tensor_form {
    bool is_usable, k_contiguous, is_aligned; /* see matmul_workgroup.k */
} tensor_form;

typedef struct group_tile {
    int rows, columns, step, items;
} group_tile;

/* Returns the sizes of groups that multiply the dtype, as in tuff_device_info. */
static uint32_t group_sizes(const tuff_device_info *info, tuff_dtype dtype)
{
    return dtype == TUFF_F16 ? info->matrix_group_sizes : dtype == TUFF_BF16 ? info->matrix_group_sizes_bf16 : 0;
}

static tensor_form tensor_form_of(const launch_list *list, const fused_chain *chain, int operand, int64_t inner)
{
    const int64_t line = chain->operand_strides[operand][operand], term = chain->operand_strides[operand][1 - operand];
    const int64_t lines = chain->extent[chain->rank - 2 + operand];
    const bool k_contiguous = term == 1 && line != 1;
    const int64_t along = k_contiguous ? term : line, across = k_contiguous ? line : term;
    /* Lines may have any distance, but must not overlap. */
    return (tensor_form){.is_usable = along == 1 && across >= (k_contiguous ? inner : lines) &&
                                      tuff__operand_is_aligned_to(list, chain, operand, chain->rank - 2, PART, PART),
                         .k_contiguous = k_contiguous,
                         .is_aligned = across % PART == 0};
}

static tuff_dtype operand_dtype(const fused_chain *chain, int operand)
{
    return chain->buffers[chain->operand_buffers[operand]].dtype;
}

/* Whether no buffer is both read and written, since the epilogue of a sum may be computed twice. */
static bool can_repeat_epilogue(const fused_chain *chain)
{
    for (int i = 0; i < chain->buffer_count; i++)
        for (int k = 0; k < chain->buffer_count; k++)
            if (chain->buffers[i].written && chain->buffers[k].read && chain->buffers[i].id == chain->buffers[k].id)
                return false;
    return true;
}

static tuff_status suits_groups(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits)
{
    const target *device = &list->policy.target;
    const tuff_dtype dtype = operand_dtype(chain, 0);
    *suits = device->has_subgroup_matrices && device->info->cooperative_matrix == TUFF_MATRIX_KHR &&
             group_sizes(device->info, dtype) != 0 && operand_dtype(chain, 1) == dtype && inner > 0 &&
             !tuff__is_produced(chain, 0) && !tuff__is_produced(chain, 1) &&
             chain->extent[chain->rank - 2] > MIN_GROUP_ROWS / 2 &&
             chain->extent[chain->rank - 1] > MIN_GROUP_COLUMNS / 2 && can_repeat_epilogue(chain) &&
             tensor_form_of(list, chain, 0, inner).is_usable && tensor_form_of(list, chain, 1, inner).is_usable &&
             tuff__tunable_value(&list->policy, TUNABLE_matmul_workgroup_enabled);
    return TUFF_OK;
}

static int64_t group_count(const fused_chain *chain, const group_tile *tile)
{
    return tuff__divide_up(chain->extent[chain->rank - 2], tile->rows) *
           tuff__divide_up(chain->extent[chain->rank - 1], tile->columns) * tuff__batch_count(chain, chain->rank - 2);
}

/* Chooses smaller tiles if the matrix is small, or has fewer tiles than the device has processors. */
static void shrink_group_tile(const launch_list *list, const fused_chain *chain, group_tile *tile)
{
    const int64_t processors = tuff__processors_or_usual(&list->policy);
    while (tile->rows / 2 >= chain->extent[chain->rank - 2] && tile->rows > MIN_GROUP_ROWS)
        tile->rows /= 2;
    while (tile->columns / 2 >= chain->extent[chain->rank - 1] && tile->columns > MIN_GROUP_COLUMNS)
        tile->columns /= 2;
    while (tile->rows * tile->columns > MIN_GROUP_COLUMNS * MIN_GROUP_COLUMNS && group_count(chain, tile) < processors)
        if (tile->rows >= tile->columns)
            tile->rows /= 2;
        else
            tile->columns /= 2;
}

/* Chooses the size of groups by that of the tile, and the other one if the device lacks it. */
static int choose_items(uint32_t sizes, const group_tile *tile)
{
    const int wanted = tile->rows * tile->columns >= LARGE_TILE ? LARGE_GROUP : SMALL_GROUP;
    return sizes & (uint32_t)wanted ? wanted : SMALL_GROUP + LARGE_GROUP - wanted;
}

static tuff_status choose_group_tile(const launch_list *list, const fused_chain *chain, group_tile *out)
{
    const kernel_policy *policy = &list->policy;
    *out = (group_tile){.rows = tuff__tunable_value(policy, TUNABLE_matmul_workgroup_block_rows),
                        .columns = tuff__tunable_value(policy, TUNABLE_matmul_workgroup_block_columns),
                        .step = tuff__tunable_value(policy, TUNABLE_matmul_workgroup_step_k)};
    shrink_group_tile(list, chain, out);
    out->items = choose_items(group_sizes(policy->target.info, operand_dtype(chain, 0)), out);
    if (out->rows * out->columns <= MAX_ITEM_SUMS * out->items)
        return TUFF_OK;
    return FAIL(TUFF_E_LIMIT, "compile: a tile of %d x %d has more than %d sums for each of %d items", out->rows,
                out->columns, MAX_ITEM_SUMS, out->items);
}

static tuff_status define_groups(const launch_list *list, launch *kernel, const group_tile *tile, int64_t inner)
{
    const fused_chain *chain = &kernel->chain;
    const tensor_form a = tensor_form_of(list, chain, 0, inner), b = tensor_form_of(list, chain, 1, inner);
    text defines = {0};
    tuff__text_add(&defines,
                   "#define A_BUFFER b%d_q\n#define B_BUFFER b%d_q\n#define A_K_CONTIGUOUS %d\n#define B_K_CONTIGUOUS "
                   "%d\n#define A_ALIGNED %d\n#define B_ALIGNED %d\n#define MATRIX_BF16 %d\n#define BLOCK_ROWS %d\n"
                   "#define BLOCK_COLUMNS %d\n#define STEP_K %d\n#define UNROLL_STEPS %d\n",
                   chain->operand_buffers[0], chain->operand_buffers[1], a.k_contiguous, b.k_contiguous, a.is_aligned,
                   b.is_aligned, operand_dtype(chain, 0) == TUFF_BF16, tile->rows, tile->columns, tile->step,
                   tuff__tunable_value(&list->policy, TUNABLE_matmul_workgroup_unroll));
    return tuff__set_defines(kernel, &defines);
}

static tuff_status lower_groups(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    group_tile tile;
    TRY(choose_group_tile(list, chain, &tile));
    launch *kernel = tuff__matmul_launch(list, "matmul_workgroup", index, chain, inner);
    if (kernel == NULL)
        return TUFF_E_OOM_HOST;
    const fused_chain *own = &kernel->chain;
    const int64_t rows = own->extent[own->rank - 2], columns = own->extent[own->rank - 1];
    tuff__use_units(kernel, list->policy.target.info, tuff__unit_lanes(list->policy.target.info));
    kernel->cooperative = TUFF_MATRIX_NV2;
    kernel->local_size = (uint32_t)tile.items;
    kernel->groups = (uint64_t)group_count(own, &tile);
    tuff__set_parameters(
        kernel,
        (int64_t[]){rows, columns, inner, tuff__divide_up(rows, tile.rows), tuff__divide_up(columns, tile.columns),
                    tuff__batch_count(own, own->rank - 2), tuff__choose_band(&list->policy), own->operand_strides[0][0],
                    own->operand_strides[0][1], own->operand_strides[1][0], own->operand_strides[1][1]},
        11);
    return define_groups(list, kernel, &tile, inner);
}

const matmul_form tuff__matmul_workgroup = {
    .family = TUFF_FAMILY_COOPERATIVE, .is_default = true, .suits = suits_groups, .lower = lower_groups};

/* Counts the steps, in up to three loops. */
double tuff__loops_matmul_workgroup(const launch *kernel)
{
    return loop(divide_up(parameter(kernel, 2), greater(defined(kernel, "STEP_K"), 1)), 0) + 2;
}
