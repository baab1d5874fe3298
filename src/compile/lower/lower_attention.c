/* Launches of attention. Queries, keys and values are read through their views, row by row. Operands that are read in
   vectors across rows (keys, for the scores) are packed in panels first. */
#include <string.h>

#include "base/checked.h"
#include "compile/lower/lower_attention.h"
#include "compile/lower/lower_matmul.h"

static attention_rows operand_rows(const launch_list *list, const tuff_tensor *operand)
{
    view layout;
    const int id = tuff__operand_buffer(list, operand, &layout);
    return (attention_rows){.id = id,
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

tuff_status tuff__attention_find_lse(const attention *job, int *out)
{
    *out = tuff__attention_root(job->task, OP_ATTENTION_LSE);
    if (*out >= 0 || (job->task->core->attributes.options & ATTENTION_NO_SOFTMAX) != 0)
        return TUFF_OK;
    *out = tuff__buffer_add(job->list, TUFF_F32, job->batches * job->q.count * job->q.heads);
    return *out < 0 ? TUFF_E_OOM_HOST : TUFF_OK;
}

int64_t tuff__attention_groups_to_fill(const kernel_policy *policy, int64_t group_lanes)
{
    enum { LANES_OF_PROCESSOR = 256 };
    return tuff__divide_up(tuff__processors_or_usual(policy) * LANES_OF_PROCESSOR, group_lanes);
}

int64_t tuff__attention_limit_splits(int64_t splits, int64_t elements)
{
    const int64_t fitting = elements > 0 ? MAX_COPIES / elements : MAX_SPLITS;
    const int64_t most = fitting > MAX_SPLITS ? MAX_SPLITS : fitting > 1 ? fitting : 1;
    return splits < most ? splits : most;
}

key_splits tuff__attention_split_keys(const attention *job, int64_t panel_keys, int64_t group_lanes, int64_t items,
                                      int64_t asked)
{
    enum { MIN_PANELS = 8 };
    const attention_band band = tuff__attention_band(job);
    const int64_t queries = job->q.count, elements = job->batches * queries * job->q.heads * job->v.width;
    const int64_t end = job->k.count - queries < band.last ? job->k.count : queries + band.last;
    const int64_t first = (band.first > 0 ? band.first : 0) / panel_keys;
    const int64_t panels = end > first * panel_keys ? tuff__divide_up(end - first * panel_keys, panel_keys) : 1;
    int64_t count = asked, most = panels;
    if (count == 0) {
        count = tuff__attention_groups_to_fill(&job->list->policy, group_lanes) / items;
        most = panels / MIN_PANELS;
    }
    count = tuff__attention_limit_splits(count < most ? count : most, elements);
    key_splits all = {.count = 1, .first_key = first * panel_keys, .results.id = -1, .lse = -1};
    if (count > 1) {
        all.keys = tuff__divide_up(panels, count) * panel_keys;
        all.count = tuff__divide_up(panels * panel_keys, all.keys);
    }
    return all;
}

enum { JOINED = 4 /* elements of a vector of attention_join */ };

tuff_status tuff__attention_add_split_buffers(const attention *job, key_splits *splits)
{
    if (splits->count <= 1)
        return tuff__attention_find_lse(job, &splits->lse);
    const int64_t row = tuff__divide_up(job->v.width, JOINED) * JOINED, rows = job->q.count * job->q.heads;
    const bool has_result = tuff__attention_root(job->task, OP_ATTENTION) >= 0;
    const bool softmax = (job->task->core->attributes.options & ATTENTION_NO_SOFTMAX) == 0;
    if (has_result) {
        splits->results = (attention_rows){.batch = rows * row, .row = job->q.heads * row, .head = row};
        splits->results.id = tuff__buffer_add(job->list, TUFF_F32, splits->count * job->batches * rows * row);
    }
    if (softmax)
        splits->lse = tuff__buffer_add(job->list, TUFF_F32, 2 * splits->count * job->batches * rows);
    return (has_result && splits->results.id < 0) || (softmax && splits->lse < 0) ? TUFF_E_OOM_HOST : TUFF_OK;
}

void tuff__attention_add_forward_results(const attention *job, launch *made, const key_splits *splits, text *defines)
{
    const bool is_split = splits->count > 1;
    if (splits->results.id >= 0)
        tuff__attention_add_rows(job->list, made, &splits->results, "R", true, defines);
    else
        tuff__attention_add_result(job, made, tuff__attention_root(job->task, OP_ATTENTION), "R", defines);
    tuff__attention_add_contiguous(job->list, made, splits->lse, 1, "L", true, defines);
    tuff__attention_add_options(job, made, defines);
    tuff__attention_add_parameters(made, (int64_t[]){job->batches, splits->first_key, splits->keys}, 3);
    tuff__text_add(defines, "#define SPLIT %d\n", is_split);
    if (is_split) {
        tuff__attention_store_only(made, splits->results.id);
        tuff__attention_store_only(made, splits->lse);
    }
}

tuff_status tuff__attention_join_splits(const attention *job, const key_splits *splits)
{
    enum { GROUP_LANES = 64 };
    if (splits->count <= 1)
        return TUFF_OK;
    launch_list *list = job->list;
    const int result = tuff__attention_root(job->task, OP_ATTENTION),
              lse = tuff__attention_root(job->task, OP_ATTENTION_LSE);
    const int64_t vectors = result < 0 ? 1 : tuff__divide_up(job->v.width, JOINED);
    const int64_t items = job->batches * job->q.count * job->q.heads * vectors;
    launch *made = tuff__launch_add(list, "attention_join", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    tuff__attention_add_parameters(
        made, (int64_t[]){job->batches, job->q.count, job->q.heads, job->v.width, vectors, splits->count}, 6);
    tuff__attention_add_rows(list, made, &splits->results, "P", false, &defines);
    tuff__attention_add_contiguous(list, made, splits->lse, 1, "S", false, &defines);
    tuff__attention_add_result(job, made, result, "R", &defines);
    tuff__attention_add_contiguous(list, made, lse, 1, "L", true, &defines);
    tuff__text_add(&defines, "#define RESULT %d\n#define LSE %d\n#define SOFTMAX %d\n#define SCORE_UNITS %s\n",
                   result >= 0, lse >= 0, splits->lse >= 0, splits->in_log2 ? "1.44269504f" : "1.0f");
    made->vec = JOINED;
    made->local_size = GROUP_LANES;
    made->groups = (uint64_t)tuff__divide_up(items, GROUP_LANES);
    return tuff__set_defines(made, &defines);
}

/* Returns the widest vector that divides both widths and is more than half filled by the keys. */
static int choose_vector(const launch_list *list, int64_t a, int64_t b, int64_t keys)
{
    int vec = tuff__native_lanes(&list->policy);
    while (vec > 4 && (a % vec != 0 || b % vec != 0 || keys <= vec / 2))
        vec /= 2;
    return vec;
}

/* Returns the rows of a tile: at most `most`, and about the same in each tile. */
static int64_t choose_rows(int64_t queries, int64_t most)
{
    return tuff__divide_up(queries, tuff__divide_up(queries, most));
}

/* Returns the vectors of keys in a panel; none of them is empty. */
static int64_t choose_panel(const attention *job)
{
    const int64_t most = tuff__tunable_value(&job->list->policy, TUNABLE_attention_register_panel);
    const int64_t vectors = tuff__divide_up(job->k.count, job->vec);
    return most < vectors ? most : vectors;
}

/* Returns the largest number of vectors, up to `most`, that divides a width in whole vectors; 1 if there is none. */
static int choose_columns(int64_t width, int vec, int most)
{
    int columns = width < vec ? 1 : most;
    while (columns > 1 && width / vec % columns != 0)
        --columns;
    return columns;
}

static int use_buffer(const launch_list *list, launch *kernel, int id, bool read, bool written)
{
    fused_chain *chain = &kernel->chain;
    int i = 0;
    while (i < chain->buffer_count && chain->buffers[i].id != id)
        ++i;
    if (i == chain->buffer_count)
        chain->buffers[chain->buffer_count++] = (chain_buffer){.id = id, .dtype = list->buffers[id].dtype};
    chain->buffers[i].read |= read;
    chain->buffers[i].written |= written;
    return i;
}

/* Appends a parameter of the body: a number, to which the offset of a buffer is added unless `buffer` is -1. */
static void add_parameter(launch *kernel, int64_t value, int buffer)
{
    kernel->parameters[kernel->parameter_count] = value;
    kernel->parameter_buffers[kernel->parameter_count++] = buffer;
}

void tuff__attention_add_parameters(launch *kernel, const int64_t *values, int count)
{
    for (int i = 0; i < count; ++i)
        add_parameter(kernel, values[i], -1);
}

/* Whether all rows of a tensor start at a multiple of so many elements. Those of the plan's own buffers do. */
static bool is_aligned(const launch_list *list, const attention_rows *rows, int64_t multiple)
{
    const memory_buffer *memory = &list->buffers[rows->id];
    const int64_t start = rows->offset + (int64_t)(memory->offset / tuff_dtype_size(memory->dtype)) + memory->parent_at;
    return start % multiple == 0 && rows->batch % multiple == 0 && rows->row % multiple == 0 &&
           rows->head % multiple == 0;
}

/* Sets the expressions that are stored for x: rounded, if the device cannot store as few bits as the plan requests. */
static void find_rounding(const launch_list *list, int id, const char **scalar, const char **vector)
{
    if (id >= list->fusion->graph->node_count || list->fusion->facts[id].rounding == TUFF_F32)
        return;
    const bool half = list->fusion->facts[id].rounding == TUFF_F16;
    *scalar = half ? "ROUND_F16_1(x)" : "ROUND_BF16_1(x)";
    *vector = half ? "ROUND_F16_v(x)" : "ROUND_BF16_v(x)";
}

void tuff__attention_add_rows(const launch_list *list, launch *kernel, const attention_rows *operand,
                              const char *letter, bool written, text *defines)
{
    if (operand->id < 0) {
        tuff__attention_add_parameters(kernel, (int64_t[]){0, 0, 0, 0}, 4);
        return;
    }
    const int buffer = use_buffer(list, kernel, operand->id, true, written);
    const char *dtype = tuff_dtype_name(list->buffers[operand->id].dtype);
    const char *form = is_aligned(list, operand, 4) ? "V" : "U";
    add_parameter(kernel, operand->offset, buffer);
    tuff__attention_add_parameters(kernel, (int64_t[]){operand->batch, operand->row, operand->head}, 3);
    tuff__text_add(defines, "#define LOAD_%s(i) LOAD_%s(b%d, i)\n#define LOADV_%s(i) LOAD%s_%s(b%d, i)\n", letter,
                   dtype, buffer, letter, form, dtype, buffer);
    if (!written)
        return;
    const char *scalar = "x", *vector = "x";
    find_rounding(list, operand->id, &scalar, &vector);
    tuff__text_add(defines,
                   "#define STORE_%s(i, x) STORE_%s(b%d, i, %s)\n#define STOREV_%s(i, x) STORE%s_%s(b%d, i, %s)\n",
                   letter, dtype, buffer, scalar, letter, form, dtype, buffer, vector);
}

bool tuff__attention_can_load_parts(const launch_list *list, const attention_rows *operand)
{
    return operand->width % PART == 0 && is_aligned(list, operand, PART);
}

void tuff__attention_add_parts(const launch_list *list, launch *kernel, const attention_rows *operand,
                               const char *letter, text *defines)
{
    const int buffer = use_buffer(list, kernel, operand->id, true, false);
    const int bits = tuff_dtype_size(list->buffers[operand->id].dtype) == 2 ? 16 : 32;
    tuff__text_add(defines,
                   "#define LOAD_PART_%s(at, ahead) LOAD_PART_%d(b%d, at, ahead)\n#define LOAD_BITS_%s(i) "
                   "LOAD_BITS_%d(b%d, i)\n#define AT_%s(i) AT_%d(i)\n#define %s_PARTS %d\n",
                   letter, bits, buffer, letter, bits, buffer, letter, bits, letter,
                   tuff__attention_can_load_parts(list, operand));
}

void tuff__attention_add_contiguous(const launch_list *list, launch *kernel, int id, int64_t width, const char *letter,
                                    bool written, text *defines)
{
    const attention_rows operand = {.id = id, .row = width};
    tuff__attention_add_rows(list, kernel, &operand, letter, written, defines);
    kernel->parameter_count -= 3;
}

/* A bias or its gradient, [B or 1, H or 1, T or 1, S], as a kernel addresses it: shared axes have stride 0. */
static attention_rows bias_rows(int id, const view *layout)
{
    return (attention_rows){.id = id,
                            .offset = layout->offset,
                            .batch = layout->extent[0] == 1 ? 0 : layout->stride[0],
                            .row = layout->extent[2] == 1 ? 0 : layout->stride[2],
                            .head = layout->extent[1] == 1 ? 0 : layout->stride[1]};
}

static void add_bias(const attention *job, launch *kernel, const tuff_tensor *bias, text *defines)
{
    view layout;
    const int id = tuff__operand_buffer(job->list, bias, &layout);
    const attention_rows rows = bias_rows(id, &layout);
    tuff__attention_add_rows(job->list, kernel, &rows, "B", false, defines);
    tuff__text_add(defines, "#define LOADI_B(i) LOADI_%s(b%d, i)\n", tuff_dtype_name(job->list->buffers[id].dtype),
                   use_buffer(job->list, kernel, id, true, false));
}

static void add_step(const attention *job, launch *kernel, const tuff_tensor *step, text *defines)
{
    view layout;
    const int buffer = use_buffer(job->list, kernel, tuff__operand_buffer(job->list, step, &layout), true, false);
    add_parameter(kernel, layout.offset, buffer);
    tuff__text_add(defines,
                   "#define STEP_NUMBER LOAD_i32(b%d, step_base)\n#define DRAW RANDOM_v\n#define DRAW_ONE RANDOM_1\n",
                   buffer);
}

/* Returns a float's bits as an integer parameter. */
static int64_t float_bits(double value)
{
    const float narrow = (float)value;
    int32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

void tuff__attention_add_options(const attention *job, launch *kernel, text *defines)
{
    const node *core = job->task->core;
    const op_attributes *attributes = &core->attributes;
    const attention_inputs inputs = tuff__attention_inputs(core->op, attributes->options);
    if (inputs.bias >= 0)
        add_bias(job, kernel, core->inputs[inputs.bias], defines);
    else
        tuff__attention_add_parameters(kernel, (int64_t[]){0, 0, 0, 0}, 4);
    if (inputs.step >= 0)
        add_step(job, kernel, core->inputs[inputs.step], defines);
    else
        add_parameter(kernel, 0, -1);
    const int64_t dropout[] = {(int32_t)attributes->seed, (int32_t)attributes->ordinal, float_bits(attributes->dropout),
                               float_bits(1 / (1 - attributes->dropout))};
    tuff__attention_add_parameters(kernel, dropout, 4);
    tuff__text_add(defines, "#define BIAS %d\n#define DROPOUT %d\n#define SOFTMAX %d\n", inputs.bias >= 0,
                   inputs.step >= 0, (attributes->options & ATTENTION_NO_SOFTMAX) == 0);
}

/* Returns the layout of a result, zero if the id is -1. */
static view result_layout(const attention *job, int id)
{
    const struct fusion *fusion = job->list->fusion;
    return id < 0 ? (view){.rank = 0} : tuff__fusion_layout(fusion, fusion->graph->nodes[id]);
}

void tuff__attention_add_bias_result(const attention *job, launch *kernel, int id, text *defines)
{
    const view layout = result_layout(job, id);
    const attention_rows rows = bias_rows(id, &layout);
    tuff__attention_add_rows(job->list, kernel, &rows, "DB", true, defines);
    tuff__attention_add_parameters(kernel, layout.extent, 3);
}

void tuff__attention_add_result(const attention *job, launch *kernel, int id, const char *letter, text *defines)
{
    const view layout = result_layout(job, id);
    const attention_rows rows = {.id = id,
                                 .offset = layout.offset,
                                 .batch = layout.stride[0],
                                 .row = layout.stride[1],
                                 .head = layout.stride[2]};
    tuff__attention_add_rows(job->list, kernel, &rows, letter, true, defines);
}

void tuff__attention_store_only(launch *kernel, int id)
{
    for (int i = 0; i < kernel->chain.buffer_count; ++i)
        if (kernel->chain.buffers[i].id == id)
            kernel->chain.buffers[i].read = false;
}

static int64_t packed_count(const attention *job, const attention_rows *operand, int64_t panel)
{
    return job->batches * operand->heads * tuff__divide_up(operand->count, panel) * panel * operand->width;
}

/* Packs a tensor's rows into a new buffer, *out: packed[batch][head][panel][k][row]. */
static tuff_status pack(const attention *job, const attention_rows *operand, int64_t panel, int *out)
{
    launch_list *list = job->list;
    const int64_t width = operand->width, count = operand->count;
    *out = tuff__buffer_add(list, TUFF_F32, packed_count(job, operand, panel));
    launch *made = *out < 0 ? NULL : tuff__launch_add(list, "pack_transpose", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    fused_chain *chain = &made->chain;
    *chain = (fused_chain){.rank = 2, .operand_base_count = 2, .operand_names = {"b", "packed"}};
    chain->extent[0] = job->batches;
    chain->extent[1] = operand->heads;
    chain->classes[0] = chain->classes[1] = AXIS_OUTER;
    chain->operand_buffers[0] = use_buffer(list, made, operand->id, true, false);
    chain->operand_buffers[1] = use_buffer(list, made, *out, false, true);
    chain->operand_bases[0] = (affine){.offset = operand->offset, .stride = {operand->batch, operand->head}};
    const int64_t each = tuff__divide_up(count, panel) * panel * width;
    chain->operand_bases[1] = (affine){.offset = 0, .stride = {operand->heads * each, each}};
    return tuff__finish_transpose(list, made, job->vec, count, width, panel, operand->row);
}

static int64_t clamp(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

attention_band tuff__attention_band(const attention *job)
{
    const int64_t *start = job->task->core->attributes.start, queries = job->q.count, keys = job->k.count;
    return (attention_band){clamp(start[0], -queries, keys), clamp(start[1], -queries, keys)};
}

double tuff__attention_pairs(const attention *job)
{
    const attention_band band = tuff__attention_band(job);
    double count = 0;
    for (int64_t i = 0; i < job->q.count; ++i) {
        const int64_t from = i + band.first < 0 ? 0 : i + band.first,
                      end = i + band.last + 1 > job->k.count ? job->k.count : i + band.last + 1;
        count += end > from ? (double)(end - from) : 0;
    }
    return count * (double)(job->batches * job->q.heads);
}

/* Appends the twelve parameters that most bodies begin with. */
static void add_extents(const attention *job, launch *kernel, int64_t blocks, int64_t parts, int64_t items)
{
    const attention_band band = tuff__attention_band(job);
    const int64_t parameters[] = {job->q.count, job->k.count, job->q.heads,
                                  job->k.heads, job->q.width, job->v.width,
                                  blocks,       parts,        items,
                                  band.first,   band.last,    float_bits(job->task->core->attributes.value)};
    tuff__attention_add_parameters(kernel, parameters, sizeof parameters / sizeof *parameters);
}

void tuff__attention_add_operands(const attention *job, launch *kernel, int64_t blocks, int64_t parts, int64_t items,
                                  text *defines)
{
    add_extents(job, kernel, blocks, parts, items);
    tuff__attention_add_rows(job->list, kernel, &job->q, "Q", false, defines);
    tuff__attention_add_rows(job->list, kernel, &job->k, "K", false, defines);
    tuff__attention_add_rows(job->list, kernel, &job->v, "V", false, defines);
}

void tuff__attention_add_backward_operands(const attention *job, launch *kernel, int64_t blocks, int64_t parts,
                                           int64_t items, text *defines)
{
    tuff__attention_add_operands(job, kernel, blocks, parts, items, defines);
    tuff__attention_add_rows(job->list, kernel, &job->upstream, "G", false, defines);
    tuff__attention_add_rows(job->list, kernel, &job->lse, "L", false, defines);
    tuff__attention_add_rows(job->list, kernel, &job->sums, "S", false, defines);
}

void tuff__attention_add_gradients(const attention *job, launch *kernel, const attention_backward *work,
                                   int64_t copy_stride, text *defines)
{
    tuff__attention_add_result(job, kernel, work->dk, "DK", defines);
    tuff__attention_add_result(job, kernel, work->dv, "DV", defines);
    tuff__attention_add_bias_result(job, kernel, work->db, defines);
    tuff__attention_add_options(job, kernel, defines);
    tuff__attention_add_parameters(kernel, (int64_t[]){job->batches, work->parts, work->splits, copy_stride}, 4);
    tuff__text_add(defines, "#define DQ %d\n#define DK %d\n#define DV %d\n", work->dq >= 0, work->dk >= 0,
                   work->dv >= 0);
}

/* The tile of the forward pass. */
typedef struct tile {
    int64_t rows, block, panel; /* panel: in vectors of keys */
    int columns;
} tile;

static tile choose_register_tile(const attention *job)
{
    const launch_list *list = job->list;
    const int64_t most = tuff__tunable_value(&list->policy, TUNABLE_attention_register_tile_rows);
    tile best = {.rows = choose_rows(job->q.count, most),
                 .block = tuff__tunable_value(&list->policy, TUNABLE_attention_register_block_rows),
                 .panel = choose_panel(job)};
    best.block = tuff__divide_up(best.block < job->q.count ? best.block : job->q.count, best.rows) * best.rows;
    best.columns = choose_columns(job->v.width, job->vec,
                                  tuff__tunable_value(&list->policy, TUNABLE_attention_register_tile_columns));
    return best;
}

static tuff_status lower_forward(const attention *job)
{
    launch_list *list = job->list;
    const int result = tuff__attention_root(job->task, OP_ATTENTION);
    const tile work = choose_register_tile(job);
    const int64_t panel = work.panel * job->vec, blocks = tuff__divide_up(job->q.count, work.block);
    const int64_t items = job->batches * job->q.heads * blocks;
    int packed, lse;
    TRY(tuff__check_accumulators(list, job->vec, work.rows * (work.panel > work.columns ? work.panel : work.columns)));
    TRY(pack(job, &job->k, panel, &packed));
    TRY(tuff__attention_find_lse(job, &lse));
    launch *made = tuff__launch_add(list, "attention_register", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    add_extents(job, made, blocks, tuff__divide_up(job->k.count, panel), items);
    tuff__attention_add_rows(list, made, &job->q, "Q", false, &defines);
    tuff__attention_add_rows(list, made, &job->v, "V", false, &defines);
    tuff__attention_add_contiguous(list, made, packed, panel, "K", false, &defines);
    tuff__attention_add_result(job, made, result, "R", &defines);
    tuff__attention_add_contiguous(list, made, lse, 1, "L", true, &defines);
    tuff__attention_add_options(job, made, &defines);
    tuff__text_add(&defines,
                   "#define TILE_ROWS %d\n#define BLOCK_ROWS %d\n#define PANEL_VECTORS %d\n#define TILE_COLUMNS %d\n"
                   "#define ROW_TAIL %d\n#define VALUE_TAIL %d\n#define RESULT %d\n",
                   (int)work.rows, (int)work.block, (int)work.panel, work.columns, job->q.count % work.rows != 0,
                   job->v.width % job->vec != 0, result >= 0);
    made->vec = job->vec;
    made->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_attention_register_local_size);
    made->array_bytes = (int64_t)sizeof(float) * job->vec * (work.block + work.rows * (2 * work.panel + work.columns));
    made->groups = (uint64_t)tuff__divide_up(items, made->local_size);
    made->operations = 2 * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    const double sums = (double)made->groups * made->local_size * (double)(work.rows * work.panel * job->vec);
    tuff__set_tile(made, work.rows, work.panel, made->operations / 2 / sums);
    return tuff__set_defines(made, &defines);
}

/* The tile of the backward pass, and how its work is divided. */
typedef struct backward {
    int64_t rows, block, panel, tile_keys; /* panel: in vectors of keys */
    int packed_k, packed_v;
    int64_t owners; /* batches and heads of keys, or of the bias */
    int64_t key_parts, panels_each, query_parts, rows_each;
    int dq, dk, dv, db; /* what is stored: ids or -1 */
} backward;

static int64_t panels_of(const attention *job, const backward *work)
{
    return tuff__divide_up(job->k.count, work->panel * job->vec);
}

static void add_backward_buffers(const attention *job, launch *made, const backward *work, text *defines)
{
    launch_list *list = job->list;
    const int64_t panel = work->panel * job->vec;
    tuff__attention_add_rows(list, made, &job->q, "Q", false, defines);
    tuff__attention_add_rows(list, made, &job->k, "K", false, defines);
    tuff__attention_add_rows(list, made, &job->upstream, "G", false, defines);
    tuff__attention_add_rows(list, made, &job->lse, "L", false, defines);
    tuff__attention_add_rows(list, made, &job->sums, "S", false, defines);
    tuff__attention_add_contiguous(list, made, work->packed_k, panel, "PK", false, defines);
    tuff__attention_add_contiguous(list, made, work->packed_v, panel, "PV", false, defines);
    tuff__attention_add_result(job, made, work->dq, "DQ", defines);
    tuff__attention_add_result(job, made, work->dk, "DK", defines);
    tuff__attention_add_result(job, made, work->dv, "DV", defines);
    tuff__attention_add_bias_result(job, made, work->db, defines);
    tuff__attention_add_options(job, made, defines);
}

static tuff_status launch_backward(const attention *job, const backward *work)
{
    const op_attributes *attributes = &job->task->core->attributes;
    const attention_band band = tuff__attention_band(job);
    const int64_t items = work->owners * work->key_parts * work->query_parts;
    const bool dq = work->dq >= 0, dk = work->dk >= 0, dv = work->dv >= 0, db = work->db >= 0;
    launch *made = tuff__launch_add(job->list, "attention_backward_register", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    tuff__attention_add_parameters(made,
                                   (int64_t[]){job->q.count, job->k.count, job->q.heads, job->k.heads, job->q.width,
                                               job->v.width, panels_of(job, work), work->key_parts, work->panels_each,
                                               work->query_parts, work->rows_each, items, job->batches, band.first,
                                               band.last, float_bits(attributes->value)},
                                   16);
    add_backward_buffers(job, made, work, &defines);
    const int most = tuff__tunable_value(&job->list->policy, TUNABLE_attention_register_tile_columns);
    tuff__text_add(
        &defines,
        "#define TILE_ROWS %d\n#define BLOCK_ROWS %d\n#define PANEL_VECTORS %d\n#define TILE_KEYS %d\n"
        "#define KEY_COLUMNS %d\n#define VALUE_COLUMNS %d\n#define ROW_TAIL %d\n#define LANE_TAIL %d\n"
        "#define KEY_TAIL %d\n#define VALUE_TAIL %d\n#define DQ %d\n#define DK %d\n#define DV %d\n#define DB %d\n",
        (int)work->rows, (int)work->block, (int)work->panel, (int)work->tile_keys,
        choose_columns(job->q.width, job->vec, most), choose_columns(job->v.width, job->vec, most),
        job->q.count % work->rows != 0, job->k.count % work->tile_keys != 0, job->q.width % job->vec != 0,
        job->v.width % job->vec != 0, dq, dk, dv, db);
    made->vec = job->vec;
    made->local_size = (uint32_t)tuff__tunable_value(&job->list->policy, TUNABLE_attention_register_local_size);
    made->array_bytes = 2 * (int64_t)sizeof(float) * job->vec * work->panel * (work->block + 2 * work->rows);
    made->groups = (uint64_t)tuff__divide_up(items, made->local_size);
    const double products = 1.0 + (dq || dk || db) + dq + dk + dv;
    made->operations = products * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    return tuff__set_defines(made, &defines);
}

/* One pass computes all gradients from one set of scores, with an item for each group of heads. If there are so few
   items that idle processors would cost more time than computing the scores twice, queries and keys get a pass each. */
static bool takes_one_pass(const attention *job, const backward *work)
{
    const int64_t units = job->list->policy.target.info->compute_units, items = job->batches * job->k.heads;
    if (work->dq < 0 || (work->dk < 0 && work->dv < 0) || job->list->policy.target.items_are_lanes ||
        !tuff__uses_registers(&job->list->policy))
        return false;
    /* At least 5/7 of the processors are busy. */
    return units > 0 && items * 7 >= tuff__divide_up(items, units) * units * 5;
}

/* A pass for the queries, and one for the keys and values. */
static tuff_status lower_in_two_passes(const attention *job, const backward *whole)
{
    if (whole->dq >= 0) {
        backward queries = *whole;
        queries.dk = queries.dv = -1;
        queries.query_parts = whole->rows_each / whole->block;
        queries.rows_each = whole->block;
        TRY(launch_backward(job, &queries));
    }
    backward keys = *whole;
    keys.dq = -1;
    keys.key_parts = whole->panels_each;
    keys.panels_each = 1;
    return keys.dk >= 0 || keys.dv >= 0 ? launch_backward(job, &keys) : TUFF_OK;
}

/* The gradient of the bias: an item owns a block of its queries by a panel of keys, and goes through all heads and
   batches that share them. */
static tuff_status lower_bias(const attention *job, const backward *whole, int root)
{
    const int64_t *extent = job->list->fusion->graph->nodes[root]->outputs[0].shape.extent;
    backward bias = *whole;
    bias.dq = bias.dk = bias.dv = -1;
    bias.db = root;
    bias.owners = extent[0] * extent[1];
    bias.key_parts = whole->panels_each;
    bias.panels_each = 1;
    if (extent[2] > 1) {
        bias.query_parts = whole->rows_each / whole->block;
        bias.rows_each = whole->block;
    }
    return launch_backward(job, &bias);
}

static tuff_status lower_backward(const attention *job)
{
    const launch_list *list = job->list;
    const int64_t tile_rows = tuff__tunable_value(&list->policy, TUNABLE_attention_register_tile_rows);
    backward work = {.rows = choose_rows(job->q.count, tile_rows),
                     .panel = choose_panel(job),
                     .tile_keys = tuff__tunable_value(&list->policy, TUNABLE_attention_register_key_unroll),
                     .owners = job->batches * job->k.heads,
                     .key_parts = 1,
                     .query_parts = 1,
                     .dq = tuff__attention_root(job->task, OP_ATTENTION_DQ),
                     .dk = tuff__attention_root(job->task, OP_ATTENTION_DK),
                     .dv = tuff__attention_root(job->task, OP_ATTENTION_DV),
                     .db = -1};
    while (work.panel * job->vec % work.tile_keys != 0)
        work.tile_keys /= 2;
    const int64_t block = tuff__tunable_value(&list->policy, TUNABLE_attention_register_backward_rows);
    const int bias = tuff__attention_root(job->task, OP_ATTENTION_DB);
    work.block = tuff__divide_up(block < job->q.count ? block : job->q.count, work.rows) * work.rows;
    TRY(tuff__check_accumulators(list, job->vec, work.rows * work.panel));
    work.panels_each = panels_of(job, &work);
    work.rows_each = tuff__divide_up(job->q.count, work.block) * work.block;
    TRY(pack(job, &job->k, work.panel * job->vec, &work.packed_k));
    TRY(pack(job, &job->v, work.panel * job->vec, &work.packed_v));
    if (takes_one_pass(job, &work))
        TRY(launch_backward(job, &work));
    else
        TRY(lower_in_two_passes(job, &work));
    return bias < 0 ? TUFF_OK : lower_bias(job, &work, bias);
}

/* Finds the operands of the backward pass besides q, k and v. */
static void find_upstream(attention *job)
{
    const node *core = job->task->core;
    const attention_inputs inputs = tuff__attention_inputs(core->op, core->attributes.options);
    job->upstream = operand_rows(job->list, core->inputs[inputs.upstream]);
    if (inputs.lse >= 0)
        job->lse = operand_rows(job->list, core->inputs[inputs.lse]);
    if (inputs.sums >= 0)
        job->sums = operand_rows(job->list, core->inputs[inputs.sums]);
}

/* Whether an operand is empty. Builders make no such node, and files with one are refused. */
static bool is_empty(const node *core)
{
    const int operands = core->op == OP_ATTENTION_LSE ? 2 : 3;
    for (int i = 0; i < operands; ++i)
        if (tuff_shape_count(core->inputs[i]->shape) == 0)
            return true;
    return false;
}

tuff_status tuff__lower_attention(launch_list *list, int index)
{
    const struct task *task = &list->fusion->tasks[index];
    const node *core = task->core;
    if (is_empty(core))
        return FAIL(TUFF_E_LIMIT, "compile: attention with empty queries, keys or values is not supported");
    attention job = {.list = list,
                     .index = index,
                     .task = task,
                     .q = operand_rows(list, core->inputs[0]),
                     .k = operand_rows(list, core->inputs[1]),
                     .batches = core->inputs[0]->shape.extent[0]};
    job.v = core->op == OP_ATTENTION_LSE ? job.k : operand_rows(list, core->inputs[2]);
    job.lse.id = job.sums.id = -1;
    const bool forward = core->op == OP_ATTENTION || core->op == OP_ATTENTION_LSE;
    if (!forward)
        find_upstream(&job);
    if (core->op == OP_ATTENTION && tuff__attention_suits_units(&job))
        return tuff__lower_attention_cooperative(&job);
    attention_units units;
    if (!tuff__uses_registers(&list->policy) || (!forward && tuff__attention_backward_suits_units(&job, &units)))
        return tuff__lower_attention_local(&job);
    for (int i = 0; i < task->root_count; ++i)
        if (tuff_dtype_size(list->buffers[task->roots[i]->id].dtype) < 4)
            return FAIL(TUFF_E_LIMIT, "compile: attention in registers accumulates in memory and needs f32 results");
    job.vec = choose_vector(list, forward ? job.v.width : job.q.width, job.v.width, job.k.count);
    return forward ? lower_forward(&job) : lower_backward(&job);
}
