/* Attention as a primitive: the nodes of its forward and backward, their inputs in the order of
   tuff__attention_inputs. Whatever it cannot do is composed of other ops (composite/attention.c). */
#include "graph/builder.h"

#define MOST_INPUTS 8

/* The log-sum-exp knows nothing of what happens to the weights. */
static tuff_tensor *log_sum_exp(const attention_operands *of, const op_attributes *how)
{
    const tuff_shape q = of->q->shape;
    tuff_tensor *inputs[3] = {of->q, of->k, of->bias};
    const op_attributes plain = {
        .value = how->value, .start = {how->start[0], how->start[1]}, .options = how->options & ATTENTION_BIAS};
    return tuff__stop_gradient(tuff__node_create(of->q->graph, OP_ATTENTION_LSE, of->q->dtype,
                                                 TUFF_SHAPE(q.extent[0], q.extent[1], q.extent[2]), inputs,
                                                 of->bias ? 3 : 2, &plain));
}

tuff_tensor *tuff__attention(const attention_operands *of, const op_attributes *options)
{
    op_attributes how = *options;
    tuff_graph *graph = of->q->graph;
    tuff_tensor *inputs[MOST_INPUTS] = {of->q, of->k, of->v}, *lse = NULL, *step = NULL;
    int count = 3;
    how.options |= of->bias ? ATTENTION_BIAS : 0;
    if ((how.options & ATTENTION_NO_SOFTMAX) == 0)
        inputs[count++] = lse = log_sum_exp(of, &how);
    if (of->bias)
        inputs[count++] = of->bias;
    if (how.dropout != 0) {
        how.options |= ATTENTION_DROPOUT;
        how.seed = graph->seed;
        how.ordinal = graph->random_count++;
        inputs[count++] = step = tuff_step(graph);
    }
    if ((lse && !tuff__is_sound(lse)) || (step && !tuff__is_sound(step)))
        return &graph->failed;
    return tuff__node_create(graph, OP_ATTENTION, of->q->dtype,
                             tuff__with_extent(of->q->shape, 3, of->v->shape.extent[3]), inputs, count, &how);
}

static op_code gradient_op(const attention_inputs *at, int input)
{
    return input == at->q      ? OP_ATTENTION_DQ
           : input == at->k    ? OP_ATTENTION_DK
           : input == at->v    ? OP_ATTENTION_DV
           : input == at->bias ? OP_ATTENTION_DB
                               : OP_COUNT;
}

/* The sums of upstream · result stand for all that the softmax passes back. All gradients have the same inputs, by
   which the compiler knows that one kernel can compute them. */
tuff_tensor *tuff__attention_gradient(const node *of, tuff_tensor *upstream, int input)
{
    const attention_inputs from = tuff__attention_inputs(OP_ATTENTION, of->attributes.options);
    const attention_inputs to = tuff__attention_inputs(OP_ATTENTION_DQ, of->attributes.options);
    const op_code op = gradient_op(&from, input);
    tuff_tensor *inputs[MOST_INPUTS] = {of->inputs[from.q], of->inputs[from.k], of->inputs[from.v]};
    int count = 3;
    if (op == OP_COUNT)
        return NULL;
    if (to.lse >= 0)
        inputs[count++] = of->inputs[from.lse];
    inputs[count++] = upstream;
    if (to.sums >= 0) {
        tuff_tensor *sums = tuff_sum(tuff_mul(upstream, &of->outputs[0]), (int[]){3}, 1, false);
        if (!tuff__is_sound(sums))
            return sums;
        inputs[count++] = sums;
    }
    if (to.bias >= 0)
        inputs[count++] = of->inputs[from.bias];
    if (to.step >= 0)
        inputs[count++] = of->inputs[from.step];
    tuff_tensor *x = of->inputs[input];
    return tuff__node_create(x->graph, op, x->dtype, x->shape, inputs, count, &of->attributes);
}
