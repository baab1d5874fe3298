/* Bounded waits: events announce their end and are polled besides, and no wait is endless. Enqueued work is tracked in
   a ring of events, so that each completed event is a sign of progress. */
#include "base/thread.h"
#include "device/opencl/api.h"

#define MICROSECOND 1000u
#define MILLISECOND 1000000u
#define SECOND 1000000000u
#define UNSTARTED_FACTOR \
    8 /* times the timeout before work begins: drivers compile late, and other work may come first */

uint64_t tuff__cl_timeout = 30ull * SECOND;

tuff_status tuff__cl_poll_event(cl_event event, bool *done, cl_int *state)
{
    CL_TRY(GetEventInfo, (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof *state, state, NULL));
    *done = *state <= CL_COMPLETE;
    return *state < 0 ? tuff__cl_fail(*state, "an enqueued command") : TUFF_OK;
}

static void CL_CALLBACK announce_end(cl_event event, cl_int state, void *nothing)
{
    (void)event;
    (void)state;
    (void)nothing;
    tuff__event_signal();
}

/* Pauses between two polls. At first only yields to other threads, which suits short work. Then sleeps: on a CPU device
   until the event announces its end; on others for a small fraction of the time waited so far, because NVIDIA's driver
   announces ends up to 20 ms late. *has_callback: the event has a callback that will announce its end. */
static void pause_for(const driver_device *device, cl_event event, uint64_t waited, uint64_t seen, bool *has_callback)
{
    if (waited < 100 * MICROSECOND)
        tuff__sleep(0);
    else if (!device->is_cpu)
        tuff__sleep(waited < 16 * MILLISECOND ? waited / 32 : 500 * MICROSECOND);
    else if (*has_callback ||
             (*has_callback = tuff__cl.SetEventCallback(event, CL_COMPLETE, announce_end, NULL) == CL_SUCCESS))
        tuff__event_wait(seen, 20 * MILLISECOND);
    else
        tuff__sleep(waited < 5 * MILLISECOND ? 50 * MICROSECOND : 500 * MICROSECOND);
}

/* Stores only changes, because threads that make programs read the flag concurrently. */
static void set_hung(driver_device *device, bool hangs)
{
    if (device->hung != hangs)
        device->hung = hangs;
}

tuff_status tuff__cl_wait_event(driver_device *device, cl_event event)
{
    const uint64_t limit = device->timeout > 0 ? device->timeout : tuff__cl_timeout;
    const uint64_t begin = tuff__nanoseconds();
    uint64_t progress = begin;
    cl_int state = CL_QUEUED, last = CL_QUEUED;
    bool has_callback = false;
    for (;;) {
        bool done = false;
        const uint64_t seen = tuff__event_count();
        TRY(tuff__cl_poll_event(event, &done, &state));
        if (done) {
            set_hung(device, false);
            return TUFF_OK;
        }
        const uint64_t now = tuff__nanoseconds();
        if (state != last) {
            last = state;
            progress = now;
        }
        const uint64_t timeout = state == CL_RUNNING ? limit : UNSTARTED_FACTOR * limit;
        const bool hangs = now - progress > timeout;
        set_hung(device, hangs);
        if (hangs)
            return FAIL(TUFF_E_TIMEOUT, "the device made no progress for %.1f s: a kernel may be hanging",
                        (double)timeout / SECOND);
        pause_for(device, event, now - begin, seen, &has_callback);
    }
}

static void release_first(driver_device *device)
{
    pending *first = &device->pending[device->pending_first];
    tuff__cl.ReleaseEvent(first->event);
    tuff__cl_free_block(device, first->block, first->size);
    device->staged_size -= first->size;
    device->pending_first = (device->pending_first + 1) % PENDING_COUNT;
    device->pending_count--;
}

static void drop_first(driver_device *device, bool waited)
{
    tuff__predictor_ended(&device->predictor, &device->pending[device->pending_first].submission, waited);
    release_first(device);
}

/* Waits for the oldest event, which leaves the ring when it is complete, even with an error, but not if its state is
   unknown, because the device may still read its block. */
static tuff_status wait_first(driver_device *device)
{
    cl_int state = CL_QUEUED;
    bool done = false;
    cl_event event = device->pending[device->pending_first].event;
    const bool was_pending = device->predictor.is_on && tuff__cl_poll_event(event, &done, &state) == TUFF_OK && !done;
    tuff_status status = tuff__cl_wait_event(device, event);
    if (status == TUFF_OK || (tuff__cl_poll_event(event, &done, &state) != TUFF_OK && done))
        drop_first(device, status == TUFF_OK && was_pending);
    return status;
}

