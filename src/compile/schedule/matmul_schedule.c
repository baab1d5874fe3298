/* The shapes of matmuls. A tile is chosen by the cost of its registers, edges and rounds; copies of operands by their
   layout in memory. */
#include "compile/schedule/matmul_schedule.h"

#include <limits.h>

#include "base/checked.h"
#include "compile/schedule/cost.h"

/* The caches that tiles are chosen for, with lines of 64 bytes. Every CPU of the last ten years has at least these. */
enum { LINE_SIZE = 64, NEAR_SETS = 64, NEAR_WAYS = 8, FAR_SETS = 2048, FAR_WAYS = 8 };
/* A copy pays off if so many lines of the other operand read it: for a copy made in every run, the same if a vector
   fills a cache line, a copy that outlives the run, and a copy of rows whose terms are contiguous. */
enum { MIN_LINES = 192, MIN_LINES_WIDE = 128, MIN_LINES_KEPT = 8, MIN_LINES_FOR_ROWS = 512, MIN_PACKED_ROWS = 8 };
/* Fewer than FEW_ROWS rows are few; up to MAX_DOT_ROWS a copy of y for one run would cost more than it saves. A y of
   STREAMED bytes or more comes from memory, which is fastest when read as one stream. */
enum { FEW_ROWS = 8, MAX_DOT_ROWS = 16, STREAMED = 2 << 20 };

int64_t tuff__batch_count(const fused_chain *chain, int rank)
{
    int64_t count = 1;
    for (int i = 0; i < rank; ++i)
        count *= chain->extent[i];
    return count;
}

matmul_problem tuff__matmul_problem(const fused_chain *chain, int64_t inner)
{
    return (matmul_problem){.rows = chain->extent[chain->rank - 2],
                            .columns = chain->extent[chain->rank - 1],
                            .inner = inner,
                            .batches = tuff__batch_count(chain, chain->rank - 2)};
}

/* Whether the buffer's elements change only between runs of the plan, and only through calls that raise a version. */
static bool is_steady(const tuff_graph *graph, int id)
{
    const node *at = id < graph->node_count ? graph->nodes[id] : NULL;
    if (at == NULL || (at->op != OP_ARRAY && at->op != OP_CONSTANT))
        return false;
    const storage *memory = at->op == OP_ARRAY ? at->attributes.array->storage : NULL;
    for (int i = 0; i < graph->assign_count; ++i)
        if (graph->assigns[i]->attributes.array->storage == memory)
            return false;
    return memory == NULL || !tuff__storage_is_imported(memory);
}

bool tuff__operand_is_steady(const tuff_graph *graph, const fused_chain *matmul, int operand)
{
    const chain_producer *producer = &matmul->producers[operand];
    bool steady =
        tuff__is_produced(matmul, operand) || is_steady(graph, matmul->buffers[matmul->operand_buffers[operand]].id);
    for (int i = producer->begin; i < producer->end; ++i)
        if (matmul->values[i].buffer >= 0)
            steady &= is_steady(graph, matmul->buffers[matmul->values[i].buffer].id);
    return steady;
}

/* Whether `count` blocks of `size` bytes, `stride` bytes apart, evict each other from a cache: strides that are
   multiples of a high power of two map to few of its sets. */
static bool conflicts_in_cache(int64_t count, int64_t size, int64_t stride, int64_t sets, int64_t ways)
{
    const int64_t lines = tuff__divide_up(size, LINE_SIZE);
    int64_t step = 1; /* sets from one block to the next: only the power of two in it matters */
    stride = stride < 0 ? -stride : stride;
    while (step < sets && stride % (2 * LINE_SIZE * step) == 0)
        step *= 2;
    const int64_t touched = stride % LINE_SIZE != 0 || lines >= step ? sets : sets / step * lines;
    return count * lines > touched * ways;
}

/* Whether so many terms, `stride` bytes apart, lie in more pages than the TLB of a core covers. */
static bool is_scattered(int64_t terms, int64_t stride)
{
    enum { PAGE_SIZE = 4096, PAGES = 64 };
    const int64_t step = stride < 0 ? -stride : stride;
    return terms * (step < PAGE_SIZE ? step : PAGE_SIZE) > PAGES * PAGE_SIZE;
}

/* Input of the packing rules. Strides are in bytes; arrays are indexed by operand, x and y. */
typedef struct packing_facts {
    const matmul_problem *problem;
    int lanes;
    bool wide;                /* a vector fills a cache line */
    bool contiguous_terms[2]; /* terms are contiguous in memory */
    int64_t term_stride[2];   /* from one term to the next */
    int64_t min_lines[2];     /* lines of the other operand from which on a copy pays off */
} packing_facts;

