/* How often the loops of a launch go round, for drivers that end loops early (tuff_device_info.loop_limit). Counted are
   the steps of all loops of an item together, as such a driver does, for the item that has most to do, and where lanes
   in lockstep take turns those of each of them. Only loops that the kernels' texts ask compilers to unroll do not count.
   Each count reads the parameters in the order in which its body names them. */
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

/* `count` terms one after another, in blocks. */
static double in_blocks(double count)
{
    return count + up(count, BLOCK);
}

/* What `lanes` lanes do to join the results of a reduction. */
static double tree(double lanes)
{
    double steps = 1;
    for (; lanes > 1; lanes /= 2)
        ++steps;
    return steps;
}

static double count_row(const launch *of)
{
    const bool local = strcmp(of->body, "row_local") == 0;
    const double rows = least_of(parameter(of, 3), parameter(of, 0)), columns = parameter(of, 1);
    const double runs = parameter(of, 2), lanes = local ? of->local_size : 1;
    const double vectors = of->vec > 1 ? whole(columns, of->vec) : 0, rest = columns - vectors * of->vec;
    const double run = 1 + in_blocks(up(vectors, lanes)) + in_blocks(up(rest, lanes));
    const double joins = local ? tree(lanes) * of->chain.reduction_count : 0;
    return rows * (1 + passes_of(&of->chain) * runs * run + joins);
}

static double count_column_register(const launch *of)
{
    const double columns = parameter(of, 1), runs = parameter(of, 3), passes = passes_of(&of->chain);
    const double vectors = defined(of, "COLUMN_VECTORS"), at_once = defined(of, "ROWS_AT_ONCE");
    const bool plain = vectors <= 1 && at_once <= 1;
    const double blocks = up(runs, BLOCK), steps = up(runs, most_of(at_once, 1)) + blocks;
    const double step = 1 + at_once + vectors * (1 + at_once), sums = vectors * (2 + 2 * blocks);
    const double by_vectors = of->vec == 1 ? 0 : plain ? in_blocks(runs) : steps * step + sums;
    const double single = of->vec == 1 ? most_of(vectors, 1) : rest_of(columns, of->vec);
    return passes * (by_vectors + single * (1 + in_blocks(runs)));
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
    return parameter(of, 1);
}

static double count_map(const launch *of)
{
    const double tile = least_of(parameter(of, 3), parameter(of, 1));
    return least_of(parameter(of, 4), parameter(of, 0)) * (1 + up(tile, of->vec) + of->vec);
}

static double count_pack_lines(const launch *of)
{
    return defined(of, "PANELS") * (1 + defined(of, "TERMS") * (1 + defined(of, "PANEL")));
}

static double count_few(const launch *of)
{
    enum { WORDS = 4 };
    (void)of;
    return WORDS;
}

static double count_scatter_count(const launch *of)
{
    return parameter(of, 1) + parameter(of, 3);
}

static double count_scatter_offsets(const launch *of)
{
    return parameter(of, 1);
}

static double count_scatter_starts(const launch *of)
{
    return parameter(of, 0);
}

/* Every index of the list may be the same; launch.terms says how many there are. */
static double count_scatter_sum(const launch *of)
{
    return least_of(parameter(of, 3), parameter(of, 1)) * (2 + in_blocks(of->terms));
}

/* What is behind a tile, where partial vectors are written element by element. */
static double count_elements(const launch *of, const char *rows, const char *columns)
{
    return most_of(defined(of, rows), 1) * most_of(defined(of, columns), 1) * most_of(of->vec, LANES);
}

static double count_matmul_register(const launch *of)
{
    const double inner = parameter(of, 2), width = of->subgroup_size > 0 ? of->subgroup_size : 1;
    return whole(inner, width) + rest_of(inner, width) + count_elements(of, "TILE_ROWS", "TILE_COLUMNS");
}

static double count_matmul_thin(const launch *of)
{
    const double inner = parameter(of, 1), step = most_of(defined(of, "STEP_K"), 1), span = defined(of, "SPAN");
    return (whole(inner, step) + rest_of(inner, step)) * (1 + span) + 2 * span +
           count_elements(of, "TILE_ROWS", "SPAN");
}

static double count_matmul_dot(const launch *of)
{
    return whole(parameter(of, 2), of->vec) + rest_of(parameter(of, 2), of->vec);
}

static double count_matmul_local(const launch *of)
{
    return up(parameter(of, 2), most_of(defined(of, "STEP_K"), 1)) +
           count_elements(of, "THREAD_ROWS", "THREAD_COLUMNS");
}

/* Steps of terms that are handed from lane to lane are not unrolled where they are many. */
static double count_matmul_subgroup(const launch *of)
{
    return 2 * parameter(of, 2) + count_elements(of, "TILE_ROWS", "TILE_COLUMNS");
}

static double count_matmul_cooperative(const launch *of)
{
    enum { SIDE = 16 };
    const double step = defined(of, "STEP_K"), size = of->local_size;
    const double rows = SIDE * defined(of, "SUBGROUP_ROWS") * defined(of, "TILE_ROWS");
    const double columns = SIDE * defined(of, "SUBGROUP_COLUMNS") * defined(of, "TILE_COLUMNS");
    const double loads = up(step * rows, size) + up(step * columns, size);
    return up(parameter(of, 2), most_of(step, 1)) * (1 + loads) + rows * columns;
}

/* Of `count` queries or keys those that the band lets an item with `own` of the others see. */
static double seen_of(const launch *of, double count, double own, int first, int last)
{
    return most_of(least_of(count, own + parameter(of, last) - parameter(of, first) + 1), 0);
}

