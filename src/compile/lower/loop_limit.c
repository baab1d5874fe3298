/* Handles drivers that end loops early (tuff_device_info.loop_limit), and counts the loops of all bodies but those of
   matmuls; loop_count.h says how loops are counted. */
#include "compile/lower/loop_limit.h"

#include <inttypes.h>
#include <string.h>

#include "compile/lower/loop_count.h"

enum { BLOCK = 128 }; /* terms in a block of sums */

/* Counts a loop over `count` terms, in blocks. */
static double block_steps(double count)
{
    return count + loop(divide_up(count, BLOCK), 1);
}

double tuff__loops_row(const launch *kernel)
{
    const bool local = strcmp(kernel->body, "row_local") == 0;
    const double rows = lesser(parameter(kernel, 3), parameter(kernel, 0)), columns = parameter(kernel, 1);
    const double at_once = local ? defined(kernel, "GROUP_ROWS") : 1;
    const double runs = parameter(kernel, 2), lanes = local ? kernel->local_size / at_once : 1;
    const double vectors = kernel->vec > 1 ? quotient(columns, kernel->vec) : 0, rest = columns - vectors * kernel->vec;
    const double run = block_steps(divide_up(vectors, lanes)) + block_steps(divide_up(rest, lanes));
    const double joined = local ? defined(kernel, "JOINED") : 1;
    const double exchanged = kernel->exchange_form > 0 ? defined(kernel, "EXCHANGE_LANES") : 1;
    const double joins =
        local ? (loop(lanes / joined / exchanged, 0) + loop(joined, 0)) * kernel->chain.reduction_count : 0;
    return loop(divide_up(rows, at_once), tuff__chain_pass_count(&kernel->chain) * loop(runs, run) + joins);
}

double tuff__loops_column_register(const launch *kernel)
{
    const double columns = parameter(kernel, 1), runs = parameter(kernel, 3),
                 passes = tuff__chain_pass_count(&kernel->chain);
    const double vectors = defined(kernel, "COLUMN_VECTORS"), at_once = defined(kernel, "ROWS_AT_ONCE");
    const double blocks = divide_up(runs, BLOCK), each_run = at_once > 1 ? loop(at_once, 0) : 0;
    const double step = each_run + (vectors > 1 ? loop(vectors, each_run) : each_run);
    const double sums = vectors > 1 ? loop(vectors, 0) : 0;
    const double steps = loop(divide_up(runs, greater(at_once, 1)), step) + blocks * (1 + step);
    const double by_vectors = kernel->vec == 1 ? 0 : 2 * sums + 1 + steps + blocks * (1 + 2 * sums);
    const double single = kernel->vec == 1 ? greater(vectors, 1) : remainder_of(columns, kernel->vec);
    return passes * by_vectors + sums + loop(single, passes * block_steps(runs));
}

double tuff__loops_column_local(const launch *kernel)
{
    enum { COLUMNS = 32 };
    const double lanes = (double)kernel->local_size * kernel->vec / COLUMNS;
    return tuff__chain_pass_count(&kernel->chain) * block_steps(divide_up(parameter(kernel, 3), greater(lanes, 1))) +
           kernel->chain.reduction_count * tree_steps(lanes);
}

double tuff__loops_scan(const launch *kernel)
{
    return loop(parameter(kernel, 1), 0);
}

double tuff__loops_map(const launch *kernel)
{
    const double tile = lesser(parameter(kernel, 3), parameter(kernel, 1));
    return loop(lesser(parameter(kernel, 4), parameter(kernel, 0)),
                loop(divide_up(tile, kernel->vec), 0) + loop(kernel->vec, 0));
}

double tuff__loops_pack_lines(const launch *kernel)
{
    return loop(defined(kernel, "PANELS"), loop(defined(kernel, "TERMS"), loop(defined(kernel, "PANEL"), 0)));
}

double tuff__loops_pack(const launch *kernel)
{
    enum { MAX_IN_A_WORD = 4 };
    (void)kernel;
    return loop(MAX_IN_A_WORD, 0);
}

double tuff__loops_scatter_count(const launch *kernel)
{
    return loop(parameter(kernel, 2), 0);
}

double tuff__loops_scatter_offsets(const launch *kernel)
{
    return loop(parameter(kernel, 1), 0);
}

double tuff__loops_scatter_starts(const launch *kernel)
{
    return loop(parameter(kernel, 2), 0) + loop(parameter(kernel, 1), 0);
}

