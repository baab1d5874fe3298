/* A device whose description is overridden: it compiles as another device would, with memory of its own driver; nothing
   is built or run. */
#include "base/text.h"
#include "device/state.h"

static tuff_status create_nothing(driver_device *device, const program_request *request, blob cached, blob *made,
                                  driver_program **out)
{
    (void)request, (void)cached, (void)made;
    *out = (driver_program *)device; /* not NULL, and never dereferenced */
    return TUFF_OK;
}

static void destroy_nothing(driver_device *device, driver_program *built)
{
    (void)device, (void)built;
}

/* The two kinds of recordings: one that dispatches, and one that only copies and clears, for results nobody sees. */
static char dispatches, moves;

static tuff_status record_nothing(driver_device *device, const command *commands, int count, bool timed,
                                  driver_recording **out)
{
    (void)device, (void)timed;
    *out = (driver_recording *)&moves;
    for (int i = 0; i < count; i++)
        if (commands[i].kind == COMMAND_DISPATCH)
            *out = (driver_recording *)&dispatches;
    return TUFF_OK;
}

static void destroy_recording(driver_device *device, driver_recording *recorded)
{
    (void)device, (void)recorded;
}

static tuff_status refuse(driver_device *device, driver_recording *recorded)
{
    (void)device;
    if (recorded == (driver_recording *)&moves)
        return TUFF_OK;
    return FAIL(TUFF_E_UNSUPPORTED, "a device that is described as another runs nothing");
}

void tuff__device_override_info(tuff_device *device, const tuff_device_info *as)
{
    device->driver_override = *device->driver;
    device->driver_override.program_create = create_nothing;
    device->driver_override.program_destroy = destroy_nothing;
    device->driver_override.loads_in_parallel = false;
    device->driver_override.is_binary_costly = NULL;
    device->driver_override.program_bytes = NULL;
    device->driver_override.tell_spills = NULL;
    device->driver_override.spilled_bytes = NULL;
    device->driver_override.recording_create = record_nothing;
    device->driver_override.recording_destroy = destroy_recording;
    device->driver_override.submit = refuse;
    device->driver_override.refused_dispatch = NULL;
    device->driver_override.library_absence = NULL;
    device->driver = &device->driver_override;
    device->info = *as;
}
