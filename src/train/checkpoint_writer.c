/* Saves checkpoints in the background: the device copies the state after the runs enqueued so far, and a thread brings
   the copy to the host piece by piece, while later runs go on. It polls the staging memory without locking the device.
   The thread lives from the start of a save to its end. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "device/device.h"
#include "train/checkpoint.h"
#include "train/checkpoint_files.h"
#include "tuff/checkpoint.h"

#define MILLISECOND UINT64_C(1000000)
/* Bytes of a piece: large enough to be worth a transfer, small enough that runs do not wait for it. */
#define PIECE_SIZE (UINT64_C(16) << 20)
/* Time for which a piece is polled before waiting for the device, which detects a hang. */
#define POLL_TIME (30000 * MILLISECOND)

struct tuff_checkpoint_writer {
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_array **copies; /* of the state's arrays */
    int copy_count;
    staging *pieces[2];
    uint64_t piece_size;
    /* The save in progress. The thread owns all of this from its start to its end. */
    pthread_t thread;
    bool is_saving;
    state_list state;
    char *path, **keys, **texts;
    int metadata_count;
    tuff_checkpoint_options options; /* keys and texts are unused */
    tuff_status status;
    char message[1024];
};

static tuff_status wait_for_piece(const tuff_checkpoint_writer *self, staging *staged)
{
    const uint64_t begin = tuff__nanoseconds();
    uint64_t pause = MILLISECOND / 20;
    for (bool done = false; !done;) {
        TRY(tuff__staging_poll(staged, &done));
        if (!done && tuff__nanoseconds() - begin > POLL_TIME)
            TRY(tuff__wait(self->parameters->device));
        if (!done)
            tuff__sleep(pause);
        pause = pause < 2 * MILLISECOND ? pause * 5 / 4 : pause;
    }
    return TUFF_OK;
}

/* Requests piece `number` of a copy. It goes into one staging buffer while the host empties the other. */
static tuff_status request_piece(tuff_checkpoint_writer *self, const tuff_array *copy, uint64_t number)
{
    const uint64_t begin = number * self->piece_size, left = tuff_array_size(copy) - begin;
    const staging_transfer move = {copy->storage, copy->offset + begin, 0,
                                   left < self->piece_size ? left : self->piece_size};
    return tuff__staging_download(self->pieces[number % 2], &move, 1);
}

/* The next piece is requested before this one has arrived, so that the device copies while the host does. */
static tuff_status download(tuff_checkpoint_writer *self, const tuff_array *copy, void *host)
{
    const uint64_t size = tuff_array_size(copy);
    const uint64_t count = (size + self->piece_size - 1) / self->piece_size;
    if (count > 0)
        TRY(request_piece(self, copy, 0));
    for (uint64_t number = 0; number < count; number++) {
        staging *staged = self->pieces[number % 2];
        const uint64_t begin = number * self->piece_size, left = size - begin;
        if (number + 1 < count)
            TRY(request_piece(self, copy, number + 1));
        TRY(wait_for_piece(self, staged));
        memcpy((unsigned char *)host + begin, tuff__staging_memory(staged),
               (size_t)(left < self->piece_size ? left : self->piece_size));
    }
    return TUFF_OK;
}

static tuff_status save_state(tuff_checkpoint_writer *self)
{
    for (int i = 0; i < self->copy_count; i++)
        TRY(download(self, self->copies[i], self->state.arrays[i].host));
    TRY(tuff__checkpoint_save(&self->state, self->path, self->optimizer, (const char *const *)self->keys,
                              (const char *const *)self->texts, self->metadata_count));
    return tuff__rotate_checkpoints(self->path, self->options.step, self->options.keep, self->options.best);
}

/* Errors are kept per thread, so the message is copied for the thread that waits. */
static void *run_save(void *user)
{
    tuff_checkpoint_writer *self = user;
    self->status = save_state(self);
    if (self->status != TUFF_OK)
        snprintf(self->message, sizeof self->message, "%.1000s", tuff_error());
    return NULL;
}

static void free_request(tuff_checkpoint_writer *self)
{
    tuff__state_free(&self->state);
    for (int i = 0; i < self->metadata_count; i++) {
        tuff__free(self->keys[i]);
        tuff__free(self->texts[i]);
    }
    tuff__free(self->keys);
    tuff__free(self->texts);
    tuff__free(self->path);
    self->keys = self->texts = NULL;
    self->path = NULL;
    self->metadata_count = 0;
}

static void destroy_pieces(tuff_checkpoint_writer *self)
{
    for (int i = 0; i < 2; i++) {
        tuff__staging_destroy(self->pieces[i]);
        self->pieces[i] = NULL;
    }
}

/* Creates only those that are missing: a failed save destroys them. */
static tuff_status create_pieces(tuff_checkpoint_writer *self)
{
    for (int i = 0; i < 2; i++)
        if (!self->pieces[i])
            TRY(tuff__staging_create(self->parameters->device, self->piece_size, false, &self->pieces[i]));
    return TUFF_OK;
}

/* The copies live as long as the writer: in the middle of a training run, a save must not fail because memory has
   become short. */
