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

static tuff_status lower_forward(const attention *job)
{
    launch_list *list = job->list;
    const int result = tuff__attention_root(job->task, OP_ATTENTION);
    const int block = block_of(job);
    const int64_t blocks = tuff__divide_up(job->q.count, block), columns = columns_of(job, job->v.width, 1);
    const int64_t parts = result < 0 ? 1 : parts_of(job, job->v.width, columns);
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
    tuff__text_add(&defines, "#define COLUMNS %d\n#define RESULT %d\n", (int)columns, result >= 0);
    made->groups = (uint64_t)items;
    made->operations = 2 * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    const int64_t scores = block * (block + 1), sums = block * block / (LANE_ROWS * LANES) + block;
    return finish(job, made, tuff__tuned(&list->policy, TUNABLE_attention_local_depth), columns, scores + sums,
                  &defines);
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
