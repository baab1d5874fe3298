/* What all files that write a chain (emit*.c) share: the kernel's parameters and the passes of the chain. */
#include "base/alloc.h"
#include "kernels/emit_value.h"

int tuff__emit_parameter(emitter *self, int64_t value)
{
    if (value > INT32_MAX || value < INT32_MIN) {
        self->status = FAIL(TUFF_E_LIMIT, "compile: the index %lld does not fit i32", (long long)value);
        return 0;
    }
    if (!GROW(self->parameters, self->parameter_count, self->parameter_capacity)) {
        self->status = TUFF_E_OOM_HOST;
        return 0;
    }
    self->parameters[self->parameter_count] = (int32_t)value;
    return self->parameter_count++;
}

int tuff__emit_pass_count(const emitter *self)
{
    int last = 0;
    for (int i = 0; i < self->chain->reduction_count; ++i)
        last = self->chain->reductions[i].stage > last ? self->chain->reductions[i].stage : last;
    for (int i = 0; i < self->chain->output_count; ++i) {
        const chain_output *output = &self->chain->outputs[i];
        if (output->every_point && output->value != NO_VALUE && self->chain->values[output->value].stage > last)
            last = self->chain->values[output->value].stage;
    }
    return last + 1;
}

bool tuff__reduces_in(const emitter *self, int reduction, int pass)
{
    return self->chain->reductions[reduction].stage == pass && !self->chain->reductions[reduction].in_columns;
}
