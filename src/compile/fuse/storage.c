/* The dtype in which a value lies in memory: the one place where mixed precision decides what is stored with 16 bits.
   Chosen when it is known which values have memory; kernels load and store by the dtype of their buffers. */
#include "compile/fuse/fuse.h"
#include "compile/schedule/kernel_policy.h"

/* A reduction of so many elements to one makes statistics of them. */
enum { MIN_REDUCED = 16 };

typedef struct choice {
    struct fusion *fusion;
    bool registers;       /* attention adds up its results in their memory */
    bool *precise;        /* by node: assigned or made an integer, or elementwise a part of what is */
    bool *statistic;      /* by node: made of reductions, at their shape */
    tuff_dtype precision; /* f16 and bf16; f32: each value has that of the graph */
} choice;

/* Reductions of many elements, and what is computed from them at their own shape. */
static bool is_statistic(const choice *self, const node *at)
{
    const op_pattern pattern = tuff__op_info(at->op)->pattern;
    bool statistic = at->op == OP_ATTENTION_LSE;
    if (pattern == PATTERN_REDUCTION)
        return tuff_shape_count(at->inputs[0]->shape) >= MIN_REDUCED * tuff_shape_count(at->outputs[0].shape);
    const bool passes = tuff__op_is_elementwise(at->op) || (tuff__op_is_view(at->op) && at->op != OP_EXPAND);
    for (int i = 0; i < at->input_count && passes; ++i)
        statistic |= self->statistic[at->inputs[i]->node->id];
    return statistic;
}

/* The matmul that computes a sum's terms, in pieces along its inner axis, for nobody else; NULL where there is none. */
static const node *split_product(const struct fusion *fusion, const node *sum)
{
    const node *at = sum->op == OP_SUM ? sum->inputs[0]->node : sum;
    while (at != sum && tuff__op_is_view(at->op) && fusion->facts[at->id].consumer_count == 1)
        at = at->inputs[0]->node;
    return at->op == OP_MATMUL && fusion->facts[at->id].consumer_count == 1 ? at : NULL;
}

/* Whether the node's operands keep all their bits, whatever the precision: assigned values, and positions and indices
   that are made of floats. */
static bool keeps_bits(const node *at)
{
    return at->op == OP_ASSIGN || (at->op == OP_CAST && !tuff__dtype_is_float(at->outputs[0].dtype));
}

/* What such values are computed from element by element, and put together from; and the terms of a sum that a product
   in pieces is, whatever becomes of it: they are partial sums. */
static void find_precise(const choice *self)
{
    const tuff_graph *graph = self->fusion->graph;
    for (int i = graph->node_count - 1; i >= 0; --i) {
        const node *at = graph->nodes[i];
        const bool passes =
            tuff__op_is_elementwise(at->op) || tuff__op_is_view(at->op) || at->op == OP_PAD || at->op == OP_CONCAT;
        for (int k = 0; k < at->input_count && (keeps_bits(at) || (passes && self->precise[i])); ++k)
            self->precise[at->inputs[k]->node->id] = true;
        const node *product = self->precise[i] || at->op == OP_SUM ? split_product(self->fusion, at) : NULL;
        if (product != NULL)
            self->precise[product->id] = true;
    }
}

static bool is_constant(const node *at)
{
    while (tuff__op_is_view(at->op))
        at = at->inputs[0]->node;
    return at->op == OP_CONSTANT;
}

/* The operand beside a constant; NULL where neither is one. */
static const node *beside_constant(const node *at)
{
    const node *x = at->inputs[0]->node, *y = at->inputs[1]->node;
    return is_constant(y) ? x : is_constant(x) ? y : NULL;
}

/* Squares that sums add up, with a constant added or not, as norms and second moments have them: those of small
   gradients would become 0. What they are of is not concerned. */
static bool mark_square(const choice *self, const node *at, int depth)
{
    const bool moves = tuff__op_is_view(at->op) || at->op == OP_PAD, adds = at->op == OP_ADD || at->op == OP_MUL;
    bool found = at->op == OP_MUL && at->inputs[0] == at->inputs[1];
    if (!found && (moves || adds) && depth > 0) {
        const node *next = moves ? at->inputs[0]->node : beside_constant(at);
        found = next != NULL && mark_square(self, next, depth - 1);
    }
    self->precise[at->id] |= found;
    return found;
}

static void find_squares(const choice *self)
{
    enum { DEPTH = 8 };
    for (int i = 0; i < self->fusion->graph->node_count; ++i)
        if (self->fusion->graph->nodes[i]->op == OP_SUM)
            (void)mark_square(self, self->fusion->graph->nodes[i]->inputs[0]->node, DEPTH);
}

