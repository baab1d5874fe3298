/* Weights as views of the memory in which they lie, and runs of neighbouring weights as a single view. Parameters in
   one slab, and slices of one matrix, are such neighbours. */
#include "compile/rewrite/matmul_merge.h"

#include "compile/rewrite/simplify.h"

/* Follows views, and casts from f16 and bf16, back to memory. Steps are applied while the recursion unwinds. */
static bool descend(const node *at, factor *out)
{
    if (tuff__op_is_view(at->op)) {
        const path step = tuff__path_of(at, NULL);
        return at->op != OP_EXPAND && descend(at->inputs[0]->node, out) && tuff__view_apply(&out->place, &step);
    }
    const tuff_dtype from = at->op == OP_CAST ? at->inputs[0]->dtype : TUFF_F32;
    if (from == TUFF_F16 || from == TUFF_BF16)
        return at->outputs[0].dtype == TUFF_F32 && descend(at->inputs[0]->node, out);
    out->base = at;
    out->place = tuff__view_contiguous(at->outputs[0].shape);
    if (at->op == OP_ARRAY)
        out->place.offset = (int64_t)(at->attributes.array->offset / tuff_dtype_size(at->outputs[0].dtype));
    return at->op != OP_CONSTANT;
}

bool tuff__factor_of(const tuff_tensor *operand, factor *out)
{
    *out = (factor){.dtype = operand->dtype};
    if (operand->shape.rank != 2 || operand->shape.extent[0] < 2 || operand->shape.extent[1] < 2 ||
        !descend(operand->node, out))
        return false;
    const view *place = &out->place;
    const int unit = place->stride[1] == 1 ? 1 : 0, pitch = 1 - unit;
    return place->stride[unit] == 1 && place->stride[pitch] >= place->extent[unit];
}

static const storage *memory_of(const factor *operand)
{
    return operand->base->op == OP_ARRAY ? operand->base->attributes.array->storage : NULL;
}

static bool share_memory(const factor *a, const factor *b)
{
    return a->base == b->base || (memory_of(a) != NULL && memory_of(a) == memory_of(b));
}

/* Orders factors by the oldest base in the same memory, then by their offset in it. */
static bool comes_before(const factor *factors, const int *memory, int a, int b)
{
    return memory[a] != memory[b] ? memory[a] < memory[b] : factors[a].place.offset < factors[b].place.offset;
}

void tuff__sort_factors(factor *factors, node **members, int count)
{
    int memory[MAX_FACTORS];
    for (int i = 0; i < count; ++i) {
        memory[i] = factors[i].base->id;
        for (int k = 0; k < count; ++k)
            if (share_memory(&factors[i], &factors[k]) && factors[k].base->id < memory[i])
                memory[i] = factors[k].base->id;
    }
    for (int i = 1; i < count; ++i)
        for (int k = i; k > 0 && comes_before(factors, memory, k, k - 1); --k) {
            const factor later = factors[k - 1];
            node *member = members[k - 1];
            const int place = memory[k - 1];
            factors[k - 1] = factors[k];
            members[k - 1] = members[k];
            memory[k - 1] = memory[k];
            factors[k] = later;
            members[k] = member;
            memory[k] = place;
        }
}

/* Returns the number of elements from the start of one line to the start of the next. */
static int64_t pitch_of(const factor *operand)
{
    return operand->place.stride[1] == 1 ? operand->place.stride[0] : operand->place.stride[1];
}

/* Whether both factors lie in the same memory, with the same dtypes and strides. */
static bool are_alike(const factor *a, const factor *b)
{
    return share_memory(a, b) && a->base->outputs[0].dtype == b->base->outputs[0].dtype && a->dtype == b->dtype &&
           a->place.stride[0] == b->place.stride[0] && a->place.stride[1] == b->place.stride[1];
}

/* Returns how many factors follow each other: each begins along `axis` where the one before it ends, and no line
   reaches into the next. Overlapping rows are not neighbours. */
int tuff__run_along(const factor *factors, int count, int axis)
{
    int run = 1;
    int64_t width = factors->place.extent[axis];
    for (; run < count && run < MAX_MERGED; ++run) {
        const view *a = &factors[run - 1].place, *b = &factors[run].place;
        width += b->extent[axis];
        if ((a->stride[axis] == 1 && width > pitch_of(factors)) || !are_alike(&factors[run - 1], &factors[run]) ||
            a->extent[1 - axis] != b->extent[1 - axis] || b->offset != a->offset + a->extent[axis] * a->stride[axis])
            break;
    }
    return run;
}

