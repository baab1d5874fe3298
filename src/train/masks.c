/* Masks: which parameters, and which of their rows, a step updates, as tensors of the graph that the program supplies.
   The masks of a slab range form one table, with an entry for every scalar mask and for every row of the others, in
   which each element finds its entry by a constant index. If rows are whole blocks, as the alignment of slabs makes
   usual, there is one index for each block of elements, which keeps the indices small. Called by step.c. */
#include "train/masks.h"

#include "base/text.h"
#include "train/slab.h"

/* The program may give any dtype; the mask is cast to bool. */
static tuff_status check_mask(const parameter *item, tuff_graph *graph, tuff_tensor **mask)
{
    if (tuff_tensor_graph(*mask) != graph)
        return FAIL(TUFF_E_USAGE, "optimizer: the mask of \"%s\" belongs to another graph", item->name);
    const tuff_shape shape = tuff_tensor_shape(*mask);
    const bool fits =
        shape.rank == 0 || (shape.rank == 1 && item->shape.rank > 0 && shape.extent[0] == item->shape.extent[0]);
    if (!fits)
        return FAIL(TUFF_E_SHAPE,
                    "optimizer: the mask of \"%s\" %s is %s: it must have rank 0 or one element for each row",
                    item->name, SHAPE_TEXT(item->shape), SHAPE_TEXT(shape));
    if (tuff_tensor_dtype(*mask) != TUFF_BOOL)
        *mask = tuff_cast(*mask, TUFF_BOOL);
    return TUFF_OK;
}

/* The program's function is called once, while the graph is built. It returns tensors, so what they select is decided
   on the device in every step. */
static tuff_status choose_masks(const tuff_optimizer *optimizer, tuff_graph *graph,
                                const tuff_optimizer_tensors *tensors, tuff_tensor *const *gradients,
                                tuff_tensor **masks)
{
    const tuff_parameters *parameters = optimizer->parameters;
    const tuff_update_choice choice = {.graph = graph,
                                       .tensors = tensors,
                                       .gradients = gradients,
                                       .masks = masks,
                                       .count = parameters->count,
                                       .group_count = parameters->group_count};
    TRY(optimizer->options.choose(optimizer->options.choose_user, &choice));
    for (int i = 0; i < parameters->count; i++) {
        const parameter *item = &parameters->items[i];
        tuff_tensor *const given = masks[i];
        if (!tuff__is_trained(optimizer, item))
            masks[i] = NULL;
        if (!masks[i])
            continue;
        TRY(check_mask(item, graph, &masks[i]));
        for (int j = i + 1; j < parameters->count; j++)
            if (masks[j] == given) /* keeps a shared mask shared */
                masks[j] = masks[i];
    }
    return TUFF_OK;
}

tuff_status tuff__choose_masks(const tuff_optimizer *optimizer, tuff_graph *graph,
                               const tuff_optimizer_tensors *tensors, tuff_tensor *const *gradients, tuff_tensor ***out)
{
    *out = tuff__calloc((size_t)optimizer->parameters->count, sizeof **out);
    return *out ? choose_masks(optimizer, graph, tensors, gradients, *out) : TUFF_E_OOM_HOST;
}

/* [rows] becomes [rows, 1, ...], which broadcasts along each row. */
tuff_tensor *tuff__broadcast_row_mask(tuff_tensor *mask, int rank)
{
    if (!mask || tuff_tensor_shape(mask).rank == 0)
        return mask;
    tuff_shape shape = {.rank = rank, .extent = {tuff_tensor_shape(mask).extent[0]}};
    for (int i = 1; i < rank; i++)
        shape.extent[i] = 1;
    return tuff_reshape(mask, shape);
}

/* State that the rows of a parameter share changes if any of them is updated. */
tuff_tensor *tuff__any_row_mask(tuff_tensor *mask)
{
    const int all = 0;
    if (!mask || tuff_tensor_shape(mask).rank == 0)
        return mask;
    return tuff_cast(tuff_reduce_max(tuff_cast(mask, TUFF_I32), &all, 1, false), TUFF_BOOL);
}

/* The distinct masks of the parameters of a slab range, joined to a table. */
typedef struct mask_table {
    const tuff_optimizer *optimizer;
    const slab_range *slab_range;
    tuff_tensor *const *masks; /* by parameter */
    tuff_tensor **parts;       /* constant true for parameters without a mask, then the distinct masks */
    int32_t *begins;           /* by part: index of its first entry in the table */
    int part_count;
    int64_t entry_count;
    int64_t block; /* elements of a slab that share an entry */
    int32_t *entries;
} mask_table;

static bool is_in_slab_range(const mask_table *self, const parameter *item)
{
    return item->count > 0 && item->offset >= self->slab_range->begin && item->offset < self->slab_range->end;
}

static const parameter *parameter_at(const mask_table *self, int at)
{
    return &self->optimizer->parameters->items[self->optimizer->parameters->order[at]];
}

static tuff_tensor *mask_at(const mask_table *self, int at)
{
    return self->masks[self->optimizer->parameters->order[at]];
}

static int64_t entries_of(tuff_tensor *mask)
{
    return tuff_shape_count(tuff_tensor_shape(mask));
}

