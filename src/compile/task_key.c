/* Keys of tasks: a hash of the chain's structure, without extents, and readable fields for everything else. */
#include "compile/task_key.h"

#include <stdio.h>
#include <string.h>

#include "compile/schedule/matmul_schedule.h"

static const char *family_of(const struct task *task)
{
    static const char *const names[] = {
        [TASK_MAP] = "map",   [TASK_ROW] = "row",         [TASK_COLUMN] = "column",      [TASK_MATMUL] = "matmul",
        [TASK_SCAN] = "scan", [TASK_SCATTER] = "scatter", [TASK_ATTENTION] = "attention"};
    return names[task->kind];
}

/* Hashes the kind of each stride: 0, 1, or any other. */
static uint64_t hash_address(const affine *address, int rank, uint64_t seed)
{
    char kinds[TUFF_MAX_RANK];
    for (int i = 0; i < rank; ++i)
        kinds[i] = address->stride[i] == 0 ? '0' : address->stride[i] == 1 ? '1' : 'n';
    return tuff__hash64(kinds, (size_t)rank, seed);
}

static uint64_t hash_value(const chain_value *value, int rank, uint64_t seed)
{
    const int numbers[] = {(int)value->kind, (int)value->dtype, (int)value->op, (int)value->cast_to, value->args[0],
                           value->args[1],   value->args[2],    value->guard,   value->buffer,       value->index};
    seed = tuff__hash64(numbers, sizeof numbers, seed);
    seed = tuff__hash64(&value->varies, sizeof value->varies, seed);
    return hash_address(&value->address, rank, seed);
}

static uint64_t hash_chain(const fused_chain *chain)
{
    uint64_t hash = tuff__hash64(chain->classes, sizeof *chain->classes * (size_t)chain->rank, 0);
    for (int i = 0; i < chain->value_count; ++i)
        hash = hash_value(&chain->values[i], chain->rank, hash);
    for (int i = 0; i < chain->reduction_count; ++i) {
        const int numbers[] = {(int)chain->reductions[i].op, chain->reductions[i].input,
                               chain->reductions[i].in_columns};
        hash = tuff__hash64(numbers, sizeof numbers, hash);
    }
    for (int i = 0; i < chain->output_count; ++i) {
        const int numbers[] = {chain->outputs[i].value, chain->outputs[i].buffer, chain->outputs[i].every_point};
        hash = tuff__hash64(numbers, sizeof numbers, hash);
        hash = hash_address(&chain->outputs[i].address, chain->rank, hash);
    }
    for (int i = 0; i < chain->operand_base_count; ++i)
        hash = hash_address(&chain->operand_bases[i], chain->rank, hash);
    for (int i = 0; i < 2; ++i)
        if (tuff__is_produced(chain, i)) {
            const int numbers[] = {i, chain->producers[i].begin, chain->producers[i].end, chain->producers[i].value};
            hash = tuff__hash64(numbers, sizeof numbers, hash);
        }
    return hash;
}

/* Lowers *alignment, a power of two in bytes, until it divides the size of the elements. */
static void limit_alignment(int *alignment, int64_t elements, size_t size)
{
    while (*alignment > 1 && elements * (int64_t)size % *alignment != 0)
        *alignment /= 2;
}

static void limit_alignment_by_address(int *alignment, const affine *address, int rank, size_t size)
{
    limit_alignment(alignment, address->offset, size);
    for (int i = 0; i < rank; ++i)
        if (address->stride[i] != 1)
            limit_alignment(alignment, address->stride[i], size);
}

static int alignment_of_chain(const struct fusion *fusion, const fused_chain *chain)
{
    int alignment = 16;
    for (int i = 0; i < chain->value_count; ++i)
        if (chain->values[i].kind == VALUE_LOAD)
            limit_alignment_by_address(&alignment, &chain->values[i].address, chain->rank,
                                       tuff_dtype_size(chain->buffers[chain->values[i].buffer].dtype));
    for (int i = 0; i < chain->output_count; ++i)
        limit_alignment_by_address(&alignment, &chain->outputs[i].address, chain->rank,
                                   tuff_dtype_size(chain->buffers[chain->outputs[i].buffer].dtype));
    for (int i = 0; i < chain->operand_base_count; ++i)
        limit_alignment_by_address(&alignment, &chain->operand_bases[i], chain->rank, sizeof(float));
    for (int i = 0; i < chain->buffer_count; ++i) {
        const node *at = fusion->graph->nodes[chain->buffers[i].id];
        if (at->op == OP_ARRAY)
            limit_alignment(&alignment, (int64_t)at->attributes.array->offset, 1);
    }
    return alignment;
}

