/* Values that a work-item keeps in registers between the passes over a row: those that are expensive to compute again,
   such as the exponentials of a softmax, which one pass adds up and the next one divides. If the lanes of a group share
   a row and each handles few of its vectors, they also keep what they loaded, so that memory is read once. */
#include "kernels/emit_value.h"

static bool is_element(const emitter *self, int index)
{
    const chain_value *value = &self->chain->values[index];
    return (value->varies >> self->vector_axis & 1) != 0 && !self->states[index].uniform;
}

/* Finds the values that take an expensive op to compute, per vector. Values follow their operands. */
static void find_expensive(emitter *self)
{
    for (int index = 0; index < self->chain->value_count; ++index) {
        const chain_value *value = &self->chain->values[index];
        if (!is_element(self, index))
            continue;
        self->states[index].expensive =
            self->row_steps > 0 && (value->kind == VALUE_LOAD || value->kind == VALUE_LOOKUP);
        if (value->kind != VALUE_OP)
            continue;
        bool expensive = tuff__op_info(value->op)->cost >= COST_DIVISION;
        for (int i = 0; i < 3 && value->args[i] != NO_VALUE; ++i)
            expensive |= self->states[value->args[i]].expensive && self->chain->values[value->args[i]].kind == VALUE_OP;
        self->states[index].expensive = expensive;
    }
}

static void visit(emitter *self, int index, int pass)
{
    const chain_value *value = &self->chain->values[index];
    if (!is_element(self, index) || self->states[index].last_pass == pass || self->states[index].kept)
        return;
    self->states[index].last_pass = pass;
    if (self->states[index].first_pass >= 0 && value->dtype == TUFF_F32 && self->states[index].expensive) {
        self->states[index].kept = true;
        return;
    }
    if (self->states[index].first_pass < 0)
        self->states[index].first_pass = pass;
    const int sources[] = {value->args[0], value->args[1], value->args[2], value->guard};
    for (int i = 0; i < 4; ++i)
        if (sources[i] != NO_VALUE)
            visit(self, sources[i], pass);
}

static void visit_pass(emitter *self, int pass)
{
    const fused_chain *chain = self->chain;
    for (int i = 0; i < chain->reduction_count; ++i)
        if (tuff__reduces_in(self, i, pass) ||
            (chain->reductions[i].in_columns && pass == tuff__chain_pass_count(chain) - 1))
            visit(self, chain->reductions[i].input, pass);
    for (int i = 0; i < chain->output_count; ++i) {
        const chain_output *output = &chain->outputs[i];
        if (output->every_point && output->value != NO_VALUE && chain->values[output->value].stage == pass)
            visit(self, output->value, pass);
    }
}

static int loop_axes(const fused_chain *chain)
{
    int count = 0;
    for (int i = 0; i < chain->rank; ++i)
        count += chain->classes[i] == AXIS_LOOP;
    return count;
}

/* Rounds up to a power of two, so that rows of many lengths share a program. */
int tuff__kept_vectors(const emitter *self)
{
    if (self->row_steps > 0)
        return self->row_steps;
    int vectors = 1;
    while ((int64_t)vectors * self->vec < self->chain->extent[self->vector_axis])
        vectors *= 2;
    return vectors;
}

void tuff__find_kept_values(emitter *self, int private_bytes, int row_steps)
{
    const fused_chain *chain = self->chain;
    self->has_reciprocals = private_bytes > 0 && row_steps == 0;
    self->row_steps = row_steps;
    if (self->walk != WALK_ROW || self->vec == 1 || private_bytes == 0 || loop_axes(chain) != 1)
        return;
    find_expensive(self);
    const int passes = tuff__chain_pass_count(chain);
    for (int pass = 0; pass < passes; ++pass)
        visit_pass(self, pass);
    const int64_t each = (int64_t)tuff__kept_vectors(self) * self->vec * 4;
    for (int i = 0; i < chain->value_count; ++i) {
        self->states[i].kept &= each <= private_bytes;
        private_bytes -= self->states[i].kept ? (int)each : 0;
    }
}