/* Whether the value's own kernel adds up in its memory: sums there stay f32. */
static bool sums_in_memory(const choice *self, const node *at)
{
    const op_pattern pattern = tuff__op_info(at->op)->pattern;
    return pattern == PATTERN_REDUCTION || pattern == PATTERN_SCAN || pattern == PATTERN_SCATTER ||
           (pattern == PATTERN_ATTENTION && self->registers);
}

/* Random numbers keep all their bits: whoever compares them would find one just below a threshold at it, or at 1, which
   none reaches, and differently from who draws them again. */
static bool is_random(const node *at)
{
    while (tuff__op_is_view(at->op))
        at = at->inputs[0]->node;
    return at->op == OP_RANDOM;
}

/* Of a value of dtype f16 or bf16: its own where nobody can tell, which is where a cast has rounded it, where only the
   host reads it, and where the plan's precision allows more roundings. */
static bool fits_own_dtype(const choice *self, const node *at)
{
    const node_facts *facts = &self->fusion->facts[at->id];
    if (at->op == OP_CAST || (facts->kept && facts->consumer_count == 0))
        return true;
    return self->precision != TUFF_F32 && !facts->kept && !facts->compared;
}

static tuff_dtype wanted_dtype(const choice *self, const node *at)
{
    const node_facts *facts = &self->fusion->facts[at->id];
    const tuff_dtype dtype = at->outputs[0].dtype, computed = tuff__compute_dtype(dtype);
    if (computed != TUFF_F32)
        return computed == TUFF_BOOL ? TUFF_U32 : computed;
    if (sums_in_memory(self, at))
        return TUFF_F32;
    if (dtype != TUFF_F32)
        return fits_own_dtype(self, at) ? dtype : TUFF_F32;
    const bool keeps = facts->kept || facts->compared || at->phase == TUFF_PHASE_OPTIMIZER ||
                       at->outputs[0].shape.rank == 0 || self->precise[at->id] || self->statistic[at->id] ||
                       is_random(at);
    return keeps ? TUFF_F32 : self->precision;
}

static const node *whole_of(const struct fusion *fusion, const node *at)
{
    while (fusion->facts[at->id].materialized && fusion->facts[at->id].placed != NULL)
        at = fusion->facts[at->id].placed;
    return at;
}

/* A concat and what is written straight into it have one dtype: where one of them wants more bits, all get f32. */
static void agree_on_parts(const struct fusion *fusion)
{
    for (int i = 0; i < fusion->graph->node_count; ++i) {
        const node *at = fusion->graph->nodes[i], *whole = whole_of(fusion, at);
        if (whole != at && fusion->facts[whole->id].storage != fusion->facts[i].storage)
            fusion->facts[whole->id].storage = tuff__compute_dtype(whole->outputs[0].dtype) == TUFF_BOOL
                                                   ? TUFF_U32
                                                   : tuff__compute_dtype(whole->outputs[0].dtype);
    }
    for (int i = 0; i < fusion->graph->node_count; ++i)
        fusion->facts[i].storage = fusion->facts[whole_of(fusion, fusion->graph->nodes[i])->id].storage;
}

/* Where a device cannot store 16 bits, values are rounded to them and stored as f32. */
static void widen(const struct fusion *fusion)
{
    for (int i = 0; i < fusion->graph->node_count; ++i) {
        node_facts *facts = &fusion->facts[i];
        if (tuff_dtype_size(facts->storage) < 4) {
            facts->rounding = facts->storage;
            facts->storage = TUFF_F32;
        }
    }
}

tuff_status tuff__choose_storage(struct fusion *fusion)
{
    const size_t count = (size_t)fusion->graph->node_count + 1;
    const kernel_policy policy = {.target = tuff__device_target(fusion->graph->device), .family = fusion->family};
    choice self = {.fusion = fusion,
                   .registers = tuff__uses_registers(&policy),
                   .precise = tuff__calloc(2 * count, sizeof(bool)),
                   .precision = fusion->precision == TUFF_PRECISION_F16    ? TUFF_F16
                                : fusion->precision == TUFF_PRECISION_BF16 ? TUFF_BF16
                                                                           : TUFF_F32};
    if (self.precise == NULL)
        return TUFF_E_OOM_HOST;
    self.statistic = self.precise + count;
    find_precise(&self);
    find_squares(&self);
    for (int i = 0; i < fusion->graph->node_count; ++i) {
        const node *at = fusion->graph->nodes[i];
        self.statistic[i] = is_statistic(&self, at);
        fusion->facts[i].rounding = TUFF_F32;
        fusion->facts[i].storage = wanted_dtype(&self, at);
    }
    agree_on_parts(fusion);
    if (!policy.target.stores_narrow)
        widen(fusion);
    tuff__free(self.precise);
    return TUFF_OK;
}