/* Returns the dtype of a node's elements in memory. Integers and bools have only one form there. */
static tuff_dtype stored_dtype(const struct fusion *fusion, const node *at)
{
    const tuff_dtype dtype = at->outputs[0].dtype;
    return tuff__op_is_source(at->op) || !tuff__dtype_is_float(dtype) ? dtype : fusion->facts[at->id].storage;
}

static void add_text(char *out, size_t size, const char *word)
{
    const size_t length = strlen(out);
    if (length + strlen(word) + 2 < size)
        snprintf(out + length, size - length, "%s%s", length > 0 ? "," : "", word);
}

static void add_dim(tune_key *key, int64_t extent)
{
    if (key->dim_count < TUNE_KEY_DIMS)
        key->dims[key->dim_count++] = extent < 1 ? 1 : extent;
}

/* Returns N, T or S for an operand that is row-major, transposed or strided; in lower case if it changes only between
   runs, so that packing it costs a run nothing. */
static char layout_of(const struct fusion *fusion, const fused_chain *chain, int operand)
{
    const int64_t *strides = chain->operand_strides[operand];
    const bool is_steady = tuff__operand_is_steady(fusion->graph, chain, operand);
    return (is_steady ? "nts" : "NTS")[strides[1] == 1 ? 0 : strides[0] == 1 ? 1 : 2];
}

static void describe_matmul(const struct fusion *fusion, const fused_chain *chain, int64_t inner, tune_key *out)
{
    const int64_t *x = chain->operand_strides[0], *y = chain->operand_strides[1];
    snprintf(out->layout, sizeof out->layout, "%c%c", layout_of(fusion, chain, 0), layout_of(fusion, chain, 1));
    limit_alignment(&out->alignment, x[1] == 1 ? x[0] : x[1], sizeof(float));
    limit_alignment(&out->alignment, y[1] == 1 ? y[0] : y[1], sizeof(float));
    add_dim(out, inner);
}

static tuff_status describe_chain(const struct fusion *fusion, const struct task *task, tune_key *out)
{
    fused_chain chain;
    const node *give_up;
    bool impossible;
    TRY(tuff__chain_build(fusion, task, &chain, &give_up, &impossible));
    if (give_up != NULL || impossible)
        return FAIL(TUFF_E_UNSUPPORTED, "tune: cannot tune a task that no single kernel can compute");
    for (int i = 0; i < chain.buffer_count; ++i)
        chain.buffers[i].dtype = stored_dtype(fusion, fusion->graph->nodes[chain.buffers[i].id]);
    tuff__chain_collapse(&chain);
    tuff__chain_analyse(&chain);
    out->structure = hash_chain(&chain);
    out->alignment = alignment_of_chain(fusion, &chain);
    for (int i = 0; i < chain.buffer_count; ++i)
        add_text(out->dtypes, sizeof out->dtypes, tuff_dtype_name(chain.buffers[i].dtype));
    for (int i = 0; i < chain.rank; ++i) {
        static const char *const classes[] = {"outer", "loop", "row", "column"};
        add_dim(out, chain.extent[i]);
        if (task->kind != TASK_MATMUL)
            add_text(out->layout, sizeof out->layout, classes[chain.classes[i]]);
    }
    if (task->kind == TASK_MATMUL) {
        const tuff_shape *operand = &task->core->inputs[0]->shape;
        describe_matmul(fusion, &chain, operand->extent[operand->rank - 1], out);
    }
    tuff__chain_free(&chain);
    return TUFF_OK;
}

