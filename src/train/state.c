/* The training state as named tensors. Slabs and their padding are not part of it, so that other programs can read a
   checkpoint and the layout may change. */
#include "train/state.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Frozen parameters are in none: they have no state. */
const slab_range *tuff__find_slab_range(const tuff_optimizer *optimizer, const parameter *item)
{
    for (int i = 0; i < optimizer->slab_range_count && tuff__is_trained(optimizer, item); i++) {
        const slab_range *range = &optimizer->slab_ranges[i];
        if (range->slab == item->slab && item->offset >= range->begin && item->offset + item->count <= range->end)
            return range;
    }
    return NULL;
}

int64_t tuff__aligned_count(tuff_shape shape)
{
    return tuff__divide_up(tuff_shape_count(shape), SLAB_ALIGNMENT) * SLAB_ALIGNMENT;
}

int64_t tuff__factors_size(const slab_range *range, const parameter *item)
{
    state_part parts[STATE_PARTS_MAX];
    int64_t size = 0;
    if (!range->rule->state_parts || item->count == 0 || item->slab != range->slab || item->offset < range->begin ||
        item->offset >= range->end)
        return 0;
    const int count = range->rule->state_parts(item, parts);
    for (int i = 0; i < count; i++)
        size += tuff__aligned_count(parts[i].shape);
    return size;
}

/* Summed anew for every parameter, since the state is listed once for each save. */
int64_t tuff__factors_offset(const tuff_optimizer *optimizer, const slab_range *range, int index)
{
    const tuff_parameters *parameters = optimizer->parameters;
    int64_t offset = 0;
    for (int i = parameters->slabs[range->slab].first; parameters->order[i] != index; i++)
        offset += tuff__factors_size(range, &parameters->items[parameters->order[i]]);
    return offset;
}

/* Returns the host copy of an array, allocated on first use; NULL if out of memory. */
static char *get_host_copy(state_list *self, tuff_array *array)
{
    for (int i = 0; i < self->array_count; i++)
        if (self->arrays[i].array == array)
            return self->arrays[i].host;
    if (!GROW(self->arrays, self->array_count, self->array_capacity))
        return NULL;
    char *host = tuff__calloc((size_t)tuff_array_size(array), 1);
    if (host)
        self->arrays[self->array_count++] = (state_array){.array = array, .host = host};
    return host;
}

/* Adds "optimizer.KIND.NAME"; kind or name may be NULL. Without kind, the name is just NAME. */
static tuff_status add_tensor(state_list *self, const char *kind, const char *name, tuff_array *array, int64_t offset,
                              tuff_shape shape)
{
    const tuff_dtype dtype = tuff_array_dtype(array);
    char *host = get_host_copy(self, array);
    const size_t size = 16 + (kind ? strlen(kind) : 0) + (name ? strlen(name) : 0);
    char *full_name = tuff__arena_alloc(&self->arena, size);
    if (!host || !full_name || !GROW(self->tensors, self->tensor_count, self->tensor_capacity))
        return TUFF_E_OOM_HOST;
    snprintf(full_name, size, "%s%s%s%s", kind ? "optimizer." : "", kind ? kind : "", kind && name ? "." : "",
             name ? name : "");
    self->tensors[self->tensor_count++] = (state_tensor){
        .name = full_name, .dtype = dtype, .shape = shape, .data = host + (size_t)offset * tuff_dtype_size(dtype)};
    return TUFF_OK;
}

static tuff_status add_parameter_state(state_list *self, const tuff_optimizer *optimizer, int index)
{
    const parameter *item = &optimizer->parameters->items[index];
    const slab_range *range = tuff__find_slab_range(optimizer, item);
    state_part parts[STATE_PARTS_MAX];
    if (!range)
        return TUFF_OK;
    for (int i = 0; i < MOMENTS_MAX && range->moments[i]; i++)
        TRY(add_tensor(self, range->rule->moments[i], item->name, range->moments[i], item->offset - range->begin,
                       item->shape));
    if (range->average)
        TRY(add_tensor(self, "average", item->name, range->average, item->offset - range->begin, item->shape));
    if (!range->factors || item->count == 0)
        return TUFF_OK;
    int64_t offset = tuff__factors_offset(optimizer, range, index);
    const int count = range->rule->state_parts(item, parts);
    for (int i = 0; i < count; i++) {
        TRY(add_tensor(self, parts[i].name, item->name, range->factors, offset, parts[i].shape));
        offset += tuff__aligned_count(parts[i].shape);
    }
    return TUFF_OK;
}

static tuff_status add_scalars(state_list *self, const tuff_optimizer *optimizer)
{
    TRY(add_tensor(self, "step", NULL, optimizer->counter, 0, TUFF_SCALAR));
    if (optimizer->batches)
        TRY(add_tensor(self, "batches", NULL, optimizer->batches, 0, TUFF_SCALAR));
    if (optimizer->rate)
        TRY(add_tensor(self, "rate", NULL, optimizer->rate, 0, TUFF_SCALAR));
    if (!optimizer->scale)
        return TUFF_OK;
    TRY(add_tensor(self, "loss_scale", NULL, optimizer->scale, 0, TUFF_SCALAR));
    return add_tensor(self, "loss_scale_counts", NULL, optimizer->scale_counts, 0, TUFF_SHAPE(3));
}

/* The caller frees the list also after a failure. */
tuff_status tuff__list_state(tuff_parameters *parameters, tuff_optimizer *optimizer, state_list *out)
{
    *out = (state_list){0};
    for (int i = 0; i < parameters->count; i++) {
        const parameter *item = &parameters->items[i];
        TRY(add_tensor(out, NULL, item->name, parameters->slabs[item->slab].array, item->offset, item->shape));
        if (optimizer)
            TRY(add_parameter_state(out, optimizer, i));
    }
    return optimizer ? add_scalars(out, optimizer) : TUFF_OK;
}

void tuff__state_free(state_list *self)
{
    for (int i = 0; i < self->array_count; i++)
        tuff__free(self->arrays[i].host);
    tuff__free(self->arrays);
    tuff__free(self->tensors);
    tuff__arena_free(&self->arena);
    *self = (state_list){.arrays = NULL};
}

/* One transfer for each array instead of each tensor: a slab holds many. */
tuff_status tuff__state_read(state_list *self)
{
    for (int i = 0; i < self->array_count; i++)
        TRY(tuff_array_read(self->arrays[i].array, self->arrays[i].host,
                            (size_t)tuff_array_size(self->arrays[i].array)));
    return TUFF_OK;
}

tuff_status tuff__state_write(state_list *self)
{
    for (int i = 0; i < self->array_count; i++)
        TRY(tuff_array_write(self->arrays[i].array, self->arrays[i].host,
                             (size_t)tuff_array_size(self->arrays[i].array)));
    return TUFF_OK;
}
