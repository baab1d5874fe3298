/* Matmuls of few rows or few columns: long spans of columns, or inner products; on GPUs, groups that share the terms of
   few columns. No copies are made. */
#include "base/checked.h"
#include "compile/lower/loop_count.h"
#include "compile/lower/lower_matmul.h"

static tuff_status define_gemv(launch *kernel, int rows, int columns, int step)
{
    text defines = {0};
    tuff__define_load(&kernel->chain, 0, "LOAD_A", "LOAD", &defines);
    tuff__define_load(&kernel->chain, 1, "LOADV_B", "LOADU", &defines);
    if (step == 0) {
        tuff__define_load(&kernel->chain, 0, "LOADV_A", "LOADU", &defines);
        tuff__define_load(&kernel->chain, 1, "LOAD_B", "LOAD", &defines);
    }
    tuff__text_add(&defines, "#define TILE_ROWS %d\n#define FUSED_MULTIPLY_ADD 1\n", rows);
    if (step > 0)
        tuff__text_add(&defines, "#define SPAN %d\n#define STEP_K %d\n", columns, step);
    else
        tuff__text_add(&defines, "#define TILE_COLUMNS %d\n", columns);
    return tuff__set_defines(kernel, &defines);
}

/* Contiguous columns: each item computes a long span of them. */
static tuff_status finish_spans(const launch_list *list, launch *kernel, int64_t inner)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    const int64_t span = tuff__gemv_span(&list->policy, chain, kernel->vec);
    const int64_t tiles = tuff__divide_up(columns, span * kernel->vec);
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_matmul_gemv_local_size);
    kernel->groups = (uint64_t)tuff__divide_up(tiles * batches, kernel->local_size);
    const int step = tuff__tunable_value(&list->policy, TUNABLE_matmul_gemv_step_k);
    kernel->array_bytes = (int64_t)sizeof(float) * kernel->vec * rows * (span + step + 1);
    tuff__set_parameters(kernel,
                         (int64_t[]){columns, inner, tiles, batches, chain->operand_strides[0][0],
                                     chain->operand_strides[0][1], chain->operand_strides[1][0]},
                         7);
    return define_gemv(kernel, (int)rows, (int)span, step);
}

/* If there are few items, each is a group of its own, so that all cores get some. */
static uint32_t items_of_group(const launch_list *list, int64_t items)
{
    const int tuned = tuff__tunable_value(&list->policy, TUNABLE_matmul_dot_local_size);
    return tuned > 0 ? (uint32_t)tuned : items < 64 ? 1 : 4;
}

/* Contiguous terms: inner products. */
static tuff_status finish_dots(const launch_list *list, launch *kernel, int64_t inner)
{
    fused_chain *chain = &kernel->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2);
    int tile_rows, tile_columns;
    tuff__choose_dots(&list->policy, chain, inner, &tile_rows, &tile_columns);
    chain->producers[1].transposed = true;
    const int64_t row_tiles = tuff__divide_up(rows, tile_rows), column_tiles = tuff__divide_up(columns, tile_columns);
    const int64_t items = row_tiles * column_tiles * batches;
    kernel->local_size = items_of_group(list, items);
    kernel->groups = (uint64_t)tuff__divide_up(items, kernel->local_size);
    kernel->array_bytes = (int64_t)sizeof(float) * tile_rows * tile_columns * (kernel->vec + 1);
    tuff__set_parameters(kernel,
                         (int64_t[]){rows, columns, inner, row_tiles, column_tiles, batches,
                                     chain->operand_strides[0][0], chain->operand_strides[1][1]},
                         8);
    return define_gemv(kernel, tile_rows, tile_columns, 0);
}

/* For CPU devices whose items are scalar code. */
static tuff_status suits_gemv(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits)
{
    *suits = tuff__uses_registers(&list->policy) && !list->policy.target.items_are_lanes &&
             tuff__gemv_form(&list->policy, list->fusion->graph, chain, inner) != GEMV_NONE;
    return TUFF_OK;
}

static tuff_status lower_gemv(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    const bool dots = tuff__gemv_form(&list->policy, list->fusion->graph, chain, inner) == GEMV_DOTS;
    launch *kernel = tuff__matmul_launch(list, dots ? "matmul_dot" : "matmul_gemv", index, chain, inner);
    if (kernel == NULL)
        return TUFF_E_OOM_HOST;
    kernel->vec = tuff__native_lanes(&list->policy);
    return dots ? finish_dots(list, kernel, inner) : finish_spans(list, kernel, inner);
}