/* Removes completed events, without waiting. */
static void reap(driver_device *device)
{
    while (device->pending_count > 0) {
        cl_int state = CL_QUEUED;
        cl_event event = device->pending[device->pending_first].event;
        if (tuff__cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) != CL_SUCCESS ||
            state != CL_COMPLETE)
            return;
        set_hung(device, false);
        drop_first(device, false);
    }
}

bool tuff__cl_is_idle(driver_device *device)
{
    reap(device);
    return device->pending_count == 0;
}

tuff_status tuff__cl_reserve_staging(driver_device *device, size_t staged_limit)
{
    reap(device);
    while (device->pending_count == PENDING_COUNT || device->staged_size > staged_limit)
        TRY(wait_first(device));
    return TUFF_OK;
}

void tuff__cl_track(driver_device *device, cl_event event, void *block, size_t size)
{
    int last = (device->pending_first + device->pending_count) % PENDING_COUNT;
    device->pending[last] = (pending){.event = event, .block = block, .size = size};
    device->pending_count++;
    device->staged_size += size;
    tuff__cl_wait_thread_post(device, event);
}

void tuff__cl_record_submission(driver_device *device, submission_record submission, bool is_idle)
{
    pending *last = &device->pending[(device->pending_first + device->pending_count - 1) % PENDING_COUNT];
    tuff__predictor_submitted(&device->predictor, &submission, is_idle);
    last->submission = submission;
}

void tuff__cl_forget_submissions(driver_device *device, const driver_recording *record)
{
    for (int i = 0; i < PENDING_COUNT; i++)
        if (device->pending[i].submission.owner == record)
            device->pending[i].submission = (submission_record){0};
}

/* Whether a marker on the queue fails. CPU devices are never lost, and a marker that does not complete in time is
   behind other work, which is no failure.
   NVIDIA's driver returns CL_OUT_OF_RESOURCES for everything once a kernel has accessed memory outside its buffers or
   run for too long. */
bool tuff__cl_is_lost(driver_device *device)
{
    cl_event event = NULL;
    cl_int state = CL_QUEUED;
    if (device->is_cpu)
        return false;
    cl_int error = tuff__cl.EnqueueMarkerWithWaitList(device->queue, 0, NULL, &event);
    if (error == CL_SUCCESS)
        error = tuff__cl.Flush(device->queue);
    for (int i = 0; i < 1000 && error == CL_SUCCESS && state != CL_COMPLETE; i++) {
        error = tuff__cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (error == CL_SUCCESS && state < 0)
            error = state;
        else if (state != CL_COMPLETE)
            tuff__sleep(MILLISECOND);
    }
    if (event)
        tuff__cl.ReleaseEvent(event);
    return error == CL_OUT_OF_RESOURCES ||
           (error != CL_SUCCESS && tuff__cl_fail(error, "clEnqueueMarkerWithWaitList") == TUFF_E_DEVICE_LOST);
}

/* Continues after a command that ended in an error, so that the ring is emptied as far as possible; returns the first
   error. */
tuff_status tuff__cl_wait(driver_device *device)
{
    cl_event event = NULL;
    TRY(tuff__cl_reserve_staging(device, SIZE_MAX));
    CL_TRY(EnqueueMarkerWithWaitList, (device->queue, 0, NULL, &event));
    tuff__cl_track(device, event, NULL, 0);
    CL_TRY(Flush, (device->queue));
    tuff_status status = TUFF_OK;
    while (device->pending_count > 0) {
        int before = device->pending_count;
        tuff_status own_status = wait_first(device);
        if (status == TUFF_OK)
            status = own_status;
        if (device->pending_count == before)
            break;
    }
    return status;
}

tuff_status tuff__cl_wait_before_blocking(driver_device *device)
{
    return device->pending_count > 0 || device->predictor.is_shared ? tuff__cl_wait(device) : TUFF_OK;
}

/* Never frees a block that the device may still read. Work that was not seen to end is no measurement for the
   predictor. */
void tuff__cl_untrack_all(driver_device *device)
{
    reap(device);
    while (device->pending_count > 0) {
        device->pending[device->pending_first].block = NULL;
        release_first(device);
    }
}