static int64_t lines_of(const factor *operand)
{
    return operand->place.stride[1] == 1 ? operand->place.extent[0] : operand->place.extent[1];
}

int tuff__run_of_stack(const factor *factors, int count)
{
    int run = 1;
    const int64_t distance = count > 1 ? factors[1].place.offset - factors[0].place.offset : 0;
    if (distance < lines_of(factors) * pitch_of(factors))
        return 1;
    for (; run < count && run < MAX_MERGED; ++run) {
        const view *a = &factors[run - 1].place, *b = &factors[run].place;
        if (!are_alike(&factors[run - 1], &factors[run]) || a->extent[0] != b->extent[0] ||
            a->extent[1] != b->extent[1] || b->offset != a->offset + distance)
            break;
    }
    return run;
}

/* Returns elements start .. start + length - 1 of the base's memory as a vector; NULL if the memory ends before, or the
   vector is too large. */
static tuff_tensor *buffer_region(rewriting *self, const factor *operand, int64_t start, int64_t length)
{
    const node *base = operand->base;
    const int64_t size = (int64_t)tuff_dtype_size(base->outputs[0].dtype);
    const int64_t whole = base->op == OP_ARRAY ? (int64_t)tuff__storage_size(memory_of(operand)) / size
                                               : tuff_shape_count(base->outputs[0].shape);
    if (start < 0 || start + length > whole || length > INT32_MAX / 8 ||
        (uint64_t)(length * size) > self->target.info->max_binding)
        return NULL;
    if (base->op != OP_ARRAY) {
        tuff_tensor *flat = tuff_reshape((tuff_tensor *)&base->outputs[0], TUFF_SHAPE(whole));
        return tuff_slice(flat, &start, (int64_t[]){start + length}, NULL);
    }
    return tuff__array_range(self->graph, base->attributes.array, (uint64_t)(start * size), length);
}

/* Returns [count, lines, width]: lines `pitch` apart in blocks `distance` apart, from the operand's offset on; NULL if
   there is no such view. If the last line would reach beyond the memory, all lines begin a little earlier, and these
   elements are sliced off. */
static tuff_tensor *strided_view(rewriting *self, const factor *operand, int count, int64_t distance, int64_t lines,
                                 int64_t width)
{
    const int64_t pitch = pitch_of(operand), length = (count - 1) * distance + lines * pitch;
    int64_t before = 0;
    tuff_tensor *flat = buffer_region(self, operand, operand->place.offset, count > 1 ? count * distance : length);
    if (flat == NULL) {
        before = pitch - width < operand->place.offset ? pitch - width : operand->place.offset;
        flat = buffer_region(self, operand, operand->place.offset - before, count > 1 ? count * distance : length);
    }
    if (flat == NULL)
        return NULL;
    if (count > 1) {
        flat = tuff_reshape(flat, TUFF_SHAPE(count, distance));
        flat = tuff_slice(flat, (int64_t[]){0, 0}, (int64_t[]){count, lines * pitch}, NULL);
    }
    flat = tuff_reshape(flat, TUFF_SHAPE(count, lines, pitch));
    return tuff_slice(flat, (int64_t[]){0, 0, before}, (int64_t[]){count, lines, before + width}, NULL);
}

/* Returns the lines as the matmuls read them: columns innermost, cast to the dtype of the factor. */
static tuff_tensor *as_factor(const factor *operand, tuff_tensor *lines)
{
    const int order[] = {0, 2, 1};
    if (lines == NULL)
        return NULL;
    if (operand->place.stride[1] != 1)
        lines = tuff_permute(lines, order);
    return tuff_cast(lines, operand->dtype);
}

tuff_tensor *tuff__join_along(rewriting *self, const factor *factors, int count, int axis)
{
    const bool unit_axis = factors->place.stride[axis] == 1;
    int64_t total = 0;
    for (int i = 0; i < count; ++i)
        total += factors[i].place.extent[axis];
    const int64_t other = factors->place.extent[1 - axis];
    tuff_tensor *joined =
        as_factor(factors, strided_view(self, factors, 1, 0, unit_axis ? other : total, unit_axis ? total : other));
    if (joined == NULL)
        return NULL;
    return tuff_reshape(joined, axis == 1 ? TUFF_SHAPE(other, total) : TUFF_SHAPE(total, other));
}

tuff_tensor *tuff__join_stack(rewriting *self, const factor *factors, int count)
{
    const int64_t distance = factors[1].place.offset - factors[0].place.offset, lines = lines_of(factors);
    const int64_t width = factors->place.stride[1] == 1 ? factors->place.extent[1] : factors->place.extent[0];
    return as_factor(factors, strided_view(self, factors, count, distance, lines, width));
}
