/* Compiles under a deadline, either within a call or concurrently with others. A compiler that does not return cannot
   be stopped: it keeps its thread and the driver's device for the rest of the process, and the tuff_device that it
   compiles for is lost. */
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

/* What the compiling thread works on. It has copies of everything, so that the waiting thread may leave. */
typedef struct job {
    pthread_t thread;
    uint64_t begin;
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
    struct job *next; /* in the device's list */
} job;

static void free_job(job *self)
{
    tuff__free((char *)self->request.name);
    tuff__free((char *)self->request.text);
    tuff__free(self->cached.data);
    tuff__free(self->made.data);
    tuff__mutex_condition_destroy(&self->lock, &self->changed);
    tuff__free(self);
}

static void *run_job(void *argument)
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
    (void)pthread_cond_broadcast(&self->changed);
    (void)pthread_mutex_unlock(&self->lock);
    return NULL; /* the result of an abandoned job stays with the driver's device, which is never closed */
}

static job *make_job(const tuff_device *device, const program_request *request, blob cached, bool wants_bytes)
{
    job *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    if (tuff__mutex_condition_create(&self->lock, &self->changed) != 0) {
        tuff__free(self);
        (void)FAIL(TUFF_E_OOM_HOST, "cannot create a lock for the compiler thread");
        return NULL;
    }
    self->calls = device->driver;
    self->handle = device->handle;
    self->wants_bytes = wants_bytes;
    self->request = *request;
    self->request.name = tuff__strdup(request->name);
    self->request.text = tuff__strdup(request->text);
    if (cached.size > 0)
        self->cached = (blob){tuff__memdup(cached.data, cached.size), cached.size};
    if (self->request.name && self->request.text && (cached.size == 0 || self->cached.data))
        return self;
    free_job(self);
    return NULL;
}

/* Waits until the job ends or is abandoned; after the limit in nanoseconds (0: none) it is abandoned here. Returns
   whether its result can be taken. */
static bool wait_for_job(job *self, uint64_t limit)
{
    const struct timespec deadline = tuff__time_after(limit);
    int error = 0;
    (void)pthread_mutex_lock(&self->lock);
    while (!self->done && !self->abandoned && error != ETIMEDOUT)
        error = limit > 0 ? pthread_cond_timedwait(&self->changed, &self->lock, &deadline)
                          : pthread_cond_wait(&self->changed, &self->lock);
    self->abandoned |= !self->done;
    const bool is_good = !self->abandoned;
    (void)pthread_mutex_unlock(&self->lock);
    return is_good;
}

/* Abandons the job unless it has ended, in which case its own thread takes the result. Returns whether it was
   abandoned. */
static bool abandon(job *self)
{
    (void)pthread_mutex_lock(&self->lock);
    self->abandoned = !self->done;
    (void)pthread_cond_broadcast(&self->changed);
    const bool is_abandoned = self->abandoned;
    (void)pthread_mutex_unlock(&self->lock);
    return is_abandoned;
}

/* An object that cannot be given back, but stays reachable: one that a driver made for a device that is stuck, or a job
   that is no longer waited for, on which its thread still works. */
typedef struct leaked_object {
    void *object;
    struct leaked_object *next;
} leaked_object;
static pthread_mutex_t leak_lock = PTHREAD_MUTEX_INITIALIZER;
static leaked_object *leaked_objects; /* guarded by leak_lock */

static void leak_object(void *object)
{
    leaked_object *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return;
    (void)pthread_mutex_lock(&leak_lock);
    *self = (leaked_object){object, leaked_objects};
    leaked_objects = self;
    (void)pthread_mutex_unlock(&leak_lock);
}

static void leak_program(driver_device *handle, driver_program *built)
{
    (void)handle;
    leak_object(built);
}

static void leak_buffer(driver_device *handle, driver_buffer *buffer)
{
    (void)handle;
    leak_object(buffer);
}

static void leak_recording(driver_device *handle, driver_recording *recorded)
{
    (void)handle;
    leak_object(recorded);
}

static void leak_staging(driver_device *handle, driver_staging *staged)
{
    (void)handle;
    leak_object(staged);
}

static tuff_status fail_wait(driver_device *handle)
{
    (void)handle;
    return FAIL(TUFF_E_DEVICE_LOST, "a kernel compilation did not return");
}

