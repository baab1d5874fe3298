/* Checkpoints: one safetensors file with every parameter by name, the optimizer's moments by the same names, the
   counter, and metadata. Slabs and their padding are not in the file, so that other programs can read it and the
   layout may change. Loading checks everything before it writes anything; a hash of all tensors finds damage that
   the format cannot. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "train/checkpoint.h"
#include "tuff/io.h"

#define KEY_FORMAT "tuff.format"
#define KEY_OPTIMIZER "tuff.optimizer"
#define KEY_HASH "tuff.hash"
#define FORMAT "tuff-checkpoint-1"
#define COUNTER_NAME "optimizer.step"
#define OWN_METADATA_MAX 3
#define SLABS_MAX (1 + MOMENTS_MAX)

/* A checkpoint in host memory: slabs with the parameters first, then the moments. */
typedef struct snapshot {
    arena arena;
    float *slabs[SLABS_MAX];
    tuff_array *arrays[SLABS_MAX];
    const char *prefixes[SLABS_MAX]; /* of the names in the file: "", "optimizer.m." */
    int slab_count;
    int32_t counter;
} snapshot;

static void snapshot_free(snapshot *self)
{
    for (int i = 0; i < SLABS_MAX; i++)
        tuff__free(self->slabs[i]);
    tuff__arena_free(&self->arena);
}

static const char *join(arena *owner, const char *prefix, const char *name)
{
    const size_t size = strlen(prefix) + strlen(name) + 1;
    char *joined = tuff__arena_alloc(owner, size);
    if (joined)
        snprintf(joined, size, "%s%s", prefix, name);
    return joined;
}

static tuff_status add_slab(snapshot *self, int64_t total, tuff_array *array, const char *prefix)
{
    const int i = self->slab_count;
    self->arrays[i] = array;
    self->prefixes[i] = prefix;
    self->slabs[i] = tuff__calloc((size_t)total, sizeof(float));
    self->slab_count += self->slabs[i] != NULL;
    return self->slabs[i] && prefix ? TUFF_OK : TUFF_E_OOM_HOST;
}

/* Room for all slabs, and the prefixes of their names. */
static tuff_status snapshot_create(snapshot *self, tuff_parameters *parameters, const tuff_optimizer *optimizer)
{
    TRY(add_slab(self, parameters->total, parameters->slab, ""));
    for (int i = 0; optimizer && i < MOMENTS_MAX && optimizer->moments[i]; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "optimizer.%s.", optimizer->rule->moments[i]);
        TRY(add_slab(self, parameters->total, optimizer->moments[i], tuff__arena_strdup(&self->arena, prefix)));
    }
    return TUFF_OK;
}

/* Slabs as a whole: a few transfers, however many tensors. */
static tuff_status read_device(snapshot *self, const tuff_optimizer *optimizer)
{
    for (int i = 0; i < self->slab_count; i++)
        TRY(tuff_array_read(self->arrays[i], self->slabs[i], (size_t)tuff_array_size(self->arrays[i])));
    return optimizer ? tuff_array_read(optimizer->counter, &self->counter, sizeof self->counter) : TUFF_OK;
}

static tuff_status write_device(snapshot *self, tuff_optimizer *optimizer)
{
    for (int i = 0; i < self->slab_count; i++)
        TRY(tuff_array_write(self->arrays[i], self->slabs[i], (size_t)tuff_array_size(self->arrays[i])));
    return optimizer ? tuff_array_write(optimizer->counter, &self->counter, sizeof self->counter) : TUFF_OK;
}

/* Does not depend on the order of tensors in the file. */
static void add_to_hash(uint64_t *hash, const tuff_file_tensor *tensor)
{
    *hash ^= tuff__hash64(tensor->data, (size_t)tensor->size, tuff__hash64(tensor->name, strlen(tensor->name), 0));
}

