/* Compiling under a deadline. A compiler that does not come back cannot be stopped: it keeps its thread and the
   driver's device for the rest of the process, and the device of ours that asked for it is lost. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "device/state.h"

/* What the compiling thread works on: its own, so that whoever waited may leave. */
typedef struct job {
    const driver *calls;
    driver_device *handle;
    program_request request;
    blob cached, made;
    bool wants_bytes;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, abandoned;
    tuff_status status;
    char message[TUFF_ERROR_SIZE];
    driver_program *program;
    struct job *next; /* of those that were abandoned */
} job;

static void free_job(job *self)
{
    tuff__free((char *)self->request.name);
    tuff__free((char *)self->request.text);
    tuff__free(self->cached.data);
    tuff__free(self->made.data);
    (void)pthread_cond_destroy(&self->changed);
    (void)pthread_mutex_destroy(&self->lock);
    tuff__free(self);
}

static void *work(void *argument)
{
    job *self = argument;
    blob made = {0};
    driver_program *built = NULL;
    const tuff_status status = self->calls->program_create(self->handle, &self->request, self->cached,
                                                           self->wants_bytes ? &made : NULL, &built);
    (void)pthread_mutex_lock(&self->lock);
    self->status = status;
    self->made = made;
    self->program = built;
    if (status != TUFF_OK)
        (void)snprintf(self->message, sizeof self->message, "%s", tuff_error());
    self->done = true;
    (void)pthread_cond_signal(&self->changed);
    (void)pthread_mutex_unlock(&self->lock);
    return NULL; /* what an abandoned one made stays with the driver's device, which nobody closes */
}

static bool prepare(job *self)
{
    const bool good = tuff__condition_create(&self->changed) == 0;
    if (good && pthread_mutex_init(&self->lock, NULL) != 0) {
        (void)pthread_cond_destroy(&self->changed);
        return false;
    }
    return good;
}

static job *make_job(const tuff_device *device, const program_request *request, blob cached, bool wants_bytes)
{
    job *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->calls = device->driver;
    self->handle = device->handle;
    self->wants_bytes = wants_bytes;
    self->request = *request;
    self->request.name = tuff__strdup(request->name);
    self->request.text = tuff__strdup(request->text);
    if (cached.size > 0)
        self->cached = (blob){tuff__memdup(cached.data, cached.size), cached.size};
    const bool complete = self->request.name && self->request.text && (cached.size == 0 || self->cached.data);
    if (complete && prepare(self))
        return self;
    tuff__free((char *)self->request.name);
    tuff__free((char *)self->request.text);
    tuff__free(self->cached.data);
    tuff__free(self);
    if (complete)
        (void)FAIL(TUFF_E_OOM_HOST, "a kernel: no memory for a thread");
    return NULL;
}

/* Whether the job ended in time. */
static bool await(job *self, uint64_t limit)
{
    const uint64_t until = tuff__nanoseconds() + limit;
    const struct timespec deadline = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    (void)pthread_mutex_lock(&self->lock);
    while (!self->done && pthread_cond_timedwait(&self->changed, &self->lock, &deadline) != ETIMEDOUT)
        ;
    self->abandoned = !self->done;
    (void)pthread_mutex_unlock(&self->lock);
    return !self->abandoned;
}

/* Jobs that nobody waits for any more: reachable, because their threads still work on them. */
static struct {
    pthread_mutex_t lock;
    job *first;
} abandoned = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What drivers made for a device that is stuck: it cannot be given back, and is not lost sight of. */
typedef struct remainder {
    void *object;
    struct remainder *next;
} remainder;
static remainder *remainders; /* guarded by the lock of the abandoned jobs */

static void keep(void *object)
{
    remainder *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return;
    (void)pthread_mutex_lock(&abandoned.lock);
    *self = (remainder){object, remainders};
    remainders = self;
    (void)pthread_mutex_unlock(&abandoned.lock);
}

static void keep_program(driver_device *handle, driver_program *built)
{
    (void)handle;
    keep(built);
}

static void keep_buffer(driver_device *handle, driver_buffer *buffer)
{
    (void)handle;
    keep(buffer);
}

static void keep_recording(driver_device *handle, driver_recording *recorded)
{
    (void)handle;
    keep(recorded);
}

static tuff_status wait_for_nothing(driver_device *handle)
{
    (void)handle;
    return FAIL(TUFF_E_DEVICE_LOST, "a compiler did not come back");
}

static void close_nothing(driver_device *handle)
{
    keep(handle);
}

/* From here on nothing reaches the driver, which the thread may be anywhere within. */
static void give_up(tuff_device *device, job *of)
{
    (void)pthread_mutex_lock(&abandoned.lock);
    of->next = abandoned.first;
    abandoned.first = of;
    (void)pthread_mutex_unlock(&abandoned.lock);
    device->is_stuck = true;
    device->posing = *device->driver;
    device->posing.program_destroy = keep_program;
    device->posing.program_bytes = NULL;
    device->posing.buffer_destroy = keep_buffer;
    device->posing.recording_destroy = keep_recording;
    device->posing.wait = wait_for_nothing;
    device->posing.close = close_nothing;
    device->driver = &device->posing;
}

tuff_status tuff__create_watched(tuff_device *device, const program_request *request, blob cached, blob *made,
                                 driver_program **out)
{
    pthread_t thread;
    job *self = make_job(device, request, cached, made != NULL);
    if (!self)
        return TUFF_E_OOM_HOST;
    if (pthread_create(&thread, NULL, work, self) != 0) {
        free_job(self);
        return FAIL(TUFF_E_OOM_HOST, "a kernel: no thread to compile it");
    }
    if (!await(self, device->compile_limit)) {
        (void)pthread_detach(thread);
        give_up(device, self);
        return FAIL(TUFF_E_DEVICE_LOST, "kernel %s: the compiler did not come back in %.1f s", request->name,
                    (double)device->compile_limit * 1e-9);
    }
    (void)pthread_join(thread, NULL);
    const tuff_status status = self->status;
    if (made) {
        *made = self->made;
        self->made = (blob){0};
    }
    *out = self->program;
    if (status != TUFF_OK)
        (void)FAIL(status, "%s", self->message);
    free_job(self);
    return status;
}
