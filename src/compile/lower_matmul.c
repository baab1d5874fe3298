/* Launches of matmuls: the tile by device kind and shape, by what its registers, edges and rounds cost, and which
   operands are read from packed copies. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "compile/foresee.h"
#include "compile/lower_matmul.h"

/* Tunables of one matmul. */
struct tile {
    int vec, rows, columns; /* rows and vectors of columns one item owns */
    uint32_t local_size;
};

void tuff__set_fixed(launch *of, const int64_t *values, int count)
{
    for (int i = 0; i < count; ++i) {
        of->fixed[i] = values[i];
        of->fixed_buffer[i] = -1;
    }
    of->fixed_count = count;
}

void tuff__define_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out)
{
    const chain_buffer *of = &chain->buffers[chain->operand_buffers[operand]];
    const char *kind = form[4] == 'I' ? "I" : form[4] == 0 ? "" : "V";
    if (tuff__is_produced(chain, operand))
        tuff__text_add(out, "#define %s(i, row, column) PRODUCE%s_%s(row, column)\n", macro, kind,
                       chain->operand_names[operand]);
    else
        tuff__text_add(out, "#define %s(i, row, column) %s_%s(b%d, i)\n", macro, form, tuff_dtype_name(of->dtype),
                       chain->operand_buffers[operand]);
}

void tuff__define_plain_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out)
{
    const int buffer = chain->operand_buffers[operand];
    tuff__text_add(out, "#define %s(i) %s_%s(b%d, i)\n", macro, form, tuff_dtype_name(chain->buffers[buffer].dtype),
                   buffer);
}

tuff_status tuff__keep_defines(launch *of, text *defines)
{
    tuff_status status = tuff__text_status(defines);
    if (status == TUFF_OK && defines->length < sizeof of->defines)
        memcpy(of->defines, tuff__text_get(defines), defines->length + 1);
    else if (status == TUFF_OK)
        status = FAIL(TUFF_E_LIMIT, "compile: too many tunables for one kernel");
    tuff__text_free(defines);
    return status;
}

int64_t tuff__batch_count(const fused_chain *chain, int rank)
{
    int64_t count = 1;
    for (int i = 0; i < rank; ++i)
        count *= chain->extent[i];
    return count;
}

bool tuff__operand_is_aligned(const lowered *with, const fused_chain *chain, int operand, int rank, int64_t line_stride)
{
    const memory_buffer *of = &with->buffers[chain->buffers[chain->operand_buffers[operand]].id];
    const int64_t start =
        chain->extra[operand].offset + (int64_t)(of->offset / tuff_dtype_size(of->dtype)) + of->parent_at;
    bool aligned = start % 4 == 0 && line_stride % 4 == 0;
    for (int i = 0; i < rank; ++i)
        aligned &= chain->extra[operand].stride[i] % 4 == 0;
    return aligned;
}

launch *tuff__matmul_launch(lowered *with, const char *body, int index, fused_chain *chain, int64_t inner)
{
    launch *of = tuff__launch_add(with, body, WALK_MATMUL, index);
    if (of == NULL) {
        tuff__chain_free(chain);
        return NULL;
    }
    of->chain = *chain;
    of->operations = 2.0 * (double)chain->extent[chain->rank - 2] * (double)chain->extent[chain->rank - 1] *
                     (double)inner * (double)tuff__batch_count(chain, chain->rank - 2);
    return of;
}

/* The caches that tiles are chosen for: lines of 64 bytes. Every CPU of the last ten years has at least these. */
enum { LINE_SIZE = 64, NEAR_SETS = 64, NEAR_WAYS = 8, FAR_SETS = 2048, FAR_WAYS = 8 };

/* Whether `count` stretches of `size` bytes, `stride` bytes apart, push each other out of a cache: strides that are
   multiples of a high power of two meet in few of its sets. */
static bool thrashes(int64_t count, int64_t size, int64_t stride, int64_t sets, int64_t ways)
{
    const int64_t lines = tuff__divide_up(size, LINE_SIZE);
    int64_t step = 1; /* sets from one stretch to the next: the power of two in it is what matters */
    stride = stride < 0 ? -stride : stride;
    while (step < sets && stride % (2 * LINE_SIZE * step) == 0)
        step *= 2;
    const int64_t touched = stride % LINE_SIZE != 0 || lines >= step ? sets : sets / step * lines;
    return count * lines > touched * ways;
}

