/* What all files that write a chain (emit*.c) share: the kernel's parameters and the reductions of each pass. */
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

bool tuff__reduces_in(const emitter *self, int reduction, int pass)
{
    return self->chain->reductions[reduction].stage == pass && !self->chain->reductions[reduction].in_columns;
}