static packing_facts facts_of(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain,
                              const matmul_problem *problem)
{
    packing_facts facts = {.problem = problem, .lanes = tuff__native_lanes(policy)};
    facts.wide = facts.lanes * (int)sizeof(float) >= LINE_SIZE;
    for (int i = 0; i < 2; ++i) {
        const int64_t stride = chain->operand_strides[i][i == 0 ? 1 : 0];
        facts.contiguous_terms[i] = stride == 1;
        facts.term_stride[i] = stride * (int64_t)tuff_dtype_size(chain->buffers[chain->operand_buffers[i]].dtype);
        facts.min_lines[i] = tuff__operand_is_steady(graph, chain, i) ? MIN_LINES_KEPT
                             : facts.wide                             ? MIN_LINES_WIDE
                                                                      : MIN_LINES;
    }
    return facts;
}

/* Whether y has too few columns for a vector. */
static bool y_is_narrow(const packing_facts *facts)
{
    const matmul_problem *problem = facts->problem;
    return problem->columns > 1 && problem->columns < facts->lanes && problem->rows >= facts->min_lines[1];
}

/* Whether the lines of y that a tile reads evict each other from the cache, or lie in too many pages. */
static bool y_misses_cache(const packing_facts *facts)
{
    const matmul_problem *problem = facts->problem;
    const int64_t panel = 2 * (int64_t)sizeof(float) * facts->lanes;
    return problem->rows >= facts->min_lines[1] && problem->columns >= panel / (int64_t)sizeof(float) &&
           (facts->wide || problem->scattered[1] ||
            conflicts_in_cache(problem->inner, panel, facts->term_stride[1], FAR_SETS, FAR_WAYS));
}

static bool x_misses_cache(const packing_facts *facts)
{
    const matmul_problem *problem = facts->problem;
    return problem->columns >= facts->min_lines[0] && problem->rows >= MIN_PACKED_ROWS && !facts->contiguous_terms[0] &&
           (facts->wide || problem->scattered[0] ||
            conflicts_in_cache(problem->inner, LINE_SIZE, facts->term_stride[0], FAR_SETS, FAR_WAYS));
}

/* If a vector fills a cache line, a tile consumes terms faster than lines arrive, unless they are read sequentially. */
static bool x_arrives_slowly(const packing_facts *facts)
{
    const matmul_problem *problem = facts->problem;
    return problem->columns >= MIN_LINES_FOR_ROWS && problem->rows >= MIN_PACKED_ROWS && facts->contiguous_terms[0] &&
           facts->wide;
}

/* When a packed copy of an operand pays off. */
static const struct packing_rule {
    int operand;
    bool (*applies)(const packing_facts *facts);
} packing_rules[] = {{1, y_is_narrow}, {1, y_misses_cache}, {0, x_misses_cache}, {0, x_arrives_slowly}};

bool tuff__wants_copy(const kernel_policy *policy, tunable name, bool pays)
{
    enum { BY_RULES, NO };
    const int wanted = tuff__tunable_value(policy, name);
    return wanted == BY_RULES ? pays : wanted != NO;
}

/* Tiles read y in vectors of columns, which must be contiguous. A copy also saves computing a produced operand again in
   every run if its sources are steady. */
static bool needs_packed_y(const tuff_graph *graph, const fused_chain *chain, const matmul_problem *problem)
{
    const bool computed_once = tuff__is_produced(chain, 1) && tuff__operand_is_steady(graph, chain, 1);
    return (chain->operand_strides[1][1] != 1 || computed_once) && problem->columns > 1;
}

/* The rows of x that a tile reads at a time must not map to the same sets of the L1 cache. */
static int max_tile_rows(const kernel_policy *policy, const fused_chain *chain, const matmul_problem *problem)
{
    const int64_t row_stride =
        chain->operand_strides[0][0] * (int64_t)tuff_dtype_size(chain->buffers[chain->operand_buffers[0]].dtype);
    if (problem->packed[0])
        return tuff__tunable_value(policy, TUNABLE_matmul_register_packed_rows);
    const bool conflicts =
        chain->operand_strides[0][1] == 1 && conflicts_in_cache(12, 1, row_stride, NEAR_SETS, NEAR_WAYS);
    return conflicts ? NEAR_WAYS : INT_MAX;
}

