/* The public functions of loaders: creating and destroying them, taking and uploading batches, saving and restoring
   positions. */
#include "data/loader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "exec/plan.h"

static tuff_status check_options(const tuff_loader_options *o)
{
    const int sources = (o->sample != NULL) + (o->batch != NULL) + (o->path != NULL);
    if (sources != 1)
        return FAIL(TUFF_E_USAGE, "loader: needs exactly one of sample, batch and path, got %d", sources);
    if (o->batch_size < 1 || o->batch_size > INT32_MAX || o->sample_count < 0)
        return FAIL(TUFF_E_USAGE, "loader: batch_size %lld or sample_count %lld is out of range",
                    (long long)o->batch_size, (long long)o->sample_count);
    if (o->workers < 0 || o->workers > WORKERS_MAX || o->ring < 0 || o->ring > RING_MAX)
        return FAIL(TUFF_E_USAGE, "loader: workers %d or ring %d is out of range: expected 0 to %d and 0 to %d",
                    o->workers, o->ring, WORKERS_MAX, RING_MAX);
    if (!(o->timeout >= 0 && o->timeout <= 1e6))
        return FAIL(TUFF_E_USAGE, "loader: the timeout must be 0 to 1e6 seconds, got %g", o->timeout);
    if ((unsigned)o->upload > TUFF_UPLOAD_AHEAD)
        return FAIL(TUFF_E_USAGE, "loader: unknown upload value %d", (int)o->upload);
    if (o->sample_count == 0 && o->sample)
        return FAIL(TUFF_E_USAGE, "loader: a source of samples needs sample_count");
    if (o->sample_count == 0 && o->batch && (o->shuffle || o->keep_last))
        return FAIL(TUFF_E_USAGE, "loader: shuffle and keep_last need sample_count: an endless set has no last batch");
    return TUFF_OK;
}

/* Computes the number of batches of an epoch, and the number of samples that workers take at a time, which is small
   enough that all of them have work. */
static tuff_status count_batches(tuff_loader *self)
{
    const tuff_loader_options *options = &self->options;
    const int64_t size = options->batch_size, partial_last = options->keep_last ? size - 1 : 0;
    /* Rounds down, or up with keep_last, without a sum that could overflow. */
    self->batch_count = self->sample_count / size + (self->sample_count % size + partial_last) / size;
    if (self->sample_count > 0 && self->batch_count == 0)
        return FAIL(TUFF_E_USAGE, "loader: %lld samples are fewer than a batch of %lld, and keep_last is not set",
                    (long long)self->sample_count, (long long)size);
    /* Four units for each worker even out samples that take longer than others. */
    self->unit_size = options->batch ? size : size / (options->workers > 1 ? 4 * options->workers : 1);
    self->unit_size = self->unit_size > 0 ? self->unit_size : 1;
    return TUFF_OK;
}

/* Everything that a batch needs is allocated here, once, so that taking batches cannot run out of memory. */
static tuff_status make_slot(tuff_loader *self, loader_slot *slot)
{
    const batch_layout *layout = &self->layout;
    const size_t batch = (size_t)layout->batch_size;
    slot->memory = layout->size <= SIZE_MAX ? tuff__calloc((size_t)layout->size + 1, 1) : NULL;
    slot->indices = tuff__calloc(batch, sizeof *slot->indices);
    slot->rows = tuff__calloc(batch * (size_t)layout->field_count, sizeof *slot->rows);
    if (!slot->memory || !slot->indices || !slot->rows)
        return FAIL(TUFF_E_OOM_HOST, "loader: out of host memory for a ring of %d batches of %llu bytes",
                    self->options.ring, (unsigned long long)layout->size);
    for (int f = 0; f < layout->field_count; f++) {
        const batch_field *field = &layout->fields[f];
        slot->data[f] = slot->memory + layout->parts[field->part].offset;
        if (field->spec.collate != TUFF_COLLATE_STACK)
            slot->lengths[f] = (const int32_t *)(const void *)(slot->memory + field->lengths);
    }
    if (!self->device || tuff__device_is_reference(self->device))
        return TUFF_OK;
    return tuff__staging_create(self->device, layout->upload_size, self->uploads_ahead, &slot->staging);
}

