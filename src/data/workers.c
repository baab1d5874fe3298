/* The loader's threads. They take units of the next batch and call the source without the lock; the worker that
   finishes a batch packs it and copies it to staging memory. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/loader.h"

#define MILLISECOND UINT64_C(1000000)
/* How long to poll staging memory before waiting for the device, which finds out whether it hangs. */
#define MAX_POLLING (30000 * MILLISECOND)
#define SHORTEST_SLEEP (MILLISECOND / 20)
#define LONGEST_SLEEP (4 * MILLISECOND)

typedef struct unit {
    loader_slot *slot;
    int64_t first, count; /* samples */
} unit;

static void begin_batch(tuff_loader *self, loader_slot *slot)
{
    slot->state = SLOT_FILLING;
    slot->number = self->issued;
    slot->epoch = self->batch_count > 0 ? slot->number / self->batch_count : 0;
    slot->index = self->batch_count > 0 ? slot->number % self->batch_count : slot->number;
    slot->count = self->layout.batch_size;
    if (self->sample_count > 0) { /* otherwise the index of an endless set could overflow this product */
        const int64_t left = self->sample_count - slot->index * slot->count;
        slot->count = left < slot->count ? left : slot->count;
    }
    slot->next_sample = slot->samples_done = 0;
    slot->status = TUFF_OK;
    slot->failed_sample = INT64_MAX;
    slot->message[0] = 0;
    slot->held_from = slot->held_to = 0;
}

/* Units are handed out in the order of samples, so that the batch that the program needs next is ready first. */
static bool take_unit(tuff_loader *self, unit *out)
{
    loader_slot *slot = &self->slots[self->issued % self->options.ring];
    if (self->is_paused)
        return false;
    if (slot->state == SLOT_FREE)
        begin_batch(self, slot);
    else if (slot->state != SLOT_FILLING || slot->number != self->issued)
        return false;
    const int64_t left = slot->count - slot->next_sample;
    *out = (unit){slot, slot->next_sample, left < self->unit_size ? left : self->unit_size};
    slot->next_sample += out->count;
    self->issued += slot->next_sample == slot->count;
    return true;
}

/* Depends on nothing but options and position, which is why a loader can be restored from its position alone. */
static int64_t sample_index(const tuff_loader *self, const loader_slot *slot, int64_t sample)
{
    const int64_t index = slot->index * self->layout.batch_size + sample;
    return self->options.shuffle ? tuff_shuffled_index(self->options.seed, slot->epoch, index, self->sample_count)
                                 : index;
}

/* Completes the message of a failure: the source's own message, else the library's last error in this thread, else the
   name of the status. */
static void complete_message(tuff_status status, char *message)
{
    if (message[0] == 0 && tuff_last_status() == status)
        snprintf(message, MESSAGE_SIZE, "%.400s", tuff_error());
    if (message[0] == 0)
        snprintf(message, MESSAGE_SIZE, "the source returned %s", tuff_status_name(status));
}

static tuff_status fill_sample(const tuff_loader *self, const loader_slot *slot, int64_t sample, char *message)
{
    const batch_layout *layout = &self->layout;
    void *data[FIELDS_MAX];
    int64_t rows[FIELDS_MAX];
    for (int f = 0; f < layout->field_count; f++) {
        const batch_field *field = &layout->fields[f];
        data[f] = slot->memory + field->samples_offset + (uint64_t)sample * field->sample_size;
        /* A source whose samples all have this size need not touch the number. */
        rows[f] = field->rows_max;
    }
    tuff_sample filled = {.index = slot->indices[sample],
                          .epoch = slot->epoch,
                          .data = data,
                          .rows = rows,
                          .message = message,
                          .message_size = MESSAGE_SIZE};
    const tuff_status status =
        self->path ? tuff__records_read(self, filled.index, data) : self->options.sample(self->options.user, &filled);
    for (int f = 0; f < layout->field_count; f++)
        slot->rows[f * layout->batch_size + sample] = rows[f];
    return status;
}

static tuff_status fill_batch(const tuff_loader *self, const loader_slot *slot, char *message)
{
    const batch_layout *layout = &self->layout;
    void *data[FIELDS_MAX];
    int64_t *rows[FIELDS_MAX];
    for (int f = 0; f < layout->field_count; f++) {
        data[f] = slot->memory + layout->fields[f].samples_offset;
        rows[f] = slot->rows + f * layout->batch_size;
        for (int64_t i = 0; i < slot->count; i++)
            rows[f][i] = layout->fields[f].rows_max;
    }
    tuff_batch_target target = {.number = slot->number,
                                .epoch = slot->epoch,
                                .count = slot->count,
                                .indices = self->sample_count > 0 ? slot->indices : NULL,
                                .data = data,
                                .rows = rows,
                                .message = message,
                                .message_size = MESSAGE_SIZE};
    return self->options.batch(self->options.user, &target);
}

