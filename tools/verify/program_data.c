/* The data of random programs. Every sample draws with its own key, token by token, so that another order of the
   samples or further tokens leave everything else the same. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tools/verify/program_build.h"
#include "tools/model/random.h"

int64_t program_length(const program_recipe *recipe)
{
    return program_size(recipe, FIELD_LENGTH) + recipe->variant.padding;
}

int64_t program_classes(const program_recipe *recipe)
{
    const bool is_tied =
        program_choice(recipe, FIELD_FORM) == FORM_TRANSFORMER && program_choice(recipe, FIELD_TIED) != 0;
    return program_size(recipe, is_tied ? FIELD_INPUTS : FIELD_CLASSES);
}

bool program_has_ignored_targets(const program_recipe *recipe)
{
    return recipe->variant.padding > 0 || (program_choice(recipe, FIELD_FORM) == FORM_TRANSFORMER &&
                                           program_choice(recipe, FIELD_MASK) == MASK_LENGTHS);
}

/* The random state of a sample. Its key derives from its position without reversal. */
typedef struct sample {
    uint64_t key;
    int64_t length; /* tokens that count */
    int64_t own;    /* tokens without padding */
} sample;

static sample sample_of(const program_recipe *recipe, int step, int64_t place)
{
    const int64_t batch = program_size(recipe, FIELD_BATCH);
    const uint64_t number = (uint64_t)(recipe->variant.reversed ? batch - 1 - place : place);
    sample made = {.key = random_key_number(random_key_number(recipe->seed, 77 + (uint64_t)step), number),
                   .own = program_size(recipe, FIELD_LENGTH)};
    made.length = made.own;
    if (program_choice(recipe, FIELD_MASK) == MASK_LENGTHS)
        made.length = 1 + (int64_t)(random_bits(random_key(made.key, "length"), 0) % (uint64_t)made.own);
    return made;
}

static int32_t below(uint64_t key, int64_t index, int64_t bound)
{
    return (int32_t)(random_bits(key, (uint64_t)index) % (uint64_t)bound);
}

static void fill_floats(const sample *from, const char *name, float *out, int64_t count)
{
    const uint64_t key = random_key(from->key, name);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(2 * random_uniform(key, (uint64_t)i) - 1);
}

static void fill_tokens(const program_recipe *recipe, const sample *from, int32_t *out, int64_t count)
{
    const uint64_t key = random_key(from->key, "tokens");
    for (int64_t i = 0; i < count; i++)
        out[i] = below(key, i, program_size(recipe, FIELD_INPUTS));
}

/* Fills segment numbers. Segments begin anywhere; padding is a segment of its own. */
static void fill_segments(const sample *from, int32_t *out, int64_t count)
{
    const uint64_t key = random_key(from->key, "segments");
    for (int64_t i = 0; i < count; i++)
        out[i] = i == 0 ? 0 : i >= from->own ? -1 : out[i - 1] + (below(key, i, 4) == 0);
}

static void fill_targets(const program_recipe *recipe, const sample *from, int32_t *out, int64_t count)
{
    const bool is_sequence = program_choice(recipe, FIELD_FORM) == FORM_TRANSFORMER && count > 1;
    const uint64_t key = random_key(from->key, "targets");
    for (int64_t i = 0; i < count; i++)
        out[i] = is_sequence && i >= from->length ? -1 : below(key, i, program_classes(recipe));
}

static void fill_sample(const program_recipe *recipe, const sample *from, program_input *input, int64_t place)
{
    const int64_t batch = input->shape.extent[0], count = batch > 0 ? tuff_shape_count(input->shape) / batch : 0;
    float *floats = (float *)input->data + place * count;
    int32_t *whole = (int32_t *)input->data + place * count;
    if (input->dtype == TUFF_F32)
        fill_floats(from, input->name, floats, count);
    else if (strcmp(input->name, "tokens") == 0)
        fill_tokens(recipe, from, whole, count);
    else if (strcmp(input->name, "segments") == 0)
        fill_segments(from, whole, count);
    else if (strcmp(input->name, "lengths") == 0)
        whole[0] = (int32_t)from->length;
    else
        fill_targets(recipe, from, whole, count);
}

static tuff_status add_input(const program_recipe *recipe, int step, program_data *to, const char *name,
                             tuff_dtype dtype, tuff_shape shape)
{
    program_input *input = &to->inputs[to->count++];
    *input = (program_input){.name = name, .dtype = dtype, .shape = shape};
    input->size = (size_t)tuff_shape_count(shape) * tuff_dtype_size(dtype);
    input->data = malloc(input->size + 1);
    if (input->data == NULL)
        return FAIL(TUFF_E_OOM_HOST, "random program: out of memory for %zu bytes of data", input->size);
    for (int64_t place = 0; place < shape.extent[0]; place++) {
        const bool is_wrong =
            recipe->variant.fault == FAULT_SAMPLE && place == shape.extent[0] - 1 && strcmp(name, "targets") == 0;
        const sample from = sample_of(recipe, step, is_wrong ? 0 : place);
        fill_sample(recipe, &from, input, place);
    }
    return TUFF_OK;
}

/* The units of a sample that have a target: tokens, points of an image, or the whole sample. */
static tuff_status add_targets(const program_recipe *recipe, int step, program_data *to)
{
    const int64_t batch = program_size(recipe, FIELD_BATCH), length = program_length(recipe);
    const bool each = program_choice(recipe, FIELD_READOUT) == READOUT_TOKENS;
    const int form = program_choice(recipe, FIELD_FORM);
    const int64_t points = !each || form == FORM_MLP || form == FORM_IMAGES ? 1
                           : form == FORM_CONVOLUTION                       ? length * length
                                                                            : length;
    if (program_choice(recipe, FIELD_LOSS) == LOSS_SQUARES)
        return add_input(recipe, step, to, "targets", TUFF_F32, TUFF_SHAPE(batch, points, program_classes(recipe)));
    return add_input(recipe, step, to, "targets", TUFF_I32, TUFF_SHAPE(batch, points));
}

static tuff_status add_all(const program_recipe *recipe, int step, program_data *to)
{
    const int64_t batch = program_size(recipe, FIELD_BATCH), inputs = program_size(recipe, FIELD_INPUTS);
    const int64_t length = program_length(recipe);
    switch (program_choice(recipe, FIELD_FORM)) {
    case FORM_MLP:
        TRY(add_input(recipe, step, to, "x", TUFF_F32, TUFF_SHAPE(batch, inputs)));
        break;
    case FORM_CONVOLUTION:
    case FORM_IMAGES:
        TRY(add_input(recipe, step, to, "x", TUFF_F32, TUFF_SHAPE(batch, inputs, length, length)));
        break;
    default:
        TRY(add_input(recipe, step, to, "tokens", TUFF_I32, TUFF_SHAPE(batch, length)));
        TRY(add_input(recipe, step, to, "lengths", TUFF_I32, TUFF_SHAPE(batch, 1)));
        TRY(add_input(recipe, step, to, "segments", TUFF_I32, TUFF_SHAPE(batch, length)));
    }
    return add_targets(recipe, step, to);
}

tuff_status program_data_make(const program_recipe *recipe, int step, program_data *out)
{
    *out = (program_data){.count = 0};
    const tuff_status status = add_all(recipe, step, out);
    if (status != TUFF_OK)
        program_data_free(out);
    return status;
}

void program_data_free(program_data *data)
{
    for (int i = 0; i < data->count; i++)
        free(data->inputs[i].data);
    data->count = 0;
}
