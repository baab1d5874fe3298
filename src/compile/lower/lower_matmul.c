/* Launches of matmuls: chooses the kernel of a matmul, and lowers those with tiles in registers or in local memory. Of
   the latter, groups may share the last blocks (Osama et al., Stream-K: Work-centric Parallel Decomposition for Dense
   Matrix-Matrix Multiplication on the GPU, PPoPP 2023). A chain is owned here until a launch takes it, which leaves it
   empty. */
#include <stdio.h>

#include "base/checked.h"
#include "base/log.h"
#include "compile/lower/loop_count.h"
#include "compile/lower/lower_matmul.h"
#include "compile/schedule/cost.h"

/* Defines the loads of both operands. aligned: whole vectors of the second start at multiples of four elements;
   gathers: vectors of it are also gathered. */
static tuff_status define(launch *kernel, bool aligned, bool gathers, const char *tunables)
{
    text defines = {0};
    tuff__define_load(&kernel->chain, 0, "LOAD_A", "LOAD", &defines);
    tuff__define_load(&kernel->chain, 1, "LOADV_B", aligned ? "LOADV" : "LOADU", &defines);
    if (gathers)
        tuff__define_load(&kernel->chain, 1, "LOADI_B", "LOADI", &defines);
    tuff__text_add(&defines, "%s", tunables);
    return tuff__set_defines(kernel, &defines);
}

/* Returns the width of a subgroup whose lanes pass each other the elements of the first operand, or 0. A CPU device
   loads lane by lane even if the address is uniform; with fewer than eight lanes a shuffle costs as much as it
   saves. */
static uint32_t shuffle_width(const launch_list *list)
{
    const tuff_device_info *info = list->policy.target.info;
    const uint32_t width =
        list->policy.target.items_are_lanes && info->subgroup_shuffle ? info->proved_subgroup_size : 0;
    return width == 8 || width == 16 ? width : 0;
}

/* Returns how many values the epilogue of a tile unrolls to. Partial vectors are unrolled by elements as well, each
   with a condition of its own. */
static int64_t unrolled_values(const fused_chain *chain, const matmul_tile *tile, bool tails)
{
    enum { VALUES_PER_ELEMENT = 4 };
    return (int64_t)tile->vec * tile->rows * tile->columns * chain->value_count *
           (tails ? VALUES_PER_ELEMENT * tile->vec : 1);
}

/* Returns the factor by which a step along k takes longer if operands come from many pages. Measured on AVX2, and with
   wide vectors on AVX-512. */
static double step_slowdown(const launch_list *list, const matmul_problem *problem)
{
    const bool wide = tuff__native_lanes(&list->policy) >= 16;
    return 1 + 0.4 * problem->scattered[0] + (wide ? 0.1 : 0.4) * problem->scattered[1];
}

