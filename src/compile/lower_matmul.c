/* Launches of matmuls: the tile by device kind and shape, and a packed copy of the second operand where its rows are
   not contiguous (CPU devices read it by vectors). */
#include <stdio.h>
#include <string.h>

#include "compile/lower.h"

/* Tunables of one matmul. */
struct tile {
    int vec, rows, columns; /* rows and vectors of columns one item owns */
    uint32_t local_size;
};

static chain_value plain_value(value_kind kind, tuff_dtype dtype)
{
    return (chain_value){
        .kind = kind, .dtype = dtype, .args = {NO_VALUE, NO_VALUE, NO_VALUE}, .guard = NO_VALUE, .buffer = -1};
}

static tuff_status add_value(fused_chain *chain, chain_value value)
{
    if (!GROW(chain->values, chain->value_count, chain->value_capacity))
        return TUFF_E_OOM_HOST;
    chain->values[chain->value_count++] = value;
    return TUFF_OK;
}

/* The axes of the packed copy: those of the batch that the operand walks, panels, terms, columns of a panel. */
static void packing_axes(const fused_chain *matmul, int64_t panels, int64_t inner, int64_t width, fused_chain *out,
                         affine *source, affine *target)
{
    const int batch_rank = matmul->rank - 2;
    const int64_t *strides = matmul->operand_strides[1];
    out->rank = batch_rank + 3;
    *source = matmul->extra[1];
    *target = (affine){.offset = 0};
    for (int i = 0; i < batch_rank; ++i)
        out->extent[i] = matmul->extra[1].stride[i] != 0 ? matmul->extent[i] : 1;
    const int64_t extents[] = {panels, inner, width}, from[] = {width * strides[1], strides[0], strides[1]};
    int64_t stride = 1;
    for (int i = out->rank - 1; i >= 0; --i) {
        if (i >= batch_rank) {
            out->extent[i] = extents[i - batch_rank];
            source->stride[i] = from[i - batch_rank];
        }
        out->classes[i] = AXIS_OUTER;
        target->stride[i] = stride;
        stride *= out->extent[i];
    }
}

/* packed[batch][panel][k][column] = operand[batch][k][panel · width + column], zero beyond the last column. */
static tuff_status packing_chain(const fused_chain *matmul, int64_t inner, int64_t width, int target_id,
                                 fused_chain *out)
{
    const int64_t columns = matmul->extent[matmul->rank - 1];
    affine source, target;
    *out = (fused_chain){.rank = 0};
    packing_axes(matmul, tuff__divide_up(columns, width), inner, width, out, &source, &target);
    out->buffers[0] = matmul->buffers[matmul->operand_buffers[1]];
    out->buffers[0].written = false;
    out->buffers[0].read = true;
    out->buffers[1] = (chain_buffer){.id = target_id, .dtype = TUFF_F32, .written = true};
    out->buffer_count = 2;
    chain_value load = plain_value(VALUE_LOAD, TUFF_F32);
    load.buffer = 0;
    load.address = source;
    if (columns % width != 0) {
        chain_value inside = plain_value(VALUE_INSIDE, TUFF_BOOL), zero = plain_value(VALUE_CONSTANT, TUFF_F32);
        inside.address.stride[out->rank - 3] = width;
        inside.address.stride[out->rank - 1] = 1;
        inside.high = columns;
        load.guard = 0;
        chain_value select = plain_value(VALUE_OP, TUFF_F32);
        select.op = OP_WHERE;
        select.args[0] = 0;
        select.args[1] = 2;
        select.args[2] = 1;
        TRY(add_value(out, inside));
        TRY(add_value(out, zero));
        TRY(add_value(out, load));
        TRY(add_value(out, select));
    } else {
        TRY(add_value(out, load));
    }
    out->outputs[0] =
        (chain_output){.value = out->value_count - 1, .buffer = 1, .address = target, .every_point = true};
    out->output_count = 1;
    return TUFF_OK;
}

/* The copy by strided loads, for any strides. */
static tuff_status pack_strided(lowered *with, int index, const fused_chain *matmul, int64_t inner, int64_t width,
                                int target)
{
    fused_chain copy;
    const tuff_status status = packing_chain(matmul, inner, width, target, &copy);
    if (status != TUFF_OK) {
        tuff__chain_free(&copy);
        return status;
    }
    tuff__chain_collapse(&copy);
    tuff__chain_analyse(&copy);
    return tuff__lower_map(with, index, &copy);
}

static void set_fixed(launch *of, const int64_t *values, int count)
{
    for (int i = 0; i < count; ++i) {
        of->fixed[i] = values[i];
        of->fixed_buffer[i] = -1;
    }
    of->fixed_count = count;
}