/* By default only where sending pays off: on devices with memory of their own. */
static bool wants_upload_ahead(const tuff_loader *self)
{
    if (!self->device || self->options.upload == TUFF_UPLOAD_IN_ORDER)
        return false;
    return self->options.upload == TUFF_UPLOAD_AHEAD || tuff__device_prefers_staged_upload(self->device);
}

static tuff_status make_ring(tuff_loader *self)
{
    self->uploads_ahead = wants_upload_ahead(self);
    self->slots = tuff__calloc((size_t)self->options.ring, sizeof *self->slots);
    self->workers = tuff__calloc((size_t)self->options.workers, sizeof *self->workers);
    if (!self->slots || !self->workers)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < self->options.ring; i++)
        TRY(make_slot(self, &self->slots[i]));
    return TUFF_OK;
}

static tuff_status make_locks(tuff_loader *self)
{
    self->has_lock = tuff__mutex_create(&self->lock) == 0;
    self->has_work = tuff__condition_create(&self->work) == 0;
    self->has_done = tuff__condition_create(&self->done) == 0;
    return self->has_lock && self->has_work && self->has_done ? TUFF_OK
                                                              : FAIL(TUFF_E_OOM_HOST, "loader: cannot create a lock");
}

/* Locks come first and threads last: tuff_loader_destroy can undo any prefix of this order. */
static tuff_status build(tuff_loader *self, const tuff_loader_options *options)
{
    TRY(check_options(options));
    TRY(make_locks(self));
    TRY(tuff__batch_layout(options, &self->layout));
    if (options->path) {
        self->path = tuff__strdup(options->path);
        if (!self->path)
            return TUFF_E_OOM_HOST;
        TRY(tuff__records_open(self));
    }
    TRY(count_batches(self));
    TRY(make_ring(self));
    return tuff__workers_start(self);
}

/* The program's fields and path may be gone after this call, so the loader keeps copies in its layout and forgets the
   pointers. */
tuff_loader *tuff_loader_create(tuff_device *device, const tuff_loader_options *options)
{
    if (!options) {
        FAIL(TUFF_E_USAGE, "loader: the options are NULL");
        return NULL;
    }
    tuff_loader *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->options.fields = NULL;
    self->options.path = NULL;
    self->options.workers = options->workers > 0 ? options->workers : 1;
    self->options.ring = options->ring > 0 ? options->ring : 2;
    self->options.timeout = options->timeout > 0 ? options->timeout : 10;
    self->sample_count = options->sample_count;
    self->device = device;
    self->file.fd = -1;
    if (build(self, options) != TUFF_OK) {
        (void)tuff_loader_destroy(self);
        return NULL;
    }
    return self;
}

/* Called by whoever uses the loader last: the program's thread, or a worker that was left behind in a source. */
void tuff__loader_free(tuff_loader *self)
{
    for (int i = 0; self->slots && i < self->options.ring; i++) {
        tuff__free(self->slots[i].memory);
        tuff__free(self->slots[i].indices);
        tuff__free(self->slots[i].rows);
    }
    tuff__reader_close(&self->file);
    tuff__batch_layout_free(&self->layout);
    tuff__free(self->slots);
    tuff__free(self->workers);
    tuff__free(self->path);
    if (self->has_work)
        (void)pthread_cond_destroy(&self->work);
    if (self->has_done)
        (void)pthread_cond_destroy(&self->done);
    if (self->has_lock)
        tuff__mutex_destroy(&self->lock);
    tuff__free(self);
}

