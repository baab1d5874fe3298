/* Determines which values are rounded to 16 bits, as tuff_precision documents it: intermediates, and the copies of
   sources that matmuls read. So are the scores of attention, its weights and their derivatives, which plans may store
   (on CPUs with Vulkan) and matrix units read. Not rounded are assigned values and the elementwise operations they
   result from, everything that an optimizer computes, scalars, results of reductions, statistics, and random numbers.
   Kernels sum in f32 at any precision. This does not use the compiler's own rules and allows at least as much
   rounding: a fused kernel rounds fewer values. */
#include "tools/verify/program_rounding.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"

/* Accuracy in bits of f32 sums of some hundred terms. */
#define SUM_BITS 21
/* A reduction of at least this many elements to one produces statistics. */
#define MIN_REDUCED 16

typedef struct mark_context {
    const tuff_graph *graph;
    bool *precise, *statistic;
} mark_context;

tuff_precision program_precision(const program_recipe *recipe)
{
    static const tuff_precision precisions[] = {TUFF_PRECISION_F32, TUFF_PRECISION_F16, TUFF_PRECISION_BF16};
    return precisions[program_choice(recipe, FIELD_PRECISION)];
}

double program_rounding_stretch(int index)
{
    return pow(2, (double)index / PROGRAM_GRIDS); /* neighbouring grids are several points of 8 bits apart */
}

static bool sums(const node *at)
{
    const op_pattern pattern = tuff__op_info(at->op)->pattern;
    return pattern == PATTERN_REDUCTION || pattern == PATTERN_SCAN || pattern == PATTERN_SCATTER ||
           pattern == PATTERN_MATMUL;
}

static void mark(const mark_context *self)
{
    for (int i = self->graph->node_count - 1; i >= 0; i--) {
        const node *at = self->graph->nodes[i];
        const bool passes =
            tuff__op_is_elementwise(at->op) || tuff__op_is_view(at->op) || at->op == OP_PAD || at->op == OP_CONCAT;
        for (int k = 0; k < at->input_count && (at->op == OP_ASSIGN || (passes && self->precise[i])); k++)
            self->precise[at->inputs[k]->node->id] = true;
    }
    for (int i = 0; i < self->graph->node_count; i++) {
        const node *at = self->graph->nodes[i];
        const bool passes = tuff__op_is_elementwise(at->op) || (tuff__op_is_view(at->op) && at->op != OP_EXPAND);
        if (tuff__op_info(at->op)->pattern == PATTERN_REDUCTION)
            self->statistic[i] =
                tuff_shape_count(at->inputs[0]->shape) >= MIN_REDUCED * tuff_shape_count(at->outputs[0].shape);
        self->statistic[i] |= at->op == OP_ATTENTION_LSE;
        for (int k = 0; k < at->input_count && passes; k++)
            self->statistic[i] |= self->statistic[at->inputs[k]->node->id];
    }
}

bool program_rounding_excludes(const node *at)
{
    return tuff__op_is_view(at->op) || tuff__op_is_source(at->op) || at->op == OP_ASSIGN || at->op == OP_RANDOM ||
           !tuff__dtype_is_float(at->outputs[0].dtype);
}

/* Number of bits that a result keeps; 0: all of a double. */
static unsigned char bits_of(const mark_context *self, const node *at, unsigned char stored)
{
    const bool adds_up = tuff__op_info(at->op)->pattern != PATTERN_MATMUL && sums(at);
    if (program_rounding_excludes(at))
        return 0;
    const bool keeps = self->precise[at->id] || at->phase == TUFF_PHASE_OPTIMIZER;
    if (!adds_up && !keeps && !self->statistic[at->id] && at->outputs[0].shape.rank > 0)
        return stored;
    return sums(at) ? SUM_BITS : 0;
}

/* Whether a matmul reads an f32 source, which is copied for it. Rounding f32's own operands to SUM_BITS stands for the
   rounding of sums that cancel. */
static bool reads_source(const node *at)
{
    bool found = false;
    for (int i = 0; i < at->input_count && at->op == OP_MATMUL && at->phase != TUFF_PHASE_OPTIMIZER; i++) {
        const node *from = at->inputs[i]->node;
        while (tuff__op_is_view(from->op))
            from = from->inputs[0]->node;
        found |= tuff__op_is_source(from->op);
    }
    return found;
}

tuff_status program_rounding_make(const tuff_graph *graph, tuff_precision precision, program_rounding *out)
{
    const size_t count = (size_t)graph->node_count + 1;
    const unsigned char stored = precision == TUFF_PRECISION_F16 ? 11 : precision == TUFF_PRECISION_BF16 ? 8 : SUM_BITS;
    mark_context self = {.graph = graph, .precise = calloc(2 * count, sizeof(bool))};
    *out = (program_rounding){.results = calloc(count, 1), .operands = calloc(count, 1), .inner = calloc(count, 1)};
    if (self.precise == NULL || out->results == NULL || out->operands == NULL || out->inner == NULL) {
        free(self.precise);
        return FAIL(TUFF_E_OOM_HOST, "random program: out of memory for rounding points");
    }
    self.statistic = self.precise + count;
    mark(&self);
    for (int i = 0; i < graph->node_count; i++) {
        out->results[i] = bits_of(&self, graph->nodes[i], stored);
        if (tuff__op_is_attention(graph->nodes[i]->op) && precision != TUFF_PRECISION_F32)
            out->inner[i] = stored;
        out->operands[i] = reads_source(graph->nodes[i]) ? stored : 0;
    }
    free(self.precise);
    return TUFF_OK;
}

void program_rounding_free(program_rounding *self)
{
    free(self->results);
    free(self->operands);
    free(self->inner);
    *self = (program_rounding){.results = NULL};
}
