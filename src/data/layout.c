/* The layout of a batch: one block per slot. The parts that become inputs come first, each aligned; then the lengths
   that are no input, and the space for samples that are concatenated when the batch is packed. */
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "data/loader.h"
#include "ops/ops.h"

static tuff_status check_field(const tuff_field *field, int index)
{
    if (!field->name || !field->name[0])
        return FAIL(TUFF_E_USAGE, "loader: field %d has no name", index);
    if ((unsigned)field->dtype > TUFF_BOOL)
        return FAIL(TUFF_E_DTYPE, "loader: \"%.100s\": invalid dtype for an input", field->name);
    if (field->shape.rank < 0 || field->shape.rank >= TUFF_MAX_RANK || tuff_shape_count(field->shape) < 0 ||
        tuff_shape_count(field->shape) > INT32_MAX)
        return FAIL(TUFF_E_SHAPE,
                    "loader: \"%.100s\": invalid shape of a sample: rank %d (expected 0 to %d), or too many elements",
                    field->name, field->shape.rank, TUFF_MAX_RANK - 1);
    if ((unsigned)field->collate > TUFF_COLLATE_CONCAT)
        return FAIL(TUFF_E_USAGE, "loader: \"%.100s\": unknown collate value %d", field->name, (int)field->collate);
    if (field->collate == TUFF_COLLATE_STACK && (field->lengths || field->rows))
        return FAIL(TUFF_E_USAGE, "loader: \"%.100s\": lengths and rows are only for padded or concatenated fields",
                    field->name);
    if (field->collate != TUFF_COLLATE_STACK && (field->shape.rank < 1 || field->shape.extent[0] < 1))
        return FAIL(TUFF_E_SHAPE, "loader: \"%.100s\": its samples have rows, so its shape needs a first axis",
                    field->name);
    if (field->collate != TUFF_COLLATE_STACK && field->shape.extent[0] > INT32_MAX) /* others may be 0 */
        return FAIL(TUFF_E_SHAPE, "loader: \"%.100s\": more than %d rows of a sample", field->name, INT32_MAX);
    if (field->rows < 0)
        return FAIL(TUFF_E_USAGE, "loader: \"%.100s\": rows is %lld, but must not be negative", field->name,
                    (long long)field->rows);
    if (field->rows > 0 && field->collate != TUFF_COLLATE_CONCAT)
        return FAIL(TUFF_E_USAGE, "loader: \"%.100s\": rows is only for concatenated fields", field->name);
    return TUFF_OK;
}

/* Reserves count · size bytes at the next aligned offset. */
static tuff_status reserve_space(batch_layout *self, int64_t count, uint64_t size, uint64_t *offset)
{
    int64_t bytes, end;
    if (!tuff__mul_i64(count, (int64_t)size, &bytes) || !tuff__add_i64((int64_t)self->size, bytes, &end) ||
        !tuff__align_u64((uint64_t)end, PART_ALIGNMENT, &self->size) || self->size > INT64_MAX)
        return FAIL(TUFF_E_LIMIT, "loader: a batch of %lld samples is too large", (long long)self->batch_size);
    *offset = (uint64_t)end - (uint64_t)bytes;
    return TUFF_OK;
}

/* Names are compared across fields and lengths, because each part becomes an input of the plan. */
static tuff_status add_part(batch_layout *self, const char *name, tuff_dtype dtype, tuff_shape shape, int *index)
{
    batch_part *part = &self->parts[self->part_count];
    for (int i = 0; i < self->part_count; i++)
        if (strcmp(self->parts[i].name, name) == 0)
            return FAIL(TUFF_E_USAGE, "loader: two parts of a batch are named \"%.100s\"", name);
    const int64_t count = tuff_shape_count(shape);
    if (count < 0)
        return FAIL(TUFF_E_LIMIT, "loader: \"%.100s\": a batch of %lld samples is too large", name,
                    (long long)self->batch_size);
    *part = (batch_part){.name = name, .dtype = dtype, .shape = shape};
    TRY(reserve_space(self, count, tuff_dtype_size(dtype), &part->offset));
    part->size = (uint64_t)count * tuff_dtype_size(dtype);
    *index = self->part_count++;
    return TUFF_OK;
}

