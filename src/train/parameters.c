/* The parameters of a model in one slab, or in as few as the device's bindings allow. The layout is fixed at creation;
   everything that works on all parameters at once (optimizer, norm, checkpoint) works on slabs. Parameters that are
   treated alike are adjacent: group by group, and in each the parameters of rank >= 2, which decay, before the others,
   so that decay and rates apply to ranges of elements. */
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "train/train.h"

#define NAME_LENGTH_MAX 200

/* Names are those of tensors in a checkpoint, where the prefix "optimizer." is reserved for the state. */
static tuff_status check_name(const tuff_parameter_spec *specs, int index)
{
    const char *name = specs[index].name;
    if (!name || !name[0])
        return FAIL(TUFF_E_USAGE, "parameters: parameter %d has no name", index);
    if (strlen(name) > NAME_LENGTH_MAX)
        return FAIL(TUFF_E_LIMIT, "parameters: the name \"%.40s...\" is longer than %d bytes", name, NAME_LENGTH_MAX);
    if (strncmp(name, "optimizer.", 10) == 0)
        return FAIL(TUFF_E_USAGE,
                    "parameters: \"%s\": names that begin with \"optimizer.\" are reserved for the optimizer's state",
                    name);
    if (tuff__safetensors_check_name(name) != TUFF_OK)
        return FAIL(tuff_last_status(), "parameters: parameter %d: %s", index, tuff_error());
    for (int i = 0; i < index; i++)
        if (strcmp(specs[i].name, name) == 0)
            return FAIL(TUFF_E_USAGE, "parameters: the name \"%s\" is given twice", name);
    return TUFF_OK;
}

static int64_t align_to(int64_t count, int64_t alignment)
{
    return tuff__divide_up(count, alignment) * alignment;
}

/* Returns the most elements of a slab: it is addressed with 32-bit indices on the device, and must fit one binding. */
static int64_t slab_limit(tuff_device *device)
{
    tuff_device_info info;
    int64_t limit = INT32_MAX - SLAB_CHUNK;
    if (tuff_device_describe(device, &info) != TUFF_OK)
        return limit;
    const uint64_t size = info.max_binding < info.max_allocation ? info.max_binding : info.max_allocation;
    if (size / sizeof(float) < (uint64_t)limit)
        limit = (int64_t)(size / sizeof(float));
    return limit / SLAB_CHUNK * SLAB_CHUNK;
}

/* Closes the last slab, if there is one. */
static void close_slab(tuff_parameters *self, int placed)
{
    if (self->slab_count == 0)
        return;
    parameter_slab *last = &self->slabs[self->slab_count - 1];
    last->total = last->total > 0 ? align_to(last->total, SLAB_CHUNK) : SLAB_CHUNK;
    last->last = placed;
    last->region_end = self->region_count;
    if (last->region_end > last->region)
        self->regions[last->region_end - 1].end = last->total;
}

/* `placed` counts the parameters placed so far: those of the new slab begin there in `order`. */
static tuff_status open_slab(tuff_parameters *self, int placed)
{
    close_slab(self, placed);
    if (!GROW(self->slabs, self->slab_count, self->slab_capacity))
        return TUFF_E_OOM_HOST;
    self->slabs[self->slab_count++] = (parameter_slab){.first = placed, .region = self->region_count};
    return TUFF_OK;
}

/* Begins a region at the end of the last slab. A new group is aligned to a chunk, so that norms of groups are sums of
   whole chunks and a frozen group can be cut off. */
static tuff_status open_region(tuff_parameters *self, int group, bool matrices)
{
    parameter_slab *into = &self->slabs[self->slab_count - 1];
    region *before = self->region_count > into->region ? &self->regions[self->region_count - 1] : NULL;
    into->total = align_to(into->total, before && before->group != group ? SLAB_CHUNK : SLAB_ALIGNMENT);
    if (before)
        before->end = into->total;
    if (!GROW(self->regions, self->region_count, self->region_capacity))
        return TUFF_E_OOM_HOST;
    self->regions[self->region_count++] =
        (region){.slab = self->slab_count - 1, .group = group, .has_matrices = matrices, .begin = into->total};
    return TUFF_OK;
}