tuff_status tuff_loader_destroy(tuff_loader *self)
{
    if (!self)
        return TUFF_OK;
    /* What is needed after the workers have stopped is read before: an abandoned loader may be freed by them at any
       time. */
    const double timeout = self->options.timeout;
    const int ring = self->slots ? self->options.ring : 0;
    staging *stagings[RING_MAX];
    for (int i = 0; i < ring; i++)
        stagings[i] = self->slots[i].staging;
    const bool has_ended = self->running_workers == 0 || tuff__workers_stop(self);
    /* Workers that are still inside a source no longer use staging memory. */
    for (int i = 0; i < ring; i++)
        tuff__staging_destroy(stagings[i]);
    if (has_ended) {
        tuff__loader_free(self);
        return TUFF_OK;
    }
    (void)FAIL(TUFF_E_TIMEOUT,
               "loader: a source has not returned for %g s: its thread keeps running, and its memory is not freed "
               "until it returns",
               timeout);
    saved_error failure; /* the application's log function may call the library */
    tuff__error_save(&failure);
    tuff__log(TUFF_LOG_ERROR, "%s", tuff_error());
    tuff__error_restore(&failure);
    return TUFF_E_TIMEOUT;
}

/* Called with the lock held. Counts the time from `begin` to now by its cause: the device or the source. */
static void count_waiting(tuff_loader *self, const loader_slot *slot, uint64_t begin)
{
    const uint64_t now = tuff__nanoseconds();
    const uint64_t from = slot->held_from > begin ? slot->held_from : begin;
    const uint64_t held = slot->held_to > from ? slot->held_to - from : 0;
    self->counters.held_back += held;
    self->counters.waited += now - begin > held ? now - begin - held : 0;
}

/* Fails with the batch's error and names the sample if a single one is to blame. */
static tuff_status fail_batch(const tuff_loader *self, const loader_slot *slot)
{
    if (slot->failed_sample < slot->count && !self->options.batch)
        return FAIL(slot->status, "loader: sample %lld, in batch %lld of epoch %lld: %s",
                    (long long)slot->indices[slot->failed_sample], (long long)slot->index, (long long)slot->epoch,
                    slot->message);
    return FAIL(slot->status, "loader: batch %lld of epoch %lld: %s", (long long)slot->index, (long long)slot->epoch,
                slot->message);
}

/* Takes the slot of the next batch, which then belongs to the program's thread, and frees the previous one. */
static tuff_status take_next_slot(tuff_loader *self, loader_slot **out)
{
    loader_slot *slot = &self->slots[self->taken % self->options.ring];
    if (self->taken > 0) {
        loader_slot *last = &self->slots[(self->taken - 1) % self->options.ring];
        if (last->state == SLOT_TAKEN) {
            last->state = SLOT_FREE;
            (void)pthread_cond_broadcast(&self->work);
        }
    }
    if (self->is_paused)
        return FAIL(TUFF_E_TIMEOUT, "loader: the last seek timed out: call tuff_loader_seek again");
    if (slot->state != SLOT_READY || slot->number != self->taken) {
        const uint64_t begin = tuff__nanoseconds();
        tuff__workers_await(self, slot);
        count_waiting(self, slot, begin);
    }
    /* The slot stays READY, so that the next call reports the same error instead of skipping the batch. */
    if (slot->status != TUFF_OK)
        return fail_batch(self, slot);
    slot->state = SLOT_TAKEN;
    self->taken++;
    *out = slot;
    return TUFF_OK;
}

static tuff_status check_input(const tuff_plan *plan, const batch_part *part, int *index)
{
    tuff_plan_value value;
    *index = tuff_plan_find_input(plan, part->name);
    if (*index < 0)
        return TUFF_E_USAGE;
    TRY(tuff_plan_input_at(plan, *index, &value));
    if (value.dtype != part->dtype)
        return FAIL(TUFF_E_DTYPE, "loader: the plan's input \"%.100s\" is %s, the batch has %s", part->name,
                    tuff_dtype_name(value.dtype), tuff_dtype_name(part->dtype));
    if (!tuff_shape_equal(value.shape, part->shape))
        return FAIL(TUFF_E_SHAPE, "loader: the plan's input \"%.100s\" is %s, the batch has %s", part->name,
                    SHAPE_TEXT(value.shape), SHAPE_TEXT(part->shape));
    return TUFF_OK;
}