/* A row of `width` elements, by whole vectors and then one by one. */
static double row_of(double width, double vec)
{
    return 1 + whole(width, vec) + rest_of(width, vec);
}

/* A product of a tile with `terms` rows of that width, `columns` vectors of them at a time. */
static double grow(double width, double vec, double columns, double rows, double terms)
{
    return up(whole(width, vec), most_of(columns, 1)) * (1 + terms) + rest_of(width, vec) * (1 + rows * terms);
}

static double count_attention_register(const launch *of)
{
    const double rows = defined(of, "TILE_ROWS"), block = defined(of, "BLOCK_ROWS"), vec = of->vec;
    const double panel = defined(of, "PANEL_VECTORS") * vec, key_width = parameter(of, 4), width = parameter(of, 5);
    const double panels = up(seen_of(of, parameter(of, 1), block, 9, 10), panel) + 1;
    const double tile =
        1 + key_width + rows * row_of(width, vec) + grow(width, vec, defined(of, "TILE_COLUMNS"), rows, panel);
    return block * (3 + 2 * row_of(width, vec)) + panels * (1 + up(block, rows) * tile);
}

/* How many pairs of batch and head an item passes over: those that share what it owns. */
static double visits_of(const launch *of, int db_batches, double batches)
{
    const double heads = parameter(of, 2), groups = most_of(parameter(of, 3), 1);
    if (defined(of, "DB") == 0)
        return defined(of, "DQ") != 0 && strstr(of->body, "local") != NULL ? 1 : heads / groups;
    return (parameter(of, db_batches) > 1 ? 1 : batches) * (parameter(of, db_batches + 1) > 1 ? 1 : heads);
}

static double count_backward_register(const launch *of)
{
    enum { BATCHES = 12, FIRST = 13, LAST = 14, DB_BATCHES = 54 };
    const double vec = of->vec, panel = defined(of, "PANEL_VECTORS") * vec, rows = defined(of, "TILE_ROWS");
    const double keys = most_of(defined(of, "TILE_KEYS"), 1), block = most_of(defined(of, "BLOCK_ROWS"), 1);
    const double key_width = parameter(of, 4), width = parameter(of, 5);
    const double key_columns = defined(of, "KEY_COLUMNS"), value_columns = defined(of, "VALUE_COLUMNS");
    const bool dq = defined(of, "DQ") != 0, dk = defined(of, "DK") != 0, dv = defined(of, "DV") != 0,
               db = defined(of, "DB") != 0;
    const double own_rows = least_of(parameter(of, 10), parameter(of, 0));
    const double seen = seen_of(of, own_rows, panel + rows, FIRST, LAST) + rows;
    const double scores = 1 + key_width + (dq || dk || db ? width : 0) + (db ? rows * (panel / vec + vec) : 0) +
                          (dq ? grow(key_width, vec, key_columns, rows, panel) : 0);
    const double gradients = 1 + (dk ? grow(key_width, vec, key_columns, keys, block) : 0) +
                             (dv ? grow(width, vec, value_columns, keys, block) : 0);
    const double blocks = up(seen, block), visit = 1 + blocks + up(blocks * block, rows) * scores +
                                                   (dk || dv ? blocks * up(panel, keys) * gradients : 0);
    const double clear = (dk ? panel * row_of(key_width, vec) : 0) + (dv ? panel * row_of(width, vec) : 0) +
                         (db ? own_rows * (1 + panel) : 0);
    const double visits = visits_of(of, DB_BATCHES, parameter(of, BATCHES));
    return (dq ? own_rows * (1 + visits * row_of(key_width, vec)) : 0) +
           parameter(of, 8) * (1 + panel + clear + visits * visit);
}

/* Products of a block with another of `width` columns, through local memory. */
static double products(const launch *of, double width)
{
    const double block = defined(of, "BLOCK"), depth = most_of(defined(of, "DEPTH"), 1);
    return up(width, depth) * (1 + up(depth * block, of->local_size) + depth);
}

/* What grows by a block of keys or queries, likewise. */
static double grow_local(const launch *of, double columns)
{
    const double block = defined(of, "BLOCK"), depth = most_of(defined(of, "DEPTH"), 1);
    return up(block, depth) * (1 + up(depth * columns * block / LANES, of->local_size) + depth);
}

static double count_attention_local(const launch *of)
{
    const double block = most_of(defined(of, "BLOCK"), 1), own_keys = block * block / of->local_size;
    const double panels = up(seen_of(of, parameter(of, 1), block, 9, 10), block) + 1;
    return panels * (1 + products(of, parameter(of, 4)) + 2 * own_keys + grow_local(of, defined(of, "COLUMNS")));
}

static double count_backward_local(const launch *of)
{
    enum { FIRST = 9, LAST = 10, DB_BATCHES = 52, DB_ROWS = 54 };
    const double block = most_of(defined(of, "BLOCK"), 1);
    const bool dq = defined(of, "DQ") != 0, dk = defined(of, "DK") != 0, dv = defined(of, "DV") != 0,
               db = defined(of, "DB") != 0;
    const double across = db && parameter(of, DB_ROWS) > 1 ? block : parameter(of, dq ? 1 : 0);
    const double panels = up(seen_of(of, across, block, FIRST, LAST), block) + 1;
    const double panel = 1 + products(of, parameter(of, 4)) + (dq || dk || db ? products(of, parameter(of, 5)) : 0) +
                         (dq || dk ? grow_local(of, defined(of, "KEY_COLUMNS")) : 0) +
                         (dv ? grow_local(of, defined(of, "VALUE_COLUMNS")) : 0);
    return visits_of(of, DB_BATCHES, parameter(of, of->fixed_count - 1)) * (1 + panels * panel) + block;
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
    {"pack", count_few},
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