/* Tiles in registers, for CPU devices. */
static tuff_status finish_registers(launch_list *list, launch *kernel, const matmul_tile *tile,
                                    const matmul_problem *problem)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t rows = problem->rows, columns = problem->columns, inner = problem->inner;
    const bool packed = problem->packed[1];
    const int64_t width = (int64_t)tile->vec * tile->columns, panel_stride = packed ? inner * width : width;
    const int64_t a_panel = (problem->packed[0] ? inner : chain->operand_strides[0][0]) * tile->rows;
    const int64_t row_tiles = tuff__divide_up(rows, tile->rows), column_tiles = tuff__divide_up(columns, width);
    char tunables[260];
    const int row_tail = rows % tile->rows == 0 ? 0 : problem->packed[0] ? 3 : rows >= tile->rows ? 1 : 2;
    const int column_tail = columns % width == 0 ? 0 : columns >= width || packed ? 1 : 2;
    kernel->subgroup_size = column_tail == 2 || inner < shuffle_width(list) ? 0 : shuffle_width(list);
    snprintf(tunables, sizeof tunables,
             "#define TILE_ROWS %d\n#define TILE_COLUMNS %d\n#define ROW_TAIL %d\n#define COLUMN_TAIL %d\n#define "
             "PACKED_B %d\n"
             "#define LANES_ALONG_COLUMNS %d\n#define FUSED_MULTIPLY_ADD %d\n#define SHUFFLE_A %u\n",
             tile->rows, tile->columns, row_tail, column_tail, packed, list->policy.target.items_are_lanes,
             list->policy.target.has_fast_fma, kernel->subgroup_size);
    kernel->vec = tile->vec;
    kernel->local_size = kernel->subgroup_size > 0                                               ? kernel->subgroup_size
                         : !list->policy.target.items_are_lanes && row_tiles * column_tiles < 64 ? 1
                                                                                                 : tile->local_size;
    kernel->array_bytes = (int64_t)sizeof(float) * tile->vec * tile->rows * tile->columns;
    kernel->unrolled = unrolled_values(chain, tile, column_tail != 0);
    tuff__set_tile(kernel, tile->rows, tile->columns, (double)inner * step_slowdown(list, problem));
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    kernel->groups = (uint64_t)tuff__divide_up(row_tiles * column_tiles * batches, kernel->local_size);
    if (list->policy.target.items_are_lanes)
        kernel->groups = (uint64_t)(row_tiles * tuff__divide_up(column_tiles, kernel->local_size) * batches);
    tuff__set_parameters(kernel,
                         (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches,
                                     chain->operand_strides[0][0], chain->operand_strides[0][1],
                                     chain->operand_strides[1][0], panel_stride, a_panel},
                         11);
    const bool aligned = tuff__operand_is_aligned(list, chain, 1, chain->rank - 2, chain->operand_strides[1][0]);
    return define(kernel, packed || (aligned && columns % 4 == 0), column_tail == 2, tunables);
}

/* How a matmul in local memory loads an operand, in chunks of four elements. */
typedef struct chunk_layout {
    bool along_k, vectors, parts; /* vectors: contiguous in memory; parts: some may overhang an edge */
} chunk_layout;

/* lines: rows of the first operand or columns of the second. */
static chunk_layout layout_of(const fused_chain *chain, int operand, int64_t lines, int64_t inner)
{
    const int64_t *strides = chain->operand_strides[operand];
    const int64_t apart = strides[operand == 0 ? 0 : 1], term = strides[operand == 0 ? 1 : 0];
    const bool produced = tuff__is_produced(chain, operand);
    chunk_layout made = {.along_k = operand == 0 ? term == 1 || (apart != 1 && term < apart)
                                                 : apart != 1 && (term == 1 || term < apart)};
    /* A producer makes vectors of columns. */
    made.vectors = (made.along_k ? term : apart) == 1 && (!produced || made.along_k == (operand == 0));
    made.parts = (made.along_k ? inner : lines) % 4 != 0;
    return made;
}

static void define_chunks(const launch_list *list, const fused_chain *chain, int operand, const chunk_layout *layout,
                          text *out)
{
    const char name = operand == 0 ? 'A' : 'B';
    const int64_t *strides = chain->operand_strides[operand];
    const int64_t stride = strides[(operand == 0) == layout->along_k ? 0 : 1];
    char macro[] = "LOADV_A", element[] = "LOAD_A";
    macro[6] = element[5] = name;
    const bool aligned = tuff__operand_is_aligned(list, chain, operand, chain->rank - 2, stride);
    if (layout->vectors)
        tuff__define_load(chain, operand, macro, aligned ? "LOADV" : "LOADU", out);
    if (!layout->vectors || layout->parts)
        tuff__define_load(chain, operand, element, "LOAD", out);
    tuff__text_add(out, "#define %c_ALONG_K %d\n#define %c_VECTORS %d\n#define %c_PARTS %d\n", name, layout->along_k,
                   name, layout->vectors, name, layout->parts);
}