static tuff_status list_tensors(snapshot *self, const tuff_parameters *parameters, bool with_counter,
                                tuff_file_tensor *tensors, int *count)
{
    for (int slab = 0; slab < self->slab_count; slab++)
        for (int i = 0; i < parameters->count; i++) {
            const parameter *item = &parameters->items[i];
            tuff_file_tensor *tensor = &tensors[(*count)++];
            *tensor = (tuff_file_tensor){.name = join(&self->arena, self->prefixes[slab], item->name),
                                         .dtype = TUFF_F32,
                                         .shape = item->shape,
                                         .data = self->slabs[slab] + item->offset,
                                         .size = (uint64_t)item->count * sizeof(float)};
            if (!tensor->name)
                return TUFF_E_OOM_HOST;
        }
    if (with_counter)
        tensors[(*count)++] = (tuff_file_tensor){.name = COUNTER_NAME,
                                                 .dtype = TUFF_I32,
                                                 .shape = TUFF_SCALAR,
                                                 .data = &self->counter,
                                                 .size = sizeof self->counter};
    return TUFF_OK;
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

static tuff_status save_snapshot(snapshot *self, const char *path, const tuff_parameters *parameters,
                                 const tuff_optimizer *optimizer, metadata_list *metadata)
{
    const size_t room = (size_t)self->slab_count * (size_t)parameters->count + 1;
    tuff_file_tensor *tensors = tuff__arena_alloc(&self->arena, room * sizeof *tensors);
    int count = 0;
    if (!tensors)
        return TUFF_E_OOM_HOST;
    TRY(list_tensors(self, parameters, optimizer != NULL, tensors, &count));
    uint64_t hash = 0;
    for (int i = 0; i < count; i++)
        add_to_hash(&hash, &tensors[i]);
    char hash_text[17];
    snprintf(hash_text, sizeof hash_text, "%016" PRIx64, hash);
    add_metadata(metadata, KEY_FORMAT, FORMAT);
    add_metadata(metadata, KEY_HASH, hash_text);
    if (optimizer)
        add_metadata(metadata, KEY_OPTIMIZER, optimizer->rule->name);
    return tuff_file_save(path, tensors, count, metadata->keys, metadata->texts, metadata->count);
}

static tuff_status save(snapshot *self, const char *path, const tuff_parameters *parameters,
                        const tuff_optimizer *optimizer, const char *const *keys, const char *const *texts,
                        int metadata_count)
{
    const size_t room = (size_t)metadata_count + OWN_METADATA_MAX;
    metadata_list metadata = {.keys = tuff__arena_alloc(&self->arena, room * sizeof(char *)),
                              .texts = tuff__arena_alloc(&self->arena, room * sizeof(char *))};
    if (!metadata.keys || !metadata.texts)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < metadata_count; i++) {
        if (!keys[i] || !texts[i] || strncmp(keys[i], "tuff.", 5) == 0)
            return FAIL(TUFF_E_USAGE, "checkpoint: the metadata key %s: keys must not be NULL nor begin with tuff.",
                        keys[i] ? keys[i] : "NULL");
        add_metadata(&metadata, keys[i], texts[i]);
    }
    return save_snapshot(self, path, parameters, optimizer, &metadata);
}

static tuff_status check_arguments(const char *path, const tuff_parameters *parameters, const tuff_optimizer *optimizer)
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
    TRY(check_arguments(path, parameters, optimizer));
    if (metadata_count < 0 || (metadata_count > 0 && (!keys || !texts)))
        return FAIL(TUFF_E_USAGE, "checkpoint: %d rows of metadata without keys or texts", metadata_count);
    snapshot state = {0};
    tuff_status status = snapshot_create(&state, parameters, optimizer);
    if (status == TUFF_OK)
        status = read_device(&state, optimizer);
    if (status == TUFF_OK)
        status = save(&state, path, parameters, optimizer, keys, texts, metadata_count);
    snapshot_free(&state);
    return status;
}

struct checkpoint_state {
    snapshot snapshot;
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
};

tuff_status tuff__checkpoint_open(tuff_parameters *parameters, tuff_optimizer *optimizer, checkpoint_state **out)
{
    *out = NULL;
    TRY(check_arguments("", parameters, optimizer));
    checkpoint_state *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return TUFF_E_OOM_HOST;
    self->parameters = parameters;
    self->optimizer = optimizer;
    const tuff_status status = snapshot_create(&self->snapshot, parameters, optimizer);
    if (status == TUFF_OK)
        *out = self;
    else
        tuff__checkpoint_close(self);
    return status;
}

void tuff__checkpoint_close(checkpoint_state *self)
{
    if (self)
        snapshot_free(&self->snapshot);
    tuff__free(self);
}

int tuff__checkpoint_array_count(const checkpoint_state *self)
{
    return self->snapshot.slab_count + (self->optimizer != NULL);
}

checkpoint_array tuff__checkpoint_array(checkpoint_state *self, int index)
{
    if (index == self->snapshot.slab_count)
        return (checkpoint_array){self->optimizer->counter, &self->snapshot.counter};
    return (checkpoint_array){self->snapshot.arrays[index], self->snapshot.slabs[index]};
}

tuff_status tuff__checkpoint_store(checkpoint_state *self, const char *path, const char *const *keys,
                                   const char *const *texts, int metadata_count)
{
    return save(&self->snapshot, path, self->parameters, self->optimizer, keys, texts, metadata_count);
}

