/* Stores the settings and the state of a training run as JSON in a checkpoint's metadata. */
#include "tools/train/run_settings.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/json.h"

#define KEY_MODEL "model"
#define KEY_TRAINING "training"
#define KEY_STATE "state"

static bool read_whole(const json_t *object, const char *name, int64_t low, int64_t high, int64_t *out)
{
    const json_t *value = json_object_get(object, name);
    *out = json_is_integer(value) ? (int64_t)json_integer_value(value) : low - 1;
    return *out >= low && *out <= high;
}

/* Reads a number, or 0 if an older checkpoint lacks it. */
static bool read_whole_or_0(const json_t *object, const char *name, int64_t high, int64_t *out)
{
    *out = 0;
    return !json_object_get(object, name) || read_whole(object, name, 0, high, out);
}

void run_state_forget_best(run_state *state)
{
    state->has_best = false;
    state->best_step = state->without_gain = 0;
}

static const char *const precisions[] = {"f32", "f16", "bf16"};

const char *run_precision_name(int precision)
{
    return precisions[precision];
}

/* Reads a precision. Older checkpoints lack it: they are f32. */
static bool read_precision(const json_t *object, const char *key, int *out)
{
    const json_t *value = json_object_get(object, key);
    const char *name = value ? json_string_value(value) : precisions[0];
    for (*out = 0; *out < (int)(sizeof precisions / sizeof *precisions); ++*out)
        if (name && strcmp(name, precisions[*out]) == 0)
            return true;
    return false;
}

static bool read_text(const json_t *object, const char *name, char *out, size_t size)
{
    const json_t *value = json_object_get(object, name);
    const char *found = value ? json_string_value(value) : "";
    const int length = found ? snprintf(out, size, "%s", found) : -1;
    return length >= 0 && (size_t)length < size;
}

static uint64_t read_hash(const json_t *object, const char *name)
{
    const char *hash = json_string_value(json_object_get(object, name));
    return hash ? strtoull(hash, NULL, 16) : 0;
}

static tuff_status read_training(const char *path, const json_t *object, run_settings *out)
{
    const json_t *rate = json_object_get(object, "learning_rate");
    out->learning_rate = json_is_number(rate) ? json_number_value(rate) : 0;
    out->text_hash = read_hash(object, "text_hash");
    out->held_out_hash = read_hash(object, "held_out_hash");
    out->resident = json_is_true(json_object_get(object, "resident"));
    out->log_norms = json_is_true(json_object_get(object, "log_norms"));
    if (!read_whole(object, "steps", 1, 1 << 24, &out->steps) ||
        !read_whole(object, "batch", 1, 1 << 20, &out->batch) ||
        !read_whole(object, "seed", 0, INT64_MAX, &out->seed) || !(out->learning_rate > 0) ||
        !read_precision(object, "precision", &out->precision) ||
        !read_precision(object, "matmul_precision", &out->matmul_precision) ||
        !read_text(object, "validate", out->validate, sizeof out->validate) ||
        !read_whole_or_0(object, "validate_every", 1 << 24, &out->validate_every) ||
        !read_whole_or_0(object, "patience", 1 << 24, &out->patience) ||
        (out->validate[0] && out->validate_every == 0) ||
        !optimizer_flags_parse(json_object_get(object, "optimizer"), &out->optimizer))
        return FAIL(TUFF_E_FORMAT, "%s: missing or invalid training settings in its metadata", path);
    return TUFF_OK;
}

static tuff_status read_state(const char *path, const json_t *object, run_state *out)
{
    const json_t *loss = json_object_get(object, "best_loss");
    const bool has_step = json_object_get(object, "step") != NULL;
    out->has_best = loss != NULL;
    out->best_loss = json_is_number(loss) ? json_number_value(loss) : (double)NAN;
    if (!read_text(object, "loader", out->loader, sizeof out->loader) || (out->has_best && isnan(out->best_loss)) ||
        (has_step && !read_whole(object, "step", 0, 1 << 24, &out->step)) ||
        !read_whole_or_0(object, "best_step", 1 << 24, &out->best_step) ||
        !read_whole_or_0(object, "without_gain", 1 << 24, &out->without_gain))
        return FAIL(TUFF_E_FORMAT, "%s: invalid training state in its metadata", path);
    return TUFF_OK;
}

