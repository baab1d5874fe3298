/* The parameters of a model in one slab. Their places are decided once, at creation; everything that works on all of
   them at once (optimizer, norm, checkpoint) works on the slab. Parameters of rank 2 and more come first: they are the
   ones that decay, so that decay is a range of elements. */
#include <string.h>

#include "base/checked.h"
#include "train/train.h"

#define NAME_LENGTH_MAX 200

/* Names are those of tensors in a checkpoint, where the prefix optimizer. is the state's. */
static tuff_status check_name(const tuff_parameter_spec *specs, int index)
{
    const char *name = specs[index].name;
    if (!name || !name[0])
        return FAIL(TUFF_E_USAGE, "parameters: number %d has no name", index);
    if (strlen(name) > NAME_LENGTH_MAX)
        return FAIL(TUFF_E_LIMIT, "parameters: the name \"%.40s...\" is longer than %d bytes", name, NAME_LENGTH_MAX);
    if (strncmp(name, "optimizer.", 10) == 0)
        return FAIL(TUFF_E_USAGE,
                    "parameters: \"%s\": names that begin with optimizer. belong to the optimizer's state", name);
    for (int i = 0; i < index; i++)
        if (strcmp(specs[i].name, name) == 0)
            return FAIL(TUFF_E_USAGE, "parameters: the name \"%s\" is given twice", name);
    return TUFF_OK;
}

/* A slab is addressed by 32-bit indices on the device, and so is everything in it. */
static tuff_status check_count(const char *name, int64_t total)
{
    if (total > INT32_MAX - SLAB_CHUNK)
        return FAIL(TUFF_E_LIMIT, "parameters: with \"%s\" there are more than %d elements", name,
                    INT32_MAX - SLAB_CHUNK);
    return TUFF_OK;
}

static int64_t align_to(int64_t count, int64_t alignment)
{
    return (count + alignment - 1) / alignment * alignment;
}

/* Each begins where vectors may begin, so that no load of a parameter straddles two. */
static tuff_status place(tuff_parameters *self, int index, int *placed)
{
    parameter *item = &self->items[index];
    item->offset = align_to(self->total, SLAB_ALIGNMENT);
    TRY(check_count(item->name, item->count));
    self->total = item->offset + item->count;
    TRY(check_count(item->name, self->total));
    self->order[(*placed)++] = index;
    return TUFF_OK;
}

/* The total is a multiple of a chunk, for sums over the slab go in two even stages. */
static tuff_status place_all(tuff_parameters *self)
{
    int placed = 0;
    for (int i = 0; i < self->count; i++)
        if (self->items[i].shape.rank >= 2)
            TRY(place(self, i, &placed));
    self->decayed_total = align_to(self->total, SLAB_ALIGNMENT);
    for (int i = 0; i < self->count; i++)
        if (self->items[i].shape.rank < 2)
            TRY(place(self, i, &placed));
    self->total = self->total > 0 ? align_to(self->total, SLAB_CHUNK) : SLAB_CHUNK;
    return TUFF_OK;
}

static tuff_status copy_specs(tuff_parameters *self, const tuff_parameter_spec *specs, int count)
{
    self->items = tuff__calloc((size_t)count, sizeof *self->items);
    self->order = tuff__calloc((size_t)count, sizeof *self->order);
    if (!self->items || !self->order)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count; i++) {
        parameter *item = &self->items[i];
        TRY(check_name(specs, i));
        item->shape = specs[i].shape;
        item->count = item->shape.rank >= 0 && item->shape.rank <= TUFF_MAX_RANK ? tuff_shape_count(item->shape) : -1;
        if (item->count < 0)
            return FAIL(TUFF_E_SHAPE, "parameters: \"%s\" has no legal shape", specs[i].name);
        item->name = tuff__strdup(specs[i].name);
        if (!item->name)
            return TUFF_E_OOM_HOST;
        self->count = i + 1;
    }
    return TUFF_OK;
}

/* Parameters are views: training writes the slab, and they follow. */
static tuff_status make_arrays(tuff_parameters *self)
{
    self->slab = tuff_array_create(self->device, TUFF_F32, TUFF_SHAPE(self->total));
    if (!self->slab)
        return tuff__last_status();
    for (int i = 0; i < self->count; i++) {
        self->items[i].array = tuff_array_view(self->slab, self->items[i].offset, self->items[i].shape);
        if (!self->items[i].array)
            return tuff__last_status();
    }
    return TUFF_OK;
}

static tuff_status build(tuff_parameters *self, const tuff_parameter_spec *specs, int count)
{
    TRY(copy_specs(self, specs, count));
    TRY(place_all(self));
    return make_arrays(self);
}

tuff_parameters *tuff_parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count)
{
    if (!device || !specs || count <= 0) {
        FAIL(TUFF_E_USAGE, "parameters: needs a device and at least one parameter, got %d", specs ? count : 0);
        return NULL;
    }
    tuff_parameters *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->device = device;
    if (build(self, specs, count) != TUFF_OK) {
        tuff_parameters_destroy(self);
        return NULL;
    }
    return self;
}

void tuff_parameters_destroy(tuff_parameters *parameters)
{
    if (!parameters)
        return;
    for (int i = 0; i < parameters->count; i++) {
        tuff_array_destroy(parameters->items[i].array);
        tuff__free(parameters->items[i].name);
    }
    tuff_array_destroy(parameters->slab);
    tuff__free(parameters->items);
    tuff__free(parameters->order);
    tuff__free(parameters);
}

int tuff_parameters_count(const tuff_parameters *parameters)
{
    return parameters ? parameters->count : 0;
}

tuff_array *tuff_parameters_at(tuff_parameters *parameters, int index, const char **name)
{
    if (!parameters || index < 0 || index >= parameters->count)
        return NULL;
    if (name)
        *name = parameters->items[index].name;
    return parameters->items[index].array;
}

tuff_array *tuff_parameters_find(tuff_parameters *parameters, const char *name)
{
    for (int i = 0; name && i < tuff_parameters_count(parameters); i++)
        if (strcmp(parameters->items[i].name, name) == 0)
            return parameters->items[i].array;
    return NULL;
}