/* The hash covers names and contents of all tensors, whatever their order. */
static tuff_status check_format(const char *path, const tuff_file *file)
{
    const char *format = tuff_file_metadata(file, KEY_FORMAT), *kept = tuff_file_metadata(file, KEY_HASH);
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
    if (!kept || strcmp(kept, expected) != 0)
        return FAIL(TUFF_E_FORMAT, "%s: damaged: its tensors do not have the hash that it was saved with", path);
    return TUFF_OK;
}

/* The state of one algorithm means nothing to another. */
static tuff_status check_optimizer(const char *path, const tuff_file *file, const tuff_optimizer *optimizer)
{
    const char *name = tuff_file_metadata(file, KEY_OPTIMIZER);
    if (!name)
        return FAIL(TUFF_E_FORMAT, "%s: holds no state of an optimizer: training cannot go on from it", path);
    if (strcmp(name, optimizer->rule->name) != 0)
        return FAIL(TUFF_E_FORMAT, "%s: holds the state of %.40s, not of %s", path, name, optimizer->rule->name);
    return TUFF_OK;
}

/* Errors say what the model expects, for a mismatch is usually the wrong model. */
static tuff_status find_tensor(const char *path, const tuff_file *file, const char *name, tuff_dtype dtype,
                               tuff_shape shape, tuff_file_tensor *out)
{
    if (tuff_file_find(file, name, out) != TUFF_OK)
        return FAIL(TUFF_E_FORMAT, "%s: has no tensor \"%s\"", path, name);
    if (out->dtype != dtype)
        return FAIL(TUFF_E_FORMAT, "%s: \"%s\" is %s, not %s", path, name, tuff_dtype_name(out->dtype),
                    tuff_dtype_name(dtype));
    if (!tuff_shape_equal(out->shape, shape))
        return FAIL(TUFF_E_SHAPE, "%s: \"%s\" is %s, the model's is %s", path, name, SHAPE_TEXT(out->shape),
                    SHAPE_TEXT(shape));
    return TUFF_OK;
}

/* A parameter that the model lacks means another model. */
static tuff_status check_no_more(const char *path, const tuff_file *file, tuff_parameters *parameters)
{
    for (int i = 0; i < tuff_file_count(file); i++) {
        tuff_file_tensor tensor;
        TRY(tuff_file_tensor_at(file, i, &tensor));
        if (strncmp(tensor.name, "optimizer.", 10) != 0 && !tuff_parameters_find(parameters, tensor.name))
            return FAIL(TUFF_E_FORMAT, "%s: has a tensor \"%.200s\" %s, which the model lacks", path, tensor.name,
                        SHAPE_TEXT(tensor.shape));
    }
    return TUFF_OK;
}

static tuff_status read_file(snapshot *self, const char *path, const tuff_file *file, tuff_parameters *parameters,
                             const tuff_optimizer *optimizer)
{
    tuff_file_tensor tensor;
    for (int slab = 0; slab < self->slab_count; slab++)
        for (int i = 0; i < parameters->count; i++) {
            const parameter *item = &parameters->items[i];
            const char *name = join(&self->arena, self->prefixes[slab], item->name);
            if (!name)
                return TUFF_E_OOM_HOST;
            TRY(find_tensor(path, file, name, TUFF_F32, item->shape, &tensor));
            if (tensor.size > 0)
                memcpy(self->slabs[slab] + item->offset, tensor.data, (size_t)tensor.size);
        }
    if (!optimizer)
        return TUFF_OK;
    TRY(find_tensor(path, file, COUNTER_NAME, TUFF_I32, TUFF_SCALAR, &tensor));
    memcpy(&self->counter, tensor.data, sizeof self->counter);
    if (self->counter < 0)
        return FAIL(TUFF_E_FORMAT, "%s: its step is %" PRId32, path, self->counter);
    return TUFF_OK;
}

/* Nothing on the device changes before the whole file was found sound. */
static tuff_status load(snapshot *self, const char *path, const tuff_file *file, tuff_parameters *parameters,
                        tuff_optimizer *optimizer)
{
    TRY(check_format(path, file));
    if (optimizer)
        TRY(check_optimizer(path, file, optimizer));
    TRY(check_no_more(path, file, parameters));
    TRY(snapshot_create(self, parameters, optimizer));
    TRY(read_file(self, path, file, parameters, optimizer));
    return write_device(self, optimizer);
}

tuff_status tuff_checkpoint_load(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer)
{
    TRY(check_arguments(path, parameters, optimizer));
    tuff_file *file = tuff_file_open(path);
    if (!file)
        return tuff_last_status();
    snapshot state = {0};
    const tuff_status status = load(&state, path, file, parameters, optimizer);
    snapshot_free(&state);
    tuff_file_close(file);
    return status;
}
