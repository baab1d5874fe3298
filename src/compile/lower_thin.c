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
    text defines = {0};
    tuff__define_load(&of->chain, 0, "LOAD_A", "LOAD", &defines);
    tuff__define_load(&of->chain, 1, "LOADV_B", "LOADU", &defines);
    if (step == 0) {
        tuff__define_load(&of->chain, 0, "LOADV_A", "LOADU", &defines);
        tuff__define_load(&of->chain, 1, "LOAD_B", "LOAD", &defines);
    }
    tuff__text_add(&defines, "#define TILE_ROWS %d\n#define FUSED_MULTIPLY_ADD 1\n", rows);
    if (step > 0)
        tuff__text_add(&defines, "#define SPAN %d\n#define STEP_K %d\n", columns, step);
    else
        tuff__text_add(&defines, "#define TILE_COLUMNS %d\n", columns);
    return tuff__keep_defines(of, &defines);
}

/* The vectors of columns of an item. */
static int64_t span_of(const lowered *with, const fused_chain *chain, int vec)
{
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t wanted = tuff__divide_up(wanted_items(with), tuff__batch_count(chain, chain->rank - 2));
    const int64_t most = tuff__tuned(with, TUNABLE_matmul_thin_span) / rows, share = columns / vec / wanted;
    const int64_t span = share < most ? share : most;
    return span < 1 ? 1 : span;
}

/* Columns side by side: long stretches of them. */
static tuff_status lower_spans(const lowered *with, launch *of, int64_t inner)
{
    const fused_chain *chain = &of->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    const int64_t span = span_of(with, chain, of->vec);
    const int64_t tiles = tuff__divide_up(columns, span * of->vec);
    of->body = "matmul_thin";
    of->local_size = (uint32_t)tuff__tuned(with, TUNABLE_matmul_thin_local_size);
    of->groups = (uint64_t)tuff__divide_up(tiles * batches, of->local_size);
    const int step = tuff__tuned(with, TUNABLE_matmul_thin_step_k);
    of->array_bytes = (int64_t)sizeof(float) * of->vec * rows * (span + step + 1);
    tuff__set_fixed(of,
                    (int64_t[]){columns, inner, tiles, batches, chain->operand_strides[0][0],
                                chain->operand_strides[0][1], chain->operand_strides[1][0]},
                    7);
    return define_thin(of, (int)rows, (int)span, step);
}

/* The rows and columns of an item of inner products. */
static void choose_dots(const lowered *with, const fused_chain *chain, int64_t inner, int *tile_rows, int *tile_columns)
{
    const int tuned_rows = tuff__tuned(with, TUNABLE_matmul_dot_tile_rows);
    const int tuned_columns = tuff__tuned(with, TUNABLE_matmul_dot_tile_columns);
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t y_size = columns * inner * (int64_t)tuff_dtype_size(chain->buffers[chain->operand_buffers[1]].dtype);
    const int side_by_side = rows == 1 ? 8 : rows < 5 || rows >= FEW_ROWS ? 4 : 2;
    *tile_columns = columns == 1 || (y_size >= STREAMED && rows < FEW_ROWS) ? 1 : side_by_side;
    *tile_rows = rows < FEW_ROWS ? (int)rows : columns == 1 ? FEW_ROWS : 4;
    if (tuned_rows > 0)
        *tile_rows = tuned_rows < rows ? tuned_rows : (int)rows;
    if (tuned_columns > 0)
        *tile_columns = tuned_columns < columns ? tuned_columns : (int)columns;
}

/* Few items are a group each, for all cores to have some. */
static uint32_t items_of_group(const lowered *with, int64_t items)
{
    const int tuned = tuff__tuned(with, TUNABLE_matmul_dot_local_size);
    return tuned > 0 ? (uint32_t)tuned : items < 64 ? 1 : 4;
}

/* Terms side by side: inner products. */
static tuff_status lower_dots(const lowered *with, launch *of, int64_t inner)
{
    fused_chain *chain = &of->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    int tile_rows, tile_columns;
    choose_dots(with, chain, inner, &tile_rows, &tile_columns);
    chain->producers[1].turned = true;
    const int64_t row_tiles = tuff__divide_up(rows, tile_rows), column_tiles = tuff__divide_up(columns, tile_columns);
    of->body = "matmul_dot";
    const int64_t items = row_tiles * column_tiles * batches;
    of->local_size = items_of_group(with, items);
    of->groups = (uint64_t)tuff__divide_up(items, of->local_size);
    of->array_bytes = (int64_t)sizeof(float) * tile_rows * tile_columns * (of->vec + 1);
    tuff__set_fixed(of,
                    (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches, chain->operand_strides[0][0],
                                chain->operand_strides[1][1]},
                    8);
    return define_thin(of, tile_rows, tile_columns, 0);
}

typedef enum thin_form { THIN_NONE, THIN_DOTS, THIN_SPANS } thin_form;

static thin_form form_of(const lowered *with, const fused_chain *chain, int64_t inner)
{
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t *x = chain->operand_strides[0], *y = chain->operand_strides[1];
    const int vec = tuff__native_lanes(with);
    const bool dots = x[1] == 1 && y[0] == 1 && inner >= 2 * vec;
    const bool no_copy = rows < FEW_ROWS || (rows <= MOST_DOTS && !tuff__operand_is_steady(with->fusion, chain, 1));
    if (dots && (columns == 1 || (y[1] != 1 && no_copy)))
        return THIN_DOTS;
    return rows < FEW_ROWS && y[1] == 1 && columns >= 2 * vec ? THIN_SPANS : THIN_NONE;
}

double tuff__thin_loads(const lowered *with, const fused_chain *chain, int operand, int64_t inner)
{
    const thin_form form = form_of(with, chain, inner);
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int vec = tuff__native_lanes(with);
    int tile_rows, tile_columns;
    if (form == THIN_NONE)
        return 0;
    if (form == THIN_SPANS)
        return operand == 1 ? 1 : 2.0 * (double)(tuff__divide_up(columns, span_of(with, chain, vec) * vec) * vec);
    choose_dots(with, chain, inner, &tile_rows, &tile_columns);
    return (double)(operand == 1 ? tuff__divide_up(rows, tile_rows) : tuff__divide_up(columns, tile_columns));
}

tuff_status tuff__lower_thin(lowered *with, launch *of, int64_t inner, bool *taken)
{
    const thin_form form = form_of(with, &of->chain, inner);
    of->vec = tuff__native_lanes(with);
    *taken = form != THIN_NONE;
    if (form == THIN_DOTS)
        return lower_dots(with, of, inner);
    return form == THIN_SPANS ? lower_spans(with, of, inner) : TUFF_OK;
}