static tuff_status read_metadata(const char *path, const tuff_file *file, run_settings *out)
{
    const char *model = tuff_file_metadata(file, KEY_MODEL), *training = tuff_file_metadata(file, KEY_TRAINING);
    const char *state = tuff_file_metadata(file, KEY_STATE);
    if (!model || !training)
        return FAIL(TUFF_E_FORMAT, "%s: not a checkpoint of tuff train: its metadata lack \"%s\"", path,
                    model ? KEY_TRAINING : KEY_MODEL);
    TRY(model_config_parse(model, &out->model));
    if (out->model.vocabulary != 256)
        return FAIL(TUFF_E_UNSUPPORTED, "%s: its model has %" PRId64 " tokens, expected 256, one per byte", path,
                    out->model.vocabulary);
    json_t *object = json_loads(training, JSON_REJECT_DUPLICATES, NULL);
    tuff_status status = read_training(path, object, out);
    json_decref(object);
    if (status != TUFF_OK || !state)
        return status;
    object = json_loads(state, JSON_REJECT_DUPLICATES, NULL);
    status = read_state(path, object, &out->state);
    json_decref(object);
    return status;
}

tuff_status run_settings_read(const char *path, run_settings *out)
{
    *out = (run_settings){.state = {.step = -1}};
    tuff_file *file = tuff_file_open(path);
    if (!file)
        return tuff_last_status();
    const tuff_status status = read_metadata(path, file, out);
    tuff_file_close(file);
    return status;
}

/* Prints the object and releases it. NULL if out of memory. */
static char *print(json_t *object)
{
    char *printed = object ? json_dumps(object, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    return printed;
}

static json_t *hash_text(uint64_t hash)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    return json_string(digits);
}

static char *training_text(const run_settings *settings)
{
    json_t *object = json_pack("{s:I,s:I,s:I,s:f,s:o,s:b}", "steps", (json_int_t)settings->steps, "batch",
                               (json_int_t)settings->batch, "seed", (json_int_t)settings->seed, "learning_rate",
                               settings->learning_rate, "text_hash", hash_text(settings->text_hash), "resident",
                               (int)settings->resident);
    if (object && settings->precision != TUFF_PRECISION_F32)
        (void)json_object_set_new(object, "precision", json_string(precisions[settings->precision]));
    if (object && settings->matmul_precision != TUFF_PRECISION_F32)
        (void)json_object_set_new(object, "matmul_precision", json_string(precisions[settings->matmul_precision]));
    if (object && settings->log_norms)
        (void)json_object_set_new(object, "log_norms", json_true());
    if (object)
        (void)json_object_set_new(object, "optimizer", optimizer_flags_json(&settings->optimizer));
    if (object && settings->validate[0]) {
        (void)json_object_set_new(object, "validate", json_string(settings->validate));
        (void)json_object_set_new(object, "validate_every", json_integer(settings->validate_every));
        (void)json_object_set_new(object, "patience", json_integer(settings->patience));
        if (settings->held_out_hash != 0)
            (void)json_object_set_new(object, "held_out_hash", hash_text(settings->held_out_hash));
    }
    return print(object);
}

static char *state_text(const run_state *state)
{
    json_t *object = json_pack("{s:I,s:s}", "step", (json_int_t)state->step, "loader", state->loader);
    if (object && state->has_best) {
        (void)json_object_set_new(object, "best_loss", json_real(state->best_loss));
        (void)json_object_set_new(object, "best_step", json_integer(state->best_step));
    }
    if (object)
        (void)json_object_set_new(object, "without_gain", json_integer(state->without_gain));
    return print(object);
}

tuff_status run_settings_metadata(const run_settings *settings, run_metadata *out)
{
    tuff__json_begin(); /* makes jansson allocate with tuff's functions */
    *out = (run_metadata){
        .keys = {KEY_MODEL, KEY_TRAINING, KEY_STATE},
        .texts = {model_config_text(&settings->model), training_text(settings), state_text(&settings->state)}};
    for (int i = 0; i < RUN_METADATA_COUNT; i++)
        if (!out->texts[i])
            return FAIL(TUFF_E_OOM_HOST, "out of memory for the metadata of a checkpoint");
    return TUFF_OK;
}

void run_metadata_free(run_metadata *self)
{
    for (int i = 0; i < RUN_METADATA_COUNT; i++)
        tuff__free(self->texts[i]);
}
