/* Slabs in graphs: joined from parts, which the compiler writes directly to their place, and cut into parts, which are
   views. */
#include "train/slab.h"

/* After a failure nothing more is added, and tuff__slab_join returns NULL, so that callers check once. */
static void append_part(slab_builder *self, tuff_tensor *part)
{
    if (!self->failed && GROW(self->parts, self->count, self->capacity))
        self->parts[self->count++] = part;
    else
        self->failed = true;
}

/* Gaps are zeros here as in the parameters' slab, where updates rely on that. */
static void fill_to(slab_builder *self, int64_t at)
{
    if (at > self->end)
        append_part(self, tuff_expand(tuff_constant(self->graph, TUFF_F32, 0), TUFF_SHAPE(at - self->end)));
    self->end = at;
}

void tuff__slab_add(slab_builder *self, tuff_tensor *part, int64_t at, int64_t count)
{
    if (count == 0)
        return;
    fill_to(self, at);
    append_part(self, tuff_reshape(part, TUFF_SHAPE(count)));
    self->end = at + count;
}

tuff_tensor *tuff__slab_join(slab_builder *self, int64_t total)
{
    fill_to(self, total);
    tuff_tensor *joined = self->failed ? NULL : tuff_concat(self->parts, self->count, 0);
    tuff__free(self->parts);
    *self = (slab_builder){.graph = self->graph};
    return joined;
}

/* A slice of the whole slab would only be one more node. */
tuff_tensor *tuff__slab_part(tuff_tensor *slab, int64_t at, tuff_shape shape)
{
    const int64_t count = tuff_shape_count(shape), stop = at + count;
    if (count != tuff_shape_count(tuff_tensor_shape(slab)))
        slab = tuff_slice(slab, &at, &stop, NULL);
    return tuff_reshape(slab, shape);
}
