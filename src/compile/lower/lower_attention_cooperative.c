/* Launches of attention on matrix units, for devices whose self-test multiplied a block correctly: the forward pass,
   and the main launch of the gradients; their other launches are in lower_attention_local.c. */
#include "base/checked.h"
#include "compile/lower/lower_attention.h"
#include "compile/lower/lower_matmul.h"

enum { FEWEST = 16, MAX_DEPTH = 256, MAX_WIDTH = 128, MAX_NARROW_WIDTH = 64 };
enum { UNIT_SIDE = 16 }; /* rows, columns and terms of a block, for units whose layout of sums over lanes is known */

/* A group's work, see attention_cooperative.k or attention_cooperative_register.k. */
typedef struct units {
    int shape[3], lanes;
    bool is_padded;    /* lines of tiles are padded, as in the text for these units */
    bool in_registers; /* scores are kept in registers */
    int subgroups, rows, keys; /* rows: blocks of queries of a subgroup */
    int depth, width;
    int staged, extra_registers; /* staged: elements of a key's and a value's row that lanes load before they store them
                                    to local memory; extra_registers: for bias and dropout */
} units;

static int own_rows(const units *work)
{
    return work->rows * work->shape[0];
}

static int block_of(const units *work)
{
    return work->subgroups * own_rows(work);
}

/* Returns an upper bound of the bytes of a tile of lines of 16-bit terms. */
static int64_t tile_bytes(const units *work, int64_t lines, int64_t terms)
{
    return lines * (2 * terms + (work->is_padded ? 2 * PART : 0));
}

static int64_t query_bytes(const units *work)
{
    return tile_bytes(work, block_of(work), work->depth);
}

/* Keys and values use the same memory in turn. Values lie as in memory, or transposed. */
static int64_t shared_bytes(const units *work)
{
    const int64_t keys = tile_bytes(work, work->keys, work->depth), values = tile_bytes(work, work->keys, work->width),
                  transposed = tile_bytes(work, work->width, work->keys);
    const int64_t larger = values > transposed ? values : transposed;
    return keys > larger ? keys : larger;
}

/* Includes the scores, what the lanes of a row exchange, and the rescaling factors: with Vulkan there is one for each
   column of a block. */
static int64_t local_bytes(const units *work, uint32_t form)
{
    const int64_t block = block_of(work), lanes = (int64_t)work->subgroups * work->lanes;
    const int64_t factors = block * (form <= TUFF_MATRIX_KHR ? work->shape[1] : 1);
    return query_bytes(work) + shared_bytes(work) + 4 * (block * (work->keys + 4) + lanes + factors + 2);
}

/* Returns the keys of the smallest panel. */
static int fewest_keys(const units *work)
{
    return work->shape[1] > FEWEST ? work->shape[1] : FEWEST;
}

/* Whether a lane has whole parts of a row's keys, few enough of them, and few enough parts in flight: NVIDIA's lanes
   have room for more. */
static bool suits_lanes(const units *work, uint32_t form)
{
    enum { MAX_KEYS = 64, MANY_PARTS = 8, FEW_PARTS = 4 };
    const int lanes = own_rows(work) > 0 ? work->lanes / own_rows(work) : 0; /* of a row */
    const int64_t all = (int64_t)work->subgroups * work->lanes,
                  widest = work->depth > work->width ? work->depth : work->width;
    const int64_t parts = all * (form == TUFF_MATRIX_NVIDIA ? MANY_PARTS : FEW_PARTS);
    return lanes > 0 && work->lanes % own_rows(work) == 0 && work->keys % (lanes * PART) == 0 &&
           work->keys / lanes <= MAX_KEYS && work->keys % work->shape[1] == 0 && work->keys % work->shape[2] == 0 &&
           (work->keys * widest / PART <= parts || work->keys <= fewest_keys(work));
}

