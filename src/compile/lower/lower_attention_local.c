/* Launches of attention on devices with local memory: nothing is packed, and each result is stored by one group. */
#include "base/checked.h"
#include "compile/lower/lower_attention.h"
#include "compile/lower/lower_matmul.h"

enum { LANE_ROWS = 4, LANES = 4 }; /* of a lane's part of a block: rows, and columns or keys of a vector */

/* Queries and keys of a tile, and columns that one vector of each lane covers. */
static int block_of(const attention *job)
{
    return tuff__tuned(&job->list->policy, TUNABLE_attention_local_block);
}

/* Vectors of a tensor's columns that a lane owns; `tensors` share its registers. */
static int64_t columns_of(const attention *job, int64_t width, int tensors)
{
    const int64_t tuned = tuff__tuned(&job->list->policy, TUNABLE_attention_local_columns) / tensors;
    int64_t columns = tuned > 1 ? tuned : 1;
    while (columns > 1 && columns / 2 * block_of(job) >= width)
        columns /= 2;
    return columns;
}

/* The groups that share the columns of a tensor. */
static int64_t parts_of(const attention *job, int64_t width, int64_t columns)
{
    return tuff__divide_up(width, columns * block_of(job));
}

/* What both bodies begin with: extents, the band, queries, keys and values. */
static void add_operands(const attention *job, launch *made, int64_t blocks, int64_t parts, int64_t items,
                         text *defines)
{
    const op_attributes *band = &job->task->core->attributes;
    const int64_t parameters[] = {job->q.count, job->k.count,   job->q.heads,   job->k.heads,
                                  job->q.width, job->v.width,   blocks,         parts,
                                  items,        band->start[0], band->start[1], tuff__attention_float(band->value)};
    tuff__attention_parameters(made, parameters, sizeof parameters / sizeof *parameters);
    tuff__attention_rows(job->list, made, &job->q, "Q", false, defines);
    tuff__attention_rows(job->list, made, &job->k, "K", false, defines);
    tuff__attention_rows(job->list, made, &job->v, "V", false, defines);
}

/* Elements of local memory: tiles of two operands, one of `columns` vectors of a lane, and what else the
   body shares. */
static tuff_status finish(const attention *job, launch *made, int depth, int64_t columns, int64_t shared, text *defines)
{
    const int block = block_of(job);
    tuff__text_add(defines, "#define BLOCK %d\n#define DEPTH %d\n#define MANY_SUMS\n", block, depth);
    made->vec = LANES;
    made->local_size = (uint32_t)(block * block / (LANE_ROWS * LANES));
    made->local_bytes = (uint32_t)(sizeof(float) * (size_t)(depth * (2 * (block + 1) + columns * block) + shared));
    return tuff__keep_defines(made, defines);
}

/* The forward pass: a group's queries and panels of keys, and the pieces that local memory takes at a time. */
typedef struct forward {
    int64_t block, keys, lanes, columns; /* columns: vectors of each lane */
    int64_t depth, value_keys;           /* of a piece: elements of each key; keys */
    bool keeps_queries;                  /* whole in local memory */
} forward;

enum {
    MAX_ROW_LANES = 16,
    MAX_LANE_KEYS = 8,
    UNROLLED = 8, /* elements of keys, whose multiple a piece has */
    MIN_BLOCK = 16,
    LOCAL_MEMORY = 64 << 10 /* of a group, at most: more would leave room for too few of them */
};

static int64_t row_lanes(const forward *use)
{
    return use->lanes * LANE_ROWS / use->block;
}

/* The columns of values that a group has sums for. */
static int64_t chunk_of(const forward *use)
{
    return row_lanes(use) * use->columns * LANES;
}

static int64_t key_pieces(const attention *job, const forward *use)
{
    return tuff__divide_up(job->q.width, use->depth);
}

/* In bytes. Pieces of keys and of values take turns in one tile. */
static int64_t local_memory_of(const attention *job, const forward *use)
{
    const int64_t keys = use->depth * use->keys, values = use->value_keys * chunk_of(use);
    const int64_t queries = use->block * use->depth * (use->keeps_queries ? key_pieces(job, use) : 1);
    return (int64_t)sizeof(float) *
           (queries + (keys > values ? keys : values) + use->keys * use->block + LANES * use->lanes);
}

/* So many lanes that each row has at most MAX_ROW_LANES, whose keys are whole and not too many, and whose columns are
   those of the values. */