void tuff__choose_packing(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain,
                          matmul_problem *problem)
{
    problem->max_rows = INT_MAX;
    problem->packed[1] = needs_packed_y(graph, chain, problem);
    if (policy->target.items_are_lanes)
        return;
    const packing_facts facts = facts_of(policy, graph, chain, problem);
    for (int i = 0; i < 2; ++i)
        problem->scattered[i] =
            !(i == 0 && facts.contiguous_terms[i]) && is_scattered(problem->inner, facts.term_stride[i]);
    bool pays[2] = {false, false};
    for (size_t i = 0; i < sizeof packing_rules / sizeof *packing_rules; ++i)
        pays[packing_rules[i].operand] |= packing_rules[i].applies(&facts);
    problem->packed[1] |= tuff__wants_copy(policy, TUNABLE_matmul_copy_y, pays[1]);
    problem->packed[0] = tuff__wants_copy(policy, TUNABLE_matmul_copy_x, pays[0]);
    for (int i = 0; i < 2; ++i)
        problem->scattered[i] &= !problem->packed[i];
    problem->max_rows = max_tile_rows(policy, chain, problem);
}

/* Returns the time of the busiest core: a tile that overhangs an edge costs as much as a full one, and the last round
   takes as long as the others. */
static double cost_of_tile(const kernel_policy *policy, const matmul_problem *problem, int vec, int rows, int columns)
{
    const int64_t cores = policy->target.info->compute_units;
    const int64_t items = tuff__divide_up(problem->rows, rows) *
                          tuff__divide_up(problem->columns, (int64_t)vec * columns) * problem->batches;
    return (double)tuff__divide_up(items, cores > 0 ? cores : 1) *
           tuff__cost_tile_step(rows, columns, tuff__cpu_registers(vec));
}

/* Chooses the cheapest tile whose accumulators leave registers for the operands. */
static void choose_accumulators(const kernel_policy *policy, const matmul_problem *problem, matmul_tile *best)
{
    const int registers = tuff__cpu_registers(best->vec);
    const int most = tuff__tunable_value(policy, problem->packed[1] ? TUNABLE_matmul_register_packed_rows
                                                                    : TUNABLE_matmul_register_tile_rows);
    const int64_t whole = problem->rows < most ? problem->rows : most;
    double least = 0;
    for (int columns = 1; columns <= 4; ++columns)
        for (int rows = 1; rows <= whole && rows <= problem->max_rows; ++rows) {
            const bool fits = rows * columns + columns + 1 <= registers && (columns == 1 || rows * columns <= 24);
            const bool covered = columns == 1 || (int64_t)best->vec * columns <= problem->columns;
            if (!fits || !covered || (columns == 3 && best->vec < 16) || (columns == 4 && rows > 4))
                continue;
            const double cost = cost_of_tile(policy, problem, best->vec, rows, columns);
            if (least == 0 || cost < least || (cost == least && rows * columns > best->rows * best->columns)) {
                least = cost;
                best->rows = rows;
                best->columns = columns;
            }
        }
}

/* Returns the tile that the configuration requests, of any shape, else the one given. */
static matmul_tile configured_tile(const kernel_policy *policy, matmul_tile by_default)
{
    const int rows = tuff__tunable_value(policy, TUNABLE_matmul_register_rows),
              vectors = tuff__tunable_value(policy, TUNABLE_matmul_register_vectors);
    by_default.rows = rows > 0 ? rows : by_default.rows;
    by_default.columns = vectors > 0 ? vectors : by_default.columns;
    return by_default;
}

matmul_tile tuff__choose_tile(const kernel_policy *policy, const matmul_problem *problem)
{
    matmul_tile best = {.vec = tuff__native_lanes(policy),
                        .rows = tuff__tunable_value(policy, TUNABLE_matmul_register_tile_rows),
                        .columns = tuff__tunable_value(policy, TUNABLE_matmul_register_tile_columns),
                        .local_size = (uint32_t)tuff__tunable_value(policy, TUNABLE_matmul_register_local_size)};
    if (policy->target.items_are_lanes) {
        while (best.columns > 1 && problem->columns < 8 * (int64_t)best.vec * best.columns)
            best.columns /= 2;
        best.rows = problem->rows >= best.rows ? best.rows : 4;
        return configured_tile(policy, best);
    }
    while (best.vec > 4 && problem->columns < best.vec && !problem->packed[1])
        best.vec /= 2;
    choose_accumulators(policy, problem, &best);
    return configured_tile(policy, best);
}

