/* The dtype of each value in memory. This is the only place where mixed precision decides which values are stored with
   16 bits. It runs once it is known which values have memory; kernels load and store by the dtype of their buffers. */
#include "compile/fuse/fuse.h"
#include "compile/schedule/kernel_policy.h"

/* Reductions of at least this many elements to one produce statistics. */
enum { MIN_REDUCED = 16 };

typedef struct choice {
    struct fusion *fusion;
    bool registers;       /* attention accumulates its results in their memory */
    bool *precise;        /* by node: must keep all its bits, or is a value from which such a value is computed */
    bool *partial;        /* by node: partial results that a sum adds up */
    bool *statistic;      /* by node: computed from reductions, at their shape */
    tuff_dtype precision; /* f16 or bf16; f32: each value keeps the dtype of the graph */
} choice;

/* Whether a node is a reduction of many elements, or computed from such reductions at their own shape. */
static bool is_statistic(const choice *self, const node *at)
{
    const op_pattern pattern = tuff__op_info(at->op)->pattern;
    bool statistic = at->op == OP_ATTENTION_LSE;
    if (pattern == PATTERN_REDUCTION)
        return tuff_shape_count(at->inputs[0]->shape) >= MIN_REDUCED * tuff_shape_count(at->outputs[0].shape);
    const bool propagates = tuff__op_is_elementwise(at->op) || (tuff__op_is_view(at->op) && at->op != OP_EXPAND);
    for (int i = 0; i < at->input_count && propagates; ++i)
        statistic |= self->statistic[at->inputs[i]->node->id];
    return statistic;
}

/* Returns the matmul or the gradient of an attention's bias that computes the terms of a sum, in pieces, and that
   nothing else reads; NULL if there is none. */
static const node *batch_of_terms(const struct fusion *fusion, const node *sum)
{
    const node *at = sum->op == OP_SUM ? sum->inputs[0]->node : sum;
    while (at != sum && tuff__op_is_view(at->op) && fusion->facts[at->id].consumer_count == 1)
        at = at->inputs[0]->node;
    const bool has_terms = at->op == OP_MATMUL || at->op == OP_ATTENTION_DB;
    return has_terms && fusion->facts[at->id].consumer_count == 1 ? at : NULL;
}

/* Whether the node's operands keep all their bits at any precision: assigned values, and floats that are cast to
   integers such as positions and indices. */
static bool keeps_bits(const node *at)
{
    return at->op == OP_ASSIGN || (at->op == OP_CAST && !tuff__dtype_is_float(at->outputs[0].dtype));
}

/* Marks values as precise: the operands for which keeps_bits holds, and all values from which these are computed
   elementwise or assembled. Also marks what a sum adds up, whatever the sum is used for, as partial and precise. */
static void find_precise(const choice *self)
{
    const tuff_graph *graph = self->fusion->graph;
    for (int i = graph->node_count - 1; i >= 0; --i) {
        const node *at = graph->nodes[i];
        const bool propagates =
            tuff__op_is_elementwise(at->op) || tuff__op_is_view(at->op) || at->op == OP_PAD || at->op == OP_CONCAT;
        for (int k = 0; k < at->input_count && (keeps_bits(at) || (propagates && self->precise[i])); ++k)
            self->precise[at->inputs[k]->node->id] = true;
        const node *product = self->precise[i] || at->op == OP_SUM ? batch_of_terms(self->fusion, at) : NULL;
        if (product != NULL && at->op == OP_SUM)
            self->partial[product->id] = true;
        if (product != NULL)
            self->precise[product->id] = true;
    }
}

/* Returns the other operand of an op with a constant; NULL if neither operand is constant. */
static const node *nonconstant_operand(const node *at)
{
    const node *x = at->inputs[0]->node, *y = at->inputs[1]->node;
    const bool x_is_constant = tuff__skip_views(x)->op == OP_CONSTANT;
    return tuff__skip_views(y)->op == OP_CONSTANT ? x : x_is_constant ? y : NULL;
}

/* Marks squares that are summed as precise, even if constants are first added to them or multiplied with them, as in
   norms and second moments: in f16 the squares of small gradients would underflow to 0. The squared value itself is not
   marked. */