/* Whether the epilogue does more than store f32. Some compilers stop unrolling if that makes the code long, so the rows
   of such an epilogue stay a loop. */
static bool has_long_epilogue(const launch_list *list, const fused_chain *chain)
{
    enum { FEW_VALUES = 2 };
    bool narrow = false;
    for (int i = 0; i < chain->output_count; ++i)
        narrow |= tuff_dtype_size(list->buffers[chain->buffers[chain->outputs[i].buffer].id].dtype) < 4;
    return narrow || chain->value_count > FEW_VALUES;
}

/* Stream-k: the blocks whose terms groups share, and the memory of their partial sums. */
typedef struct partial_sums {
    tile_shares tiles;
    int chain_buffer; /* of the launch that stores partial sums; -1: there is none */
} partial_sums;

static uint32_t lanes_of_block(const matmul_blocks *blocks)
{
    return (uint32_t)(blocks->rows * blocks->columns / (blocks->thread_rows * blocks->thread_columns));
}

/* Defines the shape of blocks in local memory, and which of them reach beyond an edge. */
static void define_blocks(const fused_chain *chain, const matmul_blocks *blocks, text *out)
{
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    tuff__text_add(
        out,
        "#define BLOCK_ROWS %d\n#define BLOCK_COLUMNS %d\n#define THREAD_ROWS %d\n#define THREAD_COLUMNS %d\n"
        "#define WHOLE_ROWS %d\n#define WHOLE_COLUMNS %d\n#define COLUMN_PARTS %d\n",
        blocks->rows, blocks->columns, blocks->thread_rows, blocks->thread_columns, rows % blocks->rows == 0,
        columns % blocks->columns == 0, columns % 4 != 0);
}

static tuff_status define_local(const launch_list *list, launch *kernel, const matmul_blocks *blocks, int64_t inner,
                                const partial_sums *shared)
{
    const fused_chain *chain = &kernel->chain;
    text defines = {0};
    for (int i = 0; i < 2; ++i) {
        const chunk_layout layout = layout_of(chain, i, chain->extent[chain->rank - 2 + i], inner);
        define_chunks(list, chain, i, &layout, &defines);
    }
    define_blocks(chain, blocks, &defines);
    tuff__text_add(&defines,
                   "#define MANY_SUMS\n#define STEP_K %d\n#define BUFFERS %d\n#define WHOLE_K %d\n"
                   "#define FUSED_MULTIPLY_ADD 1\n#define ROLLED_ROWS %d\n#define STREAM_K %d\n",
                   blocks->step_k, blocks->buffers, inner % blocks->step_k == 0, has_long_epilogue(list, chain),
                   shared->tiles.sharers > 0);
    if (shared->tiles.sharers > 0)
        tuff__text_add(&defines, "#define STOREV_SUMS(i, x) STOREV_f32(b%d, i, x)\n", shared->chain_buffer);
    if (list->policy.target.limits_registers &&
        tuff__tunable_value(&list->policy, TUNABLE_matmul_local_few_registers) != 0) {
        tuff__text_add(&defines, "#define FEW_REGISTERS\n");
        kernel->registers = REGISTERS_FEW;
    }
    return tuff__set_defines(kernel, &defines);
}

