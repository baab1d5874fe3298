/* Launches of attention on devices with local memory: nothing is packed, and each result is stored by one group. */
#include "base/checked.h"
#include "compile/lower/lower_attention.h"
#include "compile/lower/lower_matmul.h"

enum { LANE_ROWS = 4, LANES = 4 }; /* a lane's part of a block: its rows, and the columns or keys of a vector */

/* The forward pass: a group's queries and panels of keys, and the pieces that are in local memory at a time. */
typedef struct forward {
    int64_t block, keys, lanes, columns; /* columns: in vectors of each lane */
    int64_t depth, value_keys;           /* of a piece: elements of each key; keys */
    bool keeps_queries;                  /* all queries stay in local memory */
} forward;

enum {
    MAX_ROW_LANES = 16,
    MAX_LANE_KEYS = 8,
    UNROLLED = 8, /* a piece has a multiple of so many elements of a key */
    MIN_BLOCK = 16,
    LOCAL_MEMORY = 64 << 10 /* limit for a group: with more, too few groups would fit */
};

static int64_t row_lanes(const forward *work)
{
    return work->lanes * LANE_ROWS / work->block;
}

/* Returns the columns of values for which a group has sums. */
static int64_t chunk_of(const forward *work)
{
    return row_lanes(work) * work->columns * LANES;
}

static int64_t key_pieces(const attention *job, const forward *work)
{
    return tuff__divide_up(job->q.width, work->depth);
}

/* In bytes. Pieces of keys and pieces of values use the same tile in turn. */
static int64_t local_memory_of(const attention *job, const forward *work)
{
    const int64_t keys = work->depth * work->keys, values = work->value_keys * chunk_of(work);
    const int64_t queries = work->block * work->depth * (work->keeps_queries ? key_pieces(job, work) : 1);
    return (int64_t)sizeof(float) *
           (queries + (keys > values ? keys : values) + work->keys * work->block + LANES * work->lanes);
}

/* Sets the queries of a block and all that depends on them. Each row gets at most MAX_ROW_LANES lanes and each lane a
   whole number of keys, at most MAX_LANE_KEYS; a group has no more columns than the values need. */
static void set_block(const attention *job, int64_t block, forward *work)
{
    const launch_list *list = job->list;
    work->block = block;
    work->lanes = tuff__tunable_value(&list->policy, TUNABLE_attention_local_lanes);
    while (row_lanes(work) > MAX_ROW_LANES ||
           (work->lanes > list->policy.target.info->max_group_size && row_lanes(work) > 1))
        work->lanes /= 2;
    while (row_lanes(work) < 1)
        work->lanes *= 2;
    work->keys = tuff__tunable_value(&list->policy, TUNABLE_attention_local_keys);
    while (work->keys < row_lanes(work))
        work->keys *= 2;
    while (work->keys > row_lanes(work) * MAX_LANE_KEYS)
        work->keys /= 2;
    work->columns = tuff__tunable_value(&list->policy, TUNABLE_attention_local_vectors);
    while (work->columns > 1 && chunk_of(work) / 2 >= job->v.width)
        work->columns /= 2;
    work->depth = tuff__divide_up(job->q.width, UNROLLED) * UNROLLED;
    work->value_keys = work->keys;
    work->keeps_queries = true;
}

/* Makes a group that does not fit smaller; returns false if it cannot. Each step has its cost: with fewer queries,
   keys and values are read more often; pieces need barriers; and queries that are not kept are read again with each
   panel. */
static bool shrink(const attention *job, forward *work)
{
    enum { FEW_QUERIES = 32, FEW_ELEMENTS = 32, FEW_KEYS = 8, PANEL = 32 };
    if (work->keys > PANEL && work->keys >= 2 * row_lanes(work) && work->depth >= job->q.width) {
        work->value_keys = work->keys /= 2;
    } else if (work->block > FEW_QUERIES) {
        set_block(job, work->block / 2, work);
    } else if (work->depth > FEW_ELEMENTS || work->value_keys > FEW_KEYS) {
        const int64_t pieces = 2 * key_pieces(job, work);
        if (work->depth > FEW_ELEMENTS)
            work->depth = tuff__divide_up(tuff__divide_up(job->q.width, pieces), UNROLLED) * UNROLLED;
        if (work->value_keys > FEW_KEYS)
            work->value_keys /= 2;
    } else if (work->keeps_queries) {
        work->keeps_queries = false;
    } else if (work->block > MIN_BLOCK) {
        set_block(job, work->block / 2, work);
    } else {
        return false;
    }
    return true;
}