/* All entries of the list may have the same index; launch.k is their number. */
double tuff__loops_scatter_sum(const launch *kernel)
{
    return loop(lesser(parameter(kernel, 3), parameter(kernel, 1)), block_steps(kernel->k));
}

/* Returns how many of `count` queries (or keys) the band lets an item with `own` keys (or queries) see. first, last:
   indices of the band's parameters. */
static double count_visible(const launch *kernel, double count, double own, int first, int last)
{
    return greater(lesser(count, own + parameter(kernel, last) - parameter(kernel, first) + 1), 0);
}

/* Counts the loops over a row of `width` elements: whole vectors, then single elements. */
static double row_steps(double width, double vec)
{
    return loop(quotient(width, vec), 0) + loop(remainder_of(width, vec), 0);
}

/* Counts the product of a tile of `rows` rows with `terms` rows of that width, `columns` vectors of them at a time. */
static double product_steps(double width, double vec, double columns, double rows, double terms)
{
    return loop(divide_up(quotient(width, vec), greater(columns, 1)), loop(terms, 0)) +
           loop(remainder_of(width, vec), rows * loop(terms, 0));
}

double tuff__loops_attention_register(const launch *kernel)
{
    const double rows = defined(kernel, "TILE_ROWS"), block = defined(kernel, "BLOCK_ROWS"), vec = kernel->vec;
    const double panel = defined(kernel, "PANEL_VECTORS") * vec, key_width = parameter(kernel, 4),
                 width = parameter(kernel, 5);
    const double panels = divide_up(count_visible(kernel, parameter(kernel, 1), block, 9, 10), panel) + 1;
    const double tile = loop(key_width, 0) + rows * row_steps(width, vec) +
                        product_steps(width, vec, defined(kernel, "TILE_COLUMNS"), rows, panel);
    return loop(block, 1 + 2 * loop(1, row_steps(width, vec))) + loop(panels, loop(divide_up(block, rows), tile));
}

/* Returns how many pairs of batch and head an item visits: those that share what it stores. */
static double count_visits(const launch *kernel, int db_batches, double batches)
{
    const double heads = parameter(kernel, 2), groups = greater(parameter(kernel, 3), 1);
    if (defined(kernel, "DB") == 0)
        return heads / groups;
    return (parameter(kernel, db_batches) > 1 ? 1 : batches) * (parameter(kernel, db_batches + 1) > 1 ? 1 : heads);
}

/* Whether the launch stores the gradient, or has the option, that the macro names. */
static bool is_set(const launch *kernel, const char *macro)
{
    return defined(kernel, macro) != 0;
}

/* Counts what attention_backward_register does for one head with a panel of keys and `seen` queries. */
static double visit_steps(const launch *kernel, double seen)
{
    const double vec = kernel->vec, panel = defined(kernel, "PANEL_VECTORS") * vec, rows = defined(kernel, "TILE_ROWS");
    const double keys = greater(defined(kernel, "TILE_KEYS"), 1), block = greater(defined(kernel, "BLOCK_ROWS"), 1);
    const double key_width = parameter(kernel, 4), width = parameter(kernel, 5);
    const double key_columns = defined(kernel, "KEY_COLUMNS"), value_columns = defined(kernel, "VALUE_COLUMNS");
    const bool dk = is_set(kernel, "DK"), dv = is_set(kernel, "DV"),
               beyond = is_set(kernel, "DQ") || dk || is_set(kernel, "DB");
    const double scores = loop(key_width, 0) + (beyond ? loop(width, 0) : 0) +
                          (is_set(kernel, "DB") ? rows * row_steps(panel, vec) : 0) +
                          (is_set(kernel, "DQ") ? product_steps(key_width, vec, key_columns, rows, panel) : 0);
    const double gradients = (dk ? product_steps(key_width, vec, key_columns, keys, block) : 0) +
                             (dv ? product_steps(width, vec, value_columns, keys, block) : 0);
    return loop(divide_up(seen, block),
                loop(divide_up(block, rows), scores) + (dk || dv ? loop(divide_up(panel, keys), gradients) : 0));
}