/* How the lanes of a group read a product of few rows: vectors of four elements, and in pairs what has 16 bits. */
typedef struct gemv_layout {
    bool along_k, a_pairs, b_pairs;
    int term_vectors, column_vectors; /* vectors of terms that a lane multiplies at a time, and of columns it owns */
    int lane_columns;                 /* lanes side by side along the columns; the others share their terms */
} gemv_layout;

/* Whether an operand with these distances between its lines has elements of 16 bits that can be loaded in pairs of
   vectors. */
static bool has_pairs(const launch_list *list, const fused_chain *chain, int operand, int64_t line_stride)
{
    const chain_buffer *buffer = &chain->buffers[chain->operand_buffers[operand]];
    return !tuff__is_produced(chain, operand) && tuff_dtype_size(buffer->dtype) == 2 &&
           tuff__operand_is_aligned_to(list, chain, operand, chain->rank - 2, line_stride, 8);
}

/* Fewer lanes lie side by side if there would be too few groups for the device, and more if there are too few terms
   for all others. */
static int lane_columns(const launch_list *list, const gemv_layout *layout, const fused_chain *chain, int64_t inner,
                        int local_size)
{
    enum { GROUPS_OF_UNIT = 4 };
    const int64_t batches = tuff__batch_count(chain, chain->rank - 2), columns = chain->extent[chain->rank - 1];
    int lanes = tuff__tunable_value(&list->policy, layout->along_k ? TUNABLE_matmul_gemv_local_lane_dots
                                                                   : TUNABLE_matmul_gemv_local_lane_columns);
    const int64_t tiles = tuff__divide_up(columns, 4 * (int64_t)layout->column_vectors * lanes);
    if (layout->column_vectors > 1 && lanes > 1 &&
        tiles * batches < GROUPS_OF_UNIT * tuff__processors_or_usual(&list->policy))
        lanes /= layout->column_vectors;
    while (lanes < local_size && 4 * (int64_t)layout->term_vectors * (local_size / lanes) > inner)
        lanes *= 2;
    return lanes < local_size ? lanes : local_size;
}

/* More rows than MAX_ROWS_OF_PAIRS would need too many registers for pairs. */
static gemv_layout gemv_layout_of(const launch_list *list, const fused_chain *chain, bool along_k, int64_t inner,
                                  int local_size)
{
    enum { MAX_ROWS_OF_PAIRS = 4, MAX_ROWS_OF_TERMS = 2 };
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t *x = chain->operand_strides[0], *y = chain->operand_strides[1];
    const bool few_rows = rows <= MAX_ROWS_OF_TERMS;
    gemv_layout made = {.along_k = along_k, .term_vectors = 1, .column_vectors = 1};
    made.b_pairs =
        rows <= MAX_ROWS_OF_PAIRS && (along_k || columns % 8 == 0) && has_pairs(list, chain, 1, y[along_k ? 1 : 0]);
    made.a_pairs = x[1] == 1 && has_pairs(list, chain, 0, rows == 1 ? 0 : x[0]);
    if ((along_k && made.b_pairs) || (few_rows && made.a_pairs))
        made.term_vectors = 2;
    if (!along_k && made.b_pairs)
        made.column_vectors = 2;
    made.a_pairs &= made.term_vectors == 2;
    made.lane_columns = lane_columns(list, &made, chain, inner, local_size);
    return made;
}

static void define_gemv_loads(const launch_list *list, const fused_chain *chain, const gemv_layout *layout, text *out)
{
    const int64_t rows = chain->extent[chain->rank - 2];
    const int64_t *x = chain->operand_strides[0], *y = chain->operand_strides[1];
    const int batch_rank = chain->rank - 2;
    const bool a_aligned = tuff__operand_is_aligned(list, chain, 0, batch_rank, rows == 1 ? 0 : x[0]);
    const bool b_aligned = tuff__operand_is_aligned(list, chain, 1, batch_rank, y[layout->along_k ? 1 : 0]);
    tuff__define_load(chain, 0, "LOAD_A", "LOAD", out);
    tuff__define_load(chain, 1, "LOAD_B", "LOAD", out);
    if (layout->a_pairs)
        tuff__define_pair_load(chain, 0, "LOADP_A", out);
    else if (x[1] == 1)
        tuff__define_load(chain, 0, "LOADV_A", a_aligned ? "LOADV" : "LOADU", out);
    if (layout->b_pairs)
        tuff__define_pair_load(chain, 1, "LOADP_B", out);
    else
        tuff__define_load(chain, 1, "LOADV_B", b_aligned ? "LOADV" : "LOADU", out);
}