/* Blocks in local memory, for GPUs. */
static tuff_status finish_local(const launch_list *list, launch *kernel, const matmul_problem *problem,
                                const matmul_blocks *blocks, const partial_sums *shared)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t row_tiles = tuff__divide_up(problem->rows, blocks->rows),
                  column_tiles = tuff__divide_up(problem->columns, blocks->columns);
    const int64_t tiles = tuff__count_blocks(problem, blocks->rows, blocks->columns),
                  groups = shared->tiles.whole + shared->tiles.sharers;
    kernel->vec = 4;
    tuff__set_tile(kernel, blocks->thread_rows, blocks->thread_columns,
                   groups > 0 ? (double)problem->inner * (double)tiles / (double)groups : 0);
    kernel->local_bytes = tuff__block_bytes(blocks) * (uint32_t)blocks->buffers;
    kernel->traffic = 4.0 * (double)problem->inner *
                      (double)(problem->rows * column_tiles + problem->columns * row_tiles) * (double)problem->batches;
    kernel->local_size = lanes_of_block(blocks);
    kernel->groups = (uint64_t)groups;
    tuff__set_parameters(kernel,
                         (int64_t[]){problem->rows, problem->columns, problem->inner, row_tiles, column_tiles,
                                     problem->batches, blocks->band, chain->operand_strides[0][0],
                                     chain->operand_strides[0][1], chain->operand_strides[1][0],
                                     chain->operand_strides[1][1], shared->tiles.whole, shared->tiles.sharers, 0},
                         14);
    kernel->parameter_buffers[13] = shared->chain_buffer;
    return define_local(list, kernel, blocks, problem->inner, shared);
}

/* Whether a kernel can have one more buffer, of so many elements, besides those of the chain and the parameters. */
static bool has_room(const launch_list *list, const fused_chain *chain, int64_t elements)
{
    const tuff_device_info *info = list->policy.target.info;
    const int64_t most = info->max_bindings;
    return chain->buffer_count < MAX_CHAIN_BUFFERS && (most == 0 || chain->buffer_count + 2 <= most) &&
           (uint64_t)elements * sizeof(float) <= info->max_binding;
}

/* Makes the copy of a matmul's chain read partial sums in place of the operands. */
static void keep_sums(fused_chain *chain, int sums)
{
    for (int i = 0; i < 2; ++i)
        if (tuff__is_produced(chain, i))
            tuff__chain_drop_producer(chain, i);
    chain->buffers[chain->buffer_count] = (chain_buffer){.id = sums, .dtype = TUFF_F32, .read = true};
    chain->operand_buffers[0] = chain->operand_buffers[1] = chain->buffer_count++;
    chain->operand_names[0] = "sums";
    chain->operand_bases[0] = (affine){.offset = 0};
    chain->operand_base_count = 1;
    tuff__chain_drop_buffers(chain);
    tuff__chain_analyse(chain);
}

/* Decides about sharing. If groups share blocks, adds the memory of partial sums to the chain, as a buffer that it
   writes, and sets *join to the chain of the launch that adds the sums, which the caller frees or passes on; else
   leaves *join empty. */
static tuff_status begin_sharing(launch_list *list, fused_chain *chain, const matmul_problem *problem,
                                 const matmul_blocks *blocks, partial_sums *out, fused_chain *join)
{
    const tile_shares tiles = tuff__share_blocks(&list->policy, problem, blocks);
    const int64_t count = tuff__count_blocks(problem, blocks->rows, blocks->columns);
    *join = (fused_chain){.rank = 0};
    *out = (partial_sums){.tiles = {.whole = count}, .chain_buffer = -1};
    const int64_t elements = (count - tiles.whole + tiles.sharers - 1) * blocks->rows * blocks->columns;
    if (tiles.sharers == 0 || !has_room(list, chain, elements))
        return TUFF_OK;
    const int sums = tuff__buffer_add(list, TUFF_F32, elements);
    if (sums < 0)
        return TUFF_E_OOM_HOST;
    TRY(tuff__chain_duplicate(chain, join));
    keep_sums(join, sums);
    *out = (partial_sums){.tiles = tiles, .chain_buffer = chain->buffer_count};
    chain->buffers[chain->buffer_count++] = tuff__chain_buffer(list, sums, true);
    return TUFF_OK;
}