/* `#define LOADV_B(i) LOADV_f32(b1, i)` and the like. */
static void define_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out)
{
    const chain_buffer *of = &chain->buffers[chain->operand_buffers[operand]];
    tuff__text_add(out, "#define %s(i) %s_%s(b%d, i)\n", macro, form, tuff_dtype_name(of->dtype),
                   chain->operand_buffers[operand]);
}

/* Moves a launch's tunables into it. */
static tuff_status keep_defines(launch *of, text *defines)
{
    tuff_status status = tuff__text_status(defines);
    if (status == TUFF_OK && defines->length < sizeof of->defines)
        memcpy(of->defines, tuff__text_get(defines), defines->length + 1);
    else if (status == TUFF_OK)
        status = FAIL(TUFF_E_LIMIT, "compile: too many tunables for one kernel");
    tuff__text_free(defines);
    return status;
}

static int64_t batches_of(const fused_chain *chain, int rank)
{
    int64_t count = 1;
    for (int i = 0; i < rank; ++i)
        count *= chain->extent[i];
    return count;
}

/* Whether every vector of an operand starts at a multiple of four elements; buffers of ours do. */
static bool is_aligned(const lowered *with, const fused_chain *chain, int operand, int rank, int64_t line_stride)
{
    const memory_buffer *of = &with->buffers[chain->buffers[chain->operand_buffers[operand]].id];
    const int64_t start =
        chain->extra[operand].offset + (int64_t)(of->offset / tuff_dtype_size(of->dtype)) + of->parent_at;
    bool aligned = start % 4 == 0 && line_stride % 4 == 0;
    for (int i = 0; i < rank; ++i)
        aligned &= chain->extra[operand].stride[i] % 4 == 0;
    return aligned;
}

/* The copy by transposing blocks in registers, for operands whose terms are contiguous. */
static tuff_status pack_transposed(lowered *with, int index, const fused_chain *matmul, int64_t inner, int64_t width,
                                   const affine *packed, int target, int vec)
{
    launch *of = tuff__launch_add(with, "pack_transpose", WALK_MATMUL, index);
    if (of == NULL)
        return TUFF_E_OOM_HOST;
    const int64_t columns = matmul->extent[matmul->rank - 1], line = matmul->operand_strides[1][1];
    const int64_t inner_blocks = tuff__divide_up(inner, vec),
                  column_blocks = tuff__divide_up(columns, width) * width / vec;
    fused_chain *chain = &of->chain;
    chain->rank = matmul->rank - 2;
    for (int i = 0; i < chain->rank; ++i) {
        chain->extent[i] = packed->stride[i] != 0 ? matmul->extent[i] : 1;
        chain->classes[i] = AXIS_OUTER;
    }
    chain->buffers[0] = matmul->buffers[matmul->operand_buffers[1]];
    chain->buffers[1] = (chain_buffer){.id = target, .dtype = TUFF_F32, .written = true};
    chain->buffers[0].written = false;
    chain->buffer_count = chain->extra_count = 2;
    chain->operand_buffers[1] = 1;
    chain->operand_names[0] = "b";
    chain->operand_names[1] = "packed";
    chain->extra[0] = matmul->extra[1];
    chain->extra[1] = *packed;
    of->vec = vec;
    of->local_size = (uint32_t)tuff__tuned(with, TUNABLE_pack_transpose_local_size);
    const int64_t batches = batches_of(chain, chain->rank);
    of->groups = (uint64_t)tuff__divide_up(batches * inner_blocks * column_blocks, of->local_size);
    set_fixed(of, (int64_t[]){columns, inner, inner_blocks, column_blocks, batches, line}, 6);
    text defines = {0};
    const bool aligned = is_aligned(with, chain, 0, chain->rank, line) && inner % 4 == 0;
    define_load(chain, 0, "LOADV_B", aligned ? "LOADV" : "LOADU", &defines);
    define_load(chain, 0, "LOADI_B", "LOADI", &defines);
    tuff__text_add(&defines,
                   "#define STOREV_PACKED(i, x) STOREV_f32(b1, i, x)\n#define PANEL %d\n#define INNER_TAIL %d\n",
                   (int)width,
                   inner % vec == 0 ? 0
                   : inner >= vec   ? 1
                                    : 2);
    return keep_defines(of, &defines);
}

