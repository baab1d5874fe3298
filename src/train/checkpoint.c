/* Checkpoints: one safetensors file with every parameter by name, the optimizer's moments under the same names, the
   counter, and metadata. Slabs and their padding are not in the file, so that other programs can read it and the layout
   may change. Loading checks everything before it changes anything; a hash of all tensors finds damage that the format
   cannot detect. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "train/checkpoint.h"
#include "train/checkpoint_files.h"
#include "tuff/checkpoint.h"
#include "tuff/io.h"

#define KEY_FORMAT "tuff.format"
#define KEY_OPTIMIZER "tuff.optimizer"
#define KEY_HASH "tuff.hash"
#define FORMAT "tuff-checkpoint-1"

#define COUNTER_NAME "optimizer.step"
#define BATCHES_NAME "optimizer.batches"
#define RATE_NAME "optimizer.rate"
#define AVERAGE_PREFIX "optimizer.average."
#define OWN_METADATA_MAX 3
#define TENSOR_NAME_MAX 256

/* The hash does not depend on the order of tensors in the file. */
static void add_to_hash(uint64_t *hash, const tuff_file_tensor *tensor)
{
    *hash ^= tuff__hash64(tensor->data, (size_t)tensor->size, tuff__hash64(tensor->name, strlen(tensor->name), 0));
}

typedef struct metadata_list {
    const char **keys, **texts;
    int count;
} metadata_list;

static void add_metadata(metadata_list *self, const char *key, const char *value)
{
    self->keys[self->count] = key;
    self->texts[self->count++] = value;
}

static tuff_status save_list(state_list *self, const char *path, const tuff_optimizer *optimizer,
                             metadata_list *metadata)
{
    tuff_file_tensor *tensors = tuff__arena_alloc(&self->arena, (size_t)self->tensor_count * sizeof *tensors);
    if (!tensors)
        return TUFF_E_OOM_HOST;
    uint64_t hash = 0;
    for (int i = 0; i < self->tensor_count; i++) {
        const state_tensor *tensor = &self->tensors[i];
        tensors[i] =
            (tuff_file_tensor){.name = tensor->name,
                               .dtype = tensor->dtype,
                               .shape = tensor->shape,
                               .data = tensor->data,
                               .size = (uint64_t)tuff_shape_count(tensor->shape) * tuff_dtype_size(tensor->dtype)};
        add_to_hash(&hash, &tensors[i]);
    }
    char hash_text[17];
    snprintf(hash_text, sizeof hash_text, "%016" PRIx64, hash);
    add_metadata(metadata, KEY_FORMAT, FORMAT);
    add_metadata(metadata, KEY_HASH, hash_text);
    if (optimizer)
        add_metadata(metadata, KEY_OPTIMIZER, optimizer->rule->name);
    return tuff_file_save(path, tensors, self->tensor_count, metadata->keys, metadata->texts, metadata->count);
}

/* Fails if the counter of batches is not at the end of a step. Gradients accumulated for an unfinished step are not
   saved. Nor can training resume in the middle of a step from a file with another `accumulate`: the batch at which the
   counter begins the next step would overwrite gradients instead of adding to them. */
static tuff_status check_whole_step(const state_list *self, const char *path, const tuff_optimizer *optimizer)
{
    int32_t batches = 0;
    if (!optimizer || optimizer->options.accumulate <= 1)
        return TUFF_OK;
    for (int i = 0; i < self->tensor_count; i++)
        if (strcmp(self->tensors[i].name, BATCHES_NAME) == 0)
            memcpy(&batches, self->tensors[i].data, sizeof batches);
    if (batches % optimizer->options.accumulate != 0)
        return FAIL(TUFF_E_USAGE, "%s: %" PRId32 " batches are not a whole number of steps of %" PRId32 " batches",
                    path, batches, optimizer->options.accumulate);
    return TUFF_OK;
}

tuff_status tuff__checkpoint_save(state_list *self, const char *path, const tuff_optimizer *optimizer,
                                  const char *const *keys, const char *const *texts, int metadata_count)
{
    const size_t room = (size_t)metadata_count + OWN_METADATA_MAX;
    metadata_list metadata = {.keys = tuff__arena_alloc(&self->arena, room * sizeof(char *)),
                              .texts = tuff__arena_alloc(&self->arena, room * sizeof(char *))};
    if (!metadata.keys || !metadata.texts)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < metadata_count; i++) {
        if (!keys[i] || !texts[i] || strncmp(keys[i], "tuff.", 5) == 0)
            return FAIL(
                TUFF_E_USAGE,
                "checkpoint: metadata key %s: keys and texts must not be NULL, and keys must not begin with \"tuff.\"",
                keys[i] ? keys[i] : "NULL");
        add_metadata(&metadata, keys[i], texts[i]);
    }
    TRY(check_whole_step(self, path, optimizer));
    return save_list(self, path, optimizer, &metadata);
}