/* All inputs are checked before the first byte moves, so that a failed call leaves no plan with half a batch. */
static tuff_status upload(tuff_loader *self, tuff_plan *plan, const loader_slot *slot)
{
    staging_transfer moves[PARTS_MAX];
    int inputs[PARTS_MAX];
    for (int i = 0; i < self->layout.part_count; i++)
        TRY(check_input(plan, &self->layout.parts[i], &inputs[i]));
    if (tuff__device_is_reference(self->device)) {
        for (int i = 0; i < self->layout.part_count; i++)
            TRY(tuff_plan_write_at(plan, inputs[i], 0, slot->memory + self->layout.parts[i].offset,
                                   (size_t)self->layout.parts[i].size));
        return TUFF_OK;
    }
    for (int i = 0; i < self->layout.part_count; i++)
        moves[i] = (staging_transfer){tuff__plan_input_storage(plan, inputs[i]), 0, self->layout.parts[i].offset,
                                      self->layout.parts[i].size};
    TRY(tuff__staging_upload(slot->staging, moves, self->layout.part_count));
    for (int i = 0; i < self->layout.part_count; i++)
        plan->written[inputs[i]] = true;
    return TUFF_OK;
}

static tuff_status upload_taken(tuff_loader *self, tuff_plan *plan, loader_slot *slot)
{
    if (self->device != plan->device)
        return FAIL(TUFF_E_USAGE, "loader: the plan belongs to another device than the loader");
    TRY(upload(self, plan, slot));
    for (int i = 0; i < self->layout.part_count; i++)
        self->counters.uploaded += self->layout.parts[i].size;
    if (self->uploads_ahead && tuff__device_has_upload_queue(self->device))
        self->counters.uploaded_ahead += self->layout.upload_size;
    return TUFF_OK;
}

/* Uploads without the lock, so that workers can take units meanwhile. If that fails, the batch is given back: the
   program may call again with another plan. */
tuff_status tuff_loader_next(tuff_loader *self, tuff_plan *plan, tuff_batch *batch)
{
    loader_slot *slot = NULL;
    if (!self)
        return FAIL(TUFF_E_USAGE, "loader: the loader is NULL");
    tuff__lock(&self->lock);
    tuff_status status = take_next_slot(self, &slot);
    tuff__unlock(&self->lock);
    if (status == TUFF_OK && plan) {
        status = upload_taken(self, plan, slot);
        tuff__lock(&self->lock);
        if (status != TUFF_OK) {
            slot->state = SLOT_READY;
            self->taken--;
        }
        tuff__unlock(&self->lock);
    }
    TRY(status);
    self->counters.batches++;
    if (batch)
        *batch = (tuff_batch){.epoch = slot->epoch,
                              .index = slot->index,
                              .count = slot->count,
                              .data = slot->data,
                              .lengths = slot->lengths};
    return TUFF_OK;
}

/* The position is that of the next batch. It is all the state that a loader has, since batches depend on nothing else.
   */
tuff_status tuff_loader_tell(const tuff_loader *self, tuff_loader_position *position)
{
    if (!self || !position)
        return FAIL(TUFF_E_USAGE, "loader: the %s is NULL", self ? "position" : "loader");
    *position = (tuff_loader_position){.batch = self->taken};
    if (self->batch_count > 0) {
        position->epoch = self->taken / self->batch_count;
        position->batch = self->taken % self->batch_count;
    }
    return TUFF_OK;
}

static tuff_status check_position(const tuff_loader *self, tuff_loader_position position)
{
    /* Batches are numbered over all epochs, and the ring runs ahead of the position. */
    const int64_t limit = INT64_MAX / 2;
    const bool exists =
        position.batch >= 0 && position.epoch >= 0 &&
        (self->batch_count > 0 ? position.batch < self->batch_count && position.epoch < limit / self->batch_count
                               : position.epoch == 0 && position.batch < limit);
    if (exists)
        return TUFF_OK;
    return FAIL(TUFF_E_USAGE, "loader: batch %lld of epoch %lld is out of range: an epoch has %lld batches",
                (long long)position.batch, (long long)position.epoch, (long long)self->batch_count);
}