double tuff__loops_attention_backward_register(const launch *kernel)
{
    enum { BATCHES = 12, BAND_FIRST = 13, BAND_LAST = 14, DB_BATCHES = 54 };
    const double vec = kernel->vec, panel = defined(kernel, "PANEL_VECTORS") * vec, rows = defined(kernel, "TILE_ROWS");
    const double key_width = parameter(kernel, 4), width = parameter(kernel, 5);
    const double own_rows = lesser(parameter(kernel, 10), parameter(kernel, 0));
    const double seen = count_visible(kernel, own_rows, panel + rows, BAND_FIRST, BAND_LAST) + rows;
    const double clear = loop(panel, (is_set(kernel, "DK") ? row_steps(key_width, vec) : 0) +
                                         (is_set(kernel, "DV") ? row_steps(width, vec) : 0)) +
                         (is_set(kernel, "DB") ? loop(own_rows, loop(panel, 0)) : 0);
    const double visits = count_visits(kernel, DB_BATCHES, parameter(kernel, BATCHES));
    const double begin = is_set(kernel, "DQ") ? loop(own_rows, loop(visits, row_steps(key_width, vec))) : 0;
    return begin + loop(parameter(kernel, 8), clear + loop(visits, visit_steps(kernel, seen)));
}

/* Parameters of the bodies for work-groups: the band's ends and, of the backward pass, the groups that share the keys
   of a head. PART: 16-bit elements in 16 bytes. */
enum { FIRST = 9, LAST = 10, SPLITS = 66, PART = 8 };

double tuff__loops_attention_local(const launch *kernel)
{
    enum { SPLIT_KEYS = 40, UNROLLED = 8 };
    const double block = greater(defined(kernel, "BLOCK"), 1), keys = greater(defined(kernel, "KEYS"), 1);
    const double depth = defined(kernel, "DEPTH"), pieces = greater(defined(kernel, "KEY_PIECES"), 1);
    const double value_keys = greater(defined(kernel, "VALUE_KEYS"), 1);
    const double seen = count_visible(kernel, parameter(kernel, 1), block, FIRST, LAST);
    const double own = is_set(kernel, "SPLIT") ? lesser(seen, parameter(kernel, SPLIT_KEYS)) : seen;
    const double panels = divide_up(own, keys) + 1;
    const double queries = loop(divide_up(depth * block / (VECTOR_LANES * VECTOR_LANES), kernel->local_size), 0);
    const double scores = loop(pieces, loop(depth / UNROLLED, 0) + (defined(kernel, "Q_KEPT") != 0 ? 0 : queries));
    const double lanes = VECTOR_LANES * kernel->local_size / block; /* per row */
    const double parts = lanes > VECTOR_LANES ? loop(lanes / VECTOR_LANES, 0) : 0;
    const double values = loop(quotient(keys, value_keys), loop(value_keys / UNROLLED, 0));
    return pieces * queries + loop(panels, scores + parts + values) + parts;
}

double tuff__loops_attention_join(const launch *kernel)
{
    enum { COPIES = 5 };
    return 2 * loop(parameter(kernel, COPIES), 0);
}

double tuff__loops_attention_backward_local(const launch *kernel)
{
    enum { DB_BATCHES = 52, DB_ROWS = 54, BATCHES = 64, SLICES = 65 };
    if (is_set(kernel, "ADD_COPIES"))
        return loop(parameter(kernel, SPLITS), 0);
    const double rows = greater(defined(kernel, "BLOCK_QUERIES"), 1), keys = greater(defined(kernel, "BLOCK_KEYS"), 1);
    const bool dq = is_set(kernel, "DQ"), db = is_set(kernel, "DB");
    const double queries = parameter(kernel, 0);
    const double seen = count_visible(kernel, db && parameter(kernel, DB_ROWS) > 1 ? rows : queries, keys, FIRST, LAST);
    const double scores = loop(defined(kernel, "SCORE_DEPTH"), 0);
    const double panel = (is_set(kernel, "SLICED") ? loop(parameter(kernel, SLICES), scores) : scores) +
                         (is_set(kernel, "DK") || is_set(kernel, "DV") ? loop(rows, 0) : 0) +
                         (dq ? loop(keys / VECTOR_LANES, 0) : 0);
    const double visits = db ? count_visits(kernel, DB_BATCHES, parameter(kernel, BATCHES))
                             : parameter(kernel, 2) / greater(parameter(kernel, 3), 1);
    const double blocks = db ? 1 : divide_up(parameter(kernel, 6), greater(parameter(kernel, SPLITS), 1));
    const double vectors = VECTOR_LANES * greater(defined(kernel, "GRADIENT_VECTORS"), 1);
    const double rows_at_once = quotient(keys, vectors);
    const double clear = dq ? loop(visits, loop(divide_up(queries, greater(rows_at_once, 1)), 0)) : 0;
    const double slices = is_set(kernel, "SLICED") ? greater(parameter(kernel, SLICES), 1) : 1;
    const double moved = (2 + slices) * loop(vectors, 0); /* keys, and gradients when they are stored */
    return loop(blocks, moved + loop(visits, loop(divide_up(seen, rows) + 1, panel))) + clear + loop(keys, 0);
}