tuff_status tuff__checkpoint_check(const char *path, const tuff_parameters *parameters, const tuff_optimizer *optimizer)
{
    if (!path || !parameters)
        return FAIL(TUFF_E_USAGE, "checkpoint: the %s is NULL", path ? "set of parameters" : "path");
    if (optimizer && optimizer->parameters != parameters)
        return FAIL(TUFF_E_USAGE, "checkpoint: the optimizer belongs to another set of parameters");
    return TUFF_OK;
}

tuff_status tuff_checkpoint_save(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer,
                                 const char *const *keys, const char *const *texts, int metadata_count)
{
    TRY(tuff__checkpoint_check(path, parameters, optimizer));
    TRY(tuff__check_checkpoint_options(
        &(tuff_checkpoint_options){.keys = keys, .texts = texts, .metadata_count = metadata_count}));
    state_list state;
    tuff_status status = tuff__list_state(parameters, optimizer, &state);
    if (status == TUFF_OK)
        status = tuff__state_read(&state);
    if (status == TUFF_OK)
        status = tuff__checkpoint_save(&state, path, optimizer, keys, texts, metadata_count);
    tuff__state_free(&state);
    return status;
}

/* Checks the format and the hash, which covers names and contents of all tensors in any order. */
static tuff_status check_format(const char *path, const tuff_file *file)
{
    const char *format = tuff_file_metadata(file, KEY_FORMAT), *stored = tuff_file_metadata(file, KEY_HASH);
    if (!format || strcmp(format, FORMAT) != 0)
        return FAIL(TUFF_E_FORMAT, "%s: not a checkpoint of this version: its %s is \"%.40s\", not " FORMAT, path,
                    KEY_FORMAT, format ? format : "");
    uint64_t hash = 0;
    for (int i = 0; i < tuff_file_count(file); i++) {
        tuff_file_tensor tensor;
        TRY(tuff_file_tensor_at(file, i, &tensor));
        add_to_hash(&hash, &tensor);
    }
    char expected[17];
    snprintf(expected, sizeof expected, "%016" PRIx64, hash);
    if (!stored || strcmp(stored, expected) != 0)
        return FAIL(TUFF_E_FORMAT, "%s: damaged: the hash of its tensors does not match", path);
    return TUFF_OK;
}

/* Fails if the file has the state of another kind of optimizer, or none. */
static tuff_status check_optimizer(const char *path, const tuff_file *file, const tuff_optimizer *optimizer)
{
    const char *name = tuff_file_metadata(file, KEY_OPTIMIZER);
    if (!name)
        return FAIL(TUFF_E_FORMAT, "%s: has no optimizer state: training cannot resume from it", path);
    if (strcmp(name, optimizer->rule->name) != 0)
        return FAIL(TUFF_E_FORMAT, "%s: has the state of optimizer %.40s, not of %s", path, name,
                    optimizer->rule->name);
    return TUFF_OK;
}

/* Errors say what the model expects, since the usual cause is the wrong model. */
static tuff_status find_tensor(const char *path, const tuff_file *file, const char *name, tuff_dtype dtype,
                               tuff_shape shape, tuff_file_tensor *out)
{
    if (tuff_file_find(file, name, out) != TUFF_OK)
        return FAIL(TUFF_E_FORMAT, "%s: has no tensor \"%s\"", path, name);
    if (out->dtype != dtype)
        return FAIL(TUFF_E_FORMAT, "%s: \"%s\" is %s, not %s", path, name, tuff_dtype_name(out->dtype),
                    tuff_dtype_name(dtype));
    if (!tuff_shape_equal(out->shape, shape))
        return FAIL(TUFF_E_SHAPE, "%s: \"%s\" is %s, but %s in the model", path, name, SHAPE_TEXT(out->shape),
                    SHAPE_TEXT(shape));
    return TUFF_OK;
}

/* Fails if the file has a parameter that the model lacks, which means that it is of another model. */
static tuff_status check_no_unknown_tensors(const char *path, const tuff_file *file, tuff_parameters *parameters)
{
    for (int i = 0; i < tuff_file_count(file); i++) {
        tuff_file_tensor tensor;
        TRY(tuff_file_tensor_at(file, i, &tensor));
        if (strncmp(tensor.name, "optimizer.", 10) != 0 && !tuff_parameters_find(parameters, tensor.name))
            return FAIL(TUFF_E_FORMAT, "%s: has a tensor \"%.200s\" %s, which the model does not have", path,
                        tensor.name, SHAPE_TEXT(tensor.shape));
    }
    return TUFF_OK;
}

/* Returns the name of the tensor with a parameter's average; the parameter's own name if it has no average. */
static const char *average_name(const tuff_file *file, const char *name, char *buffer, bool *found)
{
    tuff_file_tensor tensor;
    snprintf(buffer, TENSOR_NAME_MAX, AVERAGE_PREFIX "%s", name);
    *found = tuff_file_find(file, buffer, &tensor) == TUFF_OK;
    return *found ? buffer : name;
}

/* Returns `otherwise` if the file has no such counter. */
static int32_t read_counter(const tuff_file *file, const char *name, int32_t otherwise)
{
    tuff_file_tensor tensor;
    int32_t count = otherwise;
    if (tuff_file_find(file, name, &tensor) == TUFF_OK && tensor.dtype == TUFF_I32 && tensor.size == sizeof count)
        memcpy(&count, tensor.data, sizeof count);
    return count;
}