/* The launch that adds partial sums in a fixed order and computes the epilogue; takes the chain. */
static tuff_status lower_join(launch_list *list, int index, fused_chain *join, const matmul_problem *problem,
                              const matmul_blocks *blocks, const partial_sums *shared)
{
    const int64_t row_tiles = tuff__divide_up(problem->rows, blocks->rows),
                  column_tiles = tuff__divide_up(problem->columns, blocks->columns);
    const int64_t tiles = tuff__count_blocks(problem, blocks->rows, blocks->columns) - shared->tiles.whole;
    launch *kernel = tuff__launch_add(list, "matmul_join", WALK_MATMUL, index);
    if (kernel == NULL) {
        tuff__chain_free(join);
        return TUFF_E_OOM_HOST;
    }
    kernel->chain = *join;
    kernel->vec = 4;
    kernel->local_size = lanes_of_block(blocks);
    kernel->groups = (uint64_t)(tiles * blocks->thread_rows * blocks->thread_columns / kernel->vec);
    kernel->operations = (double)(tiles + shared->tiles.sharers) * blocks->rows * blocks->columns;
    tuff__set_parameters(kernel,
                         (int64_t[]){problem->rows, problem->columns, tuff__divide_up(problem->inner, blocks->step_k),
                                     row_tiles, column_tiles, problem->batches, blocks->band, shared->tiles.whole,
                                     shared->tiles.sharers},
                         9);
    text defines = {0};
    define_blocks(&kernel->chain, blocks, &defines);
    tuff__text_add(&defines, "#define LOADV_SUMS(i) LOADV_f32(b%d, i)\n", kernel->chain.operand_buffers[0]);
    return tuff__set_defines(kernel, &defines);
}

static tuff_status pack(launch_list *list, int index, fused_chain *chain, const matmul_problem *problem,
                        const matmul_tile *tile)
{
    if (problem->packed[0])
        TRY(tuff__pack_operand(list, index, chain, 0, problem->inner, tile->rows, tile->vec));
    if (problem->packed[1])
        TRY(tuff__pack_operand(list, index, chain, 1, problem->inner, (int64_t)tile->vec * tile->columns, tile->vec));
    return TUFF_OK;
}

/* For bodies that read no panels: a configuration may request that a produced operand is written to memory first. */
static tuff_status write_produced(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    static const tunable copies[] = {TUNABLE_matmul_copy_x, TUNABLE_matmul_copy_y};
    const int64_t lines[] = {chain->extent[chain->rank - 2], chain->extent[chain->rank - 1]};
    for (int i = 0; i < 2; ++i)
        if (tuff__is_produced(chain, i) && tuff__wants_copy(&list->policy, copies[i], false) &&
            (i == 0 || tuff__copy_keeps_order(&list->policy, chain)))
            TRY(tuff__pack_operand(list, index, chain, i, inner, lines[i], 4));
    return TUFF_OK;
}

static tuff_status lower_by_library(launch_list *list, int index, fused_chain *chain, int64_t inner,
                                    const library_product *product)
{
    launch *kernel = tuff__matmul_launch(list, "matmul_clblast", index, chain, inner);
    if (kernel == NULL)
        return TUFF_E_OOM_HOST;
    kernel->kind = LAUNCH_LIBRARY_GEMM;
    kernel->product = *product;
    return TUFF_OK;
}

static tuff_status lower_registers(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    matmul_problem problem = tuff__matmul_problem(chain, inner);
    tuff__choose_packing(&list->policy, list->fusion->graph, chain, &problem);
    const matmul_tile tile = tuff__choose_tile(&list->policy, &problem);
    TRY(tuff__check_accumulators(list, tile.vec, (int64_t)tile.rows * tile.columns));
    TRY(pack(list, index, chain, &problem, &tile));
    launch *kernel = tuff__matmul_launch(list, "matmul_register", index, chain, inner);
    return kernel == NULL ? TUFF_E_OOM_HOST : finish_registers(list, kernel, &tile, &problem);
}

