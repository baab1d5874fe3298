/* Launches of attention. Queries, keys and values are read through their views, row by row; what vectors must run
   across (keys in the scores) is packed in panels before. */
#include <string.h>

#include "compile/lower_attention.h"
#include "compile/lower_matmul.h"

static attention_rows operand_rows(const lowered *with, const tuff_tensor *operand)
{
    view layout;
    const node *missing = NULL;
    const node *base = tuff__operand_view(with->fusion, operand, &layout, &missing);
    return (attention_rows){.id = base->id,
                            .offset = layout.offset,
                            .batch = layout.stride[0],
                            .row = layout.stride[1],
                            .head = layout.stride[2],
                            .count = layout.extent[1],
                            .heads = layout.extent[2],
                            .width = layout.rank == 4 ? layout.extent[3] : 1};
}

int tuff__attention_root(const struct task *task, op_code op)
{
    for (int i = 0; i < task->root_count; ++i)
        if (task->roots[i]->op == op)
            return task->roots[i]->id;
    return -1;
}

/* The widest vector that divides both widths. */
static int choose_vector(const lowered *with, int64_t a, int64_t b)
{
    int vec = tuff__native_lanes(with);
    while (vec > 4 && (a % vec != 0 || b % vec != 0))
        vec /= 2;
    return vec;
}

/* The most vectors up to `most` that divide a width in whole vectors; 1 where it has none. */
static int choose_columns(int64_t width, int vec, int most)
{
    int columns = most;
    while (columns > 1 && width / vec % columns != 0)
        --columns;
    return columns;
}

static int use_buffer(const lowered *with, launch *of, int id, bool read, bool written)
{
    fused_chain *chain = &of->chain;
    int i = 0;
    while (i < chain->buffer_count && chain->buffers[i].id != id)
        ++i;
    if (i == chain->buffer_count)
        chain->buffers[chain->buffer_count++] = (chain_buffer){.id = id, .dtype = with->buffers[id].dtype};
    chain->buffers[i].read |= read;
    chain->buffers[i].written |= written;
    return i;
}

/* The next of the body's parameters: a number, to which a buffer's own offset is added unless it is -1. */
static void add_parameter(launch *of, int64_t value, int buffer)
{
    of->fixed[of->fixed_count] = value;
    of->fixed_buffer[of->fixed_count++] = buffer;
}

void tuff__attention_parameters(launch *of, const int64_t *values, int count)
{
    for (int i = 0; i < count; ++i)
        add_parameter(of, values[i], -1);
}

/* Whether every vector of a tensor starts at a multiple of four elements; buffers of ours do. */
static bool is_aligned(const lowered *with, const attention_rows *of)
{
    const memory_buffer *memory = &with->buffers[of->id];
    const int64_t start = of->offset + (int64_t)(memory->offset / tuff_dtype_size(memory->dtype)) + memory->parent_at;
    return start % 4 == 0 && of->batch % 4 == 0 && of->row % 4 == 0 && of->head % 4 == 0;
}

void tuff__attention_rows(const lowered *with, launch *of, const attention_rows *operand, const char *letter,
                          bool written, text *defines)
{
    const int buffer = use_buffer(with, of, operand->id, true, written);
    const char *dtype = tuff_dtype_name(with->buffers[operand->id].dtype);
    const char *form = is_aligned(with, operand) ? "V" : "U";
    add_parameter(of, operand->offset, buffer);
    tuff__attention_parameters(of, (int64_t[]){operand->batch, operand->row, operand->head}, 3);
    tuff__text_add(defines, "#define LOAD_%s(i) LOAD_%s(b%d, i)\n#define LOADV_%s(i) LOAD%s_%s(b%d, i)\n", letter,
                   dtype, buffer, letter, form, dtype, buffer);
    if (written)
        tuff__text_add(defines,
                       "#define STORE_%s(i, x) STORE_%s(b%d, i, x)\n#define STOREV_%s(i, x) STORE%s_%s(b%d, i, x)\n",
                       letter, dtype, buffer, letter, form, dtype, buffer);
}

void tuff__attention_whole(const lowered *with, launch *of, int id, int64_t width, const char *letter, bool written,
                           text *defines)
{
    const attention_rows operand = {.id = id, .row = width};
    if (id < 0) {
        add_parameter(of, 0, -1);
        return;
    }
    tuff__attention_rows(with, of, &operand, letter, written, defines);
    of->fixed_count -= 3;
}