/* Whether the file was saved after the first step. Before it, averages are zeros, and the parameters themselves are
   used. */
static bool has_stepped(const tuff_file *file)
{
    return read_counter(file, COUNTER_NAME, 1) > 0;
}

/* self must list parameters only. */
static tuff_status read_averages(state_list *self, const char *path, const tuff_file *file)
{
    char buffer[TENSOR_NAME_MAX];
    bool any = false, has_begun = has_stepped(file);
    for (int i = 0; i < self->tensor_count; i++) {
        const state_tensor *into = &self->tensors[i];
        tuff_file_tensor tensor;
        bool found;
        const char *name = average_name(file, into->name, buffer, &found);
        TRY(find_tensor(path, file, has_begun ? name : into->name, into->dtype, into->shape, &tensor));
        if (tensor.size > 0)
            memcpy(into->data, tensor.data, (size_t)tensor.size);
        any = any || found;
    }
    return any ? TUFF_OK
               : FAIL(TUFF_E_FORMAT, "%s: has no averages of its parameters: it was trained without average_decay",
                      path);
}

/* Returns the name under which the file has a tensor. A file without a counter of batches had one batch per step, so
   its counter of steps is used. */
static const char *stored_name(const tuff_file *file, const char *name)
{
    tuff_file_tensor tensor;
    const bool is_missing = strcmp(name, BATCHES_NAME) == 0 && tuff_file_find(file, name, &tensor) != TUFF_OK;
    return is_missing ? COUNTER_NAME : name;
}

/* If `into` is the rate and the file has none, sets it to the rate of the options, as a new optimizer does, and
   returns true. */
static bool set_default_rate(const tuff_file *file, const state_tensor *into, const tuff_optimizer *optimizer)
{
    tuff_file_tensor tensor;
    if (strcmp(into->name, RATE_NAME) != 0 || tuff_file_find(file, RATE_NAME, &tensor) == TUFF_OK)
        return false;
    const float rate = (float)optimizer->options.learning_rate;
    memcpy(into->data, &rate, sizeof rate);
    return true;
}

static tuff_status read_tensors(state_list *self, const char *path, const tuff_file *file,
                                const tuff_optimizer *optimizer)
{
    tuff_file_tensor tensor;
    for (int i = 0; i < self->tensor_count; i++) {
        const state_tensor *into = &self->tensors[i];
        if (set_default_rate(file, into, optimizer))
            continue;
        TRY(find_tensor(path, file, stored_name(file, into->name), into->dtype, into->shape, &tensor));
        if (tensor.size > 0)
            memcpy(into->data, tensor.data, (size_t)tensor.size);
        int32_t counter = 0;
        if (strcmp(into->name, COUNTER_NAME) == 0 || strcmp(into->name, BATCHES_NAME) == 0)
            memcpy(&counter, tensor.data, sizeof counter);
        if (counter < 0)
            return FAIL(TUFF_E_FORMAT, "%s: its %s is negative: %" PRId32, path, into->name, counter);
    }
    return TUFF_OK;
}

static void warn_about_batches(const char *path, const tuff_file *file, const tuff_optimizer *optimizer)
{
    const int32_t steps = read_counter(file, COUNTER_NAME, 0), batches = read_counter(file, BATCHES_NAME, steps);
    if (optimizer != NULL && optimizer->batches == NULL && batches != steps)
        tuff__log(TUFF_LOG_WARNING,
                  "%s: the run had %" PRId32 " batches in %" PRId32 " steps, and goes on at batch %" PRId32
                  ": this optimizer neither accumulates gradients nor scales the loss, and counts no batches",
                  path, batches, steps, steps);
}

/* Checks the whole file before changing anything on the device. */
static tuff_status load(state_list *self, const char *path, const tuff_file *file, tuff_parameters *parameters,
                        tuff_optimizer *optimizer, bool averages)
{
    TRY(check_format(path, file));
    if (optimizer)
        TRY(check_optimizer(path, file, optimizer));
    TRY(check_no_unknown_tensors(path, file, parameters));
    TRY(tuff__list_state(parameters, optimizer, self));
    TRY(averages ? read_averages(self, path, file) : read_tensors(self, path, file, optimizer));
    TRY(check_whole_step(self, path, averages ? NULL : optimizer));
    warn_about_batches(path, file, averages ? NULL : optimizer);
    return tuff__state_write(self);
}

static tuff_status load_path(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer, bool averages)
{
    TRY(tuff__checkpoint_check(path, parameters, optimizer));
    tuff_file *file = tuff_file_open(path);
    if (!file)
        return tuff_last_status();
    state_list state = {0};
    const tuff_status status = load(&state, path, file, parameters, optimizer, averages);
    tuff__state_free(&state);
    tuff_file_close(file);
    return status;
}

tuff_status tuff_checkpoint_load(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer)
{
    return load_path(path, parameters, optimizer, false);
}

tuff_status tuff_checkpoint_load_average(const char *path, tuff_parameters *parameters)
{
    return load_path(path, parameters, NULL, true);
}