static void leak_device(driver_device *handle)
{
    leak_object(handle);
}

/* Abandons the device's jobs and returns how many there were. */
static int abandon_all(tuff_device *device)
{
    int count = 0;
    for (job **at = &device->jobs_in_flight; *at;) {
        job *item = *at;
        if (!abandon(item)) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        leak_object(item);
        count++;
    }
    return count;
}

/* Cuts the device off from its driver, in which threads may be anywhere. */
static void disconnect_driver(tuff_device *device)
{
    (void)abandon_all(device);
    device->is_stuck = true;
    device->driver_override = *device->driver;
    device->driver_override.program_destroy = leak_program;
    device->driver_override.program_bytes = NULL;
    device->driver_override.buffer_destroy = leak_buffer;
    device->driver_override.recording_destroy = leak_recording;
    device->driver_override.staging_destroy = leak_staging;
    device->driver_override.wait = fail_wait;
    device->driver_override.close = leak_device;
    device->driver = &device->driver_override;
}

/* Starts a job in a thread of its own. Lock held. */
static tuff_status start_job(tuff_device *device, const program_request *request, blob cached, bool wants_bytes,
                             job **out)
{
    job *self = make_job(device, request, cached, wants_bytes);
    if (!self)
        return TUFF_E_OOM_HOST;
    self->begin = tuff__nanoseconds();
    if (tuff__thread_start(&self->thread, 0, run_job, self) != 0) {
        free_job(self);
        return FAIL(TUFF_E_OOM_HOST, "cannot create a compiler thread");
    }
    *out = self;
    return TUFF_OK;
}

/* Returns the result of a job that ended, and frees it. */
static tuff_status take_result(job *self, blob *made, driver_program **out)
{
    (void)pthread_join(self->thread, NULL);
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

/* Leaves an abandoned job to its thread. */
static tuff_status report_timeout(const job *self, const char *name)
{
    const uint64_t passed = tuff__nanoseconds() - self->begin;
    (void)pthread_detach(self->thread);
    return FAIL(TUFF_E_DEVICE_LOST, "kernel %s: compilation did not return within %.1f s", name, (double)passed * 1e-9);
}

tuff_status tuff__create_with_deadline(tuff_device *device, const program_request *request, blob cached, blob *made,
                                       driver_program **out)
{
    job *self;
    TRY(start_job(device, request, cached, made != NULL, &self));
    if (wait_for_job(self, device->compile_limit))
        return take_result(self, made, out);
    leak_object(self);
    disconnect_driver(device);
    return report_timeout(self, request->name);
}

/* Starts a job and adds it to the device's list. */
static tuff_status start_listed_job(tuff_device *device, const program_request *request, blob cached, bool wants_bytes,
                                    job **out)
{
    TRY(tuff__device_begin(device));
    const tuff_status status = start_job(device, request, cached, wants_bytes, out);
    if (status == TUFF_OK) {
        (*out)->next = device->jobs_in_flight;
        device->jobs_in_flight = *out;
    }
    return tuff__device_end(device, status);
}

static void unlist_job(tuff_device *device, const job *self)
{
    tuff__lock(&device->lock);
    job **at = &device->jobs_in_flight;
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
    tuff__unlock(&device->lock);
}

tuff_status tuff__create_concurrently(tuff_device *device, const program_request *request, blob cached,
                                      _Atomic uint64_t *begun, blob *made, driver_program **out)
{
    job *self;
    TRY(start_listed_job(device, request, cached, made != NULL, &self));
    atomic_store(begun, self->begin);
    if (!wait_for_job(self, 0))
        return report_timeout(self, request->name);
    atomic_store(begun, 0);
    unlist_job(device, self);
    return take_result(self, made, out);
}

bool tuff__device_give_up_compiles(tuff_device *device)
{
    tuff__lock(&device->lock);
    const bool any = abandon_all(device) > 0;
    if (any && !device->is_stuck)
        disconnect_driver(device);
    tuff_status status = TUFF_OK;
    if (any)
        status = FAIL(TUFF_E_DEVICE_LOST, "a kernel compilation did not return");
    (void)tuff__device_end(device, status);
    return any;
}