tuff_status tuff_loader_seek(tuff_loader *self, tuff_loader_position position)
{
    if (!self)
        return FAIL(TUFF_E_USAGE, "loader: the loader is NULL");
    TRY(check_position(self, position));
    tuff__lock(&self->lock);
    const tuff_status status = tuff__workers_pause(self);
    if (status == TUFF_OK) {
        self->issued = self->taken = position.epoch * self->batch_count + position.batch;
        for (int i = 0; i < self->options.ring; i++)
            self->slots[i].state = SLOT_FREE;
        tuff__workers_resume(self);
    }
    tuff__unlock(&self->lock);
    return status;
}

#define POSITION_FORMAT \
    "samples %" PRId64 " batch %" PRId64 " last %d shuffle %d seed %" PRIu64 " epoch %" PRId64 " index %" PRId64

tuff_status tuff_loader_save(const tuff_loader *self, char *buffer, size_t size)
{
    tuff_loader_position position;
    if (!buffer || size == 0)
        return FAIL(TUFF_E_USAGE, "loader: the buffer for the position is NULL or empty");
    buffer[0] = 0;
    TRY(tuff_loader_tell(self, &position));
    const tuff_loader_options *options = &self->options;
    const int length =
        snprintf(buffer, size, POSITION_FORMAT, self->sample_count, options->batch_size, (int)options->keep_last,
                 (int)options->shuffle, options->seed, position.epoch, position.batch);
    if (length >= 0 && (size_t)length < size)
        return TUFF_OK;
    buffer[0] = 0;
    return FAIL(TUFF_E_LIMIT, "loader: the position needs %d bytes, the buffer has %zu", length + 1, size);
}

/* Reads the numbers that follow their names, in the order of the format. */
static bool scan_position(const char *saved, int64_t *values)
{
    static const char *const names[] = {"samples ", " batch ", " last ", " shuffle ", " seed ", " epoch ", " index "};
    for (int i = 0; i < 7; i++) {
        const size_t length = strlen(names[i]);
        int digits = 0;
        uint64_t value = 0;
        if (strncmp(saved, names[i], length) != 0)
            return false;
        for (saved += length; *saved >= '0' && *saved <= '9'; saved++, digits++) {
            const uint64_t digit = (uint64_t)(*saved - '0');
            if (value > (UINT64_MAX - digit) / 10)
                return false;
            value = value * 10 + digit;
        }
        if (digits == 0)
            return false;
        values[i] = (int64_t)value;
    }
    return *saved == 0;
}

tuff_status tuff_loader_restore(tuff_loader *self, const char *saved)
{
    int64_t values[7];
    if (!self || !saved)
        return FAIL(TUFF_E_USAGE, "loader: the %s is NULL", self ? "position" : "loader");
    if (!scan_position(saved, values))
        return FAIL(TUFF_E_FORMAT, "loader: not a valid position: \"%.100s\"", saved);
    const tuff_loader_options *options = &self->options;
    const int64_t own[] = {self->sample_count, options->batch_size, options->keep_last, options->shuffle,
                           (int64_t)options->seed};
    static const char *const names[] = {"samples", "batch size", "keep_last", "shuffle", "seed"};
    for (int i = 0; i < 5; i++)
        if (values[i] != own[i])
            return FAIL(TUFF_E_FORMAT,
                        "loader: the position belongs to another loader: its %s is %" PRIu64 ", this one's is %" PRIu64,
                        names[i], (uint64_t)values[i], (uint64_t)own[i]);
    const tuff_loader_position position = {.epoch = values[5], .batch = values[6]};
    if (check_position(self, position) != TUFF_OK)
        return FAIL(TUFF_E_FORMAT, "loader: not a position of this loader: \"%.100s\"", saved);
    return tuff_loader_seek(self, position);
}

int64_t tuff_loader_batch_count(const tuff_loader *self)
{
    return self ? self->batch_count : 0;
}

int64_t tuff_loader_sample_count(const tuff_loader *self)
{
    return self ? self->sample_count : 0;
}

tuff_status tuff_loader_counters_get(const tuff_loader *self, tuff_loader_counters *counters)
{
    if (!self || !counters)
        return FAIL(TUFF_E_USAGE, "loader: the %s is NULL", self ? "counters argument" : "loader");
    *counters = self->counters;
    return TUFF_OK;
}