/* Concatenated fields have no axis for the batch: their rows follow each other, and the lengths say whose they are. */
static tuff_shape batch_shape(const batch_layout *self, const tuff_field *field)
{
    tuff_shape shape = field->shape;
    if (field->collate == TUFF_COLLATE_CONCAT) {
        shape.extent[0] = field->rows;
        return shape;
    }
    memmove(shape.extent + 1, shape.extent, (size_t)shape.rank * sizeof *shape.extent);
    shape.extent[0] = self->batch_size;
    shape.rank++;
    return shape;
}

/* Replaces both names even if one copy fails, so that tuff__batch_layout_free never frees the program's own. */
static tuff_status copy_names(batch_field *field)
{
    field->spec.name = tuff__strdup(field->spec.name);
    if (field->spec.lengths)
        field->spec.lengths = tuff__strdup(field->spec.lengths);
    return field->spec.name ? TUFF_OK : TUFF_E_OOM_HOST;
}

static tuff_status add_field(batch_layout *self, const tuff_field *spec)
{
    batch_field *field = &self->fields[self->field_count];
    TRY(check_field(spec, self->field_count));
    *field = (batch_field){.spec = *spec, .lengths_part = -1, .rows_max = 1};
    self->field_count++;
    const bool has_lengths = spec->lengths != NULL;
    TRY(copy_names(field));
    if (has_lengths && !field->spec.lengths)
        return TUFF_E_OOM_HOST;
    field->sample_size = (uint64_t)tuff_shape_count(spec->shape) * tuff_dtype_size(spec->dtype);
    if (spec->collate != TUFF_COLLATE_STACK)
        field->rows_max = spec->shape.extent[0];
    field->row_size = field->sample_size / (uint64_t)field->rows_max;
    if (spec->collate == TUFF_COLLATE_CONCAT && spec->rows == 0 &&
        !tuff__mul_i64(self->batch_size, field->rows_max, &field->spec.rows))
        return FAIL(TUFF_E_LIMIT, "loader: \"%.100s\" has too many rows", spec->name);
    tuff__from_double(spec->dtype, &spec->fill, 1, field->fill);
    TRY(add_part(self, field->spec.name, spec->dtype, batch_shape(self, &field->spec), &field->part));
    field->samples_offset = self->parts[field->part].offset;
    if (has_lengths)
        TRY(add_part(self, field->spec.lengths, TUFF_I32, TUFF_SHAPE(self->batch_size), &field->lengths_part));
    return TUFF_OK;
}

tuff_status tuff__batch_layout(const tuff_loader_options *options, batch_layout *out)
{
    *out = (batch_layout){.batch_size = options->batch_size};
    if (!options->fields || options->field_count < 1 || options->field_count > FIELDS_MAX)
        return FAIL(TUFF_E_USAGE, "loader: needs 1 to %d fields, got %d", FIELDS_MAX,
                    options->fields ? options->field_count : 0);
    for (int i = 0; i < options->field_count; i++)
        TRY(add_field(out, &options->fields[i]));
    /* The parts lie in front, so that one copy of this size moves all of them and nothing else. */
    out->upload_size = out->size;
    for (int i = 0; i < out->field_count; i++) {
        batch_field *field = &out->fields[i];
        if (field->lengths_part >= 0)
            field->lengths = out->parts[field->lengths_part].offset;
        else
            TRY(reserve_space(out, out->batch_size, sizeof(int32_t), &field->lengths));
        if (field->spec.collate == TUFF_COLLATE_CONCAT)
            TRY(reserve_space(out, out->batch_size, field->sample_size, &field->samples_offset));
    }
    return TUFF_OK;
}