/* Puts a packed copy in the place of the second operand: panels of width columns. */
static tuff_status pack(lowered *with, int index, fused_chain *matmul, int64_t inner, int64_t width, int vec)
{
    int64_t count = tuff__divide_up(matmul->extent[matmul->rank - 1], width) * width * inner;
    affine packed = {.offset = 0};
    for (int i = matmul->rank - 3; i >= 0; --i)
        if (matmul->extra[1].stride[i] != 0) {
            packed.stride[i] = count;
            count *= matmul->extent[i];
        }
    const int target = tuff__buffer_add(with, TUFF_F32, count);
    if (target < 0)
        return TUFF_E_OOM_HOST;
    if (matmul->operand_strides[1][0] == 1 && inner > 1)
        TRY(pack_transposed(with, index, matmul, inner, width, &packed, target, vec));
    else
        TRY(pack_strided(with, index, matmul, inner, width, target));
    matmul->buffers[matmul->buffer_count] = (chain_buffer){.id = target, .dtype = TUFF_F32, .read = true};
    matmul->operand_buffers[1] = matmul->buffer_count++;
    matmul->extra[1] = packed;
    matmul->operand_strides[1][0] = width;
    matmul->operand_strides[1][1] = 1;
    return TUFF_OK;
}

/* Measured on PoCL, Intel's runtime and lavapipe; sixteen sums hide the latency of a multiply-add and leave registers
   for the operands. */
static struct tile choose_tile(const lowered *with, int64_t rows, int64_t columns, bool packed)
{
    const int lanes = tuff__native_lanes(with), narrow = tuff__tuned(with, TUNABLE_matmul_register_narrow_rows);
    struct tile best = {
        .vec = lanes,
        .rows = tuff__tuned(with, packed ? TUNABLE_matmul_register_packed_rows : TUNABLE_matmul_register_tile_rows),
        .columns = tuff__tuned(with, TUNABLE_matmul_register_tile_columns),
        .local_size = (uint32_t)tuff__tuned(with, TUNABLE_matmul_register_local_size)};
    if (tuff__is_vulkan(with)) {
        while (best.columns > 1 && columns < 8 * (int64_t)best.vec * best.columns)
            best.columns /= 2;
        best.rows = rows >= best.rows ? best.rows : 4;
        return best;
    }
    best.rows = lanes == 8 ? narrow : best.rows;
    while (best.vec > 4 && columns < best.vec)
        best.vec /= 2;
    if (columns < 2 * best.vec)
        best.columns = 1;
    if (rows < 8) {
        best.rows = (int)rows;
        best.columns = columns >= 4 * best.vec && rows <= 4 ? 4 : best.columns;
    } else if (best.columns == 1 || rows < best.rows) {
        best.rows = lanes == 8 ? narrow : tuff__tuned(with, TUNABLE_matmul_register_packed_rows);
    }
    return best;
}

/* Loads of both operands; aligned: whole vectors of the second start at multiples of four elements. */
static tuff_status define(launch *of, bool aligned, const char *tunables)
{
    text defines = {0};
    define_load(&of->chain, 0, "LOAD_A", "LOAD", &defines);
    define_load(&of->chain, 1, "LOAD_B", "LOAD", &defines);
    define_load(&of->chain, 1, "LOADV_B", aligned ? "LOADV" : "LOADU", &defines);
    define_load(&of->chain, 1, "LOADI_B", "LOADI", &defines);
    tuff__text_add(&defines, "%s", tunables);
    return keep_defines(of, &defines);
}

/* Lanes that hand each other the elements of the first operand, or 0. A CPU device loads a lane at a time, even where
   the address is uniform; with fewer than eight lanes a shuffle costs what it saves. */
static uint32_t shuffle_width(const lowered *with)
{
    const tuff_device_info *info = tuff__device_info(with->device);
    const uint32_t width = tuff__is_vulkan(with) && info->subgroup_shuffle ? info->proved_subgroup_size : 0;
    return width == 8 || width == 16 ? width : 0;
}

