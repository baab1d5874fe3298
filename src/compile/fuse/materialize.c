/* Decides which nodes are materialized: have memory of their own. All others are recomputed where they are needed. On
   every device this costs less than a pass over memory, as long as chains stay short and nothing expensive is repeated
   for each element of a broadcast. */
#include "compile/fuse/fuse.h"
#include "compile/schedule/kernel_policy.h"

#define CHAIN_OPS 40   /* elementwise ops inlined into one node, at most */
#define CHAIN_LEAVES 8 /* buffers that the inlined chain of one node reads, at most */

view tuff__fusion_layout(const struct fusion *fusion, const node *at)
{
    const node_facts *facts = &fusion->facts[at->id];
    if (facts->has_layout)
        return facts->layout;
    return tuff__view_contiguous(at->outputs[0].shape);
}

/* Whether a node is a cast from f16 or bf16 to f32, which changes no value: kernels convert these to f32 as they
   load. */
static bool is_widening(const node *at)
{
    const tuff_dtype from = at->op == OP_CAST ? at->inputs[0]->dtype : TUFF_F32;
    return at->outputs[0].dtype == TUFF_F32 && (from == TUFF_F16 || from == TUFF_BF16);
}

/* Finds the base of a node and the node's view of it. Steps are applied while the recursion unwinds, the innermost
   first. widened: for a matmul, whose kernel widens elements as it loads them, and can compute them there. */
static const node *descend(const struct fusion *fusion, const node *at, bool widened, view *out, const node **give_up)
{
    const node_facts *facts = &fusion->facts[at->id];
    if (tuff__op_is_source(at->op) || facts->materialized || (facts->is_producer && widened)) {
        *out = tuff__fusion_layout(fusion, at);
        return at;
    }
    if (widened && is_widening(at))
        return descend(fusion, at->inputs[0]->node, widened, out, give_up);
    if (!tuff__op_is_view(at->op)) {
        *give_up = at;
        return at;
    }
    const node *base = descend(fusion, at->inputs[0]->node, widened, out, give_up);
    if (*give_up != NULL)
        return base;
    const path step = tuff__path_of(at, NULL);
    if (!tuff__view_apply(out, &step))
        *give_up = at->inputs[0]->node;
    return base;
}

const node *tuff__operand_view(const struct fusion *fusion, const tuff_tensor *operand, view *out, const node **give_up)
{
    *give_up = NULL;
    return descend(fusion, operand->node, false, out, give_up);
}

const node *tuff__factor_view(const struct fusion *fusion, const tuff_tensor *operand, view *out, const node **give_up)
{
    *give_up = NULL;
    return descend(fusion, operand->node, true, out, give_up);
}

/* Returns the first node under views, paddings and casts. Sets *found if one of the views makes windows. */
static const node *strip_windows(const node *at, bool *found)
{
    *found = false;
    for (;;) {
        *found |= at->op == OP_UNFOLD;
        if (!tuff__op_is_view(at->op) && at->op != OP_PAD && at->op != OP_CAST)
            return at;
        at = at->inputs[0]->node;
    }
}

/* Decides whether kernels compute an operand's patches of an image where they load them. This is done on GPUs, in each
   matmul that reads the patches, if strides cannot express the operand as a view of memory: each element of the image
   is in several patches, so stored patches would be larger. Matmuls on matrix units need operands in memory, so such
   matmuls are left to other kernels. The image itself gets memory. */
static bool makes_patches(struct fusion *fusion, const node *at)
{
    const kernel_policy policy = {.target = tuff__device_target(fusion->graph->device), .family = fusion->family};
    bool found;
    while (at->op == OP_PERMUTE || at->op == OP_EXPAND || at->op == OP_CAST)
        at = at->inputs[0]->node;
    node_facts *facts = &fusion->facts[at->id];
    const node *image = strip_windows(at, &found);
    if (!found || facts->materialized || facts->forced || facts->is_output || fusion->mode != TUFF_FUSE_ALL ||
        fusion->by_library || tuff__uses_registers(&policy))
        return false;
    facts->is_producer = facts->patches = true;
    if (!tuff__op_is_source(image->op) && !fusion->facts[image->id].materialized) {
        fusion->facts[image->id].materialized = true;
        if (image->op == OP_CONCAT)
            tuff__write_parts_in_place(fusion, image);
    }
    return true;
}