gemv_form tuff__gemv_form(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain, int64_t inner)
{
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t *x = chain->operand_strides[0], *y = chain->operand_strides[1];
    const int vec = tuff__native_lanes(policy);
    const bool dots = x[1] == 1 && y[0] == 1 && inner >= 2 * vec;
    const bool no_copy = rows < FEW_ROWS || (rows <= MAX_DOT_ROWS && !tuff__operand_is_steady(graph, chain, 1));
    if (dots && (columns == 1 || (y[1] != 1 && no_copy)))
        return GEMV_DOTS;
    return rows < FEW_ROWS && y[1] == 1 && columns >= 2 * vec ? GEMV_SPANS : GEMV_NONE;
}

bool tuff__copy_keeps_order(const kernel_policy *policy, const fused_chain *chain)
{
    return tuff__uses_registers(policy) || chain->extent[chain->rank - 2] >= FEW_ROWS ||
           chain->operand_strides[1][1] == 1;
}

gemv_form tuff__gemv_local_form(const kernel_policy *policy, const fused_chain *chain, int64_t inner)
{
    enum { MIN_INNER = 128, MIN_COLUMNS = 16, MAX_ROWS_OF_DOTS = 4 }; /* four sums for each row, per lane */
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t *y = chain->operand_strides[1];
    if (tuff__uses_registers(policy) || rows >= FEW_ROWS || inner < MIN_INNER || columns < MIN_COLUMNS)
        return GEMV_NONE;
    if (y[1] == 1)
        return GEMV_SPANS;
    return y[0] == 1 && rows <= MAX_ROWS_OF_DOTS && !tuff__is_produced(chain, 1) ? GEMV_DOTS : GEMV_NONE;
}

void tuff__choose_dots(const kernel_policy *policy, const fused_chain *chain, int64_t inner, int *tile_rows,
                       int *tile_columns)
{
    const int tuned_rows = tuff__tunable_value(policy, TUNABLE_matmul_dot_tile_rows);
    const int tuned_columns = tuff__tunable_value(policy, TUNABLE_matmul_dot_tile_columns);
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

/* Returns how many items all cores need to finish at about the same time. */
static int64_t wanted_items(const kernel_policy *policy)
{
    const int64_t cores = policy->target.info->compute_units;
    return 4 * (cores > 0 ? cores : 1);
}

int64_t tuff__gemv_span(const kernel_policy *policy, const fused_chain *chain, int vec)
{
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int64_t wanted = tuff__divide_up(wanted_items(policy), tuff__batch_count(chain, chain->rank - 2));
    const int64_t most = tuff__tunable_value(policy, TUNABLE_matmul_gemv_span) / rows, share = columns / vec / wanted;
    const int64_t span = share < most ? share : most;
    return span < 1 ? 1 : span;
}

/* tuff__operand_loads for a matmul of few rows or columns; 0 if tiles are better. */
static double gemv_loads(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain, int operand,
                         int64_t inner)
{
    const gemv_form form = tuff__gemv_form(policy, graph, chain, inner);
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    const int vec = tuff__native_lanes(policy);
    int tile_rows, tile_columns;
    if (form == GEMV_NONE)
        return 0;
    if (form == GEMV_SPANS) {
        const int64_t span = tuff__gemv_span(policy, chain, vec) * vec;
        return operand == 1 ? 1 : 2.0 * (double)(tuff__divide_up(columns, span) * vec);
    }
    tuff__choose_dots(policy, chain, inner, &tile_rows, &tile_columns);
    return (double)(operand == 1 ? tuff__divide_up(rows, tile_rows) : tuff__divide_up(columns, tile_columns));
}

double tuff__operand_loads(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain, int operand,
                           int64_t inner)
{
    matmul_problem problem = tuff__matmul_problem(chain, inner);
    const int64_t across = operand == 0 ? problem.columns : problem.rows;
    if (tuff__gemv_local_form(policy, chain, inner) != GEMV_NONE)
        return operand == 1 ? 1 : (double)tuff__divide_up(across, 4);
    if (!tuff__uses_registers(policy)) {
        const matmul_blocks blocks = tuff__choose_blocks(policy, &problem);
        return (double)tuff__divide_up(across, operand == 0 ? blocks.columns : blocks.rows);
    }
    const bool lanes = policy->target.items_are_lanes;
    const double gemv = lanes ? 0 : gemv_loads(policy, graph, chain, operand, inner);
    if (gemv > 0)
        return gemv;
    tuff__choose_packing(policy, graph, chain, &problem);
    if (problem.packed[operand])
        return tuff__operand_is_steady(graph, chain, operand) ? 0 : 1;
    const matmul_tile tile = tuff__choose_tile(policy, &problem);
    if (operand == 1)
        return (double)tuff__divide_up(across, tile.rows);
    return (double)(tuff__divide_up(across, (int64_t)tile.vec * tile.columns) * (lanes ? 1 : 2 * tile.vec));
}