/* Whether a vector is as long as a line of the cache. */
static bool is_wide(const lowered *with)
{
    return tuff__native_lanes(with) * (int)sizeof(float) >= LINE_SIZE;
}

/* Whether so many terms, `stride` bytes apart, lie in more pages than a core keeps at hand. */
static bool is_scattered(int64_t terms, int64_t stride)
{
    enum { PAGE_SIZE = 4096, PAGES = 64 };
    const int64_t step = stride < 0 ? -stride : stride;
    return terms * (step < PAGE_SIZE ? step : PAGE_SIZE) > PAGES * PAGE_SIZE;
}

/* What the inner loop of a tile costs a term, in cycles of a core that starts two multiply-adds and two loads in
   each, with four cycles from an operand to its result. */
static double cost_of_term(int rows, int columns)
{
    const double sums = 0.5 * rows * columns, loads = 0.5 * (rows + columns);
    const double most = sums > loads ? sums : loads;
    return (most > 4 ? most : 4) + 0.5;
}

/* The matrix as the tiles see it. */
struct problem {
    int64_t rows, columns, inner, batches;
    bool packed[2];    /* x, y: in panels */
    bool scattered[2]; /* read from more pages than a core keeps at hand */
    int most_rows;     /* of a tile, for the cache's sake */
};

/* Time of the busiest core: what hangs over an edge costs as much as what does not, and the last round is as long as
   the others. */
static double cost_of_tile(const lowered *with, const struct problem *of, int vec, int rows, int columns)
{
    const int64_t cores = tuff__device_info(with->device)->compute_units;
    const int64_t items =
        tuff__divide_up(of->rows, rows) * tuff__divide_up(of->columns, (int64_t)vec * columns) * of->batches;
    return (double)tuff__divide_up(items, cores > 0 ? cores : 1) * cost_of_term(rows, columns);
}

/* The cheapest tile whose sums leave registers for the operands; more rows than twelve gain nothing. */
static void choose_sums(const lowered *with, const struct problem *of, struct tile *best)
{
    const int registers = best->vec == 16 ? 32 : 16;
    const int most =
        tuff__tuned(with, of->packed[1] ? TUNABLE_matmul_register_packed_rows : TUNABLE_matmul_register_tile_rows);
    const int64_t whole = of->rows < most ? of->rows : most;
    double least = 0;
    for (int columns = 1; columns <= 4; ++columns)
        for (int rows = 1; rows <= whole && rows <= of->most_rows; ++rows) {
            const bool fits = rows * columns + columns + 1 <= registers && (columns == 1 || rows * columns <= 24);
            const bool covered = columns == 1 || (int64_t)best->vec * columns <= of->columns;
            if (!fits || !covered || (columns == 3 && best->vec < 16) || (columns == 4 && rows > 4))
                continue;
            const double cost = cost_of_tile(with, of, best->vec, rows, columns);
            if (least == 0 || cost < least || (cost == least && rows * columns > best->rows * best->columns)) {
                least = cost;
                best->rows = rows;
                best->columns = columns;
            }
        }
}

/* The tile that a choice names, of any shape; else as chosen by cost. */
static struct tile wanted_tile(const lowered *with, struct tile usual)
{
    const int rows = tuff__tuned(with, TUNABLE_matmul_register_rows),
              vectors = tuff__tuned(with, TUNABLE_matmul_register_vectors);
    usual.rows = rows > 0 ? rows : usual.rows;
    usual.columns = vectors > 0 ? vectors : usual.columns;
    return usual;
}

static struct tile choose_tile(const lowered *with, const struct problem *of)
{
    struct tile best = {.vec = tuff__native_lanes(with),
                        .rows = tuff__tuned(with, TUNABLE_matmul_register_tile_rows),
                        .columns = tuff__tuned(with, TUNABLE_matmul_register_tile_columns),
                        .local_size = (uint32_t)tuff__tuned(with, TUNABLE_matmul_register_local_size)};
    if (tuff__is_vulkan(with)) {
        while (best.columns > 1 && of->columns < 8 * (int64_t)best.vec * best.columns)
            best.columns /= 2;
        best.rows = of->rows >= best.rows ? best.rows : 4;
        return wanted_tile(with, best);
    }
    while (best.vec > 4 && of->columns < best.vec && !of->packed[1])
        best.vec /= 2;
    choose_sums(with, of, &best);
    return wanted_tile(with, best);
}

