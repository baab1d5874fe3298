/* Launches of attention on devices with local memory: nothing is packed, and what one group stores no other adds to. */
#include "compile/lower_attention.h"
#include "compile/lower_matmul.h"

#define BLOCK 32 /* queries and keys of a tile, and columns that one vector of each lane covers */
#define LOCAL_SIZE 64
#define BACKWARD_DEPTH 8 /* of tiles in local memory */

/* Vectors of a tensor's columns that a lane owns; `tensors` share its registers. */
static int64_t columns_of(const attention *of, int64_t width, int tensors)
{
    int64_t columns = tuff__tuned(of->with, TUNABLE_attention_local_columns) / tensors;
    while (columns > 1 && columns / 2 * BLOCK >= width)
        columns /= 2;
    return columns;
}

/* The groups that share the columns of a tensor. */
static int64_t parts_of(int64_t width, int64_t columns)
{
    return tuff__divide_up(width, columns * BLOCK);
}

/* What both bodies begin with: extents, the band, queries, keys and values. */
static void add_operands(const attention *of, launch *made, int64_t blocks, int64_t parts, int64_t items, text *defines)
{
    const op_attributes *band = &of->task->core->attributes;
    const int64_t parameters[] = {of->q.count, of->k.count,    of->q.heads,    of->k.heads,
                                  of->q.width, of->v.width,    blocks,         parts,
                                  items,       band->start[0], band->start[1], tuff__attention_float(band->value)};
    tuff__attention_parameters(made, parameters, sizeof parameters / sizeof *parameters);
    tuff__attention_rows(of->with, made, &of->q, "Q", false, defines);
    tuff__attention_rows(of->with, made, &of->k, "K", false, defines);
    tuff__attention_rows(of->with, made, &of->v, "V", false, defines);
}

static tuff_status finish(launch *made, int depth, int64_t items, double operations, text *defines)
{
    tuff__text_add(defines, "#define BLOCK %d\n#define DEPTH %d\n#define MANY_SUMS\n", BLOCK, depth);
    made->vec = 4;
    made->local_size = LOCAL_SIZE;
    made->groups = (uint64_t)items;
    made->operations = operations;
    return tuff__keep_defines(made, defines);
}

static tuff_status lower_forward(const attention *of)
{
    lowered *with = of->with;
    const int result = tuff__attention_root(of->task, OP_ATTENTION);
    const int64_t blocks = tuff__divide_up(of->q.count, BLOCK), columns = columns_of(of, of->v.width, 1);
    const int64_t parts = result < 0 ? 1 : parts_of(of->v.width, columns);
    const int64_t items = of->batches * of->q.heads * blocks * parts;
    int lse = tuff__attention_root(of->task, OP_ATTENTION_LSE);
    if (lse < 0)
        lse = tuff__buffer_add(with, TUFF_F32, of->batches * of->q.count * of->q.heads);
    launch *made = lse < 0 ? NULL : tuff__launch_add(with, "attention_local", WALK_MATMUL, of->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    add_operands(of, made, blocks, parts, items, &defines);
    tuff__attention_result(of, made, result, "R", &defines);
    tuff__attention_whole(with, made, lse, 1, "L", true, &defines);
    tuff__text_add(&defines, "#define COLUMNS %d\n#define RESULT %d\n", (int)columns, result >= 0);
    return finish(made, tuff__tuned(with, TUNABLE_attention_local_depth), items,
                  2 * tuff__attention_pairs(of) * (double)(of->q.width + of->v.width), &defines);
}

/* The gradient of queries, or those of keys and values. */
static tuff_status launch_backward(const attention *of, int dq, int dk, int dv)
{
    lowered *with = of->with;
    const int64_t blocks = tuff__divide_up(dq >= 0 ? of->q.count : of->k.count, BLOCK);
    const int tensors = dk >= 0 && dv >= 0 ? 2 : 1;
    const int64_t key_columns = columns_of(of, of->q.width, tensors);
    const int64_t value_columns = columns_of(of, of->v.width, tensors);
    const int64_t key_parts = dq >= 0 || dk >= 0 ? parts_of(of->q.width, key_columns) : 1;
    const int64_t value_parts = dv >= 0 ? parts_of(of->v.width, value_columns) : 1;
    const int64_t parts = key_parts > value_parts ? key_parts : value_parts;
    const int64_t items = of->batches * (dq >= 0 ? of->q.heads : of->k.heads) * blocks * parts;
    launch *made = tuff__launch_add(with, "attention_backward_local", WALK_MATMUL, of->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    add_operands(of, made, blocks, parts, items, &defines);
    tuff__attention_rows(with, made, &of->upstream, "G", false, &defines);
    tuff__attention_rows(with, made, &of->lse, "L", false, &defines);
    tuff__attention_rows(with, made, &of->sums, "S", false, &defines);
    tuff__attention_result(of, made, dq, "DQ", &defines);
    tuff__attention_result(of, made, dk, "DK", &defines);
    tuff__attention_result(of, made, dv, "DV", &defines);
    tuff__text_add(&defines,
                   "#define DQ %d\n#define DK %d\n#define DV %d\n#define KEY_COLUMNS %d\n#define VALUE_COLUMNS %d\n"
                   "#define MOST_COLUMNS %d\n",
                   dq >= 0, dk >= 0, dv >= 0, (int)key_columns, (int)value_columns,
                   (int)(key_columns > value_columns ? key_columns : value_columns));
    const double products = 1.0 + (dq >= 0 || dk >= 0) + (dq >= 0) + (dk >= 0) + (dv >= 0);
    return finish(made, BACKWARD_DEPTH, items,
                  products * tuff__attention_pairs(of) * (double)(of->q.width + of->v.width), &defines);
}

tuff_status tuff__lower_attention_local(const attention *of)
{
    const op_code op = of->task->core->op;
    if (op == OP_ATTENTION || op == OP_ATTENTION_LSE)
        return lower_forward(of);
    const int dq = tuff__attention_root(of->task, OP_ATTENTION_DQ),
              dk = tuff__attention_root(of->task, OP_ATTENTION_DK);
    const int dv = tuff__attention_root(of->task, OP_ATTENTION_DV);
    if (dq >= 0)
        TRY(launch_backward(of, dq, -1, -1));
    return dk >= 0 || dv >= 0 ? launch_backward(of, -1, dk, dv) : TUFF_OK;
}
