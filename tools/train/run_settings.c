/* The settings of a training run as JSON in a checkpoint's metadata. */
#include "tools/train/run_settings.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define KEY_MODEL "model"
#define KEY_TRAINING "training"

static bool read_whole(const json_t *object, const char *name, int64_t low, int64_t high, int64_t *out)
{
    const json_t *value = json_object_get(object, name);
    *out = json_is_integer(value) ? (int64_t)json_integer_value(value) : low - 1;
    return *out >= low && *out <= high;
}

static tuff_status read_training(const char *path, const json_t *object, run_settings *out)
{
    const char *hash = json_string_value(json_object_get(object, "text_hash"));
    const json_t *rate = json_object_get(object, "learning_rate");
    out->learning_rate = json_is_number(rate) ? json_number_value(rate) : 0;
    out->text_hash = hash ? strtoull(hash, NULL, 16) : 0;
    if (!read_whole(object, "steps", 1, 1 << 24, &out->steps) ||
        !read_whole(object, "batch", 1, 1 << 20, &out->batch) ||
        !read_whole(object, "seed", 0, INT64_MAX, &out->seed) || !(out->learning_rate > 0) ||
        !optimizer_flags_parse(json_object_get(object, "optimizer"), &out->optimizer))
        return FAIL(TUFF_E_FORMAT, "%s: its metadata do not say how it is trained", path);
    return TUFF_OK;
}

static tuff_status read_metadata(const char *path, const tuff_file *file, run_settings *out)
{
    const char *model = tuff_file_metadata(file, KEY_MODEL), *training = tuff_file_metadata(file, KEY_TRAINING);
    if (!model || !training)
        return FAIL(TUFF_E_FORMAT, "%s: no checkpoint of tuff train: its metadata lack \"%s\"", path,
                    model ? KEY_TRAINING : KEY_MODEL);
    TRY(model_config_parse(model, &out->model));
    if (out->model.vocabulary != 256)
        return FAIL(TUFF_E_UNSUPPORTED, "%s: its model has %" PRId64 " tokens: only bytes, 256, are supported", path,
                    out->model.vocabulary);
    json_t *object = json_loads(training, JSON_REJECT_DUPLICATES, NULL);
    const tuff_status status = read_training(path, object, out);
    json_decref(object);
    return status;
}

tuff_status run_settings_read(const char *path, run_settings *out)
{
    *out = (run_settings){0};
    tuff_file *file = tuff_file_open(path);
    if (!file)
        return tuff_last_status();
    const tuff_status status = read_metadata(path, file, out);
    tuff_file_close(file);
    return status;
}

/* As JSON text, freed with tuff__free; NULL where memory ran out. */
static char *training_text(const run_settings *settings)
{
    char *optimizer = NULL, *text = NULL;
    json_t *object = optimizer_flags_json(&settings->optimizer);
    if (object)
        optimizer = json_dumps(object, JSON_REAL_PRECISION(17));
    json_decref(object);
    const size_t size = 256 + (optimizer ? strlen(optimizer) : 0);
    if (optimizer)
        text = tuff__alloc(size);
    if (text)
        snprintf(text, size,
                 "{\"steps\": %" PRId64 ", \"batch\": %" PRId64 ", \"seed\": %" PRId64
                 ", \"learning_rate\": %.17g, \"text_hash\": \"%016" PRIx64 "\", \"optimizer\": %s}",
                 settings->steps, settings->batch, settings->seed, settings->learning_rate, settings->text_hash,
                 optimizer);
    free(optimizer);
    return text;
}

tuff_status run_settings_save(const char *path, const run_settings *settings, language_model *model,
                              tuff_optimizer *optimizer)
{
    char *training = training_text(settings), *config = model_config_text(&settings->model);
    const char *const keys[] = {KEY_MODEL, KEY_TRAINING}, *const texts[] = {config, training};
    const tuff_status status = training && config
                                   ? tuff_checkpoint_save(path, model->parameters, optimizer, keys, texts, 2)
                                   : FAIL(TUFF_E_OOM_HOST, "the settings of a run");
    tuff__free(config);
    tuff__free(training);
    return status;
}