/* Materializes every node that keeps the operand from being a strided view of memory. */
static void materialize_operand(struct fusion *fusion, const tuff_tensor *operand, bool is_factor)
{
    for (;;) {
        view layout;
        const node *missing = NULL;
        if (is_factor)
            tuff__factor_view(fusion, operand, &layout, &missing);
        else
            tuff__operand_view(fusion, operand, &layout, &missing);
        if (missing == NULL || fusion->facts[missing->id].materialized)
            return;
        if (is_factor && makes_patches(fusion, operand->node))
            continue;
        fusion->facts[missing->id].materialized = true;
        fusion->facts[missing->id].is_producer = fusion->facts[missing->id].patches = false;
        if (missing->op == OP_CONCAT)
            tuff__write_parts_in_place(fusion, missing);
    }
}

/* Does the same for an operand whose rows are read as vectors: rows whose elements are not contiguous are copied. */
static void materialize_rows(struct fusion *fusion, const tuff_tensor *operand)
{
    view layout;
    const node *missing = NULL;
    materialize_operand(fusion, operand, false);
    tuff__operand_view(fusion, operand, &layout, &missing);
    const int axis = layout.rank - 1;
    if (missing == NULL && layout.extent[axis] > 1 && layout.stride[axis] != 1)
        fusion->facts[operand->node->id].materialized = true;
}

typedef struct chain_size {
    int ops, leaves;
    bool expensive, random;
} chain_size;

static void measure(struct fusion *fusion, const node *at, chain_size *size)
{
    if (fusion->marks[at->id] == fusion->mark)
        return;
    fusion->marks[at->id] = fusion->mark;
    if (tuff__is_materialized(fusion, at)) {
        size->leaves += !tuff__is_scalar_constant(at);
        return;
    }
    size->ops += !tuff__op_is_view(at->op);
    size->expensive |= tuff__op_is_expensive(at->op);
    size->random |= at->op == OP_RANDOM;
    for (int i = 0; i < at->input_count && size->ops <= 4 * CHAIN_OPS; ++i)
        measure(fusion, at->inputs[i]->node, size);
}

static chain_size chain_size_of(struct fusion *fusion, const node *at)
{
    chain_size size = {.ops = !tuff__op_is_view(at->op), .expensive = tuff__op_is_expensive(at->op)};
    ++fusion->mark;
    for (int i = 0; i < at->input_count; ++i)
        measure(fusion, at->inputs[i]->node, &size);
    return size;
}

/* Returns the node under views. */
static const node *strip_views(const struct fusion *fusion, const node *at)
{
    while (tuff__op_is_view(at->op) && !fusion->facts[at->id].materialized)
        at = at->inputs[0]->node;
    return at;
}

/* Materializes a node's inlined inputs, the one with the longest chain first, until its own chain is short. A concat
   reads one part at a time, so that only the number of buffers that a kernel can bind limits it. */
static void limit_chain(struct fusion *fusion, const node *at)
{
    enum { CONCAT_LEAVES = MAX_CHAIN_BUFFERS / 2 };
    const int leaves = at->op == OP_CONCAT ? CONCAT_LEAVES : CHAIN_LEAVES;
    for (;;) {
        const chain_size whole = chain_size_of(fusion, at);
        if (whole.ops <= CHAIN_OPS && whole.leaves <= leaves)
            return;
        const node *longest = NULL;
        int most = 0;
        for (int i = 0; i < at->input_count; ++i) {
            const node *input = strip_views(fusion, at->inputs[i]->node);
            if (tuff__op_is_source(input->op) || fusion->facts[input->id].materialized || input->op == OP_IOTA)
                continue;
            const chain_size size = chain_size_of(fusion, input);
            if (size.ops + 4 * size.leaves > most) {
                most = size.ops + 4 * size.leaves;
                longest = input;
            }
        }
        if (longest == NULL)
            return;
        fusion->facts[longest->id].materialized = true;
    }
}

/* Whether an expand repeats its input for whole rows, not only along the innermost axes. */
static bool repeats_rows(const node *expand)
{
    const tuff_shape *from = &expand->inputs[0]->shape, *to = &expand->outputs[0].shape;
    int64_t inner_count = 1;
    for (int i = from->rank - 1; i >= 0; --i) {
        if (from->extent[i] != to->extent[i] && inner_count > 1)
            return true;
        inner_count *= from->extent[i];
    }
    return false;
}

