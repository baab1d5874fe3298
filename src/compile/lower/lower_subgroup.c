/* Launches of matmuls whose lanes share registers, for devices whose self-test proved that they can. */
#include "base/checked.h"
#include "compile/lower/loop_count.h"
#include "compile/lower/lower_matmul.h"

/* How the lanes of a subgroup and their accumulators cover the result. */
struct lanes {
    int width, lane_rows, tile_rows, tile_columns, subgroups;
};

static int64_t columns_of(const struct lanes *form)
{
    return (int64_t)form->width / form->lane_rows * form->tile_columns * 4;
}

/* Reads the tunables, and reduces them for small matrices: lanes move from columns to rows, and accumulators are
   dropped. */
static struct lanes choose_lanes(const launch_list *list, int width, int64_t rows, int64_t columns)
{
    struct lanes best = {.width = width,
                         .lane_rows = tuff__tunable_value(&list->policy, TUNABLE_matmul_subgroup_lane_rows),
                         .tile_rows = tuff__tunable_value(&list->policy, TUNABLE_matmul_subgroup_tile_rows),
                         .tile_columns = tuff__tunable_value(&list->policy, TUNABLE_matmul_subgroup_tile_columns),
                         .subgroups = tuff__tunable_value(&list->policy, TUNABLE_matmul_subgroup_subgroups)};
    const int64_t most = list->policy.target.info->max_group_size;
    while (best.lane_rows > width)
        best.lane_rows /= 2;
    while (best.tile_columns > 1 && columns_of(&best) / 2 >= columns)
        best.tile_columns /= 2;
    while (best.lane_rows < width && columns_of(&best) / 2 >= columns) {
        best.lane_rows *= 2;
        best.tile_rows = best.tile_rows > 4 ? best.tile_rows / 2 : best.tile_rows;
    }
    while (best.tile_rows > 1 && best.tile_rows / 2 * best.lane_rows >= rows)
        best.tile_rows /= 2;
    while (best.subgroups > 1 &&
           (best.subgroups * width > most || best.subgroups / 2 * best.tile_rows * best.lane_rows >= rows))
        best.subgroups /= 2;
    return best;
}

static tuff_status define(const launch_list *list, launch *kernel, const struct lanes *lanes, bool packed)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t columns = chain->extent[chain->rank - 1];
    const bool tail = columns % columns_of(lanes) != 0;
    const bool aligned =
        packed || ((columns % 4 == 0 || !tail) &&
                   tuff__operand_is_aligned(list, chain, 1, chain->rank - 2, chain->operand_strides[1][0]));
    text defines = {0};
    tuff__define_load(chain, 0, "LOAD_A", "LOAD", &defines);
    tuff__define_load(chain, 1, "LOADV_B", aligned ? "LOADV" : "LOADU", &defines);
    tuff__text_add(&defines,
                   "#define MANY_SUMS\n#define LANE_ROWS %d\n#define TILE_ROWS %d\n#define TILE_COLUMNS %d\n"
                   "#define PACKED_B %d\n#define COLUMN_TAIL %d\n#define A_ROW_CONTIGUOUS %d\n",
                   lanes->lane_rows, lanes->tile_rows, lanes->tile_columns, packed, tail,
                   chain->operand_strides[0][0] == 1 && chain->operand_strides[0][1] != 1);
    return tuff__set_defines(kernel, &defines);
}

static tuff_status finish(const launch_list *list, launch *kernel, const struct lanes *lanes, int64_t inner,
                          bool packed)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    const int64_t row_tiles = tuff__divide_up(rows, (int64_t)lanes->subgroups * lanes->lane_rows * lanes->tile_rows);
    const int64_t column_tiles = tuff__divide_up(columns, columns_of(lanes));
    kernel->vec = 4;
    kernel->subgroup_size = (uint32_t)lanes->width;
    tuff__set_tile(kernel, lanes->tile_rows, lanes->tile_columns, (double)inner);
    kernel->local_size = (uint32_t)(lanes->width * lanes->subgroups);
    kernel->groups = (uint64_t)(row_tiles * column_tiles * batches);
    tuff__set_parameters(kernel,
                         (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches,
                                     chain->operand_strides[0][0], chain->operand_strides[0][1],
                                     chain->operand_strides[1][0], inner * columns_of(lanes)},
                         10);
    return define(list, kernel, lanes, packed);
}

static tuff_status suits_subgroups(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits)
{
    (void)chain, (void)inner;
    const tuff_device_info *info = list->policy.target.info;
    const uint32_t width = info->proved_subgroup_size;
    if (!info->subgroup_shuffle || width < 2 || (width & (width - 1)) != 0)
        return FAIL(TUFF_E_UNSUPPORTED, "compile: the self-test found no working subgroup shuffles on %s",
                    info->selector);
    *suits = true;
    return TUFF_OK;
}

static tuff_status lower_subgroup(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    const int64_t columns = chain->extent[chain->rank - 1];
    const struct lanes lanes = choose_lanes(list, (int)list->policy.target.info->proved_subgroup_size,
                                            chain->extent[chain->rank - 2], columns);
    const bool packed = (chain->operand_strides[1][1] != 1 || columns < 4) && columns > 0;
    if (packed)
        TRY(tuff__pack_operand(list, index, chain, 1, inner, columns_of(&lanes), 4));
    launch *kernel = tuff__matmul_launch(list, "matmul_subgroup", index, chain, inner);
    return kernel == NULL ? TUFF_E_OOM_HOST : finish(list, kernel, &lanes, inner, packed);
}

const matmul_form tuff__matmul_subgroup = {
    .family = TUFF_FAMILY_SUBGROUP, .suits = suits_subgroups, .lower = lower_subgroup};

/* The loop over terms that lanes pass to each other is unrolled if all lanes of a subgroup lie in one row and the terms
   are few. */
double tuff__loops_matmul_subgroup(const launch *kernel)
{
    enum { MAX_UNROLLED = 16 };
    const double inner = parameter(kernel, 2), rows = greater(defined(kernel, "LANE_ROWS"), 1);
    const double step =
        defined(kernel, "A_ROW_CONTIGUOUS") != 0 ? 1 : greater(quotient(kernel->subgroup_size, rows), 1);
    const double handed = rows == 1 && step <= MAX_UNROLLED ? 0 : loop(step, 0);
    return loop(quotient(inner, step), handed) + loop(remainder_of(inner, step), 0) +
           count_elements(kernel, "TILE_ROWS", "TILE_COLUMNS");
}