/* Places a parameter: entirely in one slab, and aligned so that no vector load straddles two parameters. */
static tuff_status place_parameter(tuff_parameters *self, int index, int64_t limit, int *placed)
{
    parameter *item = &self->items[index];
    const bool matrix = item->shape.rank >= 2;
    if (item->count > limit)
        return FAIL(TUFF_E_LIMIT, "parameters: \"%s\" %s has more than the %lld elements that the device can bind",
                    item->name, SHAPE_TEXT(item->shape), (long long)limit);
    parameter_slab *into = &self->slabs[self->slab_count - 1];
    bool begins = self->region_count == into->region || self->regions[self->region_count - 1].group != item->group ||
                  self->regions[self->region_count - 1].has_matrices != matrix;
    if (align_to(into->total, begins ? SLAB_CHUNK : SLAB_ALIGNMENT) + item->count > limit && into->total > 0) {
        TRY(open_slab(self, *placed));
        begins = true;
    }
    if (begins)
        TRY(open_region(self, item->group, matrix));
    into = &self->slabs[self->slab_count - 1];
    item->slab = self->slab_count - 1;
    item->region = self->region_count - 1;
    item->offset = align_to(into->total, SLAB_ALIGNMENT);
    into->total = item->offset + item->count;
    self->order[(*placed)++] = index;
    return TUFF_OK;
}

static tuff_status place_all(tuff_parameters *self, int64_t limit)
{
    int placed = 0;
    TRY(open_slab(self, 0));
    for (int group = 0; group < self->group_count; group++)
        for (int low_rank = 0; low_rank < 2; low_rank++)
            for (int i = 0; i < self->count; i++)
                if (self->items[i].group == group && (self->items[i].shape.rank < 2) == (low_rank == 1))
                    TRY(place_parameter(self, i, limit, &placed));
    close_slab(self, placed);
    return TUFF_OK;
}

/* Whether a name matches a pattern from part up to end. After a mismatch, retries from the last star, one character
   later. */
static bool matches_part(const char *part, const char *end, const char *name)
{
    const char *star = NULL, *retry = NULL;
    while (*name) {
        if (part < end && *part == '*') {
            star = ++part;
            retry = name;
        } else if (part < end && *part == *name) {
            part++;
            name++;
        } else if (star) {
            part = star;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (part < end && *part == '*')
        part++;
    return part == end;
}

bool tuff__name_matches(const char *pattern, const char *name)
{
    for (const char *part = pattern;; part++) {
        const char *end = part + strcspn(part, ",");
        if (matches_part(part, end, name))
            return true;
        if (!*end)
            return false;
        part = end;
    }
}

static tuff_status choose_groups(tuff_parameters *self, const char *const *patterns, int pattern_count)
{
    if (pattern_count < 0 || pattern_count >= TUFF_MAX_GROUPS || (pattern_count > 0 && !patterns))
        return FAIL(TUFF_E_USAGE,
                    "parameters: pattern_count %d must be between 0 and %d, and patterns must not be NULL",
                    pattern_count, TUFF_MAX_GROUPS - 1);
    self->group_count = 1 + pattern_count;
    for (int group = pattern_count; group > 0; group--) { /* in reverse, so that the first match wins */
        bool any = false;
        for (int i = 0; i < self->count && patterns[group - 1]; i++)
            if (tuff__name_matches(patterns[group - 1], self->items[i].name)) {
                self->items[i].group = group;
                any = true;
            }
        if (!any)
            return FAIL(TUFF_E_USAGE, "parameters: no name matches the pattern \"%.200s\"",
                        patterns[group - 1] ? patterns[group - 1] : "NULL");
    }
    return TUFF_OK;
}

/* The count grows with each name, so that tuff_parameters_destroy can free a set that is incomplete. */
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
            return FAIL(TUFF_E_SHAPE, "parameters: \"%s\" has an invalid shape", specs[i].name);
        item->name = tuff__strdup(specs[i].name);
        if (!item->name)
            return TUFF_E_OOM_HOST;
        self->count = i + 1;
    }
    return TUFF_OK;
}