/* Counts the queries and, for each panel, the steps of both products; a lane's other work is unrolled. */
double tuff__loops_attention_cooperative(const launch *kernel)
{
    const double keys = greater(defined(kernel, "KEYS"), 1), depth = defined(kernel, "DEPTH");
    const double lanes = greater(defined(kernel, "MATRIX_LANES"), 1), terms = greater(defined(kernel, "MATRIX_K"), 1);
    const double own = defined(kernel, "TILE_ROWS") * defined(kernel, "MATRIX_M");
    const double block = own * quotient(kernel->local_size, lanes);
    const double panels = divide_up(count_visible(kernel, parameter(kernel, 1), block, FIRST, LAST), keys) + 1;
    const double stored = divide_up(own * defined(kernel, "MATRIX_N") / VECTOR_LANES, lanes);
    return loop(divide_up(block * depth / PART, kernel->local_size), 0) +
           loop(panels, loop(defined(kernel, "KEY_STEPS"), 0) + loop(quotient(keys, terms), 0)) +
           loop(defined(kernel, "VALUE_BLOCKS"), loop(stored, 0));
}

/* Counts the tiles of each block of keys and, for each panel, the steps of the three products that have loops. */
double tuff__loops_attention_backward_cooperative(const launch *kernel)
{
    const double rows = greater(defined(kernel, "BLOCK_QUERIES"), 1), terms = greater(defined(kernel, "MATRIX_K"), 1);
    const double lanes = greater(defined(kernel, "MATRIX_LANES"), 1);
    const double keys = quotient(kernel->local_size, lanes) * terms;
    const double queries = parameter(kernel, 0), panels = divide_up(queries, rows);
    const double seen = count_visible(kernel, queries, keys, FIRST, LAST);
    const double moved = loop(divide_up(keys * defined(kernel, "DEPTH") / PART, kernel->local_size), 0) +
                         loop(divide_up(keys * defined(kernel, "WIDTH") / PART, kernel->local_size), 0);
    const double panel = loop(defined(kernel, "KEY_STEPS"), 0) + loop(defined(kernel, "VALUE_STEPS"), 0) +
                         loop(quotient(keys, terms), 0);
    const double visits = parameter(kernel, 2) / greater(parameter(kernel, 3), 1);
    const double blocks = divide_up(parameter(kernel, 6), greater(parameter(kernel, SPLITS), 1));
    return loop(blocks, moved + loop(visits, loop(divide_up(seen, rows) + 1, panel))) +
           (is_set(kernel, "DQ") ? visits * loop(panels, 0) : 0);
}

/* Counts the units of tiles and elements of gradients that a lane moves for each block of keys and, for each panel, the
   steps of the products; those of dq are in a loop over its blocks. */
double tuff__loops_attention_backward_cooperative_shared(const launch *kernel)
{
    const double rows = greater(defined(kernel, "BLOCK_QUERIES"), 1), terms = greater(defined(kernel, "MATRIX_K"), 1);
    const double side = greater(defined(kernel, "MATRIX_N"), 1), below = greater(defined(kernel, "MATRIX_M"), 1);
    const double depth = defined(kernel, "DEPTH"), lanes = kernel->local_size;
    const double subgroups = quotient(lanes, greater(defined(kernel, "MATRIX_LANES"), 1));
    const double splits = greater(defined(kernel, "COLUMN_SPLITS"), 1);
    const double keys = quotient(subgroups, splits) * below * greater(defined(kernel, "KEY_BLOCKS"), 1);
    const double queries = parameter(kernel, 0), panels = divide_up(queries, rows);
    const double seen = count_visible(kernel, queries, keys, FIRST, LAST);
    const double columns = divide_up(depth, side) + divide_up(defined(kernel, "WIDTH"), side);
    const double moved = loop(divide_up(keys * depth / PART, lanes), 0) +
                         loop(divide_up(keys * defined(kernel, "WIDTH") / PART, lanes), 0) +
                         divide_up(columns, splits) * loop(splits, loop(divide_up(keys * side, lanes), 0));
    const double turns = divide_up(quotient(rows, below) * divide_up(depth, side), subgroups);
    const double panel = loop(defined(kernel, "KEY_STEPS"), 0) + loop(defined(kernel, "VALUE_STEPS"), 0) +
                         2 * loop(quotient(rows, terms), 0) +
                         (is_set(kernel, "DQ") ? loop(turns, loop(quotient(keys, terms), 0)) : 0);
    const double visits = parameter(kernel, 2) / greater(parameter(kernel, 3), 1);
    const double blocks = divide_up(parameter(kernel, 6), greater(parameter(kernel, SPLITS), 1));
    const double cleared = divide_up(rows * depth / VECTOR_LANES, lanes);
    return loop(blocks, moved + loop(visits, loop(divide_up(seen, rows) + 1, panel))) +
           (is_set(kernel, "DQ") ? visits * loop(panels, loop(cleared, 0)) : 0);
}