static int64_t greater(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

/* Two panels of keys and values, of which the second holds the queries at first; results are written out through
   both. */
static int64_t register_bytes(const units *work)
{
    const int64_t side = tile_bytes(work, work->keys, work->depth + work->width);
    const int64_t results = (int64_t)sizeof(float) * work->subgroups * work->shape[0] * PIECE_PITCH;
    return greater(side + greater(side, query_bytes(work)), results);
}

/* Whether a lane has registers for what it keeps over a panel: queries, sums, scores, and parts of the next panel. The
   rest of its 255 registers are for loads. The smallest tile is accepted in any case. */
static bool fits_registers(const units *work)
{
    enum { MAX_REGISTERS = 176 };
    const int next = work->keys * work->staged / (2 * work->lanes * work->subgroups) + work->extra_registers;
    return work->rows * (work->depth / 4 + work->width / 2 + work->keys / 2) + next <= MAX_REGISTERS ||
           (work->rows == 1 && work->keys <= fewest_keys(work));
}

static bool fits(const attention *job, const units *work)
{
    const tuff_device_info *info = job->list->policy.target.info;
    const int64_t bytes = work->in_registers ? register_bytes(work) : local_bytes(work, info->cooperative_matrix);
    return (work->in_registers ? fits_registers(work) : suits_lanes(work, info->cooperative_matrix)) &&
           bytes <= (int64_t)info->local_memory_size && work->subgroups * work->lanes <= (int)info->max_group_size;
}

/* Factors of gradients include those upstream. */
static tuff_dtype factor_dtype(const attention *job)
{
    const bool forward = job->task->core->op == OP_ATTENTION || job->task->core->op == OP_ATTENTION_LSE;
    const int ids[] = {job->q.id, job->k.id, job->v.id, forward ? job->v.id : job->upstream.id};
    tuff_dtype dtypes[4];
    for (int i = 0; i < 4; ++i)
        dtypes[i] = job->list->buffers[ids[i]].dtype;
    return tuff__factor_dtype(dtypes, 4, tuff__factor_precision(job->list->fusion, job->task->core));
}

static int power_of_2(int64_t least)
{
    int power = 16;
    while (power < least)
        power *= 2;
    return power;
}

static bool has_known_layout(const tuff_device_info *info)
{
    return info->cooperative_matrix == TUFF_MATRIX_NVIDIA && info->matrix_shape[0] == UNIT_SIDE &&
           info->matrix_shape[1] == UNIT_SIDE && info->matrix_shape[2] == UNIT_SIDE && info->matrix_lanes > 0;
}

/* Whether the hardware copies an operand to local memory: its parts are used as they are in memory. */
static bool hardware_copies(const attention *job, const attention_rows *operand)
{
    return tuff_dtype_size(job->list->buffers[operand->id].dtype) == 2 &&
           tuff__attention_can_load_parts(job->list, operand);
}

static bool has_bias_or_dropout(const attention *job)
{
    const attention_inputs inputs = tuff__attention_inputs(OP_ATTENTION, job->task->core->attributes.options);
    return inputs.bias >= 0 || inputs.step >= 0;
}

static units default_tile(const attention *job)
{
    const tuff_device_info *info = job->list->policy.target.info;
    const kernel_policy *policy = &job->list->policy;
    enum { EXTRA = 32 };
    units out = {.shape = {(int)info->matrix_shape[0], (int)info->matrix_shape[1], (int)info->matrix_shape[2]},
                 .lanes = tuff__unit_lanes(info),
                 .is_padded = tuff__units_pad(info),
                 .in_registers = has_known_layout(info) &&
                                 tuff__tunable_value(policy, TUNABLE_attention_cooperative_registers) != 0,
                 .depth = power_of_2(job->q.width),
                 .width = MAX_WIDTH};
    if (out.in_registers) {
        out.subgroups = tuff__tunable_value(policy, TUNABLE_attention_cooperative_register_subgroups);
        out.rows = tuff__tunable_value(policy, TUNABLE_attention_cooperative_register_rows);
        out.keys = tuff__tunable_value(policy, TUNABLE_attention_cooperative_register_keys);
    } else {
        out.subgroups = tuff__tunable_value(policy, TUNABLE_attention_cooperative_subgroups);
        out.rows = tuff__tunable_value(policy, TUNABLE_attention_cooperative_rows);
        out.keys = tuff__tunable_value(policy, TUNABLE_attention_cooperative_keys);
    }
    if (out.lanes < 16)
        out.width = MAX_NARROW_WIDTH; /* each lane has more of the sums */
    if (job->v.width < out.width)
        out.width = power_of_2(job->v.width);
    if (out.width < out.shape[1])
        out.width = out.shape[1];
    out.extra_registers = has_bias_or_dropout(job) ? EXTRA : 0;
    out.staged = (hardware_copies(job, &job->k) ? 0 : out.depth) + (hardware_copies(job, &job->v) ? 0 : out.width);
    return out;
}

static int64_t groups_of(const attention *job, const units *work)
{
    return job->batches * job->q.heads * tuff__divide_up(job->q.count, block_of(work)) *
           tuff__divide_up(job->v.width, work->width);
}

static key_splits split_keys(const attention *job, const units *work)
{
    return tuff__attention_split_keys(job, work->keys, (int64_t)work->lanes * work->subgroups, groups_of(job, work),
                                      tuff__tunable_value(&job->list->policy, TUNABLE_attention_cooperative_splits));
}

/* Reduces the block if more than half of it would be empty, or if there would be fewer groups than the device has
   processors, even with those that share the keys of a block. */
static void fit_queries(const attention *job, units *work)
{
    const int64_t processors = tuff__processor_count(job->list->policy.target.info);
    while (work->in_registers && work->rows > 1 &&
           (block_of(work) / 2 >= job->q.count || groups_of(job, work) * split_keys(job, work).count < processors))
        work->rows /= 2;
    while (work->subgroups > 1 && block_of(work) / 2 >= job->q.count)
        work->subgroups /= 2;
}

/* Reduces whatever takes too much room; returns false if nothing can be reduced. */
static bool shrink(units *work)
{
    if (work->rows > 1 && (work->in_registers ? !fits_registers(work) : own_rows(work) > work->lanes))
        work->rows /= 2;
    else if (work->keys > fewest_keys(work))
        work->keys /= 2;
    else if (work->subgroups > 1)
        work->subgroups /= 2;
    else
        return false;
    return true;
}

static bool choose(const attention *job, units *out)
{
    *out = default_tile(job);
    fit_queries(job, out);
    while (!fits(job, out))
        if (!shrink(out))
            return false;
    return true;
}

static bool driver_compiles(const attention *job)
{
    return job->list->policy.target.has_dropout_on_units || job->task->core->attributes.dropout == 0;
}

/* Whether matrix units compute a pass at all; also tells whether the family was requested. */
static bool units_apply(const attention *job, bool *requested)
{
    const target *device = &job->list->policy.target;
    const tuff_family family = tuff__family(&job->list->policy);
    *requested = family == TUFF_FAMILY_COOPERATIVE;
    return (*requested || family == TUFF_FAMILY_DEVICE) && device->has_subgroup_matrices && driver_compiles(job) &&
           tuff__units_multiply(device->info, factor_dtype(job)) &&
           (job->task->core->attributes.options & ATTENTION_NO_SOFTMAX) == 0;
}

bool tuff__attention_suits_units(const attention *job)
{
    bool requested;
    units work;
    return units_apply(job, &requested) && tuff__attention_root(job->task, OP_ATTENTION) >= 0 &&
           job->q.width <= MAX_DEPTH && (requested || (job->q.count >= FEWEST && job->k.count >= FEWEST)) &&
           choose(job, &work);
}

/* Defines what both passes need to know of the units and of their shared operands: the shape of a block, the lanes of a
   subgroup, and the columns of a tile. */
static void add_units(const attention *job, launch *made, const int shape[3], int lanes, int columns, text *defines)
{
    const kernel_policy *policy = &job->list->policy;
    tuff__attention_add_parts(job->list, made, &job->q, "Q", defines);
    tuff__attention_add_parts(job->list, made, &job->k, "K", defines);
    tuff__attention_add_parts(job->list, made, &job->v, "V", defines);
    tuff__text_add(defines,
                   "#define MATRIX_M %d\n#define MATRIX_N %d\n#define MATRIX_K %d\n#define MATRIX_BF16 %d\n#define "
                   "MATRIX_LANES %d\n#define A_K_CONTIGUOUS 1\n#define B_K_CONTIGUOUS 1\n#define BLOCK_COLUMNS %d\n"
                   "#define HARDWARE_EXP2 %d\n",
                   shape[0], shape[1], shape[2], factor_dtype(job) == TUFF_BF16, lanes, columns,
                   tuff__tunable_value(policy, TUNABLE_attention_cooperative_hardware_exp2));
    tuff__use_units(made, policy->target.info, lanes);
}

static tuff_status finish(const attention *job, launch *made, const units *work, text *defines)
{
    const int64_t width = job->v.width < work->width ? job->v.width : work->width;
    add_units(job, made, work->shape, work->lanes, work->width, defines);
    tuff__text_add(defines,
                   "#define TILE_ROWS %d\n#define KEYS %d\n#define DEPTH %d\n#define WIDTH %d\n#define KEY_STEPS %d\n"
                   "#define VALUE_BLOCKS %d\n#define KEY_WIDTH %d\n#define VALUE_WIDTH %d\n#define WHOLE_KEYS %d\n",
                   work->rows, work->keys, work->depth, work->width, (int)tuff__divide_up(job->q.width, work->shape[2]),
                   (int)tuff__divide_up(width, work->shape[1]), (int)job->q.width, (int)job->v.width,
                   job->k.count % work->keys == 0);
    made->local_bytes = (uint32_t)(work->in_registers ? register_bytes(work) : local_bytes(work, made->cooperative));
    if (work->in_registers)
        tuff__text_add(defines,
                       "#define LOCAL_BYTES %d\n#define COPIES_Q %d\n#define COPIES_K %d\n#define COPIES_V %d\n",
                       (int)made->local_bytes, hardware_copies(job, &job->q), hardware_copies(job, &job->k),
                       hardware_copies(job, &job->v));
    else
        tuff__text_add(defines, "#define QUERY_BYTES %d\n#define TILE_BYTES %d\n", (int)query_bytes(work),
                       (int)shared_bytes(work));
    made->local_size = (uint32_t)(work->lanes * work->subgroups);
    return tuff__set_defines(made, defines);
}

tuff_status tuff__lower_attention_cooperative(const attention *job)
{
    launch_list *list = job->list;
    units work;
    if (!choose(job, &work))
        return FAIL(TUFF_E_LIMIT, "compile: attention with heads of width %d is too large for the matrix units of %s",
                    (int)job->q.width, list->policy.target.info->selector);
    const int64_t blocks = tuff__divide_up(job->q.count, block_of(&work));
    const int64_t parts = tuff__divide_up(job->v.width, work.width);
    key_splits splits = split_keys(job, &work);
    const int64_t items = groups_of(job, &work) * splits.count;
    splits.in_log2 = tuff__tunable_value(&list->policy, TUNABLE_attention_cooperative_hardware_exp2) > 0;
    TRY(tuff__attention_add_split_buffers(job, &splits));
    const char *body = work.in_registers ? "attention_cooperative_register" : "attention_cooperative";
    launch *made = tuff__launch_add(list, body, WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    tuff__attention_add_operands(job, made, blocks, parts, items, &defines);
    tuff__attention_add_forward_results(job, made, &splits, &defines);
    made->groups = (uint64_t)items;
    made->operations = 2 * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    TRY(finish(job, made, &work, &defines));
    return tuff__attention_join_splits(job, &splits);
}

/* Gradients: attention_backward_cooperative.k, on units whose layout of sums over lanes is known, or
   attention_backward_cooperative_shared.k. Wider heads, attention without softmax, and the gradient of the bias use the
   other kernels. */
enum { MAX_BACKWARD_WIDTH = 128 }; /* of a head */

static int own_keys(const attention_units *work)
{
    return work->key_blocks * work->shape[0];
}

/* Both bodies have tiles of keys, values, queries, upstream gradients and gradients of scores. In the shared one they
   may be padded, all but the values' exist in two layouts if the units cannot transpose, and sums go through a tile of
   floats, those of dq through the memory of the panel's first layout if second layouts take turns. */
static int64_t backward_bytes(const tuff_device_info *info, const attention_units *work)
{
    enum { PITCH_PAD = 4 };
    const int64_t keys = work->keys, queries = work->queries, depth = work->depth, width = work->width;
    const units tiles = {.is_padded = tuff__units_pad(info)};
    const int64_t panel = tile_bytes(&tiles, queries, depth) + tile_bytes(&tiles, queries, width);
    int64_t halves =
        tile_bytes(&tiles, keys, depth) + tile_bytes(&tiles, keys, width) + panel + tile_bytes(&tiles, keys, queries);
    const int64_t statistics = (int64_t)sizeof(float) * 2 * queries;
    if (work->knows_sums)
        return halves + statistics;
    const int64_t scores = (int64_t)sizeof(float) * keys * (queries + PITCH_PAD),
                  dq = (int64_t)sizeof(float) * queries * (depth + PITCH_PAD);
    const int64_t q_terms = tile_bytes(&tiles, depth, queries), g_terms = tile_bytes(&tiles, width, queries);
    if (info->cooperative_matrix > TUFF_MATRIX_KHR)
        halves += tile_bytes(&tiles, depth, keys) + tile_bytes(&tiles, queries, keys) +
                  (work->terms_in_turn ? greater(q_terms, g_terms) : q_terms + g_terms);
    return halves + greater(scores, work->terms_in_turn ? dq - panel : dq) + statistics + (int64_t)sizeof(float);
}

/* Returns how many sums of the gradients of keys and values a lane has. */
static int64_t sums_of_lane(const attention *job, const attention_units *work)
{
    const int64_t side = work->shape[1];
    const int64_t columns = tuff__divide_up(job->q.width, side * work->column_splits) +
                            tuff__divide_up(job->v.width, side * work->column_splits);
    return tuff__divide_up(columns * side * own_keys(work), work->subgroup_lanes);
}

static bool has_registers(const attention *job, const attention_units *work)
{
    enum { MAX_SUMS = 128 };
    return sums_of_lane(job, work) <= MAX_SUMS;
}

/* Whether a lane has registers for its share of a panel's weights, which it keeps until their products are known: what
   bias or dropout add takes as many again. */
static bool keeps_weights(const attention *job, const attention_units *work)
{
    enum { MAX_WEIGHTS = 64 };
    const int64_t weights = tuff__divide_up((int64_t)work->keys * work->queries, work->lanes);
    return work->knows_sums || weights * (has_bias_or_dropout(job) ? 2 : 1) <= MAX_WEIGHTS;
}

static bool backward_fits(const attention *job, const attention_units *work)
{
    const tuff_device_info *info = job->list->policy.target.info;
    return backward_bytes(info, work) <= (int64_t)info->local_memory_size && has_registers(job, work) &&
           keeps_weights(job, work) &&
           (work->knows_sums ? work->queries <= work->lanes : work->queries <= 4 * work->lanes) &&
           work->lanes <= (int)info->max_group_size;
}

static void set_subgroups(int subgroups, attention_units *work)
{
    work->keys = subgroups * own_keys(work);
    work->lanes = subgroups * work->column_splits * work->subgroup_lanes;
}

/* Whether twice as many subgroups can divide the columns: each has a block of both gradients. */
static bool can_split_columns(const attention_units *work)
{
    const int narrower = work->depth < work->width ? work->depth : work->width;
    return !work->knows_sums && 2 * work->column_splits * work->shape[1] <= narrower;
}

/* Sets the blocks that the device multiplies, and widths that consist of them. Blocks of few keys come in pairs, unless
   a lane then has too many sums; if it has too many of one block, subgroups divide the columns. */
static void set_units(const attention *job, attention_units *work)
{
    enum { FEW_KEYS = 8 };
    const tuff_device_info *info = job->list->policy.target.info;
    work->knows_sums = has_known_layout(info);
    work->subgroup_lanes = tuff__unit_lanes(info);
    for (int i = 0; i < 3; ++i)
        work->shape[i] = (int)info->matrix_shape[i];
    const int64_t least = greater(work->shape[1], work->shape[2]);
    work->depth = power_of_2(greater(job->q.width, least));
    work->width = power_of_2(greater(job->v.width, least));
    work->key_blocks = work->shape[0] <= FEW_KEYS ? 2 : 1;
    work->column_splits = 1;
    if (!has_registers(job, work))
        work->key_blocks = 1;
    while (!has_registers(job, work) && can_split_columns(work))
        work->column_splits *= 2;
}

/* Has the columns divided by so many subgroups, if each then has a block and the group is not too large. */
static void share_keys(const attention *job, int subgroups, attention_units *work)
{
    const int largest = (int)job->list->policy.target.info->max_group_size;
    while (work->lanes < subgroups * work->subgroup_lanes && 2 * work->lanes <= largest && can_split_columns(work)) {
        work->column_splits *= 2;
        work->lanes *= 2;
    }
}

/* Whether right factors are lines of terms. */
static bool has_lines(const tuff_device_info *info)
{
    return info->cooperative_matrix == TUFF_MATRIX_MFMA || info->cooperative_matrix == TUFF_MATRIX_WMMA;
}

/* Chooses the group that the tunables describe, or a smaller one if there are few queries or keys, or too little local
   memory. If there is hardly enough, its subgroups have the same keys and divide the columns. Tiles of keys and of
   queries consist of whole blocks in each role that they have. */
static bool choose_backward(const attention *job, attention_units *out)
{
    const kernel_policy *policy = &job->list->policy;
    *out = (attention_units){.queries = tuff__tunable_value(policy, TUNABLE_attention_cooperative_backward_queries)};
    set_units(job, out);
    const int *shape = out->shape, side = (int)greater(greater(shape[0], shape[1]), shape[2]);
    const int fewest = own_keys(out) < shape[2] ? shape[2] / own_keys(out) : 1; /* subgroups */
    const int all = tuff__tunable_value(policy, TUNABLE_attention_cooperative_backward_subgroups);
    int subgroups = (int)greater(all, fewest); /* with keys of their own */
    out->queries = (int)greater(out->queries, side);
    while (subgroups > fewest && subgroups / 2 * own_keys(out) >= job->k.count)
        subgroups /= 2;
    while (out->queries > side && out->queries / 2 >= job->q.count)
        out->queries /= 2;
    set_subgroups(subgroups, out);
    while (!backward_fits(job, out)) {
        if (out->queries > side)
            out->queries /= 2;
        else if (subgroups > fewest)
            set_subgroups(subgroups /= 2, out);
        else if (!out->terms_in_turn && has_lines(job->list->policy.target.info))
            out->terms_in_turn = true;
        else
            return false;
    }
    if (out->terms_in_turn)
        share_keys(job, all, out);
    return out->keys % shape[2] == 0 && out->queries % shape[0] == 0 && out->queries % shape[1] == 0 &&
           out->queries % shape[2] == 0;
}

/* Whether there is a body for the device's units: blocks of whole parts, and a known number of lanes. */
static bool has_backward_body(const tuff_device_info *info)
{
    if (info->cooperative_matrix == TUFF_MATRIX_NVIDIA)
        return has_known_layout(info);
    return info->matrix_shape[0] % PART == 0 && info->matrix_shape[1] % PART == 0 &&
           info->matrix_shape[2] % PART == 0 && tuff__unit_lanes(info) > 0;
}

bool tuff__attention_backward_suits_units(const attention *job, attention_units *out)
{
    bool requested;
    const struct task *task = job->task;
    return units_apply(job, &requested) && has_backward_body(job->list->policy.target.info) &&
           (tuff__attention_root(task, OP_ATTENTION_DQ) >= 0 || tuff__attention_root(task, OP_ATTENTION_DK) >= 0 ||
            tuff__attention_root(task, OP_ATTENTION_DV) >= 0) &&
           job->q.width <= MAX_BACKWARD_WIDTH && job->v.width <= MAX_BACKWARD_WIDTH &&
           (requested || (job->q.count >= UNIT_SIDE && job->k.count >= UNIT_SIDE)) && choose_backward(job, out);
}

/* Defines the tiles; where sums are known also how the blocks of a panel's dq are distributed to subgroups: over the
   columns, then over the rows. */
static void add_blocks(const attention *job, const attention_units *work, text *defines)
{
    enum { FEW_SUMS = 64 };
    const int subgroups = work->lanes / work->subgroup_lanes, columns = work->depth / work->shape[1],
              rows = work->queries / work->shape[0];
    const int side = columns < subgroups ? columns : subgroups, below = subgroups / side;
    if (work->knows_sums)
        tuff__text_add(defines, "#define DQ_SIDE %d\n#define DQ_COLUMNS %d\n#define DQ_ROWS %d\n", side, columns / side,
                       rows > below ? rows / below : 1);
    else
        tuff__text_add(defines,
                       "#define KEY_BLOCKS %d\n#define COLUMN_SPLITS %d\n#define TERMS_IN_TURN %d\n#define AHEAD %d\n",
                       work->key_blocks, work->column_splits, work->terms_in_turn, sums_of_lane(job, work) <= FEW_SUMS);
    tuff__text_add(defines,
                   "#define BLOCK_QUERIES %d\n"
                   "#define DEPTH %d\n#define WIDTH %d\n#define KEY_STEPS %d\n#define VALUE_STEPS %d\n"
                   "#define KEY_WIDTH %d\n#define VALUE_WIDTH %d\n#define WHOLE_QUERIES %d\n#define WHOLE_KEYS %d\n",
                   work->queries, work->depth, work->width, (int)tuff__divide_up(job->q.width, work->shape[2]),
                   (int)tuff__divide_up(job->v.width, work->shape[2]), (int)job->q.width, (int)job->v.width,
                   job->q.count % work->queries == 0, job->k.count % work->keys == 0);
}

/* Adds the copies of dq, which this launch initializes. */
static void add_copies(const attention *job, launch *made, const attention_rows *copies, text *defines)
{
    tuff__attention_add_rows(job->list, made, copies, "DQ", true, defines);
    if (copies->id < 0)
        return;
    tuff__attention_store_only(made, copies->id);
    tuff__text_add(defines, "#define DQ_PAIR(i) (*(__global float2 *)(b%d + (i)))\n", made->chain.buffer_count - 1);
}

tuff_status tuff__launch_attention_backward(const attention *job, const attention_backward *work,
                                            const attention_units *tiles, const attention_rows *copies)
{
    const tuff_device_info *info = job->list->policy.target.info;
    const double products = 2.0 + (work->dq >= 0) + (work->dk >= 0) + (work->dv >= 0);
    const int64_t items = work->owners * work->splits;
    const char *body = tiles->knows_sums ? "attention_backward_cooperative" : "attention_backward_cooperative_shared";
    launch *made = tuff__launch_add(job->list, body, WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    tuff__attention_add_backward_operands(job, made, work->blocks, 1, items, &defines);
    add_copies(job, made, copies, &defines);
    tuff__attention_add_gradients(job, made, work, job->batches * copies->batch, &defines);
    add_blocks(job, tiles, &defines);
    add_units(job, made, tiles->shape, tiles->subgroup_lanes, tiles->depth, &defines);
    tuff__attention_add_parts(job->list, made, &job->upstream, "G", &defines);
    made->local_size = (uint32_t)tiles->lanes;
    made->local_bytes = (uint32_t)backward_bytes(info, tiles);
    made->groups = (uint64_t)items;
    made->operations = products * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    return tuff__set_defines(made, &defines);
}