/* Parameters are views of the slabs, which training updates. */
static tuff_status make_arrays(tuff_parameters *self)
{
    for (int i = 0; i < self->slab_count; i++) {
        self->slabs[i].array = tuff_array_create(self->device, TUFF_F32, TUFF_SHAPE(self->slabs[i].total));
        if (!self->slabs[i].array)
            return tuff_last_status();
    }
    for (int i = 0; i < self->count; i++) {
        parameter *item = &self->items[i];
        item->array = tuff_array_view(self->slabs[item->slab].array, item->offset, item->shape);
        if (!item->array)
            return tuff_last_status();
    }
    return TUFF_OK;
}

/* Lays out the parameters that copy_specs recorded, and allocates them. On failure, destroys the set and returns
   NULL. */
static tuff_parameters *lay_out_and_allocate(tuff_parameters *self, tuff_status status, int64_t limit)
{
    if (status == TUFF_OK)
        status = place_all(self, limit);
    if (status == TUFF_OK)
        status = make_arrays(self);
    if (status == TUFF_OK)
        return self;
    tuff_parameters_destroy(self);
    return NULL;
}

tuff_parameters *tuff__parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count,
                                         const char *const *patterns, int pattern_count, int64_t limit)
{
    tuff_parameters *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->device = device;
    tuff_status status = copy_specs(self, specs, count);
    if (status == TUFF_OK)
        status = choose_groups(self, patterns, pattern_count);
    return lay_out_and_allocate(self, status, limit);
}

/* Copies the numbers of the groups, because the patterns that chose them are not kept. */
tuff_parameters *tuff__parameters_like(const tuff_parameters *source)
{
    tuff_parameter_spec *specs = tuff__calloc((size_t)source->count, sizeof *specs);
    tuff_parameters *self = specs ? tuff__calloc(1, sizeof *self) : NULL;
    if (self) {
        for (int i = 0; i < source->count; i++)
            specs[i] = (tuff_parameter_spec){source->items[i].name, source->items[i].shape};
        self->device = source->device;
        self->group_count = source->group_count;
        const tuff_status status = copy_specs(self, specs, source->count);
        for (int i = 0; i < self->count; i++)
            self->items[i].group = source->items[i].group;
        self = lay_out_and_allocate(self, status, slab_limit(source->device));
    }
    tuff__free(specs);
    return self;
}

tuff_parameters *tuff_parameters_create_grouped(tuff_device *device, const tuff_parameter_spec *specs, int count,
                                                const char *const *patterns, int pattern_count)
{
    if (!device || !specs || count <= 0) {
        FAIL(TUFF_E_USAGE, "parameters: needs a device and at least one parameter, got %d", specs ? count : 0);
        return NULL;
    }
    return tuff__parameters_create(device, specs, count, patterns, pattern_count, slab_limit(device));
}

tuff_parameters *tuff_parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count)
{
    return tuff_parameters_create_grouped(device, specs, count, NULL, 0);
}

void tuff_parameters_destroy(tuff_parameters *parameters)
{
    if (!parameters)
        return;
    for (int i = 0; i < parameters->count; i++) {
        tuff_array_destroy(parameters->items[i].array);
        tuff__free(parameters->items[i].name);
    }
    for (int i = 0; i < parameters->slab_count; i++)
        tuff_array_destroy(parameters->slabs[i].array);
    tuff__free(parameters->slabs);
    tuff__free(parameters->regions);
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