/* Whether an operand is copied: as a choice says, else as its strides do. */
static bool wants_copy(const lowered *with, tunable of, bool usual)
{
    enum { BY_STRIDES, NO };
    const int wanted = tuff__tuned(with, of);
    return wanted == BY_STRIDES ? usual : wanted != NO;
}

/* Copies in panels: of y where its columns do not lie side by side, since it is read by vectors, and where that spares
   every run but the first its producer; of either where the lines that one tile reads push each other out of the cache
   or lie in too many pages, if there is enough work to pay for the copy; and of either where a vector is a whole line
   of the cache, since a tile's terms then pass faster than lines come from anywhere but one after another. */
static void choose_packing(const lowered *with, const fused_chain *chain, struct problem *of)
{
    const int64_t *x = chain->operand_strides[0], *y = chain->operand_strides[1];
    const int64_t panel = 2 * (int64_t)sizeof(float) * tuff__native_lanes(with);
    const int64_t x_size = (int64_t)tuff_dtype_size(chain->buffers[chain->operand_buffers[0]].dtype),
                  y_size = (int64_t)tuff_dtype_size(chain->buffers[chain->operand_buffers[1]].dtype);
    enum { ENOUGH = 192, ENOUGH_WIDE = 128, ENOUGH_ROWS = 512, ENOUGH_KEPT = 8 };
    const bool wide = is_wide(with);
    const int64_t usual = wide ? ENOUGH_WIDE : ENOUGH;
    of->most_rows = INT_MAX;
    const bool finished_once = tuff__is_produced(chain, 1) && tuff__operand_is_steady(with->fusion, chain, 1);
    of->packed[1] = (y[1] != 1 || finished_once) && of->columns > 1;
    if (tuff__is_vulkan(with))
        return;
    const int64_t enough[] = {tuff__operand_is_steady(with->fusion, chain, 0) ? ENOUGH_KEPT : usual,
                              tuff__operand_is_steady(with->fusion, chain, 1) ? ENOUGH_KEPT : usual};
    of->scattered[0] = x[1] != 1 && is_scattered(of->inner, x[1] * x_size);
    of->scattered[1] = is_scattered(of->inner, y[0] * y_size);
    const bool narrow = of->columns > 1 && of->columns < tuff__native_lanes(with) && of->rows >= enough[1];
    const bool far_y = of->rows >= enough[1] && of->columns >= panel / (int64_t)sizeof(float) &&
                       (wide || of->scattered[1] || thrashes(of->inner, panel, y[0] * y_size, FAR_SETS, FAR_WAYS));
    const bool far_x = of->columns >= enough[0] && of->rows >= 8 && x[1] != 1 &&
                       (wide || of->scattered[0] || thrashes(of->inner, LINE_SIZE, x[1] * x_size, FAR_SETS, FAR_WAYS));
    const bool near_x = of->columns >= ENOUGH_ROWS && of->rows >= 8 && x[1] == 1 && wide;
    of->packed[1] |= wants_copy(with, TUNABLE_matmul_copy_y, narrow || far_y);
    of->packed[0] = wants_copy(with, TUNABLE_matmul_copy_x, far_x || near_x);
    for (int i = 0; i < 2; ++i)
        of->scattered[i] &= !of->packed[i];
    if (x[1] == 1 && thrashes(12, 1, x[0] * x_size, NEAR_SETS, NEAR_WAYS))
        of->most_rows = NEAR_WAYS;
    if (of->packed[0])
        of->most_rows = tuff__tuned(with, TUNABLE_matmul_register_packed_rows);
}

tuff_status tuff__check_sums(const lowered *with, int vec, int64_t count)
{
    enum { MOST_SUMS = 64 };
    const int64_t registers = count * tuff__vector_registers(with, vec);
    if (registers <= MOST_SUMS)
        return TUFF_OK;
    return FAIL(TUFF_E_LIMIT, "compile: tiles of %lld vectors, at most %d", (long long)registers, MOST_SUMS);
}

/* Loads of both operands; aligned: whole vectors of the second start at multiples of four elements; gathers: others are
   read too. */
