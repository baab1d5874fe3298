/* How often the loops of a launch go round, for drivers that end loops early (tuff_device_info.loop_limit). Counted are
   the steps of all loops of an item together, as such a driver does: each time round, and once more for the end of a
   loop. That is for the item that has most to do; lanes in lockstep end loops together. Only loops that the kernels'
   texts ask compilers to unroll do not count. Each count reads the parameters in the order in which its body names
   them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compile/lower.h"

enum { BLOCK = 128, LANES = 4 }; /* terms of a block of sums; elements of a vector in what is behind a tile */

static double up(double a, double b)
{
    return (double)tuff__divide_up((int64_t)a, (int64_t)b);
}

static double whole(double a, double b)
{
    return (double)((int64_t)a / (int64_t)b);
}

static double rest_of(double a, double b)
{
    return (double)((int64_t)a % (int64_t)b);
}

static double least_of(double a, double b)
{
    return a < b ? a : b;
}

static double most_of(double a, double b)
{
    return a > b ? a : b;
}

/* The number that a launch defines by that name; 0 where it does not. */
static double defined(const launch *of, const char *name)
{
    char line[64];
    int value = 0;
    (void)snprintf(line, sizeof line, "#define %s ", name);
    const char *found = strstr(of->defines, line);
    return found != NULL && sscanf(found + strlen(line), "%d", &value) == 1 ? value : 0;
}

static double parameter(const launch *of, int index)
{
    return index < of->fixed_count ? (double)of->fixed[index] : 0;
}

static double passes_of(const fused_chain *chain)
{
    int last = 0;
    for (int i = 0; i < chain->reduction_count; ++i)
        last = chain->reductions[i].stage > last ? chain->reductions[i].stage : last;
    for (int i = 0; i < chain->value_count; ++i)
        last = chain->values[i].stage > last ? chain->values[i].stage : last;
    return last + 1;
}

/* A loop whose body has loops of `inner` steps: a step for each time round, and one for its end. */
static double loop(double times, double inner)
{
    return 1 + times * (1 + inner);
}

/* `count` terms one after another, in blocks. */
static double in_blocks(double count)
{
    return count + loop(up(count, BLOCK), 1);
}

/* What `lanes` lanes do to join the results of a reduction. */
static double tree(double lanes)
{
    double times = 0;
    for (; lanes > 1; lanes /= 2)
        ++times;
    return loop(times, 0);
}

static double count_row(const launch *of)
{
    const bool local = strcmp(of->body, "row_local") == 0;
    const double rows = least_of(parameter(of, 3), parameter(of, 0)), columns = parameter(of, 1);
    const double runs = parameter(of, 2), lanes = local ? of->local_size : 1;
    const double vectors = of->vec > 1 ? whole(columns, of->vec) : 0, rest = columns - vectors * of->vec;
    const double run = in_blocks(up(vectors, lanes)) + in_blocks(up(rest, lanes));
    const double joins = local ? tree(lanes) * of->chain.reduction_count : 0;
    return loop(rows, passes_of(&of->chain) * loop(runs, run) + joins);
}

static double count_column_register(const launch *of)
{
    const double columns = parameter(of, 1), runs = parameter(of, 3), passes = passes_of(&of->chain);
    const double vectors = defined(of, "COLUMN_VECTORS"), at_once = defined(of, "ROWS_AT_ONCE");
    const double blocks = up(runs, BLOCK), each_run = at_once > 1 ? loop(at_once, 0) : 0;
    const double step = each_run + (vectors > 1 ? loop(vectors, each_run) : each_run);
    const double sums = vectors > 1 ? loop(vectors, 0) : 0;
    const double steps = loop(up(runs, most_of(at_once, 1)), step) + blocks * (1 + step);
    const double by_vectors = of->vec == 1 ? 0 : 2 * sums + 1 + steps + blocks * (1 + 2 * sums);
    const double single = of->vec == 1 ? most_of(vectors, 1) : rest_of(columns, of->vec);
    return passes * by_vectors + sums + loop(single, passes * in_blocks(runs));
}

static double count_column_local(const launch *of)
{
    enum { COLUMNS = 32 };
    const double lanes = (double)of->local_size / COLUMNS;
    return passes_of(&of->chain) * in_blocks(up(parameter(of, 3), most_of(lanes, 1))) +
           of->chain.reduction_count * tree(lanes);
}

static double count_scan(const launch *of)
{
    return loop(parameter(of, 1), 0);
}

static double count_map(const launch *of)
{
    const double tile = least_of(parameter(of, 3), parameter(of, 1));
    return loop(least_of(parameter(of, 4), parameter(of, 0)), loop(up(tile, of->vec), 0) + loop(of->vec, 0));
}

static double count_pack_lines(const launch *of)
{
    return loop(defined(of, "PANELS"), loop(defined(of, "TERMS"), loop(defined(of, "PANEL"), 0)));
}