void tuff__attention_result(const attention *of, launch *to, int id, const char *letter, text *defines)
{
    if (id < 0) {
        tuff__attention_parameters(to, (int64_t[]){0, 0, 0, 0}, 4);
        return;
    }
    const view layout = tuff__fusion_layout(of->with->fusion, of->with->fusion->graph->nodes[id]);
    const attention_rows rows = {.id = id,
                                 .offset = layout.offset,
                                 .batch = layout.stride[0],
                                 .row = layout.stride[1],
                                 .head = layout.stride[2]};
    tuff__attention_rows(of->with, to, &rows, letter, true, defines);
}

static int64_t packed_count(const attention *of, const attention_rows *operand, int64_t panel)
{
    return of->batches * operand->heads * tuff__divide_up(operand->count, panel) * panel * operand->width;
}

/* packed[batch][head][panel][k][row] of a tensor's rows: a new buffer in *out. */
static tuff_status pack(const attention *of, const attention_rows *operand, int64_t panel, int *out)
{
    lowered *with = of->with;
    const int64_t width = operand->width, count = operand->count;
    *out = tuff__buffer_add(with, TUFF_F32, packed_count(of, operand, panel));
    launch *made = *out < 0 ? NULL : tuff__launch_add(with, "pack_transpose", WALK_MATMUL, of->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    fused_chain *chain = &made->chain;
    *chain = (fused_chain){.rank = 2, .extra_count = 2, .operand_names = {"b", "packed"}};
    chain->extent[0] = of->batches;
    chain->extent[1] = operand->heads;
    chain->classes[0] = chain->classes[1] = AXIS_OUTER;
    chain->operand_buffers[0] = use_buffer(with, made, operand->id, true, false);
    chain->operand_buffers[1] = use_buffer(with, made, *out, false, true);
    chain->extra[0] = (affine){.offset = operand->offset, .stride = {operand->batch, operand->head}};
    const int64_t each = tuff__divide_up(count, panel) * panel * width;
    chain->extra[1] = (affine){.offset = 0, .stride = {operand->heads * each, each}};
    return tuff__finish_transpose(with, made, of->vec, count, width, panel, operand->row);
}

int64_t tuff__attention_float(double value)
{
    const float narrow = (float)value;
    int32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

double tuff__attention_pairs(const attention *of)
{
    const int64_t first = of->task->core->attributes.start[0], last = of->task->core->attributes.start[1];
    double count = 0;
    for (int64_t i = 0; i < of->q.count; ++i) {
        const int64_t from = i + first < 0 ? 0 : i + first,
                      end = i + last + 1 > of->k.count ? of->k.count : i + last + 1;
        count += end > from ? (double)(end - from) : 0;
    }
    return count * (double)(of->batches * of->q.heads);
}

/* The tile of the forward pass. */
typedef struct tile {
    int64_t rows, block, panel; /* panel: vectors of keys */
    int columns;
} tile;

static tile choose_tile(const attention *of)
{
    const lowered *with = of->with;
    tile best = {.rows = tuff__tuned(with, TUNABLE_attention_register_tile_rows),
                 .block = tuff__tuned(with, TUNABLE_attention_register_block_rows),
                 .panel = tuff__tuned(with, TUNABLE_attention_register_panel)};
    if (of->q.count < best.rows)
        best.rows = of->q.count;
    best.block = tuff__divide_up(best.block < of->q.count ? best.block : of->q.count, best.rows) * best.rows;
    while (best.panel > 1 && (best.panel - 1) * of->vec >= of->k.count)
        --best.panel;
    best.columns = choose_columns(of->v.width, of->vec, tuff__tuned(with, TUNABLE_attention_register_tile_columns));
    return best;
}

static tuff_status lower_forward(const attention *of)
{
    lowered *with = of->with;
    const op_attributes *band = &of->task->core->attributes;
    const int result = tuff__attention_root(of->task, OP_ATTENTION);
    const tile use = choose_tile(of);
    const int64_t panel = use.panel * of->vec, blocks = tuff__divide_up(of->q.count, use.block);
    const int64_t items = of->batches * of->q.heads * blocks;
    int packed, lse = tuff__attention_root(of->task, OP_ATTENTION_LSE);
    TRY(pack(of, &of->k, panel, &packed));
    if (lse < 0)
        lse = tuff__buffer_add(with, TUFF_F32, of->batches * of->q.count * of->q.heads);
    launch *made = lse < 0 ? NULL : tuff__launch_add(with, "attention_register", WALK_MATMUL, of->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    tuff__attention_parameters(made,
                               (int64_t[]){of->q.count, of->k.count, of->q.heads, of->k.heads, of->q.width, of->v.width,
                                           blocks, tuff__divide_up(of->k.count, panel), items, band->start[0],
                                           band->start[1], tuff__attention_float(band->value)},
                               12);
    tuff__attention_rows(with, made, &of->q, "Q", false, &defines);
    tuff__attention_rows(with, made, &of->v, "V", false, &defines);
    tuff__attention_whole(with, made, packed, panel, "K", false, &defines);
    tuff__attention_result(of, made, result, "R", &defines);
    tuff__attention_whole(with, made, lse, 1, "L", true, &defines);
    tuff__text_add(&defines,
                   "#define TILE_ROWS %d\n#define BLOCK_ROWS %d\n#define PANEL_VECTORS %d\n#define TILE_COLUMNS %d\n"
                   "#define ROW_TAIL %d\n#define VALUE_TAIL %d\n#define RESULT %d\n",
                   (int)use.rows, (int)use.block, (int)use.panel, use.columns, of->q.count % use.rows != 0,
                   of->v.width % of->vec != 0, result >= 0);
    made->vec = of->vec;
    made->local_size = (uint32_t)tuff__tuned(with, TUNABLE_attention_register_local_size);
    made->groups = (uint64_t)tuff__divide_up(items, made->local_size);
    made->operations = 2 * tuff__attention_pairs(of) * (double)(of->q.width + of->v.width);
    return tuff__keep_defines(made, &defines);
}

/* The tile of the backward pass, and how its work is parted. */
typedef struct backward {
    int64_t rows, block, panel, tile_keys; /* panel: vectors of keys */
    int packed_k, packed_v;
    int64_t key_parts, panels_each, query_parts, rows_each;
    bool dq, dk, dv;
} backward;

static int64_t panels_of(const attention *of, const backward *use)
{
    return tuff__divide_up(of->k.count, use->panel * of->vec);
}

static void add_backward_buffers(const attention *of, launch *made, const backward *use, text *defines)
{
    lowered *with = of->with;
    const int64_t panel = use->panel * of->vec;
    tuff__attention_rows(with, made, &of->q, "Q", false, defines);
    tuff__attention_rows(with, made, &of->k, "K", false, defines);
    tuff__attention_rows(with, made, &of->upstream, "G", false, defines);
    tuff__attention_rows(with, made, &of->lse, "L", false, defines);
    tuff__attention_rows(with, made, &of->sums, "S", false, defines);
    tuff__attention_whole(with, made, use->packed_k, panel, "PK", false, defines);
    tuff__attention_whole(with, made, use->packed_v, panel, "PV", false, defines);
    const int dq = use->dq ? tuff__attention_root(of->task, OP_ATTENTION_DQ) : -1;
    tuff__attention_result(of, made, dq, "DQ", defines);
    const int dk = use->dk ? tuff__attention_root(of->task, OP_ATTENTION_DK) : -1;
    tuff__attention_result(of, made, dk, "DK", defines);
    const int dv = use->dv ? tuff__attention_root(of->task, OP_ATTENTION_DV) : -1;
    tuff__attention_result(of, made, dv, "DV", defines);
}

static tuff_status launch_backward(const attention *of, const backward *use)
{
    const op_attributes *band = &of->task->core->attributes;
    const int64_t items = of->batches * of->k.heads * use->key_parts * use->query_parts;
    launch *made = tuff__launch_add(of->with, "attention_backward_register", WALK_MATMUL, of->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    tuff__attention_parameters(made,
                               (int64_t[]){of->q.count, of->k.count, of->q.heads, of->k.heads, of->q.width, of->v.width,
                                           panels_of(of, use), use->key_parts, use->panels_each, use->query_parts,
                                           use->rows_each, items, band->start[0], band->start[1],
                                           tuff__attention_float(band->value)},
                               15);
    add_backward_buffers(of, made, use, &defines);
    const int most = tuff__tuned(of->with, TUNABLE_attention_register_tile_columns);
    tuff__text_add(&defines,
                   "#define TILE_ROWS %d\n#define BLOCK_ROWS %d\n#define PANEL_VECTORS %d\n#define TILE_KEYS %d\n"
                   "#define KEY_COLUMNS %d\n#define VALUE_COLUMNS %d\n#define ROW_TAIL %d\n#define LANE_TAIL %d\n"
                   "#define KEY_TAIL %d\n#define VALUE_TAIL %d\n#define DQ %d\n#define DK %d\n#define DV %d\n",
                   (int)use->rows, (int)use->block, (int)use->panel, (int)use->tile_keys,
                   choose_columns(of->q.width, of->vec, most), choose_columns(of->v.width, of->vec, most),
                   of->q.count % use->rows != 0, of->k.count % use->tile_keys != 0, of->q.width % of->vec != 0,
                   of->v.width % of->vec != 0, use->dq, use->dk, use->dv);
    made->vec = of->vec;
    made->local_size = (uint32_t)tuff__tuned(of->with, TUNABLE_attention_register_local_size);
    made->groups = (uint64_t)tuff__divide_up(items, made->local_size);
    const double products = 1.0 + (use->dq || use->dk) + use->dq + use->dk + use->dv;
    made->operations = products * tuff__attention_pairs(of) * (double)(of->q.width + of->v.width);
    return tuff__keep_defines(made, &defines);
}

/* One pass computes all gradients from one set of scores, an item for each group of heads; where so few items leave
   processors idle for longer than a second set takes, queries and keys get passes of their own. */
static bool takes_one_pass(const attention *of, const backward *use)
{
    const int64_t units = tuff__device_info(of->with->device)->compute_units, items = of->batches * of->k.heads;
    if (!use->dq || !(use->dk || use->dv) || tuff__is_vulkan(of->with) || !tuff__uses_registers(of->with))
        return false;
    return units > 0 && items * 7 >= tuff__divide_up(items, units) * units * 5;
}

static tuff_status lower_backward(const attention *of)
{
    const lowered *with = of->with;
    const int64_t tile_rows = tuff__tuned(with, TUNABLE_attention_register_tile_rows);
    backward use = {.rows = of->q.count < tile_rows ? of->q.count : tile_rows,
                    .panel = tuff__tuned(with, TUNABLE_attention_register_panel),
                    .tile_keys = of->vec < 8 ? 4 : 8,
                    .dq = tuff__attention_root(of->task, OP_ATTENTION_DQ) >= 0,
                    .dk = tuff__attention_root(of->task, OP_ATTENTION_DK) >= 0,
                    .dv = tuff__attention_root(of->task, OP_ATTENTION_DV) >= 0};
    const int64_t block = tuff__tuned(with, TUNABLE_attention_register_backward_rows);
    use.block = tuff__divide_up(block < of->q.count ? block : of->q.count, use.rows) * use.rows;
    TRY(pack(of, &of->k, use.panel * of->vec, &use.packed_k));
    TRY(pack(of, &of->v, use.panel * of->vec, &use.packed_v));
    const backward whole = {.key_parts = 1,
                            .panels_each = panels_of(of, &use),
                            .query_parts = 1,
                            .rows_each = tuff__divide_up(of->q.count, use.block) * use.block};
    use.key_parts = use.query_parts = 1;
    use.panels_each = whole.panels_each;
    use.rows_each = whole.rows_each;
    if (takes_one_pass(of, &use))
        return launch_backward(of, &use);
    if (use.dq) {
        backward queries = use;
        queries.dk = queries.dv = false;
        queries.query_parts = whole.rows_each / use.block;
        queries.rows_each = use.block;
        TRY(launch_backward(of, &queries));
    }
    use.dq = false;
    use.key_parts = whole.panels_each;
    use.panels_each = 1;
    return use.dk || use.dv ? launch_backward(of, &use) : TUFF_OK;
}

tuff_status tuff__lower_attention(lowered *with, int index)
{
    const struct task *task = &with->fusion->tasks[index];
    const node *core = task->core;
    attention of = {.with = with,
                    .index = index,
                    .task = task,
                    .q = operand_rows(with, core->inputs[0]),
                    .k = operand_rows(with, core->inputs[1]),
                    .batches = core->inputs[0]->shape.extent[0]};
    of.v = core->input_count > 2 ? operand_rows(with, core->inputs[2]) : of.k;
    const bool forward = core->op == OP_ATTENTION || core->op == OP_ATTENTION_LSE;
    if (!forward) {
        of.lse = operand_rows(with, core->inputs[3]);
        of.upstream = operand_rows(with, core->inputs[4]);
        of.sums = operand_rows(with, core->inputs[5]);
    }
    if (!tuff__uses_registers(with))
        return tuff__lower_attention_local(&of);
    of.vec = choose_vector(with, forward ? of.v.width : of.q.width, of.v.width);
    return forward ? lower_forward(&of) : lower_backward(&of);
}