static tuff_status define_gemv_local(const launch_list *list, launch *kernel, const gemv_layout *layout, int64_t inner)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    text defines = {0};
    define_gemv_loads(list, chain, layout, &defines);
    tuff__text_add(
        &defines,
        "#define MANY_VALUES\n#define TILE_ROWS %d\n#define LANE_COLUMNS %d\n#define ALONG_K %d\n#define A_VECTORS %d\n"
        "#define A_PAIRS %d\n#define B_PAIRS %d\n#define TERM_VECTORS %d\n#define COLUMN_VECTORS %d\n"
        "#define WHOLE_COLUMNS %d\n#define WHOLE_INNER %d\n",
        (int)rows, layout->lane_columns, layout->along_k, chain->operand_strides[0][1] == 1, layout->a_pairs,
        layout->b_pairs, layout->term_vectors, layout->column_vectors, columns % (4 * layout->column_vectors) == 0,
        inner % (4 * layout->term_vectors) == 0);
    return tuff__set_defines(kernel, &defines);
}

static tuff_status suits_gemv_local(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits)
{
    *suits = tuff__gemv_local_form(&list->policy, chain, inner) != GEMV_NONE;
    return TUFF_OK;
}

static tuff_status lower_gemv_local(launch_list *list, int index, fused_chain *chain, int64_t inner)
{
    const bool along_k = tuff__gemv_local_form(&list->policy, chain, inner) == GEMV_DOTS;
    launch *kernel = tuff__matmul_launch(list, "matmul_gemv_local", index, chain, inner);
    if (kernel == NULL)
        return TUFF_E_OOM_HOST;
    const fused_chain *own = &kernel->chain;
    const int64_t columns = own->extent[own->rank - 1], batches = tuff__batch_count(own, own->rank - 2);
    kernel->vec = 4;
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_matmul_gemv_local_local_size);
    const gemv_layout layout = gemv_layout_of(list, own, along_k, inner, (int)kernel->local_size);
    const int64_t tiles = tuff__divide_up(columns, 4 * (int64_t)layout.column_vectors * layout.lane_columns);
    kernel->pairs = layout.a_pairs || layout.b_pairs;
    kernel->groups = (uint64_t)(tiles * batches);
    kernel->local_bytes = (uint32_t)(16 * layout.column_vectors * own->extent[own->rank - 2]) * kernel->local_size;
    tuff__set_parameters(kernel,
                         (int64_t[]){columns, inner, tiles, batches, own->operand_strides[0][0],
                                     own->operand_strides[0][1], own->operand_strides[1][0],
                                     own->operand_strides[1][1]},
                         8);
    return define_gemv_local(list, kernel, &layout, inner);
}

double tuff__loops_matmul_gemv_local(const launch *kernel)
{
    const double steps = kernel->local_size / greater(defined(kernel, "LANE_COLUMNS"), 1);
    const double terms = 4 * greater(defined(kernel, "TERM_VECTORS"), 1);
    return loop(divide_up(parameter(kernel, 1), terms * steps), 0) + loop(terms - 1, 0) + tree_steps(steps) +
           count_elements(kernel, "TILE_ROWS", "LANE_COLUMNS");
}

const matmul_form tuff__matmul_gemv_local = {.suits = suits_gemv_local, .lower = lower_gemv_local};
const matmul_form tuff__matmul_gemv = {.suits = suits_gemv, .lower = lower_gemv};

double tuff__loops_matmul_gemv(const launch *kernel)
{
    const double inner = parameter(kernel, 1), step = greater(defined(kernel, "STEP_K"), 1),
                 span = defined(kernel, "SPAN");
    return (1 + quotient(inner, step) + remainder_of(inner, step)) * (1 + loop(span, 0)) + 2 * loop(span, 0) +
           count_elements(kernel, "TILE_ROWS", "SPAN");
}

double tuff__loops_matmul_dot(const launch *kernel)
{
    return loop(quotient(parameter(kernel, 2), kernel->vec), 0) +
           loop(remainder_of(parameter(kernel, 2), kernel->vec), 0);
}