static tuff_status lower_blocks(launch_list *list, int index, fused_chain *chain, const matmul_problem *problem,
                                const matmul_blocks *blocks, const partial_sums *shared)
{
    launch *kernel = tuff__matmul_launch(list, "matmul_local", index, chain, problem->inner);
    return kernel == NULL ? TUFF_E_OOM_HOST : finish_local(list, kernel, problem, blocks, shared);
}

static tuff_status lower_local(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    const matmul_problem problem = tuff__matmul_problem(chain, inner);
    const matmul_blocks blocks = tuff__choose_blocks(&list->policy, &problem);
    partial_sums shared = {.chain_buffer = -1};
    fused_chain join;
    TRY(begin_sharing(list, chain, &problem, &blocks, &shared, &join));
    const tuff_status status = lower_blocks(list, index, chain, &problem, &blocks, &shared);
    if (shared.tiles.sharers > 0 && status == TUFF_OK)
        return lower_join(list, index, &join, &problem, &blocks, &shared);
    tuff__chain_free(&join);
    return status;
}

static tuff_status suits_registers(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits)
{
    (void)chain, (void)inner;
    *suits = tuff__uses_registers(&list->policy);
    return TUFF_OK;
}

static tuff_status suits_local(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits)
{
    (void)list, (void)chain, (void)inner;
    *suits = true;
    return TUFF_OK;
}

const matmul_form tuff__matmul_register = {.suits = suits_registers, .lower = lower_registers};
const matmul_form tuff__matmul_local = {.suits = suits_local, .lower = lower_local};

double tuff__loops_matmul_register(const launch *kernel)
{
    const double inner = parameter(kernel, 2), width = kernel->subgroup_size > 0 ? kernel->subgroup_size : 1;
    const double rest = width > 1 ? loop(remainder_of(inner, width), 0) : 0;
    return loop(quotient(inner, width), 0) + rest + count_elements(kernel, "TILE_ROWS", "TILE_COLUMNS");
}

/* Parameters of matmul_local. */
enum { ROW_TILES = 3, COLUMN_TILES = 4, BATCHES = 5, WHOLE_TILES = 11, SHARERS = 12 };

/* A group has as many steps as there are in its range, which may begin and end within a tile. */
static double tiles_of_sharer(const launch *kernel, double steps)
{
    const double tiles = parameter(kernel, ROW_TILES) * parameter(kernel, COLUMN_TILES) * parameter(kernel, BATCHES);
    const double shared = (tiles - parameter(kernel, WHOLE_TILES)) * steps;
    return divide_up(divide_up(shared, greater(parameter(kernel, SHARERS), 1)), greater(steps, 1)) + 1;
}

double tuff__loops_matmul_local(const launch *kernel)
{
    const double steps = divide_up(parameter(kernel, 2), greater(defined(kernel, "STEP_K"), 1));
    const double tile = loop(steps, 0) + count_elements(kernel, "THREAD_ROWS", "THREAD_COLUMNS");
    return defined(kernel, "STREAM_K") == 0 ? tile : loop(tiles_of_sharer(kernel, steps), tile);
}

/* Counts the parts of one tile. */
double tuff__loops_matmul_join(const launch *kernel)
{
    enum { STEPS = 2, JOINED_SHARERS = 8, JOINED_WHOLE_TILES = 7 };
    const double steps = parameter(kernel, STEPS), sharers = greater(parameter(kernel, JOINED_SHARERS), 1);
    const double tiles = parameter(kernel, ROW_TILES) * parameter(kernel, COLUMN_TILES) * parameter(kernel, BATCHES);
    const double shared = (tiles - parameter(kernel, JOINED_WHOLE_TILES)) * steps;
    return loop(divide_up(steps, greater(quotient(shared, sharers), 1)) + 1, 0) + loop(VECTOR_LANES, 0);
}