/* Whether a group fits into local memory, and a lane has few enough vectors of keys and values in flight. */
static bool fits(const attention *job, const forward *work)
{
    enum { MAX_SQUARES = 4, MAX_VECTORS = 8 };
    const uint64_t all = job->list->policy.target.info->local_memory_size;
    const int64_t most = all < LOCAL_MEMORY ? (int64_t)all : LOCAL_MEMORY;
    return local_memory_of(job, work) <= most &&
           work->depth * work->keys <= MAX_SQUARES * LANES * LANES * work->lanes &&
           work->value_keys * chunk_of(work) <= MAX_VECTORS * LANES * work->lanes;
}

static forward choose_forward(const attention *job)
{
    int64_t block = tuff__tunable_value(&job->list->policy, TUNABLE_attention_local_queries);
    forward work;
    while (block > MIN_BLOCK && block / 2 >= job->q.count)
        block /= 2;
    set_block(job, block, &work);
    while (!fits(job, &work) && shrink(job, &work)) {
    }
    return work;
}

/* Returns how many sums a score is. Vulkan drivers for AMD's GPUs, which would spill the second ones, have no use for
   them: they neither pair nor pack instructions. */
static int score_sums(const kernel_policy *policy)
{
    return tuff__tunable_value_or(policy, TUNABLE_attention_local_score_sums,
                                  policy->target.language == KERNEL_GLSL
                                      ? 1
                                      : tuff__tunable_device_default(policy, TUNABLE_attention_local_score_sums));
}

static tuff_status finish_forward(const attention *job, launch *made, const forward *work, text *defines)
{
    tuff__text_add(defines,
                   "#define MANY_SUMS\n#define MANY_REGISTERS\n#define BLOCK %d\n#define KEYS %d\n#define COLUMNS "
                   "%d\n#define DEPTH %d\n"
                   "#define KEY_PIECES %d\n#define VALUE_KEYS %d\n#define Q_KEPT %d\n#define KEY_WIDTH %d\n"
                   "#define VALUE_WIDTH %d\n#define WHOLE_KEYS %d\n#define HARDWARE_EXP2 %d\n#define SCORE_SUMS %d\n",
                   (int)work->block, (int)work->keys, (int)work->columns, (int)work->depth, (int)key_pieces(job, work),
                   (int)work->value_keys, work->keeps_queries, (int)job->q.width, (int)job->v.width,
                   job->k.count % work->keys == 0,
                   tuff__tunable_value(&job->list->policy, TUNABLE_attention_local_hardware_exp2),
                   score_sums(&job->list->policy));
    made->vec = LANES;
    made->local_size = (uint32_t)work->lanes;
    made->registers = REGISTERS_MANY;
    made->local_bytes = (uint32_t)local_memory_of(job, work);
    return tuff__set_defines(made, defines);
}

/* Returns how many groups share the columns of a result. */
static int64_t column_parts(const attention *job, const forward *work)
{
    return tuff__attention_root(job->task, OP_ATTENTION) < 0 ? 1 : tuff__divide_up(job->v.width, chunk_of(work));
}

/* Returns the groups of the forward pass if none share keys. */
static int64_t count_items(const attention *job, const forward *work)
{
    return job->batches * job->q.heads * tuff__divide_up(job->q.count, work->block) * column_parts(job, work);
}

