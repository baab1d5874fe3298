/* Prefetching while a device computes. The passes over a row after the first find it in a near cache and would leave
   memory idle, so each of them prefetches its share of the next row. A matmul's tile prefetches what its epilogue reads
   before it starts on its terms; prefetching what it writes gained nothing. */
#include "base/alloc.h"
#include "kernels/emit_value.h"

/* Returns the innermost axis that counts rows; -1 if there is only one row. */
static int row_axis(const fused_chain *chain)
{
    for (int i = chain->rank - 1; i >= 0; --i)
        if (chain->classes[i] == AXIS_OUTER && chain->extent[i] > 1)
            return i;
    return -1;
}

/* Whether the load is unguarded and contiguous along the vector axis, and its rows do not overlap. */
static bool is_worth_prefetching(const emitter *self, const chain_value *value, int axis)
{
    return value->kind == VALUE_LOAD && value->guard == NO_VALUE && value->address.stride[self->vector_axis] == 1 &&
           value->address.stride[axis] >= self->chain->extent[self->vector_axis];
}

void tuff__emit_prefetch(emitter *self, int pass)
{
    const fused_chain *chain = self->chain;
    const int axis = row_axis(chain), shares = tuff__chain_pass_count(chain) - 1;
    if (!self->prefetches || axis < 0 || pass == 0)
        return;
    text *out = &self->texts->vector, *before = &self->texts->clear;
    bool open = false;
    for (int i = 0; i < chain->value_count; ++i) {
        const chain_value *value = &chain->values[i];
        if (!is_worth_prefetching(self, value, axis))
            continue;
        const int64_t ahead = value->address.stride[axis];
        const int64_t share = (chain->extent[self->vector_axis] + shares - 1) / shares;
        if (!open && shares > 1) {
            tuff__text_add(before, "const int share%d = PARAM(%d), from%d = share%d * %d;\n", pass,
                           tuff__emit_parameter(self, share), pass, pass, pass - 1);
            tuff__text_add(out, "if (ULESS_1(I_TO_U_1(i - from%d), I_TO_U_1(share%d))) {\n", pass, pass);
        }
        open = true;
        tuff__text_add(before, "const int ahead%d_%d = PARAM(%d);\n", i, pass, tuff__emit_parameter(self, ahead));
        tuff__text_add(out, "PREFETCH(b%d, %s + ahead%d_%d);\n", value->buffer,
                       tuff__emit_address(self, i, &value->address, value->buffer).text, i, pass);
    }
    if (open && shares > 1)
        tuff__text_add(out, "}\n");
}

/* Marks the values that the outputs depend on. */
static void mark_needed(const fused_chain *chain, bool *needed)
{
    for (int i = 0; i < chain->output_count; ++i)
        if (chain->outputs[i].value != NO_VALUE)
            needed[chain->outputs[i].value] = true;
    for (int i = chain->value_count - 1; i >= 0; --i) {
        const chain_value *value = &chain->values[i];
        for (int k = 0; k < 3 && needed[i] && value->args[k] != NO_VALUE; ++k)
            needed[value->args[k]] = true;
    }
}

void tuff__emit_epilogue_prefetch(emitter *self)
{
    const fused_chain *chain = self->chain;
    const int row = self->vector_axis - 1;
    bool *needed = tuff__calloc((size_t)chain->value_count + 1, sizeof *needed);
    if (needed == NULL) {
        self->status = TUFF_E_OOM_HOST;
        return;
    }
    mark_needed(chain, needed);
    for (int i = 0; i < chain->value_count; ++i) {
        const chain_value *value = &chain->values[i];
        if (needed[i] && is_worth_prefetching(self, value, row))
            tuff__text_add(&self->texts->prefetch, "PREFETCH(b%d, %s);\n", value->buffer,
                           tuff__emit_address(self, i, &value->address, value->buffer).text);
    }
    tuff__free(needed);
}