double tuff__loops_none(const launch *kernel)
{
    (void)kernel;
    return 0;
}

static const struct {
    const char *body;
    double (*count)(const launch *kernel);
} counts[] = {
#define BODY(name, loops) {#name, tuff__loops_##loops},
#include "kernels/kernels.def"
};

double tuff__loop_steps(const launch *kernel)
{
    for (size_t i = 0; kernel->kind == LAUNCH_KERNEL && i < sizeof counts / sizeof *counts; ++i)
        if (strcmp(kernel->body, counts[i].body) == 0)
            return counts[i].count(kernel);
    return 0;
}

const launch *tuff__find_long_loop(const launch_list *list, int first)
{
    const uint32_t limit = list->policy.target.info->loop_limit;
    for (int i = first; i < list->launch_count && limit > 0; ++i)
        if (tuff__loop_steps(&list->launches[i]) > limit)
            return &list->launches[i];
    return NULL;
}

bool tuff__shorten_loops(int attempt, tune_config *defaults)
{
    enum { MAX_VALUES = 8 };
    static const struct {
        tunable name;
        int value;
    } attempts[][MAX_VALUES] = {
        {{TUNABLE_attention_register_block_rows, 1},
         {TUNABLE_attention_register_backward_rows, 1},
         {TUNABLE_map_item_elements, 0},
         {TUNABLE_row_register_item_elements, 0}},
        {{TUNABLE_task_family, TUFF_FAMILY_LOCAL}, {TUNABLE_map_item_elements, 0}},
        {{TUNABLE_task_family, TUFF_FAMILY_LOCAL},
         {TUNABLE_map_item_elements, 0},
         {TUNABLE_attention_local_keys, 128},
         {TUNABLE_attention_local_splits, 32},
         {TUNABLE_attention_local_backward_queries, 64},
         {TUNABLE_row_local_local_size, 256},
         {TUNABLE_column_local_local_size, 256},
         {TUNABLE_matmul_local_step_k, 32}},
    };
    if (attempt >= (int)(sizeof attempts / sizeof *attempts))
        return false;
    *defaults = (tune_config){.set = {0}};
    for (int i = 0; i < MAX_VALUES; ++i)
        if (attempts[attempt][i].name != TUNABLE_task_family || attempts[attempt][i].value != 0)
            tuff__config_set(defaults, attempts[attempt][i].name, attempts[attempt][i].value);
    return true;
}

/* Returns the node after which a task is named. */
static const node *main_node(const struct task *task)
{
    return task->core != NULL ? task->core : task->reduction_count > 0 ? task->reductions[0] : task->roots[0];
}

tuff_status tuff__refuse_long_loop(const launch_list *list, const launch *kernel)
{
    const tuff_device_info *info = list->policy.target.info;
    const node *at = main_node(&list->fusion->tasks[kernel->task]);
    char operands[2][96] = {"", ""};
    for (int i = 0; i < at->input_count && i < 2; ++i)
        tuff__shape_text(at->inputs[i]->shape, operands[i], sizeof operands[i]);
    return FAIL(TUFF_E_LIMIT,
                "compile: %s of %s%s%s needs up to %.0f loop iterations (kernel %s), but %s ends loops after %" PRIu32
                ": split it into several parts",
                tuff__op_info(at->op)->name, operands[0], operands[1][0] != 0 ? " and " : "", operands[1],
                tuff__loop_steps(kernel), kernel->body, info->name, info->loop_limit);
}
