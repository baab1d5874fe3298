/* Guards an open device: one lock, held around every call of its driver, and a record of the device's loss, which fails
   all later calls. The lowest file of this folder: it opens nothing and calls none of the others. */
#include "device/state.h"

#include <stdio.h>
#include <string.h>

bool tuff__device_is_reference(const tuff_device *device)
{
    return !device->driver;
}

const tuff_device_info *tuff__device_info(const tuff_device *device)
{
    return &device->info;
}

const char *tuff__device_language(const tuff_device *device)
{
    return device->driver ? device->driver->language : "";
}

const char *tuff__device_build_options(const tuff_device *device)
{
    return device->driver ? device->driver->build_options(device->handle) : "";
}

bool tuff__device_compiles_in_parallel(const tuff_device *device)
{
    return device->driver && device->driver->compiles_in_parallel;
}

bool tuff__device_takes_glsl(const tuff_device *device)
{
    return strcmp(tuff__device_language(device), "GLSL") == 0;
}

const char *tuff__device_library_unavailable_reason(const tuff_device *device)
{
    if (!device->driver || !device->driver->library_unavailable_reason)
        return "no matmul library for this device: CLBlast supports only OpenCL";
    return device->driver->library_unavailable_reason(device->handle);
}

bool tuff__device_takes_whole(tuff_device *device, double seconds)
{
    if (!device->driver || !device->driver->takes_whole)
        return true;
    tuff__lock(&device->lock);
    const bool takes = device->driver->takes_whole(device->handle, seconds);
    tuff__unlock(&device->lock);
    return takes;
}

tuff_status tuff__device_begin(tuff_device *device)
{
    tuff__lock(&device->lock);
    if (!device->lost)
        return TUFF_OK;
    tuff_status status = FAIL(TUFF_E_DEVICE_LOST, "%s was lost earlier (%s): close and reopen it",
                              device->info.selector, device->lost_message);
    tuff__unlock(&device->lock);
    return status;
}

static void record_loss(tuff_device *device)
{
    device->lost = true;
    snprintf(device->lost_message, sizeof device->lost_message, "%.255s", tuff_error());
}

tuff_status tuff__device_detect_loss(tuff_device *device, tuff_status status)
{
    char first[160];
    if (status != TUFF_E_OOM_DEVICE || device->is_stuck || !device->driver || !device->driver->is_lost)
        return status;
    if (device->lost) /* noted in this call */
        return TUFF_E_DEVICE_LOST;
    snprintf(first, sizeof first, "%.159s", tuff_error());
    if (!device->driver->is_lost(device->handle))
        return FAIL(status, "%s", first);
    status = FAIL(TUFF_E_DEVICE_LOST, "%s; the device accepts no more work: a kernel faulted or ran too long", first);
    record_loss(device);
    return status;
}

tuff_status tuff__device_end(tuff_device *device, tuff_status status)
{
    status = tuff__device_detect_loss(device, status);
    if (status == TUFF_E_DEVICE_LOST && !device->lost)
        record_loss(device);
    tuff__unlock(&device->lock);
    return status;
}

tuff_status tuff__device_begin_work(tuff_device *device)
{
    TRY(tuff__device_begin(device));
    atomic_store(&device->is_working, true);
    return TUFF_OK;
}

tuff_status tuff__device_end_work(tuff_device *device, tuff_status status)
{
    atomic_store(&device->last_use, tuff__nanoseconds());
    atomic_store(&device->is_working, false);
    return tuff__device_end(device, status);
}

uint64_t tuff__device_idle_time(tuff_device *device)
{
    if (atomic_load(&device->is_working) || atomic_load(&device->finished) < atomic_load(&device->submitted))
        return 0;
    const uint64_t last_use = atomic_load(&device->last_use), now = tuff__nanoseconds();
    return now > last_use ? now - last_use : 1;
}

tuff_status tuff__device_drain(tuff_device *device)
{
    const tuff_status status = device->driver->wait(device->handle);
    device->has_timed_out = status == TUFF_E_TIMEOUT;
    TRY(status);
    atomic_store(&device->finished, atomic_load(&device->submitted));
    return TUFF_OK;
}

void tuff__device_limit_compiles(tuff_device *device, uint64_t nanoseconds)
{
    tuff__lock(&device->lock);
    device->compile_limit = nanoseconds;
    tuff__unlock(&device->lock);
}

bool tuff__device_is_stuck(tuff_device *device)
{
    tuff__lock(&device->lock);
    const bool is_stuck = device->is_stuck;
    tuff__unlock(&device->lock);
    return is_stuck;
}

void tuff__device_set_timeout(tuff_device *device, uint64_t nanoseconds)
{
    tuff__lock(&device->lock);
    if (device->driver && device->driver->set_timeout && !device->is_stuck)
        device->driver->set_timeout(device->handle, nanoseconds);
    tuff__unlock(&device->lock);
}