static tuff_status lower_forward(const attention *job)
{
    launch_list *list = job->list;
    const bool has_result = tuff__attention_root(job->task, OP_ATTENTION) >= 0;
    const forward work = choose_forward(job);
    const int64_t blocks = tuff__divide_up(job->q.count, work.block);
    const int64_t parts = column_parts(job, &work), items = count_items(job, &work);
    const kernel_policy *policy = &list->policy;
    key_splits splits = tuff__attention_split_keys(job, work.keys, work.lanes, items,
                                                   tuff__tunable_value(policy, TUNABLE_attention_local_splits));
    splits.in_log2 = tuff__tunable_value(policy, TUNABLE_attention_local_hardware_exp2) > 0;
    TRY(tuff__attention_add_split_buffers(job, &splits));
    launch *made = tuff__launch_add(list, "attention_local", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    tuff__attention_add_operands(job, made, blocks, parts, items * splits.count, &defines);
    tuff__attention_add_forward_results(job, made, &splits, &defines);
    tuff__text_add(&defines, "#define RESULT %d\n", has_result);
    made->groups = (uint64_t)(items * splits.count);
    made->operations = 2 * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    TRY(finish_forward(job, made, &work, &defines));
    return tuff__attention_join_splits(job, &splits);
}

static int64_t local_bytes(const attention_backward *work)
{
    const int64_t values = (int64_t)work->keys * work->width, pairs = (int64_t)2 * work->queries * work->keys;
    return (int64_t)sizeof(float) *
           (values + (values > pairs ? values : pairs) + (int64_t)2 * work->queries * work->width);
}

static int lanes_of(const attention_backward *work)
{
    return work->keys * work->width / (16 * work->vectors);
}

/* Whether each lane has vectors of scores to compute, and no more sums of any kind than the body unrolls. */
static bool suits_lanes(const attention_backward *work)
{
    const int scores = 32 * work->vectors * work->queries / work->width;
    const int rows = 4 * work->vectors * work->queries / work->keys;
    return scores >= 4 && scores <= 64 && rows >= 1 && rows <= 8;
}

static bool has_whole_rows(const attention *job, const attention_backward *work)
{
    return job->q.width == job->v.width && job->q.width % work->width == 0;
}

/* Returns how many vectors of gradients a lane has if no tunable says it. A lane with twice the registers has two,
   except in the forms that Intel's compiler spilled with two: those with tiles that are not whole, and those that
   compute the gradient of either the keys or the values. */
static int default_vectors(const attention *job, const attention_backward *work)
{
    const kernel_policy *policy = &job->list->policy;
    const bool spills = (work->dk >= 0) != (work->dv >= 0) || job->q.count % work->queries != 0 ||
                        job->k.count % work->keys != 0 || !has_whole_rows(job, work);
    return policy->target.doubles_registers && !spills
               ? 2
               : tuff__tunable_device_default(policy, TUNABLE_attention_local_backward_vectors);
}

/* Chooses the tiles that the tunables describe, or smaller ones if they are too large for a group. */
static void choose_tiles(const attention *job, attention_backward *work)
{
    enum { MAX_SCORES = 32 }; /* of a lane: with 64, lanes of narrow heads would need more registers than they have */
    const kernel_policy *policy = &job->list->policy;
    const tuff_device_info *info = policy->target.info;
    const int64_t width = job->q.width > job->v.width ? job->q.width : job->v.width;
    work->width = 16;
    while (work->width < 128 && work->width < width)
        work->width *= 2;
    work->queries = tuff__tunable_value(policy, TUNABLE_attention_local_backward_queries);
    work->keys = tuff__tunable_value(policy, TUNABLE_attention_local_backward_keys);
    work->vectors =
        tuff__tunable_value_or(policy, TUNABLE_attention_local_backward_vectors, default_vectors(job, work));
    while ((local_bytes(work) > info->local_memory_size || lanes_of(work) > (int)info->max_group_size) &&
           work->keys > 8)
        if (work->keys > work->queries)
            work->keys /= 2;
        else
            work->queries /= 2;
    while (32 * work->vectors * work->queries > MAX_SCORES * work->width ||
           4 * work->vectors * work->queries > 8 * work->keys)
        work->queries /= 2;
    if (!suits_lanes(work))
        work->vectors = 2;
    work->parts = tuff__divide_up(width, work->width);
}

/* Returns how many groups share the blocks of keys of one group of heads: enough for all units, and so many that none
   takes very long. But each of them needs a copy of dq, so their number is limited, to keep memory proportional to
   the length of the sequence, and so is the size of all copies. */
static int64_t choose_splits(const attention *job, const attention_backward *work, int group_lanes)
{
    enum { LONGEST = 1 << 14 };
    const int64_t groups = tuff__attention_groups_to_fill(&job->list->policy, group_lanes);
    const int64_t owned = work->owners * work->parts;
    const int64_t panels = tuff__divide_up(job->q.count, work->queries) * (job->q.heads / job->k.heads);
    const int64_t dq = job->batches * job->q.heads * job->q.count * job->q.width;
    int64_t splits = tuff__attention_limit_splits(tuff__divide_up(groups, owned), dq);
    const int64_t wanted = tuff__divide_up(work->blocks * panels, LONGEST);
    const int64_t least = wanted < MAX_SPLITS ? wanted : MAX_SPLITS;
    if (splits < least && least * dq <= MAX_COPIES)
        splits = least;
    return splits < work->blocks ? splits : work->blocks;
}

/* Returns the copies of dq: an f32 tensor like dq for each split. */
static attention_rows copies_of(const attention *job, const attention_backward *work)
{
    const int64_t row = tuff__divide_up(job->q.width, LANES) * LANES;
    return (attention_rows){.id = work->copies,
                            .batch = row * job->q.count * job->q.heads,
                            .row = row,
                            .head = row * job->q.count,
                            .count = job->q.count,
                            .heads = job->q.heads,
                            .width = job->q.width};
}

/* Whether a lane has registers left to fetch the next panel ahead: that takes half as many as its gradients. */
static bool fetches_ahead(const attention *job, const attention_backward *work)
{
    return work->parts == 1 && 2 * work->queries <= work->keys * (work->vectors > 1 ? 2 : 1) &&
           tuff__tunable_value(&job->list->policy, TUNABLE_attention_local_backward_prefetch) > 0;
}

static void add_tiles(const attention *job, const attention_backward *work, text *defines)
{
    const int scores = 32 * work->vectors * work->queries / work->width, score_vectors = scores >= 32 ? 2 : 1;
    const int query_rows = 4 * work->vectors * work->queries / work->keys, pairs = work->queries * work->keys / LANES;
    const int64_t widest = job->q.width > job->v.width ? job->q.width : job->v.width;
    const int64_t depth = tuff__divide_up(widest, 32) * 32;
    const bool whole = has_whole_rows(job, work);
    tuff__text_add(defines,
                   "#define BLOCK_QUERIES %d\n#define BLOCK_KEYS %d\n#define WIDTH %d\n#define SCORE_ROWS %d\n"
                   "#define SCORE_VECTORS %d\n#define SCORE_DEPTH %d\n#define SCORE_SUMS %d\n#define GRADIENT_VECTORS "
                   "%d\n",
                   work->queries, work->keys, work->width, scores / 4 / score_vectors, score_vectors,
                   (depth < work->width ? (int)depth : work->width) / LANES, score_sums(&job->list->policy),
                   work->vectors);
    tuff__text_add(defines, "#define QUERY_ROWS %d\n#define KEY_ROWS %d\n#define PAIRS %d\n#define SLICED %d\n",
                   query_rows, 4 * work->vectors, (int)tuff__divide_up(pairs, lanes_of(work)), work->parts > 1);
    tuff__text_add(defines,
                   "#define WHOLE_QUERIES %d\n#define WHOLE_KEYS %d\n#define WHOLE_WIDTH %d\n#define AHEAD %d\n"
                   "#define MANY_SUMS\n#define UNROLL_FURTHER %d\n",
                   job->q.count % work->queries == 0, job->k.count % work->keys == 0, whole, fetches_ahead(job, work),
                   tuff__tunable_value(&job->list->policy, TUNABLE_attention_local_score_sums) > 1);
}

/* Whether sums would lose bits in the memory of a result. */
static bool keeps_fewer_bits(const launch_list *list, int id)
{
    return list->buffers[id].dtype != TUFF_F32 ||
           (id < list->fusion->graph->node_count && list->fusion->facts[id].rounding != TUFF_F32);
}

static tuff_status launch_backward(const attention *job, const attention_backward *work, bool join)
{
    launch_list *list = job->list;
    const bool dq = work->dq >= 0, dk = work->dk >= 0, dv = work->dv >= 0, db = work->db >= 0;
    const int64_t elements = job->batches * job->q.count * job->q.heads * tuff__divide_up(job->q.width, LANES);
    const int64_t key_parts = db ? tuff__divide_up(job->k.count, work->keys) : work->parts;
    const int64_t items = join ? tuff__divide_up(elements, lanes_of(work))
                               : work->owners * key_parts * (db ? work->blocks : work->splits);
    const attention_rows copies = copies_of(job, work);
    launch *made = tuff__launch_add(list, "attention_backward_local", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    attention operands = *job;
    if (join)
        operands.q = copies;
    tuff__attention_add_backward_operands(&operands, made, work->blocks, key_parts, items, &defines);
    if (dq && work->copies >= 0 && !join) {
        tuff__attention_add_rows(list, made, &copies, "DQ", true, &defines);
        tuff__attention_store_only(made, copies.id);
    } else
        tuff__attention_add_result(job, made, work->dq, "DQ", &defines);
    tuff__attention_add_gradients(job, made, work, work->copies < 0 ? 0 : job->batches * copies.batch, &defines);
    tuff__text_add(&defines, "#define DB %d\n#define ADD_COPIES %d\n", db, join);
    add_tiles(job, work, &defines);
    const double products = 2.0 + dq + dk + dv;
    if (!join) {
        tuff__text_add(&defines, "#define MANY_REGISTERS\n");
        made->registers = REGISTERS_MANY;
    }
    made->vec = LANES;
    made->local_size = (uint32_t)lanes_of(work);
    made->local_bytes = (uint32_t)local_bytes(work);
    made->groups = (uint64_t)items;
    made->operations =
        join ? 0 : products * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    return tuff__set_defines(made, &defines);
}

static tuff_status add_copies(const attention *job, attention_backward *work)
{
    work->copies = tuff__buffer_add(job->list, TUFF_F32, work->splits * job->batches * copies_of(job, work).batch);
    return work->copies < 0 ? TUFF_E_OOM_HOST : TUFF_OK;
}

static tuff_status add_up_copies(const attention *job, const attention_backward *work)
{
    attention_backward join = *work;
    join.dk = join.dv = -1;
    return work->copies < 0 ? TUFF_OK : launch_backward(job, &join, true);
}

/* On matrix units dq always has copies, because a lane stores pairs of elements there. */
static tuff_status lower_on_units(const attention *job, const attention_backward *all, const attention_units *units)
{
    attention_backward work = *all;
    work.queries = units->queries;
    work.keys = units->keys;
    work.parts = 1;
    work.blocks = tuff__divide_up(job->k.count, work.keys);
    work.splits = work.dq >= 0 ? choose_splits(job, &work, units->lanes) : work.blocks;
    if (work.dq >= 0)
        TRY(add_copies(job, &work));
    const attention_rows copies = copies_of(job, &work);
    TRY(tuff__launch_attention_backward(job, &work, units, &copies));
    attention_backward join = *all;
    join.copies = work.copies;
    join.splits = work.splits;
    return add_up_copies(job, &join);
}

/* All gradients but the bias's in one pass. If groups share the queries of a head, each adds to its own copy of dq.
   There is a copy, too, if dq's own memory keeps fewer bits. */
static tuff_status lower_backward(const attention *job, int dq, int dk, int dv)
{
    attention_units units;
    attention_backward work = {
        .dq = dq, .dk = dk, .dv = dv, .db = -1, .copies = -1, .owners = job->batches * job->k.heads, .splits = 1};
    choose_tiles(job, &work);
    work.blocks = tuff__divide_up(job->k.count, work.keys);
    if (tuff__attention_backward_suits_units(job, &units))
        return lower_on_units(job, &work, &units);
    work.splits = dq >= 0 ? choose_splits(job, &work, lanes_of(&work)) : work.blocks;
    if (dq >= 0 && (work.splits > 1 || keeps_fewer_bits(job->list, dq)))
        TRY(add_copies(job, &work));
    TRY(launch_backward(job, &work, false));
    return add_up_copies(job, &work);
}

/* The gradient of the bias: a group owns a block of it. */
static tuff_status lower_bias(const attention *job, int root)
{
    const int64_t *extent = job->list->fusion->graph->nodes[root]->outputs[0].shape.extent;
    attention_backward work = {.dq = -1, .dk = -1, .dv = -1, .db = root, .copies = -1, .owners = extent[0] * extent[1]};
    choose_tiles(job, &work);
    work.blocks = tuff__divide_up(extent[2], work.queries);
    return launch_backward(job, &work, false);
}

tuff_status tuff__lower_attention_local(const attention *job)
{
    const op_code op = job->task->core->op;
    if (op == OP_ATTENTION || op == OP_ATTENTION_LSE)
        return lower_forward(job);
    const int dq = tuff__attention_root(job->task, OP_ATTENTION_DQ),
              dk = tuff__attention_root(job->task, OP_ATTENTION_DK);
    const int dv = tuff__attention_root(job->task, OP_ATTENTION_DV),
              db = tuff__attention_root(job->task, OP_ATTENTION_DB);
    if (dq >= 0 || dk >= 0 || dv >= 0)
        TRY(lower_backward(job, dq, dk, dv));
    return db < 0 ? TUFF_OK : lower_bias(job, db);
}