static tuff_status define(launch *of, bool aligned, bool gathers, const char *tunables)
{
    text defines = {0};
    tuff__define_load(&of->chain, 0, "LOAD_A", "LOAD", &defines);
    tuff__define_load(&of->chain, 1, "LOADV_B", aligned ? "LOADV" : "LOADU", &defines);
    if (gathers)
        tuff__define_load(&of->chain, 1, "LOADI_B", "LOADI", &defines);
    tuff__text_add(&defines, "%s", tunables);
    return tuff__keep_defines(of, &defines);
}

/* Lanes that hand each other the elements of the first operand, or 0. A CPU device loads a lane at a time, even where
   the address is uniform; with fewer than eight lanes a shuffle costs what it saves. */
static uint32_t shuffle_width(const lowered *with)
{
    const tuff_device_info *info = tuff__device_info(with->device);
    const uint32_t width = tuff__is_vulkan(with) && info->subgroup_shuffle ? info->proved_subgroup_size : 0;
    return width == 8 || width == 16 ? width : 0;
}

/* Values that a tile's epilogue unrolls to. Partial vectors are unrolled by elements as well, each with a condition of
   its own. */
static int64_t unrolled_values(const fused_chain *chain, const struct tile *tile, bool tails)
{
    enum { OF_ELEMENT = 4 };
    return (int64_t)tile->vec * tile->rows * tile->columns * chain->value_count * (tails ? OF_ELEMENT * tile->vec : 1);
}

/* What terms take longer where they come from many pages; as measured on AVX2, and with wide vectors on AVX-512. */
static double delay_of(const lowered *with, const struct problem *of)
{
    return 1 + 0.4 * of->scattered[0] + (is_wide(with) ? 0.1 : 0.4) * of->scattered[1];
}

/* The tile in registers: CPU devices. */
static tuff_status lower_registers(lowered *with, launch *of, const struct tile *tile, const struct problem *problem)
{
    const fused_chain *chain = &of->chain;
    const int64_t rows = problem->rows, columns = problem->columns, inner = problem->inner;
    const bool packed = problem->packed[1];
    const int64_t width = (int64_t)tile->vec * tile->columns, panel_stride = packed ? inner * width : width;
    const int64_t a_panel = (problem->packed[0] ? inner : chain->operand_strides[0][0]) * tile->rows;
    const int64_t row_tiles = tuff__divide_up(rows, tile->rows), column_tiles = tuff__divide_up(columns, width);
    char tunables[260];
    const int row_tail = rows % tile->rows == 0 ? 0 : problem->packed[0] ? 3 : rows >= tile->rows ? 1 : 2;
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
    of->array_bytes = (int64_t)sizeof(float) * tile->vec * tile->rows * tile->columns;
    of->unrolled = unrolled_values(chain, tile, column_tail != 0);
    tuff__foresee_sums(of, tile->rows, tile->columns, (double)inner * delay_of(with, problem));
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    of->groups = (uint64_t)tuff__divide_up(row_tiles * column_tiles * batches, of->local_size);
    if (tuff__is_vulkan(with))
        of->groups = (uint64_t)(row_tiles * tuff__divide_up(column_tiles, of->local_size) * batches);
    tuff__set_fixed(of,
                    (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches, chain->operand_strides[0][0],
                                chain->operand_strides[0][1], chain->operand_strides[1][0], panel_stride, a_panel},
                    11);
    const bool aligned = tuff__operand_is_aligned(with, chain, 1, chain->rank - 2, chain->operand_strides[1][0]);
    return define(of, packed || (aligned && columns % 4 == 0), column_tail == 2, tunables);
}