/* The tile in registers: CPU devices. */
static tuff_status lower_registers(lowered *with, launch *of, const struct tile *tile, int64_t inner, bool packed)
{
    const fused_chain *chain = &of->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t width = (int64_t)tile->vec * tile->columns, panel_stride = packed ? inner * width : width;
    const int64_t row_tiles = tuff__divide_up(rows, tile->rows), column_tiles = tuff__divide_up(columns, width);
    char tunables[260];
    const int row_tail = rows % tile->rows == 0 ? 0 : rows >= tile->rows ? 1 : 2;
    const int column_tail = columns % width == 0 ? 0 : columns >= width || packed ? 1 : 2;
    of->subgroup_size = column_tail == 2 || inner < shuffle_width(with) ? 0 : shuffle_width(with);
    snprintf(tunables, sizeof tunables,
             "#define TILE_ROWS %d\n#define TILE_COLUMNS %d\n#define ROW_TAIL %d\n#define COLUMN_TAIL %d\n#define "
             "PACKED_B %d\n"
             "#define LANES_ALONG_COLUMNS %d\n#define FUSED_MULTIPLY_ADD %d\n#define SHUFFLE_A %u\n",
             tile->rows, tile->columns, row_tail, column_tail, packed, tuff__is_vulkan(with), !tuff__is_vulkan(with),
             of->subgroup_size);
    of->body = "matmul_register";
    of->vec = tile->vec;
    of->local_size = of->subgroup_size > 0                                     ? of->subgroup_size
                     : !tuff__is_vulkan(with) && row_tiles * column_tiles < 64 ? 1
                                                                               : tile->local_size;
    const int64_t batches = batches_of(chain, chain->rank - 2);
    of->groups = (uint64_t)tuff__divide_up(row_tiles * column_tiles * batches, of->local_size);
    if (tuff__is_vulkan(with))
        of->groups = (uint64_t)(row_tiles * tuff__divide_up(column_tiles, of->local_size) * batches);
    set_fixed(of,
              (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches, chain->operand_strides[0][0],
                          chain->operand_strides[0][1], chain->operand_strides[1][0], panel_stride},
              10);
    const bool aligned = is_aligned(with, chain, 1, chain->rank - 2, chain->operand_strides[1][0]);
    return define(of, packed || (aligned && columns % 4 == 0), tunables);
}

/* The tile in local memory: GPUs. */
static tuff_status lower_local(lowered *with, launch *of, int64_t inner)
{
    const int block_rows = tuff__tuned(with, TUNABLE_matmul_local_block_rows);
    const int block_columns = tuff__tuned(with, TUNABLE_matmul_local_block_columns);
    const int thread_rows = tuff__tuned(with, TUNABLE_matmul_local_thread_rows);
    const int thread_columns = tuff__tuned(with, TUNABLE_matmul_local_thread_columns);
    const fused_chain *chain = &of->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t row_tiles = tuff__divide_up(rows, block_rows), column_tiles = tuff__divide_up(columns, block_columns);
    char tunables[320];
    snprintf(
        tunables, sizeof tunables,
        "#define BLOCK_ROWS %d\n#define BLOCK_COLUMNS %d\n#define STEP_K %d\n#define THREAD_ROWS %d\n"
        "#define THREAD_COLUMNS %d\n#define A_K_CONTIGUOUS %d\n#define B_K_CONTIGUOUS %d\n#define B_COLUMN_UNIT %d\n"
        "#define FUSED_MULTIPLY_ADD 1\n",
        block_rows, block_columns, tuff__tuned(with, TUNABLE_matmul_local_step_k), thread_rows, thread_columns,
        chain->operand_strides[0][1] == 1, chain->operand_strides[1][0] == 1, chain->operand_strides[1][1] == 1);
    of->body = "matmul_local";
    of->vec = 4;
    of->local_size = (uint32_t)(block_rows * block_columns / (thread_rows * thread_columns));
    of->groups = (uint64_t)(row_tiles * column_tiles * batches_of(chain, chain->rank - 2));
    set_fixed(of,
              (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches_of(chain, chain->rank - 2),
                          chain->operand_strides[0][0], chain->operand_strides[0][1], chain->operand_strides[1][0],
                          chain->operand_strides[1][1]},
              10);
    return define(of, is_aligned(with, chain, 1, chain->rank - 2, chain->operand_strides[1][0]), tunables);
}

tuff_status tuff__lower_matmul(lowered *with, int index, fused_chain *chain)
{
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const tuff_shape *operand = &with->fusion->tasks[index].core->inputs[0]->shape;
    const int64_t inner = operand->extent[operand->rank - 1];
    const bool registers = tuff__uses_registers(with);
    const bool packed = registers && chain->operand_strides[1][1] != 1 && columns > 1;
    const struct tile tile = choose_tile(with, rows, columns, packed);
    tuff_status status = TUFF_OK;
    if (packed)
        status = pack(with, index, chain, inner, (int64_t)tile.vec * tile.columns, tile.vec);
    launch *of = status == TUFF_OK ? tuff__launch_add(with, "", WALK_MATMUL, index) : NULL;
    if (of == NULL) {
        tuff__chain_free(chain);
        return status == TUFF_OK ? TUFF_E_OOM_HOST : status;
    }
    of->chain = *chain;
    of->operations = 2.0 * (double)rows * (double)columns * (double)inner * (double)batches_of(chain, chain->rank - 2);
    return registers ? lower_registers(with, of, &tile, inner, packed) : lower_local(with, of, inner);
}