/* Whether a batch in preparation is still needed: not once the loader stops, or is paused for a seek. */
static bool is_wanted(const tuff_loader *self)
{
    return !self->is_stopping && !self->is_paused;
}

/* Fills the samples of a unit. On failure *failed is the sample that failed. */
static tuff_status fill_unit(const tuff_loader *self, const unit *work, int64_t *failed, char *message)
{
    static const saved_error none = {.status = TUFF_OK}; /* an error that the source handled is not its failure */
    const loader_slot *slot = work->slot;
    for (int64_t i = work->first; i < work->first + work->count && self->sample_count > 0; i++)
        slot->indices[i] = sample_index(self, slot, i);
    *failed = work->first;
    tuff__error_restore(&none);
    if (self->options.batch)
        return fill_batch(self, slot, message);
    for (int64_t i = work->first; i < work->first + work->count && is_wanted(self); i++) {
        *failed = i;
        TRY(fill_sample(self, slot, i, message));
        tuff__error_restore(&none);
    }
    return TUFF_OK;
}

/* Waits until the device has consumed the previous contents of the slot's staging memory, or the batch is no longer
   needed. A thread that wakes up interrupts a kernel if the device is a CPU, so it sleeps for an eighth of the time
   waited so far, within limits. With several slots that is no loss: the device has the batches of the others before it
   needs this one. */
static tuff_status wait_for_staging(const tuff_loader *self, loader_slot *slot)
{
    bool done = false;
    slot->held_from = tuff__nanoseconds();
    for (;;) {
        TRY(tuff__staging_poll(slot->staging, &done));
        slot->held_to = tuff__nanoseconds();
        if (done || !is_wanted(self))
            return TUFF_OK;
        if (slot->held_to - slot->held_from > MAX_POLLING)
            TRY(tuff__wait(self->device));
        const uint64_t pause = (slot->held_to - slot->held_from) / 8;
        tuff__sleep(pause < SHORTEST_SLEEP ? SHORTEST_SLEEP : pause < LONGEST_SLEEP ? pause : LONGEST_SLEEP);
    }
}

/* Only the copy to staging memory waits for the device. Packing works on the loader's own memory, and is done by then.
   */
static tuff_status finish_batch(const tuff_loader *self, loader_slot *slot)
{
    TRY(tuff__batch_pack(&self->layout, slot));
    if (!slot->staging)
        return TUFF_OK;
    TRY(wait_for_staging(self, slot));
    if (!is_wanted(self))
        return TUFF_OK;
    memcpy(tuff__staging_memory(slot->staging), slot->memory, (size_t)self->layout.upload_size);
    return self->uploads_ahead ? tuff__staging_send(slot->staging, self->layout.upload_size) : TUFF_OK;
}

/* Ends a unit. Of several units that failed, the first in order is reported, whichever failed first in time. */
static void finish_unit(tuff_loader *self, const unit *work, tuff_status status, int64_t failed, const char *message)
{
    loader_slot *slot = work->slot;
    if (status != TUFF_OK && failed < slot->failed_sample) {
        slot->status = status;
        slot->failed_sample = failed;
        memcpy(slot->message, message, MESSAGE_SIZE);
    }
    slot->samples_done += work->count;
    if (slot->samples_done < slot->count)
        return;
    if (slot->status == TUFF_OK && is_wanted(self)) {
        tuff__unlock(&self->lock);
        /* All units are done, so no other worker touches the slot while the lock is released. */
        const tuff_status finished = finish_batch(self, slot);
        if (finished != TUFF_OK)
            snprintf(slot->message, MESSAGE_SIZE, "%.400s", tuff_error());
        tuff__lock(&self->lock);
        slot->status = finished;
    }
    slot->state = SLOT_READY;
}

/* Fills a unit and ends it. The lock is held on entry and return. */
static void process_unit(loader_worker *worker, const unit *work)
{
    tuff_loader *self = worker->loader;
    char message[MESSAGE_SIZE] = "";
    int64_t failed = 0;
    self->busy++;
    worker->is_in_source = true;
    tuff__unlock(&self->lock);
    const tuff_status status = fill_unit(self, work, &failed, message);
    message[MESSAGE_SIZE - 1] = 0;
    if (status != TUFF_OK)
        complete_message(status, message);
    tuff__lock(&self->lock);
    worker->is_in_source = false;
    if (!self->is_stopping)
        finish_unit(self, work, status, failed, message);
    self->busy--;
    (void)pthread_cond_broadcast(&self->done);
    (void)pthread_cond_broadcast(&self->work);
}