void tuff__batch_layout_free(batch_layout *self)
{
    for (int i = 0; i < self->field_count; i++) {
        tuff__free((char *)self->fields[i].spec.name);
        tuff__free((char *)self->fields[i].spec.lengths);
    }
    self->field_count = 0;
}

static void pad(const batch_field *field, unsigned char *from, uint64_t size)
{
    const size_t element = tuff_dtype_size(field->spec.dtype);
    bool is_zero = true;
    for (size_t i = 0; i < element; i++)
        is_zero = is_zero && field->fill[i] == 0;
    if (is_zero)
        memset(from, 0, (size_t)size);
    for (uint64_t i = 0; i < size && !is_zero; i += element)
        memcpy(from + i, field->fill, element);
}

/* Pads samples that stay where the source put them: the rest of each sample's space becomes padding. */
static void pad_samples(const batch_field *field, const int64_t *rows, const loader_slot *slot, int64_t batch_size)
{
    for (int64_t i = 0; i < batch_size; i++) {
        const int64_t used = i < slot->count ? rows[i] : 0;
        unsigned char *place = slot->memory + field->samples_offset + (uint64_t)i * field->sample_size;
        const uint64_t filled = (uint64_t)used * field->row_size;
        if (filled < field->sample_size)
            pad(field, place + filled, field->sample_size - filled);
    }
}

/* The source wrote the samples elsewhere (samples_offset), since where a sample begins is known only when the ones
   before it are complete. */
static tuff_status concatenate(const batch_layout *self, const batch_field *field, const int64_t *rows,
                               const loader_slot *slot)
{
    unsigned char *to = slot->memory + self->parts[field->part].offset;
    int64_t used = 0;
    for (int64_t i = 0; i < slot->count; i++)
        used += rows[i];
    if (used > field->spec.rows)
        return FAIL(TUFF_E_LIMIT, "\"%.100s\": the samples have %lld rows in total, but the buffer holds only %lld",
                    field->spec.name, (long long)used, (long long)field->spec.rows);
    for (int64_t i = 0; i < slot->count; i++) {
        const uint64_t size = (uint64_t)rows[i] * field->row_size;
        if (size > 0)
            memcpy(to, slot->memory + field->samples_offset + (uint64_t)i * field->sample_size, (size_t)size);
        to += size;
    }
    pad(field, to, (uint64_t)(field->spec.rows - used) * field->row_size);
    return TUFF_OK;
}

/* Checks the numbers of rows, because a source may have written anything. */
static tuff_status check_rows(const batch_field *field, const int64_t *rows, loader_slot *slot)
{
    for (int64_t i = 0; i < slot->count; i++)
        if (rows[i] < 0 || rows[i] > field->rows_max) {
            slot->failed_sample = i;
            return FAIL(TUFF_E_SHAPE, "\"%.100s\": the source filled %lld rows, expected 0 to %lld", field->spec.name,
                        (long long)rows[i], (long long)field->rows_max);
        }
    return TUFF_OK;
}

/* Samples that a partial last batch lacks become padding of length 0, so that a plan always sees the same shapes. */
tuff_status tuff__batch_pack(const batch_layout *self, loader_slot *slot)
{
    for (int f = 0; f < self->field_count; f++) {
        const batch_field *field = &self->fields[f];
        int64_t *rows = slot->rows + f * self->batch_size;
        int32_t *lengths = (int32_t *)(void *)(slot->memory + field->lengths);
        for (int64_t i = 0; i < slot->count && field->spec.collate == TUFF_COLLATE_STACK; i++)
            rows[i] = 1;
        TRY(check_rows(field, rows, slot));
        if (field->spec.collate == TUFF_COLLATE_CONCAT)
            TRY(concatenate(self, field, rows, slot));
        else
            pad_samples(field, rows, slot, self->batch_size);
        for (int64_t i = 0; i < self->batch_size; i++)
            lengths[i] = i < slot->count ? (int32_t)rows[i] : 0;
    }
    return TUFF_OK;
}