/* The tile in local memory: GPUs. */
static tuff_status lower_local(lowered *with, launch *of, int64_t inner)
{
    const int block_rows = tuff__tuned(with, TUNABLE_matmul_local_block_rows);
    const int block_columns = tuff__tuned(with, TUNABLE_matmul_local_block_columns);
    const int step = tuff__tuned(with, TUNABLE_matmul_local_step_k);
    /* A column more in each tile than there is. */
    const uint32_t buffer = (uint32_t)(4 * step * (block_rows + 1 + block_columns + 4));
    const bool room = 2 * buffer <= tuff__device_info(with->device)->local_memory_size;
    const int buffers = room ? tuff__tuned(with, TUNABLE_matmul_local_buffers) : 1;
    const int thread_rows = tuff__tuned(with, TUNABLE_matmul_local_thread_rows);
    const int thread_columns = tuff__tuned(with, TUNABLE_matmul_local_thread_columns);
    const fused_chain *chain = &of->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t row_tiles = tuff__divide_up(rows, block_rows), column_tiles = tuff__divide_up(columns, block_columns);
    char tunables[320];
    snprintf(
        tunables, sizeof tunables,
        "#define MANY_SUMS\n#define BLOCK_ROWS %d\n#define BLOCK_COLUMNS %d\n#define STEP_K %d\n#define THREAD_ROWS "
        "%d\n"
        "#define THREAD_COLUMNS %d\n#define A_K_CONTIGUOUS %d\n#define B_K_CONTIGUOUS %d\n#define B_COLUMN_UNIT %d\n"
        "#define FUSED_MULTIPLY_ADD 1\n#define BUFFERS %d\n",
        block_rows, block_columns, step, thread_rows, thread_columns, chain->operand_strides[0][1] == 1,
        chain->operand_strides[1][0] == 1, chain->operand_strides[1][1] == 1, buffers);
    of->body = "matmul_local";
    of->vec = 4;
    tuff__foresee_sums(of, thread_rows, thread_columns, (double)inner);
    of->local_bytes = buffer * (uint32_t)buffers;
    of->traffic = 4.0 * (double)inner * (double)(rows * column_tiles + columns * row_tiles) *
                  (double)tuff__batch_count(chain, chain->rank - 2);
    of->local_size = (uint32_t)(block_rows * block_columns / (thread_rows * thread_columns));
    of->groups = (uint64_t)(row_tiles * column_tiles * tuff__batch_count(chain, chain->rank - 2));
    tuff__set_fixed(of,
                    (int64_t[]){rows, columns, inner, row_tiles, column_tiles,
                                tuff__batch_count(chain, chain->rank - 2), chain->operand_strides[0][0],
                                chain->operand_strides[0][1], chain->operand_strides[1][0],
                                chain->operand_strides[1][1]},
                    10);
    return define(of, tuff__operand_is_aligned(with, chain, 1, chain->rank - 2, chain->operand_strides[1][0]), true,
                  tunables);
}

/* Makes the copies that the problem asks for. */
static tuff_status pack(lowered *with, int index, fused_chain *chain, const struct problem *of, const struct tile *tile)
{
    if (of->packed[0])
        TRY(tuff__pack_operand(with, index, chain, 0, of->inner, tile->rows, tile->vec));
    if (of->packed[1])
        TRY(tuff__pack_operand(with, index, chain, 1, of->inner, (int64_t)tile->vec * tile->columns, tile->vec));
    return TUFF_OK;
}

/* Few rows or columns; takes the chain where *taken. */
static tuff_status lower_few(lowered *with, int index, fused_chain *chain, const struct problem *problem, bool *taken)
{
    launch few = {.walk = WALK_MATMUL, .task = index, .chain = *chain};
    const tuff_status status = tuff__lower_thin(with, &few, problem->inner, taken);
    if (status == TUFF_OK && !*taken)
        return TUFF_OK;
    if (status != TUFF_OK) {
        tuff__chain_free(chain);
        return status;
    }
    launch *of = tuff__matmul_launch(with, few.body, index, chain, problem->inner);
    if (of == NULL)
        return TUFF_E_OOM_HOST;
    few.operations = of->operations;
    *of = few;
    return TUFF_OK;
}

/* Takes the chain where *taken. */
static tuff_status lower_by_library(lowered *with, int index, fused_chain *chain, const struct problem *problem,
                                    bool *taken)
{
    library_product product;
    const char *absence = tuff__device_library_absence(with->device);
    if (absence != NULL) {
        tuff__chain_free(chain);
        return FAIL(TUFF_E_UNSUPPORTED, "compile: %s", absence);
    }
    *taken = tuff__find_product(with, chain, problem->inner, &product);
    if (!*taken)
        return TUFF_OK;
    launch *of = tuff__matmul_launch(with, "matmul_clblast", index, chain, problem->inner);
    if (of == NULL)
        return TUFF_E_OOM_HOST;
    of->kind = LAUNCH_PRODUCT;
    of->product = product;
    return TUFF_OK;
}