static double count_pack(const launch *of)
{
    enum { MOST_IN_A_WORD = 4 };
    (void)of;
    return loop(MOST_IN_A_WORD, 0);
}

static double count_scatter_count(const launch *of)
{
    return loop(parameter(of, 3), 0) + loop(parameter(of, 1), 0);
}

static double count_scatter_offsets(const launch *of)
{
    return loop(parameter(of, 1), 0);
}

static double count_scatter_starts(const launch *of)
{
    return loop(parameter(of, 0), 0);
}

/* Every index of the list may be the same; launch.terms says how many there are. */
static double count_scatter_sum(const launch *of)
{
    return loop(least_of(parameter(of, 3), parameter(of, 1)), in_blocks(of->terms));
}

/* What is behind a tile, where partial vectors are written element by element. */
static double count_elements(const launch *of, const char *rows, const char *columns)
{
    return most_of(defined(of, rows), 1) * most_of(defined(of, columns), 1) * loop(most_of(of->vec, LANES), 0);
}

static double count_matmul_register(const launch *of)
{
    const double inner = parameter(of, 2), width = of->subgroup_size > 0 ? of->subgroup_size : 1;
    const double rest = width > 1 ? loop(rest_of(inner, width), 0) : 0;
    return loop(whole(inner, width), 0) + rest + count_elements(of, "TILE_ROWS", "TILE_COLUMNS");
}

static double count_matmul_thin(const launch *of)
{
    const double inner = parameter(of, 1), step = most_of(defined(of, "STEP_K"), 1), span = defined(of, "SPAN");
    return (1 + whole(inner, step) + rest_of(inner, step)) * (1 + loop(span, 0)) + 2 * loop(span, 0) +
           count_elements(of, "TILE_ROWS", "SPAN");
}

static double count_matmul_dot(const launch *of)
{
    return loop(whole(parameter(of, 2), of->vec), 0) + loop(rest_of(parameter(of, 2), of->vec), 0);
}

static double count_matmul_local(const launch *of)
{
    return loop(up(parameter(of, 2), most_of(defined(of, "STEP_K"), 1)), 0) +
           count_elements(of, "THREAD_ROWS", "THREAD_COLUMNS");
}

/* Terms that lanes hand to each other are unrolled where a subgroup stands in one row and they are few. */
static double count_matmul_subgroup(const launch *of)
{
    enum { MOST_UNROLLED = 16 };
    const double inner = parameter(of, 2), rows = most_of(defined(of, "LANE_ROWS"), 1);
    const double step = defined(of, "A_ROW_CONTIGUOUS") != 0 ? 1 : most_of(whole(of->subgroup_size, rows), 1);
    const double handed = rows == 1 && step <= MOST_UNROLLED ? 0 : loop(step, 0);
    return loop(whole(inner, step), handed) + loop(rest_of(inner, step), 0) +
           count_elements(of, "TILE_ROWS", "TILE_COLUMNS");
}

static double count_matmul_cooperative(const launch *of)
{
    enum { SIDE = 16 };
    const double step = defined(of, "STEP_K"), size = of->local_size;
    const double rows = SIDE * defined(of, "SUBGROUP_ROWS") * defined(of, "TILE_ROWS");
    const double columns = SIDE * defined(of, "SUBGROUP_COLUMNS") * defined(of, "TILE_COLUMNS");
    const double loads = loop(up(step * rows, size), 0) + loop(up(step * columns, size), 0);
    return loop(up(parameter(of, 2), most_of(step, 1)), loads) + rows * columns;
}

/* Of `count` queries or keys those that the band lets an item with `own` of the others see. */
static double seen_of(const launch *of, double count, double own, int first, int last)
{
    return most_of(least_of(count, own + parameter(of, last) - parameter(of, first) + 1), 0);
}

/* A row of `width` elements, by whole vectors and then one by one. */
static double row_of(double width, double vec)
{
    return loop(whole(width, vec), 0) + loop(rest_of(width, vec), 0);
}

/* A product of a tile with `terms` rows of that width, `columns` vectors of them at a time. */
static double grow(double width, double vec, double columns, double rows, double terms)
{
    return loop(up(whole(width, vec), most_of(columns, 1)), loop(terms, 0)) +
           loop(rest_of(width, vec), rows * loop(terms, 0));
}

static double count_attention_register(const launch *of)
{
    const double rows = defined(of, "TILE_ROWS"), block = defined(of, "BLOCK_ROWS"), vec = of->vec;
    const double panel = defined(of, "PANEL_VECTORS") * vec, key_width = parameter(of, 4), width = parameter(of, 5);
    const double panels = up(seen_of(of, parameter(of, 1), block, 9, 10), panel) + 1;
    const double tile =
        loop(key_width, 0) + rows * row_of(width, vec) + grow(width, vec, defined(of, "TILE_COLUMNS"), rows, panel);
    return loop(block, 1 + 2 * loop(1, row_of(width, vec))) + loop(panels, loop(up(block, rows), tile));
}

