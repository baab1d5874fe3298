/* The parameters of the models as tables: names, extents in terms of the configuration, initial values. Also reads and
   writes the configuration as JSON, for checkpoints. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "tools/model/model.h"
#include "tools/model/random.h"
#include "train/train.h"

#define NAME_SIZE 64
#define EXTENT_LIMIT (1 << 20)

typedef enum size_name { NONE, VOCABULARY, CONTEXT, WIDTH, WIDTH_3, WIDTH_4, SHARED, HIDDEN } size_name;
typedef enum initial { ZERO, ONE, NORMAL, NORMAL_RESIDUAL } initial;

typedef struct parameter_row {
    const char *name; /* without "h.N." if it belongs to a block */
    bool per_block;
    size_name rows, columns; /* NONE: a vector */
    initial initial;
} parameter_row;

static const parameter_row gpt_rows[] = {
    {"wte", false, VOCABULARY, WIDTH, NORMAL},
    {"wpe", false, CONTEXT, WIDTH, NORMAL},
    {"ln1.gain", true, WIDTH, NONE, ONE},
    {"ln1.bias", true, WIDTH, NONE, ZERO},
    {"attn.qkv.weight", true, WIDTH, WIDTH_3, NORMAL},
    {"attn.qkv.bias", true, WIDTH_3, NONE, ZERO},
    {"attn.out.weight", true, WIDTH, WIDTH, NORMAL_RESIDUAL},
    {"attn.out.bias", true, WIDTH, NONE, ZERO},
    {"ln2.gain", true, WIDTH, NONE, ONE},
    {"ln2.bias", true, WIDTH, NONE, ZERO},
    {"mlp.up.weight", true, WIDTH, WIDTH_4, NORMAL},
    {"mlp.up.bias", true, WIDTH_4, NONE, ZERO},
    {"mlp.down.weight", true, WIDTH_4, WIDTH, NORMAL_RESIDUAL},
    {"mlp.down.bias", true, WIDTH, NONE, ZERO},
    {"ln_f.gain", false, WIDTH, NONE, ONE},
    {"ln_f.bias", false, WIDTH, NONE, ZERO},
};

static const parameter_row llama_rows[] = {
    {"wte", false, VOCABULARY, WIDTH, NORMAL},      {"norm1.gain", true, WIDTH, NONE, ONE},
    {"attn.q.weight", true, WIDTH, WIDTH, NORMAL},  {"attn.k.weight", true, WIDTH, SHARED, NORMAL},
    {"attn.v.weight", true, WIDTH, SHARED, NORMAL}, {"attn.out.weight", true, WIDTH, WIDTH, NORMAL_RESIDUAL},
    {"norm2.gain", true, WIDTH, NONE, ONE},         {"mlp.gate.weight", true, WIDTH, HIDDEN, NORMAL},
    {"mlp.up.weight", true, WIDTH, HIDDEN, NORMAL}, {"mlp.down.weight", true, HIDDEN, WIDTH, NORMAL_RESIDUAL},
    {"norm_f.gain", false, WIDTH, NONE, ONE},       {"output.weight", false, WIDTH, VOCABULARY, NORMAL},
};

typedef struct parameter_table {
    const char *form;
    const parameter_row *rows;
    int count;
} parameter_table;

static const parameter_table tables[] = {
    [MODEL_GPT] = {"gpt", gpt_rows, sizeof gpt_rows / sizeof *gpt_rows},
    [MODEL_LLAMA] = {"llama", llama_rows, sizeof llama_rows / sizeof *llama_rows},
};

static int64_t size_of(const model_config *config, size_name size)
{
    switch (size) {
    case NONE:
        return 1;
    case VOCABULARY:
        return config->vocabulary;
    case CONTEXT:
        return config->context;
    case WIDTH:
        return config->width;
    case WIDTH_3:
        return 3 * config->width;
    case WIDTH_4:
        return 4 * config->width;
    case SHARED:
        return config->width / config->heads * config->key_value_heads;
    case HIDDEN:
        return config->hidden;
    }
    return 0;
}

static tuff_status check_extent(const char *name, int64_t size)
{
    if (size < 1 || size > EXTENT_LIMIT)
        return FAIL(TUFF_E_USAGE, "model: %" PRId64 " is not a valid number of %s: expected 1 to %d", size, name,
                    EXTENT_LIMIT);
    return TUFF_OK;
}