/* is_spread: each axis of extent 1 serves a whole axis of the op, which is another stride of 0. */
static void add_operand(const struct fusion *fusion, const tuff_tensor *operand, bool is_spread, tune_key *out)
{
    view layout;
    const node *missing = NULL;
    const node *base = tuff__operand_view(fusion, operand, &layout, &missing);
    affine address = {.offset = layout.offset};
    add_text(out->dtypes, sizeof out->dtypes,
             tuff_dtype_name(base == NULL || missing != NULL ? operand->dtype : stored_dtype(fusion, base)));
    if (base == NULL || missing != NULL)
        return;
    for (int i = 0; i < layout.rank; ++i)
        address.stride[i] = is_spread && layout.extent[i] == 1 ? 0 : layout.stride[i];
    out->structure = hash_address(&address, layout.rank, out->structure);
    limit_alignment_by_address(&out->alignment, &address, layout.rank, tuff_dtype_size(operand->dtype));
    if (base->op == OP_ARRAY)
        limit_alignment(&out->alignment, (int64_t)base->attributes.array->offset, 1);
}

/* Identifies the keys that a query of an attention sees: 0 for all before it (causal), -1 for all, else the width of
   their band. */
static int64_t band_of(const node *core)
{
    const int64_t queries = core->inputs[0]->shape.extent[1], keys = core->inputs[1]->shape.extent[1];
    const int64_t *start = core->attributes.start;
    const bool from_first = start[0] <= 1 - queries;
    if (from_first && start[1] == keys - queries)
        return 0;
    return from_first && start[1] >= keys - 1 ? -1 : start[1] - start[0] + 1;
}

/* Describes a task around an op with a kernel of its own: the op's attributes, and how its operands lie in memory. */
static void describe_core(const struct fusion *fusion, const struct task *task, tune_key *out)
{
    const node *core = task->core;
    const op_attributes *attributes = &core->attributes;
    const uint32_t numbers[] = {(uint32_t)core->op, attributes->options, (uint32_t)attributes->axis,
                                attributes->dropout > 0, (uint32_t)task->root_count};
    out->structure = tuff__hash64(numbers, sizeof numbers, 0);
    for (int i = 0; i < task->root_count; ++i)
        out->structure = tuff__hash64(&task->roots[i]->op, sizeof task->roots[i]->op, out->structure);
    const bool attends = tuff__op_is_attention(core->op);
    const int64_t band = attends ? band_of(core) : 0;
    if (band != 0)
        out->structure = tuff__hash64(&band, sizeof band, out->structure);
    const int bias = attends ? tuff__attention_inputs(core->op, attributes->options).bias : -1;
    for (int i = 0; i < core->input_count; ++i)
        add_operand(fusion, core->inputs[i], i == bias, out);
    for (int i = 0; i < core->input_count && i < 2; ++i)
        for (int k = 0; k < core->inputs[i]->shape.rank; ++k)
            add_dim(out, core->inputs[i]->shape.extent[k]);
    if (core->input_count > 2 && core->inputs[2]->shape.rank > 0)
        snprintf(out->layout, sizeof out->layout, "w%lld",
                 (long long)core->inputs[2]->shape.extent[core->inputs[2]->shape.rank - 1]);
}

tuff_status tuff__task_key(const struct fusion *fusion, int index, tune_key *out)
{
    const struct task *task = &fusion->tasks[index];
    static const char *const maths[] = {"strict", "f16", "bf16"};
    const bool has_factors = task->kind == TASK_MATMUL || task->kind == TASK_ATTENTION;
    const tuff_precision factors = has_factors ? fusion->matmul_precision : TUFF_PRECISION_F32;
    *out = (tune_key){.alignment = 16};
    snprintf(out->math, sizeof out->math, "%s", maths[factors]);
    if (task->kind == TASK_NONE || tuff__task_is_empty(task))
        return FAIL(TUFF_E_UNSUPPORTED, "tune: cannot tune a task without elements");
    snprintf(out->family, sizeof out->family, "%s", family_of(task));
    if (task->kind == TASK_SCATTER || task->kind == TASK_ATTENTION)
        describe_core(fusion, task, out);
    else
        TRY(describe_chain(fusion, task, out));
    return TUFF_OK;
}
