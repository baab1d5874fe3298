/* Gives parts that could not be written into their place in a large concat a view of their own. */
#include "compile/rewrite/separate_parts.h"

#include "compile/rewrite/matmul_merge.h"

#define FEW_PARTS 8 /* parts that one kernel can read efficiently */

/* Whether the part has memory elsewhere, so that it cannot be written straight into the concat. */
static bool lies_elsewhere(const rewriting *self, const node *part)
{
    return self->taken[part->id] || part->op == OP_CONCAT || tuff__op_is_source(part->op);
}

static void separate(rewriting *self, node *concat)
{
    for (int i = 0; i < concat->input_count && self->graph->status == TUFF_OK; ++i) {
        tuff_tensor *part = concat->inputs[i];
        if (concat->input_count > FEW_PARTS && lies_elsewhere(self, part->node)) {
            tuff__graph_set_origin(self->graph, concat);
            concat->inputs[i] =
                tuff__node_create(self->graph, OP_RESHAPE, part->dtype, part->shape, (tuff_tensor *[]){part}, 1, NULL);
        } else {
            self->taken[part->node->id] = true;
        }
    }
}

tuff_status tuff__separate_parts(tuff_graph *graph)
{
    rewriting self;
    const tuff_status status = tuff__rewriting_begin(&self, graph);
    for (int i = 0; i < self.original_count && status == TUFF_OK; ++i)
        if (graph->nodes[i]->op == OP_CONCAT)
            separate(&self, graph->nodes[i]);
    return tuff__rewriting_end(&self, status);
}