tuff_status model_check(const model_config *config)
{
    if (config->form != MODEL_GPT && config->form != MODEL_LLAMA)
        return FAIL(TUFF_E_USAGE, "model: unknown form %d", (int)config->form);
    TRY(check_extent("layers", config->layers));
    TRY(check_extent("heads", config->heads));
    TRY(check_extent("columns (width)", config->width));
    TRY(check_extent("positions (context)", config->context));
    TRY(check_extent("tokens (vocabulary)", config->vocabulary));
    if (config->layers > 1000)
        return FAIL(TUFF_E_USAGE, "model: %" PRId64 " layers, but at most 1000 are supported", config->layers);
    if (config->width % config->heads != 0)
        return FAIL(TUFF_E_USAGE, "model: the width %" PRId64 " is not a multiple of %" PRId64 " heads", config->width,
                    config->heads);
    if (config->form == MODEL_GPT)
        return TUFF_OK;
    TRY(check_extent("key and value heads", config->key_value_heads));
    TRY(check_extent("columns of the MLP (hidden)", config->hidden));
    if (config->heads % config->key_value_heads != 0 || config->width / config->heads % 2 != 0)
        return FAIL(
            TUFF_E_USAGE,
            "model: %" PRId64 " heads of width %" PRId64 " with %" PRId64
            " key and value heads: the heads must be a multiple of the key and value heads, and their width even",
            config->heads, config->width / config->heads, config->key_value_heads);
    return TUFF_OK;
}

/* Called for every parameter in order, until it fails. */
typedef tuff_status (*visitor)(void *user, const model_config *config, const parameter_row *row, const char *name);

static tuff_status visit_row(const model_config *config, const parameter_row *row, int64_t layer, visitor visit,
                             void *user)
{
    char name[NAME_SIZE];
    if (row->per_block)
        snprintf(name, sizeof name, "h.%" PRId64 ".%s", layer, row->name);
    else
        snprintf(name, sizeof name, "%s", row->name);
    return visit(user, config, row, name);
}

/* Visits all parameters. The rows of a block are adjacent in the table, and are visited once per layer. */
static tuff_status visit_all(const model_config *config, visitor visit, void *user)
{
    const parameter_table *table = &tables[config->form];
    for (int i = 0; i < table->count;) {
        if (!table->rows[i].per_block) {
            TRY(visit_row(config, &table->rows[i++], 0, visit, user));
            continue;
        }
        int end = i;
        while (end < table->count && table->rows[end].per_block)
            end++;
        for (int64_t layer = 0; layer < config->layers; layer++)
            for (int row = i; row < end; row++)
                TRY(visit_row(config, &table->rows[row], layer, visit, user));
        i = end;
    }
    return TUFF_OK;
}

static tuff_status add_count(void *user, const model_config *config, const parameter_row *row, const char *name)
{
    (void)name;
    *(int64_t *)user += size_of(config, row->rows) * size_of(config, row->columns);
    return TUFF_OK;
}

int64_t model_parameter_count(const model_config *config)
{
    int64_t count = 0;
    visit_all(config, add_count, &count);
    return count;
}

typedef struct spec_list {
    tuff_parameter_spec *items;
    int count, capacity;
    arena names;
} spec_list;

static tuff_status add_spec(void *user, const model_config *config, const parameter_row *row, const char *name)
{
    spec_list *list = user;
    const int64_t rows = size_of(config, row->rows), columns = size_of(config, row->columns);
    const char *copy = tuff__arena_strdup(&list->names, name);
    if (!copy || !GROW(list->items, list->count, list->capacity))
        return TUFF_E_OOM_HOST;
    const tuff_shape shape = row->columns == NONE ? TUFF_SHAPE(rows) : TUFF_SHAPE(rows, columns);
    list->items[list->count++] = (tuff_parameter_spec){.name = copy, .shape = shape};
    return TUFF_OK;
}

tuff_status model_create_grouped(tuff_device *device, const model_config *config, const char *const *patterns,
                                 int pattern_count, language_model *out)
{
    *out = (language_model){.config = *config};
    TRY(model_check(config));
    spec_list list = {0};
    tuff_status status = visit_all(config, add_spec, &list);
    if (status == TUFF_OK) {
        out->parameters = tuff_parameters_create_grouped(device, list.items, list.count, patterns, pattern_count);
        status = out->parameters ? TUFF_OK : tuff_last_status();
    }
    tuff__free(list.items);
    tuff__arena_free(&list.names);
    return status;
}

tuff_status model_create(tuff_device *device, const model_config *config, language_model *out)
{
    return model_create_grouped(device, config, NULL, 0, out);
}

typedef struct group_search {
    const char *const *patterns;
    int group;
    int vectors, matrices; /* found in the group */
} group_search;

