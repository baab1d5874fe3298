/* Attention as a primitive: the nodes of its forward and backward. Whatever it cannot do is composed of other ops
   (composite_attention.c). */
#include "graph/builder.h"

static tuff_tensor *attend(tuff_tensor *const *inputs, const op_attributes *band)
{
    const tuff_shape q = inputs[0]->shape;
    tuff_graph *graph = inputs[0]->graph;
    tuff_tensor *operands[4] = {inputs[0], inputs[1], inputs[2], NULL};
    operands[3] = tuff__stop_gradient(tuff__node_create(
        graph, OP_ATTENTION_LSE, inputs[0]->dtype, TUFF_SHAPE(q.extent[0], q.extent[1], q.extent[2]), inputs, 2, band));
    if (!tuff__is_sound(operands[3]))
        return operands[3];
    return tuff__node_create(graph, OP_ATTENTION, inputs[0]->dtype, tuff__with_extent(q, 3, inputs[2]->shape.extent[3]),
                             operands, 4, band);
}

tuff_tensor *tuff__attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v, double scale, int64_t first, int64_t last)
{
    return attend((tuff_tensor *[]){q, k, v}, &(op_attributes){.value = scale, .start = {first, last}});
}

/* The sums of upstream · result stand for all that the softmax passes back. All three gradients have the same inputs,
   by which the compiler knows that one kernel can compute them. */
tuff_tensor *tuff__attention_gradient(const node *of, tuff_tensor *upstream, int input)
{
    static const op_code ops[] = {OP_ATTENTION_DQ, OP_ATTENTION_DK, OP_ATTENTION_DV};
    tuff_tensor *x = of->inputs[input];
    tuff_tensor *sums = tuff_sum(tuff_mul(upstream, &of->outputs[0]), (int[]){3}, 1, false);
    tuff_tensor *operands[6] = {of->inputs[0], of->inputs[1], of->inputs[2], of->inputs[3], upstream, sums};
    if (!tuff__is_sound(sums) || input > 2)
        return input > 2 ? NULL : sums;
    return tuff__node_create(x->graph, ops[input], x->dtype, x->shape, operands, 6, &of->attributes);
}
