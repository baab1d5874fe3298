/* Launches of matmuls on matrix units: for devices whose self-test multiplied a block right. */
#include "base/checked.h"
#include "compile/lower/loop_count.h"
#include "compile/lower/lower_matmul.h"

enum { SIDE = 16 };

static tuff_status define(const launch_list *list, launch *kernel)
{
    const fused_chain *chain = &kernel->chain;
    text defines = {0};
    tuff__define_plain_load(chain, 0, "LOAD_A", "LOAD", &defines);
    tuff__define_plain_load(chain, 1, "LOAD_B", "LOAD", &defines);
    tuff__text_add(&defines,
                   "#define SUBGROUP_ROWS %d\n#define SUBGROUP_COLUMNS %d\n#define TILE_ROWS %d\n"
                   "#define TILE_COLUMNS %d\n#define STEP_K %d\n#define A_K_CONTIGUOUS %d\n#define B_K_CONTIGUOUS %d\n",
                   tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_subgroup_rows),
                   tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_subgroup_columns),
                   tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_tile_rows),
                   tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_tile_columns),
                   SIDE * tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_step_k),
                   chain->operand_strides[0][1] == 1,
                   chain->operand_strides[1][0] == 1 && chain->operand_strides[1][1] != 1);
    return tuff__keep_defines(kernel, &defines);
}

static tuff_status finish(const launch_list *list, launch *kernel, int64_t inner)
{
    const tuff_device_info *info = list->policy.target.info;
    const fused_chain *chain = &kernel->chain;
    const int down = tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_subgroup_rows),
              across = tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_subgroup_columns);
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    const int64_t row_tiles =
        tuff__divide_up(rows, (int64_t)SIDE * down * tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_tile_rows));
    const int64_t column_tiles = tuff__divide_up(
        columns, (int64_t)SIDE * across * tuff__tuned(&list->policy, TUNABLE_matmul_cooperative_tile_columns));
    kernel->vec = 1;
    kernel->cooperative = info->cooperative_matrix;
    kernel->subgroup_size = info->proved_subgroup_size;
    kernel->local_size = info->proved_subgroup_size * (uint32_t)(down * across);
    kernel->groups = (uint64_t)(row_tiles * column_tiles * batches);
    tuff__set_fixed(kernel,
                    (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches, chain->operand_strides[0][0],
                                chain->operand_strides[0][1], chain->operand_strides[1][0],
                                chain->operand_strides[1][1]},
                    10);
    return define(list, kernel);
}

/* Operands must be f16 in memory. */
static tuff_status suits_matrix_units(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits)
{
    (void)inner;
    if (!list->policy.target.has_subgroup_matrices)
        return FAIL(TUFF_E_UNSUPPORTED, "compile: %s is not proved to have matrix units",
                    list->policy.target.info->selector);
    *suits = !tuff__is_produced(chain, 0) && !tuff__is_produced(chain, 1) &&
             chain->buffers[chain->operand_buffers[0]].dtype == TUFF_F16 &&
             chain->buffers[chain->operand_buffers[1]].dtype == TUFF_F16;
    return TUFF_OK;
}

static tuff_status lower_cooperative(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    launch *kernel = tuff__matmul_launch(list, "matmul_cooperative", index, chain, inner);
    return kernel == NULL ? TUFF_E_OOM_HOST : finish(list, kernel, inner);
}

const matmul_form tuff__matmul_cooperative = {
    .family = TUFF_FAMILY_COOPERATIVE, .suits = suits_matrix_units, .lower = lower_cooperative};

double tuff__loops_matmul_cooperative(const launch *kernel)
{
    const double step = defined(kernel, "STEP_K"), size = kernel->local_size;
    const double rows = SIDE * defined(kernel, "SUBGROUP_ROWS") * defined(kernel, "TILE_ROWS");
    const double columns = SIDE * defined(kernel, "SUBGROUP_COLUMNS") * defined(kernel, "TILE_COLUMNS");
    const double loads = loop(divide_up(step * rows, size), 0) + loop(divide_up(step * columns, size), 0);
    return loop(divide_up(parameter(kernel, 2), greater(step, 1)), loads) + rows * columns;
}
