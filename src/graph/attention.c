/* Attention as a primitive: builds the forward and backward nodes, with inputs in the order of tuff__attention_inputs.
   The forward pass is two nodes: the log-sum-exp of each row of scores, and the result, which is normalized by it.
   Gradients recompute the weights from the log-sum-exp instead of keeping them, as in FlashAttention, so no matrix of
   scores is ever in memory. composite/attention.c chooses between this and a composition of other ops. */
#include "graph/builder.h"

#define MAX_INPUTS 8

/* The log-sum-exp depends only on scale, band and bias, since dropout is applied after it. It passes no gradient: the
   gradients of the result account for it. */
static tuff_tensor *log_sum_exp(const attention_operands *operands, const op_attributes *attributes)
{
    const tuff_shape q = operands->q->shape;
    tuff_tensor *inputs[3] = {operands->q, operands->k, operands->bias};
    const op_attributes plain = {.value = attributes->value,
                                 .start = {attributes->start[0], attributes->start[1]},
                                 .options = attributes->options & ATTENTION_BIAS};
    return tuff__stop_gradient(tuff__node_create(operands->q->graph, OP_ATTENTION_LSE, operands->q->dtype,
                                                 TUFF_SHAPE(q.extent[0], q.extent[1], q.extent[2]), inputs,
                                                 operands->bias ? 3 : 2, &plain));
}

/* Dropout uses up an ordinal of the graph's random numbers, as a RANDOM node does. */
tuff_tensor *tuff__attention(const attention_operands *operands, const op_attributes *options)
{
    op_attributes attributes = *options;
    tuff_graph *graph = operands->q->graph;
    tuff_tensor *inputs[MAX_INPUTS] = {operands->q, operands->k, operands->v}, *lse = NULL, *step = NULL;
    int count = 3;
    attributes.options |= operands->bias ? ATTENTION_BIAS : 0;
    if ((attributes.options & ATTENTION_NO_SOFTMAX) == 0)
        inputs[count++] = lse = log_sum_exp(operands, &attributes);
    if (operands->bias)
        inputs[count++] = operands->bias;
    if (attributes.dropout != 0) {
        attributes.options |= ATTENTION_DROPOUT;
        attributes.seed = graph->seed;
        attributes.ordinal = graph->random_count++;
        inputs[count++] = step = tuff_step(graph);
    }
    if ((lse && !tuff__is_valid(lse)) || (step && !tuff__is_valid(step)))
        return &graph->failed;
    return tuff__node_create(graph, OP_ATTENTION, operands->q->dtype,
                             tuff__with_extent(operands->q->shape, 3, operands->v->shape.extent[3]), inputs, count,
                             &attributes);
}

/* Returns the op that computes the gradient of an input; OP_COUNT if the input has none. */
static op_code gradient_op(const attention_inputs *at, int input)
{
    return input == at->q      ? OP_ATTENTION_DQ
           : input == at->k    ? OP_ATTENTION_DK
           : input == at->v    ? OP_ATTENTION_DV
           : input == at->bias ? OP_ATTENTION_DB
                               : OP_COUNT;
}

/* `sums`, the row sums of upstream · result, is the term of the softmax gradient that all keys share. All gradient
   nodes have the same inputs; that is how the compiler finds those that one kernel can compute together. */
tuff_tensor *tuff__attention_gradient(const node *n, tuff_tensor *upstream, int input)
{
    const attention_inputs from = tuff__attention_inputs(OP_ATTENTION, n->attributes.options);
    const attention_inputs to = tuff__attention_inputs(OP_ATTENTION_DQ, n->attributes.options);
    const op_code op = gradient_op(&from, input);
    tuff_tensor *inputs[MAX_INPUTS] = {n->inputs[from.q], n->inputs[from.k], n->inputs[from.v]};
    int count = 3;
    if (op == OP_COUNT)
        return NULL;
    if (to.lse >= 0)
        inputs[count++] = n->inputs[from.lse];
    inputs[count++] = upstream;
    if (to.sums >= 0) {
        tuff_tensor *sums = tuff_sum(tuff_mul(upstream, &n->outputs[0]), (int[]){3}, 1, false);
        if (!tuff__is_valid(sums))
            return sums;
        inputs[count++] = sums;
    }
    if (to.bias >= 0)
        inputs[count++] = n->inputs[from.bias];
    if (to.step >= 0)
        inputs[count++] = n->inputs[from.step];
    tuff_tensor *x = n->inputs[input];
    return tuff__node_create(x->graph, op, x->dtype, x->shape, inputs, count, &n->attributes);
}