/* Bodies that make no panels: a choice may have what a producer makes written to memory of its own, whole. */
static tuff_status write_produced(lowered *with, int index, fused_chain *chain, int64_t inner)
{
    static const tunable copies[] = {TUNABLE_matmul_copy_x, TUNABLE_matmul_copy_y};
    const int64_t lines[] = {chain->extent[chain->rank - 2], chain->extent[chain->rank - 1]};
    tuff_status status = TUFF_OK;
    for (int i = 0; i < 2 && status == TUFF_OK; ++i)
        if (tuff__is_produced(chain, i) && wants_copy(with, copies[i], false))
            status = tuff__pack_operand(with, index, chain, i, inner, lines[i], 4);
    if (status != TUFF_OK)
        tuff__chain_free(chain);
    return status;
}

static struct problem problem_of(const fused_chain *chain, int64_t inner)
{
    return (struct problem){.rows = chain->extent[chain->rank - 2],
                            .columns = chain->extent[chain->rank - 1],
                            .inner = inner,
                            .batches = tuff__batch_count(chain, chain->rank - 2)};
}

double tuff__operand_loads(const lowered *with, const fused_chain *chain, int operand, int64_t inner)
{
    struct problem problem = problem_of(chain, inner);
    const int64_t across = operand == 0 ? problem.columns : problem.rows;
    if (!tuff__uses_registers(with))
        return (double)tuff__divide_up(across, tuff__tuned(with, operand == 0 ? TUNABLE_matmul_local_block_columns
                                                                              : TUNABLE_matmul_local_block_rows));
    const double thin = tuff__is_vulkan(with) ? 0 : tuff__thin_loads(with, chain, operand, inner);
    if (thin > 0)
        return thin;
    choose_packing(with, chain, &problem);
    if (problem.packed[operand])
        return tuff__operand_is_steady(with->fusion, chain, operand) ? 0 : 1;
    const struct tile tile = choose_tile(with, &problem);
    if (operand == 1)
        return (double)tuff__divide_up(across, tile.rows);
    const int lanes = tuff__is_vulkan(with) ? 1 : 2 * tile.vec;
    return (double)(tuff__divide_up(across, (int64_t)tile.vec * tile.columns) * lanes);
}

tuff_status tuff__lower_matmul(lowered *with, int index, fused_chain *chain)
{
    const tuff_shape *operand = &with->fusion->tasks[index].core->inputs[0]->shape;
    struct problem problem = problem_of(chain, operand->extent[operand->rank - 1]);
    const bool registers = tuff__uses_registers(with);
    struct tile tile = {.vec = 4};
    tuff_status status = TUFF_OK;
    bool taken = false;
    if (tuff__has_epilogue(chain) && tuff__tuned(with, TUNABLE_matmul_epilogue) != 0)
        return tuff__lower_apart(with, index, chain);
    if (!registers || tuff__library(with) == TUFF_MATMUL_CLBLAST || tuff__family(with) >= TUFF_FAMILY_SUBGROUP)
        TRY(write_produced(with, index, chain, problem.inner));
    if (tuff__library(with) == TUFF_MATMUL_CLBLAST)
        TRY(lower_by_library(with, index, chain, &problem, &taken));
    if (!taken && tuff__family(with) == TUFF_FAMILY_SUBGROUP)
        return tuff__lower_subgroup(with, index, chain, problem.inner);
    if (!taken && tuff__family(with) == TUFF_FAMILY_COOPERATIVE)
        TRY(tuff__lower_cooperative(with, index, chain, problem.inner, &taken));
    if (!taken && registers && !tuff__is_vulkan(with))
        TRY(lower_few(with, index, chain, &problem, &taken));
    if (taken)
        return TUFF_OK;
    if (registers) {
        choose_packing(with, chain, &problem);
        tile = choose_tile(with, &problem);
        status = tuff__check_sums(with, tile.vec, (int64_t)tile.rows * tile.columns);
        if (status == TUFF_OK)
            status = pack(with, index, chain, &problem, &tile);
    }
    if (status != TUFF_OK) {
        tuff__chain_free(chain);
        return status;
    }
    launch *of = tuff__matmul_launch(with, "", index, chain, problem.inner);
    if (of == NULL)
        return TUFF_E_OOM_HOST;
    return registers ? lower_registers(with, of, &tile, &problem) : lower_local(with, of, problem.inner);
}
