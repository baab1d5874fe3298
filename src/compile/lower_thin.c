/* Matmuls of few rows or few columns on CPU devices behind OpenCL: bound by the reading of the large operand, so that
   its layout decides which kernel streams it. No copies are made. */
#include "compile/lower_matmul.h"

/* Fewer rows than this are few; with up to MOST_DOTS a copy of y for one run would cost more than it saves. From
   STREAMED bytes on y comes from memory, which one stream at a time reads fastest. */
enum { FEW_ROWS = 8, MOST_DOTS = 16, STREAMED = 2 << 20 };

/* Items enough for all cores to finish together. */
static int64_t wanted_items(const lowered *with)
{
    const int64_t cores = tuff__device_info(with->device)->compute_units;
    return 4 * (cores > 0 ? cores : 1);
}

static tuff_status define_thin(launch *of, int rows, int columns, int step)
{
    static const char *const names[2][2] = {{"LOAD_A", "LOADV_A"}, {"LOAD_B", "LOADV_B"}};
    text defines = {0};
    for (int i = 0; i < 2; ++i) {
        tuff__define_load(&of->chain, i, names[i][0], "LOAD", &defines);
        tuff__define_load(&of->chain, i, names[i][1], "LOADU", &defines);
    }
    tuff__text_add(&defines, "#define TILE_ROWS %d\n#define FUSED_MULTIPLY_ADD 1\n", rows);
    if (step > 0)
        tuff__text_add(&defines, "#define SPAN %d\n#define STEP_K %d\n", columns, step);
    else
        tuff__text_add(&defines, "#define TILE_COLUMNS %d\n", columns);
    return tuff__keep_defines(of, &defines);
}

/* Columns side by side: long stretches of them. */
static tuff_status lower_spans(const lowered *with, launch *of, int64_t inner)
{
    const fused_chain *chain = &of->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    const int most = tuff__tuned(with, TUNABLE_matmul_thin_span) / (int)rows;
    const int64_t wanted = tuff__divide_up(wanted_items(with), batches);
    int64_t span = columns / of->vec / wanted;
    span = span < 1 ? 1 : span > most ? most : span;
    const int64_t tiles = tuff__divide_up(columns, span * of->vec);
    of->body = "matmul_thin";
    of->local_size = 1;
    of->groups = (uint64_t)(tiles * batches);
    tuff__set_fixed(of,
                    (int64_t[]){columns, inner, tiles, batches, chain->operand_strides[0][0],
                                chain->operand_strides[0][1], chain->operand_strides[1][0]},
                    7);
    return define_thin(of, (int)rows, (int)span, tuff__tuned(with, TUNABLE_matmul_thin_step_k));
}

/* Terms side by side: inner products. */
static tuff_status lower_dots(launch *of, int64_t inner)
{
    const fused_chain *chain = &of->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    const int64_t y_size = columns * inner * (int64_t)tuff_dtype_size(chain->buffers[chain->operand_buffers[1]].dtype);
    const int side_by_side = rows == 1 ? 8 : rows < 5 || rows >= FEW_ROWS ? 4 : 2;
    const int tile_columns = columns == 1 || (y_size >= STREAMED && rows < FEW_ROWS) ? 1 : side_by_side;
    const int tile_rows = rows < FEW_ROWS ? (int)rows : columns == 1 ? FEW_ROWS : 4;
    const int64_t row_tiles = tuff__divide_up(rows, tile_rows), column_tiles = tuff__divide_up(columns, tile_columns);
    of->body = "matmul_dot";
    of->local_size = row_tiles * column_tiles * batches < 64 ? 1 : 4;
    of->groups = (uint64_t)tuff__divide_up(row_tiles * column_tiles * batches, of->local_size);
    tuff__set_fixed(of,
                    (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches, chain->operand_strides[0][0],
                                chain->operand_strides[1][1]},
                    8);
    return define_thin(of, tile_rows, tile_columns, 0);
}

tuff_status tuff__lower_thin(lowered *with, launch *of, int64_t inner, bool *taken)
{
    const fused_chain *chain = &of->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t *x = chain->operand_strides[0], *y = chain->operand_strides[1];
    of->vec = tuff__native_lanes(with);
    const bool dots = x[1] == 1 && y[0] == 1 && inner >= 2 * of->vec;
    const bool no_copy = rows < FEW_ROWS || (rows <= MOST_DOTS && !tuff__packing_is_kept(with, chain, 1));
    *taken = true;
    if (dots && (columns == 1 || (y[1] != 1 && no_copy)))
        return lower_dots(of, inner);
    if (rows < FEW_ROWS && y[1] == 1 && columns >= 2 * of->vec)
        return lower_spans(with, of, inner);
    *taken = false;
    return TUFF_OK;
}
