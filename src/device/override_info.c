/* A device whose description is overridden: it compiles as another device would, with memory of its own driver; nothing
   is built or run. */
#include "device/state.h"

static tuff_status create_dummy_program(driver_device *device, const program_request *request, blob cached, blob *made,
                                        driver_program **out)
{
    (void)request, (void)cached, (void)made;
    *out = (driver_program *)device; /* not NULL, and never dereferenced */
    return TUFF_OK;
}

static void destroy_dummy_program(driver_device *device, driver_program *built)
{
    (void)device, (void)built;
}

/* The two kinds of recordings: one that dispatches, and one that only copies and clears, for results that are never
   read. */
static char dispatching, transferring;

static tuff_status create_dummy_recording(driver_device *device, const command *commands, int count, bool timed,
                                          driver_recording **out)
{
    (void)device, (void)timed;
    *out = (driver_recording *)&transferring;
    for (int i = 0; i < count; i++)
        if (commands[i].kind == COMMAND_DISPATCH)
            *out = (driver_recording *)&dispatching;
    return TUFF_OK;
}

static void destroy_dummy_recording(driver_device *device, driver_recording *recorded)
{
    (void)device, (void)recorded;
}

static tuff_status submit_dummy(driver_device *device, driver_recording *recorded)
{
    (void)device;
    if (recorded == (driver_recording *)&transferring)
        return TUFF_OK;
    return FAIL(TUFF_E_UNSUPPORTED, "a device whose description is overridden cannot run kernels");
}

void tuff__device_override_info(tuff_device *device, const tuff_device_info *other)
{
    device->driver_override = *device->driver;
    device->driver_override.program_create = create_dummy_program;
    device->driver_override.program_destroy = destroy_dummy_program;
    device->driver_override.is_binary_costly = NULL;
    device->driver_override.program_bytes = NULL;
    device->driver_override.collect_spill_statistics = NULL;
    device->driver_override.spilled_bytes = NULL;
    device->driver_override.recording_create = create_dummy_recording;
    device->driver_override.recording_destroy = destroy_dummy_recording;
    device->driver_override.submit = submit_dummy;
    device->driver_override.refused_dispatch = NULL;
    device->driver_override.library_unavailable_reason = NULL;
    device->driver = &device->driver_override;
    device->info = *other;
}