/* How many pairs of batch and head an item passes over: those that share what it owns. */
static double visits_of(const launch *of, int db_batches, double batches)
{
    const double heads = parameter(of, 2), groups = most_of(parameter(of, 3), 1);
    if (defined(of, "DB") == 0)
        return defined(of, "DQ") != 0 && strstr(of->body, "local") != NULL ? 1 : heads / groups;
    return (parameter(of, db_batches) > 1 ? 1 : batches) * (parameter(of, db_batches + 1) > 1 ? 1 : heads);
}

/* The launch stores gradients of these. */
static bool stores(const launch *of, const char *what)
{
    return defined(of, what) != 0;
}

/* What attention_backward_register does for one head with a panel of keys and `seen` queries. */
static double visit_of(const launch *of, double seen)
{
    const double vec = of->vec, panel = defined(of, "PANEL_VECTORS") * vec, rows = defined(of, "TILE_ROWS");
    const double keys = most_of(defined(of, "TILE_KEYS"), 1), block = most_of(defined(of, "BLOCK_ROWS"), 1);
    const double key_width = parameter(of, 4), width = parameter(of, 5);
    const double key_columns = defined(of, "KEY_COLUMNS"), value_columns = defined(of, "VALUE_COLUMNS");
    const bool dk = stores(of, "DK"), dv = stores(of, "DV"), beyond = stores(of, "DQ") || dk || stores(of, "DB");
    const double scores = loop(key_width, 0) + (beyond ? loop(width, 0) : 0) +
                          (stores(of, "DB") ? rows * row_of(panel, vec) : 0) +
                          (stores(of, "DQ") ? grow(key_width, vec, key_columns, rows, panel) : 0);
    const double gradients = (dk ? grow(key_width, vec, key_columns, keys, block) : 0) +
                             (dv ? grow(width, vec, value_columns, keys, block) : 0);
    return loop(up(seen, block), loop(up(block, rows), scores) + (dk || dv ? loop(up(panel, keys), gradients) : 0));
}

static double count_backward_register(const launch *of)
{
    enum { BATCHES = 12, FIRST = 13, LAST = 14, DB_BATCHES = 54 };
    const double vec = of->vec, panel = defined(of, "PANEL_VECTORS") * vec, rows = defined(of, "TILE_ROWS");
    const double key_width = parameter(of, 4), width = parameter(of, 5);
    const double own_rows = least_of(parameter(of, 10), parameter(of, 0));
    const double seen = seen_of(of, own_rows, panel + rows, FIRST, LAST) + rows;
    const double clear =
        loop(panel, (stores(of, "DK") ? row_of(key_width, vec) : 0) + (stores(of, "DV") ? row_of(width, vec) : 0)) +
        (stores(of, "DB") ? loop(own_rows, loop(panel, 0)) : 0);
    const double visits = visits_of(of, DB_BATCHES, parameter(of, BATCHES));
    const double begin = stores(of, "DQ") ? loop(own_rows, loop(visits, row_of(key_width, vec))) : 0;
    return begin + loop(parameter(of, 8), clear + loop(visits, visit_of(of, seen)));
}

/* Products of a block with another of `width` columns, through local memory. */
static double products(const launch *of, double width)
{
    const double block = defined(of, "BLOCK"), depth = most_of(defined(of, "DEPTH"), 1);
    return loop(up(width, depth), loop(up(depth * block, of->local_size), 0) + loop(depth, 0));
}

/* What grows by a block of keys or queries, likewise. */
static double grow_local(const launch *of, double columns)
{
    const double block = defined(of, "BLOCK"), depth = most_of(defined(of, "DEPTH"), 1);
    return loop(up(block, depth), loop(up(depth * columns * block / LANES, of->local_size), 0) + loop(depth, 0));
}

static double count_attention_local(const launch *of)
{
    const double block = most_of(defined(of, "BLOCK"), 1), own_keys = block * block / of->local_size;
    const double panels = up(seen_of(of, parameter(of, 1), block, 9, 10), block) + 1;
    return loop(panels,
                products(of, parameter(of, 4)) + 2 * loop(own_keys, 0) + grow_local(of, defined(of, "COLUMNS")));
}

