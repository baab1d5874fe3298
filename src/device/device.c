/* Opens, wraps and closes devices. What every call on an open device goes through, such as its lock, is in state.c. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "device/list.h"
#include "device/state.h"

static void free_device(tuff_device *device)
{
    if (device->driver) {
        tuff__pool_trim(device);
        device->driver->close(device->handle);
    }
    tuff__mutex_destroy(&device->host_run);
    tuff__mutex_destroy(&device->lock);
    tuff__free(device);
}

static tuff_status create_locks(tuff_device *device)
{
    const bool has_lock = tuff__mutex_create(&device->lock) == 0;
    if (has_lock && tuff__mutex_create(&device->host_run) == 0)
        return TUFF_OK;
    if (has_lock)
        tuff__mutex_destroy(&device->lock);
    return FAIL(TUFF_E_OOM_HOST, "cannot create the device's lock: out of memory");
}

/* Opens the choice into device or, if handles is not NULL, wraps an application's own objects. */
static tuff_status connect(tuff_device *device, device_choice choice, const void *handles)
{
    const driver *calls = choice.driver;
    if (handles) {
        if (!calls->wrap)
            return FAIL(TUFF_E_UNSUPPORTED,
                        "%s: wrapping an application's device is not supported: open one with tuff_device_open",
                        calls->name);
        TRY(calls->wrap(handles, &device->info, &device->handle));
        tuff__note_driver_optimizer(&device->info);
        snprintf(device->info.selector, sizeof device->info.selector, "%s:wrapped", calls->name);
    } else {
        TRY(tuff__device_describe(choice, &device->info));
        if (!calls)
            return TUFF_OK;
        TRY(calls->open(choice.index, &device->handle));
    }
    device->driver = calls;
    TRY(tuff__device_self_test(device));
    device->counters = (tuff_device_counters){0};
    return TUFF_OK;
}

static tuff_status make_device(device_choice choice, const void *handles, uint64_t compile_limit, tuff_device **out)
{
    tuff_device *device = tuff__calloc(1, sizeof *device);
    if (!device)
        return TUFF_E_OOM_HOST;
    tuff_status status = create_locks(device);
    if (status != TUFF_OK) {
        tuff__free(device);
        return status;
    }
    device->compile_limit = compile_limit;
    status = connect(device, choice, handles);
    if (status != TUFF_OK) {
        free_device(device);
        return status;
    }
    tuff__log(TUFF_LOG_INFO, "opened %s (%s)", device->info.selector, device->info.name);
    *out = device;
    return TUFF_OK;
}

tuff_device *tuff_device_open(const char *name)
{
    return tuff__device_open_limited(name, 0);
}

tuff_device *tuff__device_open_limited(const char *name, uint64_t nanoseconds)
{
    enum { MAX_TRIED = 16 };
    device_choice choices[MAX_TRIED];
    int count = 0;
    if (!name)
        name = getenv("TUFF_DEVICE");
    if (!name || !*name)
        name = "auto";
    if (tuff__device_choose(name, choices, MAX_TRIED, &count) != TUFF_OK)
        return NULL;
    for (int i = 0; i < count; i++) {
        tuff_device *device = NULL;
        tuff_status status = make_device(choices[i], NULL, nanoseconds, &device);
        if (status == TUFF_OK)
            return device;
        if (status == TUFF_E_OOM_HOST)
            return NULL;
        if (i + 1 < count)
            tuff__log(TUFF_LOG_WARNING, "\"%s\" skips a device that cannot be opened: %s", name, tuff_error());
    }
    return NULL;
}

void tuff_device_close(tuff_device *device)
{
    if (device)
        free_device(device);
}

tuff_status tuff_device_set_describe_only(tuff_device *device)
{
    if (!device)
        return FAIL(TUFF_E_USAGE, "tuff_device_set_describe_only: the device is NULL");
    TRY(tuff__device_begin(device));
    tuff_status status = TUFF_OK;
    if (device->counters.bytes_allocated > 0)
        status =
            FAIL(TUFF_E_USAGE, "tuff_device_set_describe_only: %s has arrays or plans: call it before they are made",
                 device->info.selector);
    else
        device->describes_only = true;
    return tuff__device_end(device, status);
}

bool tuff__device_describes_only(const tuff_device *device)
{
    return device->describes_only;
}

bool tuff__device_has_command_buffers(tuff_device *device)
{
    const driver *calls = device->driver;
    return calls && calls->has_command_buffers && calls->has_command_buffers(device->handle);
}

bool tuff__device_has_pipeline_cache(tuff_device *device)
{
    const driver *calls = device->driver;
    return calls && calls->has_pipeline_cache && calls->has_pipeline_cache(device->handle);
}

tuff_status tuff_device_describe(const tuff_device *device, tuff_device_info *info)
{
    if (!device || !info)
        return FAIL(TUFF_E_USAGE, "tuff_device_describe: the %s is NULL", device ? "info" : "device");
    *info = device->info;
    return TUFF_OK;
}

tuff_status tuff_device_counters_get(const tuff_device *device, tuff_device_counters *counters)
{
    if (!device || !counters)
        return FAIL(TUFF_E_USAGE, "tuff_device_counters_get: %s is NULL", device ? "counters" : "the device");
    /* No device object is itself const: the pointer only promises that the caller sees no change. */
    mutex *lock = (mutex *)&device->lock;
    tuff__lock(lock);
    *counters = device->counters;
    tuff__unlock(lock);
    return TUFF_OK;
}

tuff_device *tuff__device_wrap(const driver *calls, const void *handles)
{
    tuff_device *device = NULL;
    const device_choice choice = {.driver = calls};
    return make_device(choice, handles, 0, &device) == TUFF_OK ? device : NULL;
}

tuff_status tuff_device_wait(tuff_device *device)
{
    return device ? tuff__wait(device) : FAIL(TUFF_E_USAGE, "tuff_device_wait: the device is NULL");
}
