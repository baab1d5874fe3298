/* A thread that waits in the driver. Intel's runtime for CPUs starts one worker less than the processor has cores: a
   thread that waits in the driver is the last worker, and computes while it waits. tuff's own waits are bounded and
   never block in a driver, so a thread of the device's does, as soon as work is enqueued. If the device hangs, the
   thread hangs with it and is abandoned. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/alloc.h"
#include "base/thread.h"
#include "device/opencl/api.h"

/* How long closing a device waits for the thread, in nanoseconds: its work is done by then, or never will be. */
#define TIMEOUT 1000000000u

struct wait_thread {
    pthread_t thread;
    mutex lock;
    pthread_cond_t changed;
    cl_event next;   /* to wait for; the last one enqueued covers all before it */
    bool is_waiting; /* in the driver */
    bool ends;
    bool is_abandoned; /* no other thread waits for its end */
};

static void destroy(wait_thread *self)
{
    tuff__mutex_condition_destroy(&self->lock, &self->changed);
    tuff__free(self);
}

/* Returns NULL if the thread must end. */
static cl_event take_next(wait_thread *self)
{
    tuff__lock(&self->lock);
    self->is_waiting = false;
    (void)pthread_cond_broadcast(&self->changed);
    while (self->next == NULL && !self->ends)
        (void)pthread_cond_wait(&self->changed, &self->lock);
    cl_event event = self->next;
    self->next = NULL;
    self->is_waiting = event != NULL;
    tuff__unlock(&self->lock);
    return event;
}

static void *serve(void *argument)
{
    wait_thread *self = argument;
    for (cl_event event = take_next(self); event != NULL; event = take_next(self)) {
        (void)tuff__cl.WaitForEvents(1, &event); /* errors reach those who wait for the work */
        (void)tuff__cl.ReleaseEvent(event);
    }
    tuff__lock(&self->lock);
    const bool is_abandoned = self->is_abandoned;
    tuff__unlock(&self->lock);
    if (is_abandoned)
        destroy(self);
    return NULL;
}

/* Returns NULL on failure: work is done all the same, on one core less. */
static wait_thread *create(void)
{
    enum { STACK_SIZE = 8 << 20 }; /* kernels run on this thread's stack */
    wait_thread *self = tuff__calloc(1, sizeof *self);
    if (self == NULL)
        return NULL;
    if (tuff__mutex_condition_create(&self->lock, &self->changed) != 0) {
        tuff__free(self);
        return NULL;
    }
    if (tuff__thread_start(&self->thread, STACK_SIZE, serve, self) != 0) {
        destroy(self);
        return NULL;
    }
    return self;
}

void tuff__cl_wait_thread_post(driver_device *device, cl_event event)
{
    if (!device->needs_wait_thread)
        return;
    if (device->wait_thread == NULL && (device->wait_thread = create()) == NULL) {
        device->needs_wait_thread = false;
        return;
    }
    wait_thread *self = device->wait_thread;
    if (tuff__cl.RetainEvent(event) != CL_SUCCESS)
        return;
    tuff__lock(&self->lock);
    cl_event before = self->next;
    self->next = event;
    (void)pthread_cond_broadcast(&self->changed);
    tuff__unlock(&self->lock);
    if (before != NULL)
        (void)tuff__cl.ReleaseEvent(before);
}

void tuff__cl_wait_thread_stop(driver_device *device)
{
    wait_thread *self = device->wait_thread;
    device->wait_thread = NULL;
    if (self == NULL)
        return;
    const struct timespec until = tuff__time_after(TIMEOUT);
    tuff__lock(&self->lock);
    self->ends = true;
    (void)pthread_cond_broadcast(&self->changed);
    while ((self->is_waiting || self->next != NULL) && pthread_cond_timedwait(&self->changed, &self->lock, &until) == 0)
        ;
    const bool hangs = self->is_waiting || self->next != NULL;
    self->is_abandoned = hangs;
    if (hangs)
        (void)pthread_detach(self->thread);
    tuff__unlock(&self->lock);
    if (hangs)
        return;
    (void)pthread_join(self->thread, NULL);
    destroy(self);
}