static double count_backward_local(const launch *of)
{
    enum { FIRST = 9, LAST = 10, DB_BATCHES = 52, DB_ROWS = 54 };
    const double block = most_of(defined(of, "BLOCK"), 1);
    const bool dq = stores(of, "DQ"), dk = stores(of, "DK"), db = stores(of, "DB");
    const double across = db && parameter(of, DB_ROWS) > 1 ? block : parameter(of, dq ? 1 : 0);
    const double panels = up(seen_of(of, across, block, FIRST, LAST), block) + 1;
    const double panel = products(of, parameter(of, 4)) + (dq || dk || db ? products(of, parameter(of, 5)) : 0) +
                         (dq || dk ? grow_local(of, defined(of, "KEY_COLUMNS")) : 0) +
                         (stores(of, "DV") ? grow_local(of, defined(of, "VALUE_COLUMNS")) : 0);
    return loop(visits_of(of, DB_BATCHES, parameter(of, of->fixed_count - 1)), loop(panels, panel)) + loop(block, 0);
}

static double count_nothing(const launch *of)
{
    (void)of;
    return 0;
}

static const struct {
    const char *body;
    double (*count)(const launch *of);
} counts[] = {
    {"map", count_map},
    {"row_register", count_row},
    {"row_local", count_row},
    {"column_register", count_column_register},
    {"column_local", count_column_local},
    {"scan", count_scan},
    {"pack", count_pack},
    {"pack_transpose", count_nothing},
    {"pack_lines", count_pack_lines},
    {"scatter_count", count_scatter_count},
    {"scatter_place", count_scatter_offsets},
    {"scatter_offsets", count_scatter_offsets},
    {"scatter_starts", count_scatter_starts},
    {"scatter_sum", count_scatter_sum},
    {"matmul_register", count_matmul_register},
    {"matmul_thin", count_matmul_thin},
    {"matmul_dot", count_matmul_dot},
    {"matmul_local", count_matmul_local},
    {"matmul_subgroup", count_matmul_subgroup},
    {"matmul_cooperative", count_matmul_cooperative},
    {"attention_register", count_attention_register},
    {"attention_backward_register", count_backward_register},
    {"attention_local", count_attention_local},
    {"attention_backward_local", count_backward_local},
};

double tuff__loop_steps(const launch *of)
{
    for (size_t i = 0; of->kind == LAUNCH_KERNEL && i < sizeof counts / sizeof *counts; ++i)
        if (strcmp(of->body, counts[i].body) == 0)
            return counts[i].count(of);
    return 0;
}

const launch *tuff__find_long_loop(const lowered *with, int first)
{
    const uint32_t limit = tuff__device_info(with->device)->loop_limit;
    for (int i = first; i < with->launch_count && limit > 0; ++i)
        if (tuff__loop_steps(&with->launches[i]) > limit)
            return &with->launches[i];
    return NULL;
}

bool tuff__shorten_loops(int attempt, choice *usual)
{
    enum { MOST_VALUES = 7 };
    static const struct {
        tunable of;
        int value;
    } attempts[][MOST_VALUES] = {
        {{TUNABLE_attention_register_block_rows, 1},
         {TUNABLE_attention_register_backward_rows, 1},
         {TUNABLE_map_item_elements, 0},
         {TUNABLE_row_register_item_elements, 0}},
        {{TUNABLE_task_family, TUFF_FAMILY_LOCAL}, {TUNABLE_map_item_elements, 0}},
        {{TUNABLE_task_family, TUFF_FAMILY_LOCAL},
         {TUNABLE_map_item_elements, 0},
         {TUNABLE_attention_local_block, 64},
         {TUNABLE_row_local_local_size, 256},
         {TUNABLE_column_local_local_size, 256},
         {TUNABLE_matmul_local_step_k, 32}},
    };
    if (attempt >= (int)(sizeof attempts / sizeof *attempts))
        return false;
    *usual = (choice){.set = {0}};
    for (int i = 0; i < MOST_VALUES; ++i)
        if (attempts[attempt][i].of != TUNABLE_task_family || attempts[attempt][i].value != 0)
            tuff__choice_set(usual, attempts[attempt][i].of, attempts[attempt][i].value);
    return true;
}

/* Of a task the node that names it. */
static const node *name_of(const struct task *task)
{
    return task->core != NULL ? task->core : task->reduction_count > 0 ? task->reductions[0] : task->roots[0];
}

tuff_status tuff__refuse_long_loop(const lowered *with, const launch *of)
{
    const tuff_device_info *info = tuff__device_info(with->device);
    const node *at = name_of(&with->fusion->tasks[of->task]);
    char operands[2][96] = {"", ""};
    for (int i = 0; i < at->input_count && i < 2; ++i)
        tuff__shape_text(at->inputs[i]->shape, operands[i], sizeof operands[i]);
    return FAIL(TUFF_E_LIMIT,
                "compile: %s of %s%s%s: its loops take up to %.0f steps (%s), and %s ends loops after %" PRIu32
                ": compute it in several parts",
                tuff__op_info(at->op)->name, operands[0], operands[1][0] != 0 ? " and " : "", operands[1],
                tuff__loop_steps(of), of->body, info->name, info->loop_limit);
}