/* Materializes the operands that the kernel of a node cannot read in place, as column `operands` of its op says. */
static void materialize_operands(struct fusion *fusion, const node *at)
{
    const op_operands operands = tuff__op_info(at->op)->operands;
    if (operands == OPERANDS_VALUES)
        return;
    for (int i = 0; i < at->input_count; ++i)
        if (operands == OPERANDS_ROWS && at->inputs[i]->shape.rank == 4)
            materialize_rows(fusion, at->inputs[i]);
        else if (operands != OPERANDS_TABLE || i == 0)
            materialize_operand(fusion, at->inputs[i], operands == OPERANDS_FACTORS);
}

/* Whether a pad adds more elements than its input has: kernels also compute the input for these and discard the
   results. */
static bool is_mostly_padding(const node *pad)
{
    return tuff_shape_count(pad->outputs[0].shape) > 2 * tuff_shape_count(pad->inputs[0]->shape);
}

/* Materializes an expensive value rather than recompute it for each row of an expand, or for padding. */
static void materialize_repeated(struct fusion *fusion, const node *at)
{
    const node *input = strip_views(fusion, at->inputs[0]->node);
    const bool repeats = at->op == OP_EXPAND ? repeats_rows(at) : is_mostly_padding(at);
    if (repeats && !tuff__op_is_source(input->op) && chain_size_of(fusion, input).expensive)
        fusion->facts[input->id].materialized = true;
}

/* Materializes a value made of random numbers if several nodes read it, so that not every reader draws them again: a
   number takes about a hundred integer operations. Values computed from a kept one are not affected. */
static void materialize_random(struct fusion *fusion, const node *at)
{
    node_facts *facts = &fusion->facts[at->id];
    if (fusion->mode == TUFF_FUSE_ALL && facts->consumer_count > 1 && !facts->materialized &&
        at->outputs[0].dtype == TUFF_F32 && at->op != OP_RANDOM && !tuff__op_is_view(at->op) &&
        !tuff__op_is_source(at->op) && chain_size_of(fusion, at).random)
        facts->materialized = true;
}

/* Whether an op's result has the same bits in every kernel, given operands with the same bits. */
static bool is_exact_op(const node *at)
{
    switch (at->op) {
    case OP_PAD:
    case OP_CONCAT:
    case OP_WHERE:
    case OP_CAST:
    case OP_GATHER:
    case OP_NEG:
    case OP_ABS:
    case OP_FLOOR:
    case OP_MAX:
    case OP_MIN:
    case OP_LESS:
    case OP_EQUAL:
    case OP_AND:
    case OP_OR:
    case OP_FINITE:
        return true;
    default:
        return tuff__op_is_view(at->op) || !tuff__dtype_is_float(at->outputs[0].dtype);
    }
}

/* Whether every kernel sees a value with the same bits: it lies in memory, if stored at full precision, or is computed
   from such values by at most `depth` levels of exact ops. */
static bool is_exact(struct fusion *fusion, const node *at, int depth)
{
    bool exact = depth > 0 && is_exact_op(at);
    if (fusion->marks[at->id] == fusion->mark || tuff__op_is_source(at->op) || at->op == OP_IOTA ||
        at->op == OP_RANDOM || tuff__op_is_materialized(at->op))
        return true;
    for (int i = 0; i < at->input_count && exact; ++i)
        exact = is_exact(fusion, at->inputs[i]->node, depth - 1);
    fusion->marks[at->id] = exact ? fusion->mark : 0;
    return exact;
}

static void mark_compared(struct fusion *fusion, const node *at)
{
    node_facts *facts = &fusion->facts[at->id];
    if (facts->compared || tuff__op_is_source(at->op))
        return;
    facts->compared = true;
    for (int i = 0; i < at->input_count && is_exact_op(at) && !facts->materialized; ++i)
        mark_compared(fusion, at->inputs[i]->node);
}

/* Makes sure that a value compared for equality is computed only once. Two kernels, or two loops of one, may compute it
   differently: a quotient by a row's value as a division or as a product with the reciprocal, and a compiler may
   contract a multiplication and an addition in only one of them. */