static double predict_product(const target *device, const library_product *product)
{
    const double m = (double)product->rows, n = (double)product->columns, k = (double)product->inner;
    const double batches = (double)product->batches;
    return tuff__cost_seconds(device, 2 * m * n * k * batches, sizeof(float) * (m * k + k * n + m * n) * batches, 0);
}

/* Whether the library computes the matmul: not if it would take too long for one submission, as a library's product
   cannot be split. Fails with TUFF_E_UNSUPPORTED if the library is requested and missing. */
static tuff_status find_library(const launch_list *list, const fused_chain *chain, int64_t inner,
                                library_product *product, bool *found)
{
    *found = false;
    if (tuff__library(&list->policy) != TUFF_MATMUL_CLBLAST)
        return TUFF_OK;
    const char *absence = tuff__device_library_unavailable_reason(list->device);
    if (absence != NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "compile: %s", absence);
    if (!tuff__find_library_gemm(list, chain, inner, product))
        return TUFF_OK;
    *found = tuff__device_takes_whole(list->device, predict_product(&list->policy.target, product));
    if (!*found)
        tuff__log(TUFF_LOG_INFO,
                  "%s: a product of %lld x %lld x %lld may take too long for one submission: it is not left to CLBlast",
                  list->policy.target.info->selector, (long long)product->rows, (long long)product->columns,
                  (long long)product->inner);
    return TUFF_OK;
}

/* Returns the first form of kernels.def that suits. Forms with a family of their own are tried only if it is requested,
   unless they are defaults. */
static tuff_status choose_form(const launch_list *list, const fused_chain *chain, int64_t inner,
                               const matmul_form **form)
{
    static const matmul_form *const forms[] = {
#define MATMUL(name) &tuff__matmul_##name,
#include "kernels/kernels.def"
    };
    const tuff_family family = tuff__family(&list->policy);
    bool suits = false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !suits; ++i) {
        *form = forms[i];
        if (forms[i]->family == TUFF_FAMILY_DEVICE || forms[i]->family == family ||
            (forms[i]->is_default && family == TUFF_FAMILY_DEVICE))
            TRY(forms[i]->suits(list, chain, inner, &suits));
    }
    return TUFF_OK;
}

/* A matmul and its epilogue as one kernel, after the copies of operands that it reads. */
static tuff_status lower_whole(launch_list *list, int index, fused_chain *chain)
{
    const tuff_shape *operand = &list->fusion->tasks[index].core->inputs[0]->shape;
    const int64_t inner = operand->extent[operand->rank - 1];
    const matmul_form *form;
    library_product product;
    bool by_library;
    if (!tuff__uses_registers(&list->policy) || tuff__library(&list->policy) == TUFF_MATMUL_CLBLAST ||
        tuff__family(&list->policy) > TUFF_FAMILY_LOCAL)
        TRY(write_produced(list, index, chain, inner));
    TRY(find_library(list, chain, inner, &product, &by_library));
    if (by_library)
        return lower_by_library(list, index, chain, inner, &product);
    TRY(choose_form(list, chain, inner, &form));
    return form->lower(list, index, chain, inner);
}

/* The product and its epilogue as separate kernels. */
static tuff_status lower_in_two(launch_list *list, int index, fused_chain *chain)
{
    fused_chain epilogue;
    TRY(tuff__split_epilogue(list, chain, &epilogue));
    const tuff_status status = lower_whole(list, index, chain);
    if (status == TUFF_OK)
        return tuff__lower_map(list, index, &epilogue);
    tuff__chain_free(&epilogue);
    return status;
}

tuff_status tuff__lower_matmul(launch_list *list, int index, fused_chain *chain)
{
    const bool in_two = tuff__has_epilogue(chain) && tuff__tunable_value(&list->policy, TUNABLE_matmul_epilogue) != 0;
    const tuff_status status = in_two ? lower_in_two(list, index, chain) : lower_whole(list, index, chain);
    tuff__chain_free(chain); /* empty if a launch took it */
    return status;
}