static tuff_status make_copies(tuff_checkpoint_writer *self)
{
    state_list state;
    uint64_t largest = 1;
    TRY(tuff__checkpoint_check("", self->parameters, self->optimizer));
    tuff_status status = tuff__list_state(self->parameters, self->optimizer, &state);
    self->copies = tuff__calloc((size_t)state.array_count, sizeof(tuff_array *));
    for (int i = 0; i < state.array_count && self->copies && status == TUFF_OK; i++) {
        const tuff_array *array = state.arrays[i].array;
        self->copies[i] = tuff_array_create(array->device, array->dtype, array->shape);
        self->copy_count += self->copies[i] != NULL;
        if (!self->copies[i])
            status = tuff_last_status();
        else if (tuff_array_size(array) > largest)
            largest = tuff_array_size(array);
    }
    tuff__state_free(&state);
    self->piece_size = largest < PIECE_SIZE ? largest : PIECE_SIZE;
    return self->copies ? status : TUFF_E_OOM_HOST;
}

tuff_checkpoint_writer *tuff_checkpoint_writer_create(tuff_parameters *parameters, tuff_optimizer *optimizer)
{
    tuff_checkpoint_writer *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->parameters = parameters;
    self->optimizer = optimizer;
    if (make_copies(self) != TUFF_OK || create_pieces(self) != TUFF_OK) {
        (void)tuff_checkpoint_writer_destroy(self);
        return NULL;
    }
    return self;
}

tuff_status tuff_checkpoint_writer_destroy(tuff_checkpoint_writer *self)
{
    if (!self)
        return TUFF_OK;
    const tuff_status status = tuff_checkpoint_writer_wait(self);
    destroy_pieces(self);
    for (int i = 0; i < self->copy_count; i++)
        tuff_array_destroy(self->copies[i]);
    tuff__free(self->copies);
    tuff__free(self);
    return status;
}

static tuff_status copy_metadata(tuff_checkpoint_writer *self, const tuff_checkpoint_options *options)
{
    const size_t count = (size_t)options->metadata_count;
    self->keys = tuff__calloc(count, sizeof(char *));
    self->texts = tuff__calloc(count, sizeof(char *));
    if (!self->keys || !self->texts)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < options->metadata_count; i++) {
        if (!options->keys[i] || !options->texts[i])
            return FAIL(TUFF_E_USAGE, "checkpoint: a key or a text of the metadata is NULL");
        self->metadata_count = i + 1;
        self->keys[i] = tuff__strdup(options->keys[i]);
        self->texts[i] = tuff__strdup(options->texts[i]);
        if (!self->keys[i] || !self->texts[i])
            return TUFF_E_OOM_HOST;
    }
    return TUFF_OK;
}

static tuff_status copy_request(tuff_checkpoint_writer *self, const char *path, const tuff_checkpoint_options *options)
{
    TRY(tuff__check_checkpoint_options(options));
    self->options = *options;
    self->path = tuff__strdup(path);
    if (!self->path)
        return TUFF_E_OOM_HOST;
    TRY(copy_metadata(self, options));
    return tuff__list_state(self->parameters, self->optimizer, &self->state);
}

/* If no thread can be started, saves at once. */
static void start_thread(tuff_checkpoint_writer *self)
{
    self->is_saving = tuff__thread_start(&self->thread, 0, run_save, self) == 0;
    if (!self->is_saving)
        (void)run_save(self);
}

/* The copies are enqueued behind the runs submitted so far and before any later one, so the file has the state of
   exactly this step. */
static tuff_status begin_save(tuff_checkpoint_writer *self, const char *path, const tuff_checkpoint_options *options)
{
    TRY(copy_request(self, path, options));
    TRY(create_pieces(self));
    for (int i = 0; i < self->copy_count; i++)
        TRY(tuff_array_copy(self->copies[i], self->state.arrays[i].array));
    self->status = TUFF_OK;
    start_thread(self);
    return self->is_saving ? TUFF_OK : tuff_checkpoint_writer_wait(self);
}

/* There is one save at a time: this waits for the one before, and returns its error if it failed. */
tuff_status tuff_checkpoint_writer_save(tuff_checkpoint_writer *self, const char *path,
                                        const tuff_checkpoint_options *options)
{
    static const tuff_checkpoint_options defaults = {0};
    if (!self || !path)
        return FAIL(TUFF_E_USAGE, "checkpoint: the %s is NULL", self ? "path" : "writer");
    TRY(tuff_checkpoint_writer_wait(self));
    const tuff_status status = begin_save(self, path, options ? options : &defaults);
    if (status != TUFF_OK)
        free_request(self);
    return status;
}

tuff_status tuff_checkpoint_writer_wait(tuff_checkpoint_writer *self)
{
    if (!self)
        return FAIL(TUFF_E_USAGE, "checkpoint: the writer is NULL");
    if (self->is_saving)
        (void)pthread_join(self->thread, NULL);
    self->is_saving = false;
    free_request(self);
    const tuff_status status = self->status;
    self->status = TUFF_OK;
    if (status == TUFF_OK)
        return TUFF_OK;
    destroy_pieces(self); /* the next save must not see transfers that are still running into them */
    return FAIL(status, "%s", self->message);
}
