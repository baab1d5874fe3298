/* What an item keeps of a row between passes: values that would be dear to compute again, such as the exponentials of a
   softmax, which one pass adds up and the next one divides. */
#include <string.h>

#include "kernels/emit_value.h"

static bool is_element(const emitter *with, int index)
{
    const chain_value *of = &with->chain->values[index];
    return (of->varies >> with->vector_axis & 1) != 0 && !with->uniform[index];
}

/* Which values take a dear op to compute for a vector; what a value is made of stands before it. */
static void find_dear(emitter *with)
{
    for (int index = 0; index < with->chain->value_count; ++index) {
        const chain_value *of = &with->chain->values[index];
        if (of->kind != VALUE_OP || !is_element(with, index))
            continue;
        bool dear = tuff__op_info(of->op)->cost >= COST_DIVISION;
        for (int i = 0; i < 3 && of->args[i] != NO_VALUE; ++i)
            dear |= with->dear[of->args[i]];
        with->dear[index] = dear;
    }
}

static void visit(emitter *with, int index, int pass)
{
    const chain_value *of = &with->chain->values[index];
    if (!is_element(with, index) || with->last_pass[index] == pass || with->kept[index])
        return;
    with->last_pass[index] = pass;
    if (with->first_pass[index] >= 0 && of->dtype == TUFF_F32 && with->dear[index]) {
        with->kept[index] = true;
        return;
    }
    if (with->first_pass[index] < 0)
        with->first_pass[index] = pass;
    const int sources[] = {of->args[0], of->args[1], of->args[2], of->guard};
    for (int i = 0; i < 4; ++i)
        if (sources[i] != NO_VALUE)
            visit(with, sources[i], pass);
}

static void visit_pass(emitter *with, int pass)
{
    const fused_chain *chain = with->chain;
    for (int i = 0; i < chain->reduction_count; ++i)
        if (tuff__reduces_in(with, i, pass) ||
            (chain->reductions[i].in_columns && pass == tuff__emit_pass_count(with) - 1))
            visit(with, chain->reductions[i].input, pass);
    for (int i = 0; i < chain->output_count; ++i) {
        const chain_output *output = &chain->outputs[i];
        if (output->every_point && output->value != NO_VALUE && chain->values[output->value].stage == pass)
            visit(with, output->value, pass);
    }
}

static int loop_axes(const fused_chain *chain)
{
    int count = 0;
    for (int i = 0; i < chain->rank; ++i)
        count += chain->classes[i] == AXIS_LOOP;
    return count;
}

/* Rounded up, so that rows of many lengths share a program. */
int tuff__kept_vectors(const emitter *with)
{
    int vectors = 1;
    while ((int64_t)vectors * with->vec < with->chain->extent[with->vector_axis])
        vectors *= 2;
    return vectors;
}

void tuff__find_kept(emitter *with, int private_bytes)
{
    const fused_chain *chain = with->chain;
    with->has_reciprocals = private_bytes > 0;
    if (with->walk != WALK_ROW || with->vec == 1 || private_bytes == 0 || loop_axes(chain) != 1)
        return;
    find_dear(with);
    const int passes = tuff__emit_pass_count(with);
    for (int pass = 0; pass < passes; ++pass)
        visit_pass(with, pass);
    const int64_t each = (int64_t)tuff__kept_vectors(with) * with->vec * 4;
    for (int i = 0; i < chain->value_count; ++i) {
        with->kept[i] &= each <= private_bytes;
        private_bytes -= with->kept[i] ? (int)each : 0;
    }
}
