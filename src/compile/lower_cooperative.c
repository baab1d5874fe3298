/* Launches of matmuls on matrix units: for devices whose self-test multiplied a block right. */
#include "compile/lower_matmul.h"

enum { SIDE = 16 };

static tuff_status define(const lowered *with, launch *of)
{
    const fused_chain *chain = &of->chain;
    text defines = {0};
    tuff__define_plain_load(chain, 0, "LOAD_A", "LOAD", &defines);
    tuff__define_plain_load(chain, 1, "LOAD_B", "LOAD", &defines);
    tuff__text_add(&defines,
                   "#define SUBGROUP_ROWS %d\n#define SUBGROUP_COLUMNS %d\n#define TILE_ROWS %d\n"
                   "#define TILE_COLUMNS %d\n#define STEP_K %d\n#define A_K_CONTIGUOUS %d\n#define B_K_CONTIGUOUS %d\n",
                   tuff__tuned(with, TUNABLE_matmul_cooperative_subgroup_rows),
                   tuff__tuned(with, TUNABLE_matmul_cooperative_subgroup_columns),
                   tuff__tuned(with, TUNABLE_matmul_cooperative_tile_rows),
                   tuff__tuned(with, TUNABLE_matmul_cooperative_tile_columns),
                   SIDE * tuff__tuned(with, TUNABLE_matmul_cooperative_step_k), chain->operand_strides[0][1] == 1,
                   chain->operand_strides[1][0] == 1 && chain->operand_strides[1][1] != 1);
    return tuff__keep_defines(of, &defines);
}

static tuff_status finish(const lowered *with, launch *of, int64_t inner)
{
    const tuff_device_info *info = tuff__device_info(with->device);
    const fused_chain *chain = &of->chain;
    const int down = tuff__tuned(with, TUNABLE_matmul_cooperative_subgroup_rows),
              across = tuff__tuned(with, TUNABLE_matmul_cooperative_subgroup_columns);
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    const int64_t row_tiles =
        tuff__divide_up(rows, (int64_t)SIDE * down * tuff__tuned(with, TUNABLE_matmul_cooperative_tile_rows));
    const int64_t column_tiles =
        tuff__divide_up(columns, (int64_t)SIDE * across * tuff__tuned(with, TUNABLE_matmul_cooperative_tile_columns));
    of->vec = 1;
    of->cooperative = info->cooperative_matrix;
    of->subgroup_size = info->proved_subgroup_size;
    of->local_size = info->proved_subgroup_size * (uint32_t)(down * across);
    of->groups = (uint64_t)(row_tiles * column_tiles * batches);
    tuff__set_fixed(of,
                    (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches, chain->operand_strides[0][0],
                                chain->operand_strides[0][1], chain->operand_strides[1][0],
                                chain->operand_strides[1][1]},
                    10);
    return define(with, of);
}

tuff_status tuff__lower_cooperative(lowered *with, int index, fused_chain *chain, int64_t inner, bool *taken)
{
    const tuff_device_info *info = tuff__device_info(with->device);
    if (!tuff__is_vulkan(with) || info->cooperative_matrix == 0 || info->proved_subgroup_size == 0) {
        tuff__chain_free(chain);
        return FAIL(TUFF_E_UNSUPPORTED, "compile: %s is not proved to have matrix units", info->selector);
    }
    *taken = !tuff__is_produced(chain, 0) && !tuff__is_produced(chain, 1) &&
             chain->buffers[chain->operand_buffers[0]].dtype == TUFF_F16 &&
             chain->buffers[chain->operand_buffers[1]].dtype == TUFF_F16;
    if (!*taken)
        return TUFF_OK;
    launch *of = tuff__matmul_launch(with, "matmul_cooperative", index, chain, inner);
    return of == NULL ? TUFF_E_OOM_HOST : finish(with, of, inner);
}