static void set_block(const attention *job, int64_t block, forward *use)
{
    const launch_list *list = job->list;
    use->block = block;
    use->lanes = tuff__tuned(&list->policy, TUNABLE_attention_local_lanes);
    while (row_lanes(use) > MAX_ROW_LANES)
        use->lanes /= 2;
    while (row_lanes(use) < 1)
        use->lanes *= 2;
    use->keys = tuff__tuned(&list->policy, TUNABLE_attention_local_keys);
    while (use->keys < row_lanes(use))
        use->keys *= 2;
    while (use->keys > row_lanes(use) * MAX_LANE_KEYS)
        use->keys /= 2;
    use->columns = tuff__tuned(&list->policy, TUNABLE_attention_local_vectors);
    while (use->columns > 1 && chunk_of(use) / 2 >= job->v.width)
        use->columns /= 2;
    use->depth = tuff__divide_up(job->q.width, UNROLLED) * UNROLLED;
    use->value_keys = use->keys;
    use->keeps_queries = true;
}

/* Whether a group that does not fit was made smaller. Fewer queries read keys and values more often, and pieces take
   barriers, queries that are not kept are read again with each panel. */
static bool shrink(const attention *job, forward *use)
{
    enum { FEW_QUERIES = 32, FEW_ELEMENTS = 32, FEW_KEYS = 8, PANEL = 32 };
    if (use->keys > PANEL && use->keys >= 2 * row_lanes(use) && use->depth >= job->q.width) {
        use->value_keys = use->keys /= 2;
    } else if (use->block > FEW_QUERIES) {
        set_block(job, use->block / 2, use);
    } else if (use->depth > FEW_ELEMENTS || use->value_keys > FEW_KEYS) {
        const int64_t pieces = 2 * key_pieces(job, use);
        if (use->depth > FEW_ELEMENTS)
            use->depth = tuff__divide_up(tuff__divide_up(job->q.width, pieces), UNROLLED) * UNROLLED;
        if (use->value_keys > FEW_KEYS)
            use->value_keys /= 2;
    } else if (use->keeps_queries) {
        use->keeps_queries = false;
    } else if (use->block > MIN_BLOCK) {
        set_block(job, use->block / 2, use);
    } else {
        return false;
    }
    return true;
}

/* Whether a group fits, and a lane has few enough vectors of keys and values on their way. */
static bool fits(const attention *job, const forward *use)
{
    enum { MAX_SQUARES = 4, MAX_VECTORS = 8 };
    const uint64_t all = job->list->policy.target.info->local_memory_size;
    const int64_t most = all < LOCAL_MEMORY ? (int64_t)all : LOCAL_MEMORY;
    return local_memory_of(job, use) <= most && use->depth * use->keys <= MAX_SQUARES * LANES * LANES * use->lanes &&
           use->value_keys * chunk_of(use) <= MAX_VECTORS * LANES * use->lanes;
}

static forward choose_forward(const attention *job)
{
    int64_t block = tuff__tuned(&job->list->policy, TUNABLE_attention_local_queries);
    forward use;
    while (block > MIN_BLOCK && block / 2 >= job->q.count)
        block /= 2;
    set_block(job, block, &use);
    while (!fits(job, &use) && shrink(job, &use)) {
    }
    return use;
}

static tuff_status finish_forward(const attention *job, launch *made, const forward *use, text *defines)
{
    tuff__text_add(defines,
                   "#define MANY_SUMS\n#define MANY_REGISTERS\n#define BLOCK %d\n#define KEYS %d\n#define COLUMNS "
                   "%d\n#define DEPTH %d\n"
                   "#define KEY_PIECES %d\n#define VALUE_KEYS %d\n#define Q_KEPT %d\n#define KEY_WIDTH %d\n"
                   "#define VALUE_WIDTH %d\n#define WHOLE_KEYS %d\n#define HARDWARE_EXP2 %d\n",
                   (int)use->block, (int)use->keys, (int)use->columns, (int)use->depth, (int)key_pieces(job, use),
                   (int)use->value_keys, use->keeps_queries, (int)job->q.width, (int)job->v.width,
                   job->k.count % use->keys == 0,
                   tuff__tuned(&job->list->policy, TUNABLE_attention_local_hardware_exp2));
    made->vec = LANES;
    made->local_size = (uint32_t)use->lanes;
    made->many_registers = true;
    made->local_bytes = (uint32_t)local_memory_of(job, use);
    return tuff__keep_defines(made, defines);
}

