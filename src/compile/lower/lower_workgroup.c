/* Launches of matmuls on matrix units that a whole work-group shares (VK_NV_cooperative_matrix2), for devices whose
   self-test proved them. Whatever they cannot load is left to lower_cooperative.c. */
#include "base/checked.h"
#include "compile/lower/loop_count.h"
#include "compile/lower/lower_matmul.h"

/* SMALL_GROUP, LARGE_GROUP: items of a group. LARGE_TILE: sums from which on a group is large. MAX_ITEM_SUMS: more leave
   too few registers for factors. LEAST_ROWS, LEAST_COLUMNS: of a tile. */
enum {
    SMALL_GROUP = 128,
    LARGE_GROUP = 256,
    LARGE_TILE = 128 * 128,
    MAX_ITEM_SUMS = 128,
    LEAST_ROWS = 32,
    LEAST_COLUMNS = 64
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

static tensor_form form_of(const launch_list *list, const fused_chain *chain, int operand, int64_t inner)
{
    const int64_t line = chain->operand_strides[operand][operand], term = chain->operand_strides[operand][1 - operand];
    const int64_t lines = chain->extent[chain->rank - 2 + operand];
    const bool k_contiguous = term == 1 && (line != 1 || lines == 1);
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
             chain->extent[chain->rank - 2] > LEAST_ROWS / 2 && chain->extent[chain->rank - 1] > LEAST_COLUMNS / 2 &&
             can_repeat_epilogue(chain) && form_of(list, chain, 0, inner).is_usable &&
             form_of(list, chain, 1, inner).is_usable &&
             tuff__tunable_value(&list->policy, TUNABLE_matmul_workgroup_enabled);
    return TUFF_OK;
}

static int64_t groups_of(const fused_chain *chain, const group_tile *tile)
{
    return tuff__divide_up(chain->extent[chain->rank - 2], tile->rows) *
           tuff__divide_up(chain->extent[chain->rank - 1], tile->columns) * tuff__batch_count(chain, chain->rank - 2);
}

/* Chooses smaller tiles if the matrix is small, or has fewer tiles than the device has processors. */
static void shrink(const launch_list *list, const fused_chain *chain, group_tile *tile)
{
    const int64_t processors = tuff__processors_or_usual(&list->policy);
    while (tile->rows / 2 >= chain->extent[chain->rank - 2] && tile->rows > LEAST_ROWS)
        tile->rows /= 2;
    while (tile->columns / 2 >= chain->extent[chain->rank - 1] && tile->columns > LEAST_COLUMNS)
        tile->columns /= 2;
    while (tile->rows * tile->columns > LEAST_COLUMNS * LEAST_COLUMNS && groups_of(chain, tile) < processors)
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
    shrink(list, chain, out);
    out->items = choose_items(group_sizes(policy->target.info, operand_dtype(chain, 0)), out);
    if (out->rows * out->columns <= MAX_ITEM_SUMS * out->items)
        return TUFF_OK;
    return FAIL(TUFF_E_LIMIT, "compile: a tile of %d x %d has more than %d sums for each of %d items", out->rows,
                out->columns, MAX_ITEM_SUMS, out->items);
}

static tuff_status define(const launch_list *list, launch *kernel, const group_tile *tile, int64_t inner)
{
    const fused_chain *chain = &kernel->chain;
    const tensor_form a = form_of(list, chain, 0, inner), b = form_of(list, chain, 1, inner);
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
    kernel->groups = (uint64_t)groups_of(own, &tile);
    tuff__set_parameters(
        kernel,
        (int64_t[]){rows, columns, inner, tuff__divide_up(rows, tile.rows), tuff__divide_up(columns, tile.columns),
                    tuff__batch_count(own, own->rank - 2), tuff__choose_band(&list->policy), own->operand_strides[0][0],
                    own->operand_strides[0][1], own->operand_strides[1][0], own->operand_strides[1][1]},
        11);
    return define(list, kernel, &tile, inner);
}

const matmul_form tuff__matmul_workgroup = {
    .family = TUFF_FAMILY_COOPERATIVE, .is_default = true, .suits = suits_groups, .lower = lower_groups};

/* Counts the steps, in up to three loops. */
double tuff__loops_matmul_workgroup(const launch *kernel)
{
    return loop(divide_up(parameter(kernel, 2), greater(defined(kernel, "STEP_K"), 1)), 0) + 2;
}