/* Counts a parameter if it belongs to the group: the group of the first pattern that matches its name. */
static tuff_status search_group(void *user, const model_config *config, const parameter_row *row, const char *name)
{
    group_search *search = user;
    int group = 1;
    (void)config;
    while (group <= search->group && !tuff__name_matches(search->patterns[group - 1], name))
        group++;
    if (group == search->group)
        ++*(row->columns == NONE ? &search->vectors : &search->matrices);
    return TUFF_OK;
}

bool model_group_is_vectors(const model_config *config, const char *const *patterns, int group)
{
    group_search search = {.patterns = patterns, .group = group};
    visit_all(config, search_group, &search);
    return search.vectors > 0 && search.matrices == 0;
}

void model_destroy(language_model *self)
{
    tuff_parameters_destroy(self->parameters);
    *self = (language_model){0};
}

typedef struct initialization {
    language_model *model;
    uint64_t seed;
} initialization;

/* Shared by the threads that fill one parameter. */
typedef struct fill_context {
    uint64_t key;
    double deviation; /* of the normally distributed ones */
    initial initial;
    float *values;
    int64_t count;
} fill_context;

enum { PART = 1 << 16 };

static void fill_part(void *user, int index)
{
    const fill_context *self = user;
    const int64_t first = (int64_t)index * PART, rest = self->count - first, count = rest < PART ? rest : PART;
    if (self->initial == NORMAL || self->initial == NORMAL_RESIDUAL)
        random_normals(self->key, (uint64_t)first, self->deviation, self->values + first, count);
    else
        for (int64_t i = 0; i < count; i++)
            self->values[first + i] = self->initial == ONE ? 1 : 0;
}

static tuff_status write_initial(void *user, const model_config *config, const parameter_row *row, const char *name)
{
    initialization *self = user;
    const int64_t count = size_of(config, row->rows) * size_of(config, row->columns);
    float *values = tuff__calloc((size_t)count, sizeof *values);
    if (!values)
        return TUFF_E_OOM_HOST;
    fill_context fill = {.key = random_key(self->seed, name), .deviation = 0.02, .initial = row->initial};
    if (row->initial == NORMAL_RESIDUAL)
        fill.deviation = 0.02 / sqrt(2.0 * (double)config->layers);
    fill.values = values;
    fill.count = count;
    tuff__parallel((int)((count + PART - 1) / PART), fill_part, &fill);
    tuff_array *array = tuff_parameters_find(self->model->parameters, name);
    const tuff_status status = tuff_array_write(array, values, (size_t)count * sizeof *values);
    tuff__free(values);
    return status;
}

tuff_status model_initialize(language_model *self, uint64_t seed)
{
    return visit_all(&self->config, write_initial, &(initialization){.model = self, .seed = seed});
}

char *model_config_text(const model_config *config)
{
    char buffer[384];
    int length = snprintf(buffer, sizeof buffer,
                          "{\"form\": \"%s\", \"layers\": %" PRId64 ", \"heads\": %" PRId64 ", \"width\": %" PRId64
                          ", \"context\": %" PRId64 ", \"vocabulary\": %" PRId64,
                          tables[config->form].form, config->layers, config->heads, config->width, config->context,
                          config->vocabulary);
    if (config->form == MODEL_LLAMA)
        length += snprintf(buffer + length, sizeof buffer - (size_t)length,
                           ", \"key_value_heads\": %" PRId64 ", \"hidden\": %" PRId64, config->key_value_heads,
                           config->hidden);
    snprintf(buffer + length, sizeof buffer - (size_t)length, "}");
    return tuff__strdup(buffer);
}

static int64_t member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
}

static tuff_status parse_config(const json_t *object, model_config *out)
{
    const char *form = json_string_value(json_object_get(object, "form"));
    *out = (model_config){.layers = member(object, "layers"),
                          .heads = member(object, "heads"),
                          .width = member(object, "width"),
                          .context = member(object, "context"),
                          .vocabulary = member(object, "vocabulary"),
                          .key_value_heads = member(object, "key_value_heads"),
                          .hidden = member(object, "hidden")};
    for (size_t i = 0; form && i < sizeof tables / sizeof *tables; i++)
        if (strcmp(form, tables[i].form) == 0) {
            out->form = (model_form)i;
            return model_check(out);
        }
    return FAIL(TUFF_E_FORMAT, "model: unknown form \"%.40s\"", form ? form : "");
}

tuff_status model_config_parse(const char *text, model_config *out)
{
    json_t *object = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const tuff_status status = json_is_object(object)
                                   ? parse_config(object, out)
                                   : FAIL(TUFF_E_FORMAT, "model: the configuration is not a JSON object");
    json_decref(object);
    return status;
}
