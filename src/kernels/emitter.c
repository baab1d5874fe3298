/* What all files that write a chain (emit*.c) ask of their emitter: parameters of the kernel, and the passes of the
   chain. */
#include "base/alloc.h"
#include "kernels/emit_value.h"

int tuff__emit_parameter(emitter *with, int64_t value)
{
    if (value > INT32_MAX || value < INT32_MIN) {
        with->status = FAIL(TUFF_E_LIMIT, "compile: an index of %lld does not fit 32 bits", (long long)value);
        return 0;
    }
    if (!GROW(with->parameters, with->parameter_count, with->parameter_capacity)) {
        with->status = TUFF_E_OOM_HOST;
        return 0;
    }
    with->parameters[with->parameter_count] = (int32_t)value;
    return with->parameter_count++;
}

int tuff__emit_pass_count(const emitter *with)
{
    int last = 0;
    for (int i = 0; i < with->chain->reduction_count; ++i)
        last = with->chain->reductions[i].stage > last ? with->chain->reductions[i].stage : last;
    for (int i = 0; i < with->chain->output_count; ++i) {
        const chain_output *output = &with->chain->outputs[i];
        if (output->every_point && output->value != NO_VALUE && with->chain->values[output->value].stage > last)
            last = with->chain->values[output->value].stage;
    }
    return last + 1;
}

bool tuff__reduces_in(const emitter *with, int reduction, int pass)
{
    return with->chain->reductions[reduction].stage == pass && !with->chain->reductions[reduction].in_columns;
}