/* Searches one by one: programs have few distinct masks, often a single one. */
static int find_part(const mask_table *self, tuff_tensor *mask)
{
    int index = self->part_count - 1;
    while (index >= 0 && self->parts[index] != mask)
        index--;
    return index;
}

static void add_part(mask_table *self, tuff_tensor *mask)
{
    if (find_part(self, mask) >= 0)
        return;
    self->parts[self->part_count] = mask;
    self->begins[self->part_count++] = (int32_t)self->entry_count;
    self->entry_count += entries_of(mask);
}

/* If the rows of some mask are not multiples of SLAB_ALIGNMENT elements, blocks have one element. */
static void add_parts(mask_table *self)
{
    const parameter_slab *slab = &self->optimizer->parameters->slabs[self->slab_range->slab];
    self->block = SLAB_ALIGNMENT;
    for (int i = slab->first; i < slab->last; i++) {
        const parameter *item = parameter_at(self, i);
        tuff_tensor *mask = mask_at(self, i);
        if (!is_in_slab_range(self, item) || !mask)
            continue;
        add_part(self, mask);
        const int64_t rows = entries_of(mask);
        if (tuff_tensor_shape(mask).rank > 0 && item->count / rows % SLAB_ALIGNMENT != 0)
            self->block = 1;
    }
}

/* Rows are whole blocks (add_parts), so a block's first element tells its row. */
static void set_entries(const mask_table *self, const parameter *item, tuff_tensor *mask)
{
    const bool by_row = tuff_tensor_shape(mask).rank > 0;
    const int64_t row = by_row ? item->count / entries_of(mask) : item->count;
    const int64_t first = (item->offset - self->slab_range->begin) / self->block;
    const int32_t begin = self->begins[find_part(self, mask)];
    for (int64_t i = 0; i * self->block < item->count; i++)
        self->entries[first + i] = begin + (int32_t)(i * self->block / row);
}

/* Elements in gaps between parameters keep entry 0, the constant true. They are zero, and updates leave them so. */
static tuff_tensor *gather_mask(mask_table *self)
{
    const parameter_slab *slab = &self->optimizer->parameters->slabs[self->slab_range->slab];
    const int64_t elements = self->slab_range->end - self->slab_range->begin, blocks = elements / self->block;
    tuff_graph *graph = tuff_tensor_graph(self->parts[1]);
    self->entries = tuff__calloc((size_t)blocks, sizeof *self->entries);
    if (!self->entries)
        return NULL;
    for (int i = slab->first; i < slab->last; i++)
        if (is_in_slab_range(self, parameter_at(self, i)) && mask_at(self, i))
            set_entries(self, parameter_at(self, i), mask_at(self, i));
    for (int i = 0; i < self->part_count; i++)
        self->parts[i] = tuff_reshape(self->parts[i], TUFF_SHAPE(entries_of(self->parts[i])));
    tuff_tensor *table = tuff_cast(tuff_concat(self->parts, self->part_count, 0), TUFF_I32);
    tuff_tensor *gathered =
        tuff_gather(table, tuff_constant_data(graph, TUFF_I32, TUFF_SHAPE(blocks), self->entries), 0);
    gathered = tuff_expand(tuff_reshape(gathered, TUFF_SHAPE(blocks, 1)), TUFF_SHAPE(blocks, self->block));
    return tuff_cast(tuff_reshape(gathered, TUFF_SHAPE(elements)), TUFF_BOOL);
}

/* Returns NULL if nothing is masked, and the mask itself if all parameters have the same scalar one. Sets *status if
   out of memory. */
static tuff_tensor *make_mask(mask_table *self, tuff_status *status)
{
    const parameter_slab *slab = &self->optimizer->parameters->slabs[self->slab_range->slab];
    bool all = true;
    add_parts(self);
    for (int i = slab->first; i < slab->last; i++)
        all = all && (!is_in_slab_range(self, parameter_at(self, i)) || mask_at(self, i));
    if (self->part_count == 1)
        return NULL;
    if (all && self->part_count == 2 && tuff_tensor_shape(self->parts[1]).rank == 0)
        return self->parts[1];
    tuff_tensor *mask = gather_mask(self);
    if (!mask)
        *status = TUFF_E_OOM_HOST;
    return mask;
}

tuff_status tuff__slab_range_mask(const tuff_optimizer *optimizer, const slab_range *range, tuff_tensor *const *masks,
                                  tuff_tensor **out)
{
    const size_t capacity = (size_t)optimizer->parameters->count + 1;
    mask_table self = {.optimizer = optimizer, .slab_range = range, .masks = masks};
    tuff_tensor *any = NULL;
    *out = NULL;
    for (int i = 0; i < optimizer->parameters->count; i++)
        any = masks[i] ? masks[i] : any;
    if (!any)
        return TUFF_OK;
    tuff_status status = TUFF_OK;
    self.parts = tuff__calloc(capacity, sizeof(tuff_tensor *));
    self.begins = tuff__calloc(capacity, sizeof *self.begins);
    if (self.parts && self.begins) {
        add_part(&self, tuff_cast(tuff_constant(tuff_tensor_graph(any), TUFF_I32, 1), TUFF_BOOL));
        *out = make_mask(&self, &status);
    } else {
        status = TUFF_E_OOM_HOST;
    }
    tuff__free(self.parts);
    tuff__free(self.begins);
    tuff__free(self.entries);
    return status;
}