static void materialize_compared(struct fusion *fusion, const tuff_tensor *operand)
{
    const node *at = operand->node;
    for (; tuff__op_is_view(at->op) || at->op == OP_PAD || at->op == OP_NEG || at->op == OP_ABS || at->op == OP_CAST;
         at = at->inputs[0]->node)
        fusion->facts[at->id].compared = true;
    ++fusion->mark;
    if (!is_exact(fusion, at, CHAIN_OPS))
        fusion->facts[at->id].materialized = fusion->facts[at->id].computed_once = true;
    mark_compared(fusion, at);
}

/* Finds the values that are compared for equality, such as maxima, to find their position or where their gradient goes.
   Comparisons with a constant, or of a value with itself, do not depend on several kernels agreeing. */
static void find_compared(struct fusion *fusion)
{
    for (int i = 0; i < fusion->graph->node_count; ++i) {
        const node *at = fusion->graph->nodes[i];
        if (at->op != OP_EQUAL || at->inputs[0] == at->inputs[1])
            continue;
        const node *x = strip_views(fusion, at->inputs[0]->node), *y = strip_views(fusion, at->inputs[1]->node);
        if (!tuff__dtype_is_float(at->inputs[0]->dtype) || x->op == OP_CONSTANT || y->op == OP_CONSTANT)
            continue;
        materialize_compared(fusion, at->inputs[0]);
        materialize_compared(fusion, at->inputs[1]);
    }
}

static void choose(struct fusion *fusion, const node *at)
{
    node_facts *facts = &fusion->facts[at->id];
    const bool is_view = tuff__op_is_view(at->op);
    if (tuff__op_is_source(at->op) || at->op == OP_ASSIGN)
        return;
    facts->materialized |= facts->forced || facts->is_output || tuff__op_is_materialized(at->op) ||
                           (fusion->mode == TUFF_FUSE_NONE && !is_view && at->op != OP_IOTA);
    materialize_operands(fusion, at);
    if (at->op == OP_CONCAT)
        tuff__write_parts_in_place(fusion, at);
    if (!is_view && facts->first_part == NULL)
        limit_chain(fusion, at);
    if (at->op == OP_EXPAND || at->op == OP_PAD)
        materialize_repeated(fusion, at);
    materialize_random(fusion, at);
}

/* Gives a matmul that only a permute reads, perhaps through a reshape, a layout in which the permute's result is
   contiguous. */
static void choose_order(struct fusion *fusion, const node *at)
{
    node_facts *facts = &fusion->facts[at->id];
    if (at->op != OP_MATMUL || facts->consumer_count != 1 || facts->is_output || facts->row_major)
        return;
    const node *permute = facts->consumer;
    if (permute->op == OP_RESHAPE && fusion->facts[permute->id].consumer_count == 1 &&
        !fusion->facts[permute->id].is_output)
        permute = fusion->facts[permute->id].consumer;
    if (permute->op != OP_PERMUTE || fusion->mode == TUFF_FUSE_NONE)
        return;
    view layout = tuff__view_ordered(permute->inputs[0]->shape, permute->attributes.order);
    const path back = tuff__path_reshape(at->outputs[0].shape, NULL);
    facts->has_layout = tuff__view_apply(&layout, &back);
    facts->layout = layout;
}

void tuff__choose_materialized(struct fusion *fusion)
{
    tuff_graph *graph = fusion->graph;
    for (int i = 0; i < graph->node_count; ++i) {
        node_facts *facts = &fusion->facts[i];
        *facts = (node_facts){
            .forced = facts->forced, .no_epilogue = facts->no_epilogue, .row_major = facts->row_major, .task = -1};
    }
    for (int i = 0; i < graph->node_count; ++i)
        for (int k = 0; k < graph->nodes[i]->input_count; ++k) {
            node_facts *input = &fusion->facts[graph->nodes[i]->inputs[k]->node->id];
            ++input->consumer_count;
            input->consumer = graph->nodes[i];
        }
    for (int i = 0; i < graph->output_count; ++i)
        fusion->facts[graph->outputs[i].tensor->node->id].is_output = true;
    for (int i = 0; i < graph->assign_count; ++i)
        fusion->facts[graph->assigns[i]->inputs[0]->node->id].is_output = true;
    for (int i = 0; i < graph->node_count; ++i)
        choose_order(fusion, graph->nodes[i]);
    find_compared(fusion);
    for (int i = 0; i < graph->node_count; ++i)
        choose(fusion, graph->nodes[i]);
}