static tuff_status lower_forward(const attention *job)
{
    launch_list *list = job->list;
    const int result = tuff__attention_root(job->task, OP_ATTENTION);
    const forward use = choose_forward(job);
    const int64_t blocks = tuff__divide_up(job->q.count, use.block);
    const int64_t parts = result < 0 ? 1 : tuff__divide_up(job->v.width, chunk_of(&use));
    const int64_t items = job->batches * job->q.heads * blocks * parts;
    int lse = tuff__attention_root(job->task, OP_ATTENTION_LSE);
    const bool softmax = (job->task->core->attributes.options & ATTENTION_NO_SOFTMAX) == 0;
    if (lse < 0 && softmax)
        lse = tuff__buffer_add(list, TUFF_F32, job->batches * job->q.count * job->q.heads);
    launch *made = lse < 0 && softmax ? NULL : tuff__launch_add(list, "attention_local", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    add_operands(job, made, blocks, parts, items, &defines);
    tuff__attention_result(job, made, result, "R", &defines);
    tuff__attention_whole(list, made, lse, 1, "L", true, &defines);
    tuff__attention_options(job, made, &defines);
    tuff__text_add(&defines, "#define RESULT %d\n", result >= 0);
    made->groups = (uint64_t)items;
    made->operations = 2 * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    return finish_forward(job, made, &use, &defines);
}

/* What one launch of the backward pass stores, ids or -1, and how its work is parted. */
typedef struct backward {
    int dq, dk, dv, db;
    int64_t owners, blocks, parts; /* owners: batches and heads of what is stored */
    int64_t key_columns, value_columns;
} backward;

/* Biases and random numbers take registers that deeper tiles would need. */
static int backward_depth(const attention *job)
{
    const bool plain = (job->task->core->attributes.options & (ATTENTION_BIAS | ATTENTION_DROPOUT)) == 0;
    return tuff__tuned(&job->list->policy,
                       plain ? TUNABLE_attention_local_backward_depth : TUNABLE_attention_local_depth);
}

static tuff_status launch_backward(const attention *job, const backward *use)
{
    launch_list *list = job->list;
    const bool dq = use->dq >= 0, dk = use->dk >= 0, dv = use->dv >= 0, db = use->db >= 0;
    const int64_t items = use->owners * use->blocks * use->parts;
    launch *made = tuff__launch_add(list, "attention_backward_local", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    add_operands(job, made, use->blocks, use->parts, items, &defines);
    tuff__attention_rows(list, made, &job->upstream, "G", false, &defines);
    tuff__attention_operand(job, made, &job->lse, "L", &defines);
    tuff__attention_operand(job, made, &job->sums, "S", &defines);
    tuff__attention_result(job, made, use->dq, "DQ", &defines);
    tuff__attention_result(job, made, use->dk, "DK", &defines);
    tuff__attention_result(job, made, use->dv, "DV", &defines);
    tuff__attention_bias_result(job, made, use->db, &defines);
    tuff__attention_options(job, made, &defines);
    tuff__attention_parameters(made, &job->batches, 1);
    const int64_t most = use->key_columns > use->value_columns ? use->key_columns : use->value_columns;
    tuff__text_add(&defines,
                   "#define DQ %d\n#define DK %d\n#define DV %d\n#define DB %d\n#define KEY_COLUMNS %d\n"
                   "#define VALUE_COLUMNS %d\n#define MOST_COLUMNS %d\n",
                   dq, dk, dv, db, (int)use->key_columns, (int)use->value_columns, (int)most);
    const double products = 1.0 + (dq || dk || db) + dq + dk + dv;
    made->groups = (uint64_t)items;
    made->operations = products * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    const int64_t block = block_of(job);
    return finish(job, made, backward_depth(job), most, 2 * block * (block + 1), &defines);
}

/* The gradient of queries, or those of keys and values. */
static tuff_status lower_backward(const attention *job, int dq, int dk, int dv)
{
    const int tensors = dk >= 0 && dv >= 0 ? 2 : 1;
    backward use = {.dq = dq, .dk = dk, .dv = dv, .db = -1};
    use.key_columns = columns_of(job, job->q.width, tensors);
    use.value_columns = columns_of(job, job->v.width, tensors);
    use.owners = job->batches * (dq >= 0 ? job->q.heads : job->k.heads);
    use.blocks = tuff__divide_up(dq >= 0 ? job->q.count : job->k.count, block_of(job));
    const int64_t key_parts = dq >= 0 || dk >= 0 ? parts_of(job, job->q.width, use.key_columns) : 1;
    const int64_t value_parts = dv >= 0 ? parts_of(job, job->v.width, use.value_columns) : 1;
    use.parts = key_parts > value_parts ? key_parts : value_parts;
    return launch_backward(job, &use);
}

/* The gradient of the bias: a group owns a block of it. */
static tuff_status lower_bias(const attention *job, int root)
{
    const int64_t *extent = job->list->fusion->graph->nodes[root]->outputs[0].shape.extent;
    const backward use = {.dq = -1,
                          .dk = -1,
                          .dv = -1,
                          .db = root,
                          .owners = extent[0] * extent[1],
                          .blocks = tuff__divide_up(extent[2], block_of(job)),
                          .parts = tuff__divide_up(job->k.count, block_of(job)),
                          .key_columns = 1,
                          .value_columns = 1};
    return launch_backward(job, &use);
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
    if (dq >= 0)
        TRY(lower_backward(job, dq, -1, -1));
    if (dk >= 0 || dv >= 0)
        TRY(lower_backward(job, -1, dk, dv));
    return db < 0 ? TUFF_OK : lower_bias(job, db);
}