/* In an abandoned loader the last worker frees it, after releasing the lock: nobody else can reach the loader then. */
static void *run_worker(void *state)
{
    loader_worker *worker = state;
    tuff_loader *self = worker->loader;
    unit work;
    tuff__lock(&self->lock);
    while (!self->is_stopping)
        if (take_unit(self, &work))
            process_unit(worker, &work);
        else
            (void)pthread_cond_wait(&self->work, &self->lock);
    worker->has_ended = true;
    const bool is_last = --self->running_workers == 0 && self->is_abandoned;
    (void)pthread_cond_broadcast(&self->done);
    tuff__unlock(&self->lock);
    if (is_last)
        tuff__loader_free(self);
    return NULL;
}

tuff_status tuff__workers_start(tuff_loader *self)
{
    int error = 0;
    for (int i = 0; i < self->options.workers && error == 0; i++) {
        self->workers[i].loader = self;
        tuff__lock(&self->lock);
        error = tuff__thread_start(&self->workers[i].thread, 0, run_worker, &self->workers[i]);
        self->workers[i].is_started = error == 0;
        self->running_workers += error == 0;
        tuff__unlock(&self->lock);
    }
    /* With fewer threads than requested the batches are the same. */
    return self->running_workers > 0 ? TUFF_OK
                                     : FAIL(TUFF_E_OOM_HOST, "loader: cannot start a thread: %s", strerror(error));
}

/* Waits until the condition `done` is signalled; returns false once `until` has passed. */
static bool wait_for_done(tuff_loader *self, const struct timespec *until)
{
    return pthread_cond_timedwait(&self->done, &self->lock, until) == 0;
}

static struct timespec make_deadline(const tuff_loader *self)
{
    return tuff__time_after((uint64_t)(self->options.timeout * 1e9));
}

static int count_in_source(const tuff_loader *self)
{
    int count = 0;
    for (int i = 0; i < self->options.workers; i++)
        count += self->workers[i].is_in_source;
    return count;
}

/* Waits for the batch. A source may take as long as it wants: one that seems to hang is logged once, and waiting
   continues. */
void tuff__workers_await(tuff_loader *self, const loader_slot *slot)
{
    const struct timespec until = make_deadline(self);
    bool has_warned = false;
    while (slot->state != SLOT_READY || slot->number != self->taken) {
        if (has_warned)
            (void)pthread_cond_wait(&self->done, &self->lock);
        else if (!wait_for_done(self, &until) && count_in_source(self) > 0) {
            has_warned = true;
            tuff__unlock(&self->lock);
            tuff__log(TUFF_LOG_WARNING, "loader: a source has not returned for %g s: tuff_loader_next keeps waiting",
                      self->options.timeout);
            tuff__lock(&self->lock);
        }
    }
}

/* Waits until all workers have ended, or the timeout has passed and all that are left are in a source. Other workers
   end soon, at the latest when the device releases them. */
static void wait_for_end(tuff_loader *self)
{
    struct timespec until = make_deadline(self);
    while (self->running_workers > 0)
        if (!wait_for_done(self, &until)) {
            if (count_in_source(self) == self->running_workers)
                return;
            until = tuff__time_after(10 * MILLISECOND);
        }
}

/* Threads that hang in a source are detached, not cancelled: a source may hold locks of the program. */
bool tuff__workers_stop(tuff_loader *self)
{
    bool joins[WORKERS_MAX];
    tuff__lock(&self->lock);
    self->is_stopping = true;
    (void)pthread_cond_broadcast(&self->work);
    wait_for_end(self);
    const int hanging = self->running_workers;
    self->is_abandoned = hanging > 0;
    pthread_t threads[WORKERS_MAX];
    const int count = self->options.workers;
    for (int i = 0; i < count; i++) {
        const loader_worker *worker = &self->workers[i];
        joins[i] = worker->is_started && worker->has_ended;
        threads[i] = worker->thread;
        if (worker->is_started && !worker->has_ended)
            (void)pthread_detach(worker->thread);
    }
    tuff__unlock(&self->lock);
    /* From here on an abandoned loader may have been freed. */
    for (int i = 0; i < count; i++)
        if (joins[i])
            (void)pthread_join(threads[i], NULL);
    return hanging == 0;
}

/* Waits for units that are being filled: the slots are about to get other batches. */
tuff_status tuff__workers_pause(tuff_loader *self)
{
    const struct timespec until = make_deadline(self);
    self->is_paused = true;
    while (self->busy > 0)
        if (!wait_for_done(self, &until) && self->busy > 0)
            return FAIL(TUFF_E_TIMEOUT, "loader: a source has not returned for %g s", self->options.timeout);
    return TUFF_OK;
}

void tuff__workers_resume(tuff_loader *self)
{
    self->is_paused = false;
    (void)pthread_cond_broadcast(&self->work);
}