static bool mark_square(const choice *self, const node *at, int depth)
{
    const bool moves = tuff__op_is_view(at->op) || at->op == OP_PAD, adds = at->op == OP_ADD || at->op == OP_MUL;
    bool found = at->op == OP_MUL && at->inputs[0] == at->inputs[1];
    if (!found && (moves || adds) && depth > 0) {
        const node *next = moves ? at->inputs[0]->node : nonconstant_operand(at);
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

/* Whether the value's own kernel accumulates in its memory: such sums stay f32. */
static bool sums_in_memory(const choice *self, const node *at)
{
    const op_pattern pattern = tuff__op_info(at->op)->pattern;
    return pattern == PATTERN_REDUCTION || pattern == PATTERN_SCAN || pattern == PATTERN_SCATTER ||
           (pattern == PATTERN_ATTENTION && self->registers);
}

/* Whether a node is made of random numbers, which keep all their bits. Rounding would move a number just below a
   threshold onto it, or to 1, which random numbers never reach; and a comparison would differ in a kernel that draws
   the numbers again. */
static bool is_random(const node *at)
{
    return tuff__skip_views(at)->op == OP_RANDOM;
}

/* Whether a value of dtype f16 or bf16 can be stored in its own dtype. It can if this makes no difference, because a
   cast has just rounded it or only the host reads it, or if the plan's precision allows more roundings. */
static bool fits_own_dtype(const choice *self, const node *at)
{
    const node_facts *facts = &self->fusion->facts[at->id];
    if (at->op == OP_CAST || (facts->is_output && facts->consumer_count == 0))
        return true;
    return self->precision != TUFF_F32 && !facts->is_output && !facts->compared;
}

static tuff_dtype choose_dtype(const choice *self, const node *at)
{
    const node_facts *facts = &self->fusion->facts[at->id];
    const tuff_dtype dtype = at->outputs[0].dtype, computed = tuff__compute_dtype(dtype);
    if (computed != TUFF_F32)
        return computed == TUFF_BOOL ? TUFF_U32 : computed;
    if (sums_in_memory(self, at))
        return TUFF_F32;
    if (dtype != TUFF_F32)
        return fits_own_dtype(self, at) && !self->partial[at->id] ? dtype : TUFF_F32;
    const bool keeps = facts->is_output || facts->compared || at->phase == TUFF_PHASE_OPTIMIZER ||
                       at->outputs[0].shape.rank == 0 || self->precise[at->id] || self->statistic[at->id] ||
                       is_random(at);
    return keeps ? TUFF_F32 : self->precision;
}

static const node *whole_of(const struct fusion *fusion, const node *at)
{
    while (fusion->facts[at->id].materialized && fusion->facts[at->id].placed_in != NULL)
        at = fusion->facts[at->id].placed_in;
    return at;
}

/* Gives a concat and the parts written straight into it the same dtype. If they differ, all get the wide compute
   dtype. */
static void unify_part_dtypes(const struct fusion *fusion)
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

/* For devices that cannot store 16-bit values: has values rounded to 16 bits and stored as f32. */
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
                   .precise = tuff__calloc(3 * count, sizeof(bool)),
                   .precision = fusion->precision == TUFF_PRECISION_F16    ? TUFF_F16
                                : fusion->precision == TUFF_PRECISION_BF16 ? TUFF_BF16
                                                                           : TUFF_F32};
    if (self.precise == NULL)
        return TUFF_E_OOM_HOST;
    self.statistic = self.precise + count;
    self.partial = self.statistic + count;
    find_precise(&self);
    find_squares(&self);
    for (int i = 0; i < fusion->graph->node_count; ++i) {
        const node *at = fusion->graph->nodes[i];
        self.statistic[i] = is_statistic(&self, at);
        fusion->facts[i].rounding = TUFF_F32;
        fusion->facts[i].storage = choose_dtype(&self, at);
    }
    unify_part_dtypes(fusion);
    if (!policy.target.stores_narrow)
        widen(fusion);
    tuff__free(self.precise);
    return TUFF_OK;
}

tuff_dtype tuff__factor_precision(const struct fusion *fusion, const node *core)
{
    const bool is_narrow = fusion->precision != TUFF_PRECISION_F32 && core->phase != TUFF_PHASE_OPTIMIZER;
    const tuff_precision precision = is_narrow ? fusion->precision : fusion->matmul_precision;
    return precision == TUFF_PRECISION_F16 ? TUFF_F16 : precision == TUFF_PRECISION_BF16 ? TUFF_BF16 : TUFF_F32;
}
