/* A device that poses as another: the driver's memory, and nothing built or run. */
#include "base/text.h"
#include "device/state.h"

static tuff_status create_nothing(driver_device *device, const program_request *request, blob cached, blob *made,
                                  driver_program **out)
{
    (void)request, (void)cached, (void)made;
    *out = (driver_program *)device; /* something that is not NULL, and never looked into */
    return TUFF_OK;
}

static void destroy_nothing(driver_device *device, driver_program *built)
{
    (void)device, (void)built;
}

/* What a recording is: one that dispatches, or one that only copies and clears, whose bytes nobody will look at. */
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
    return FAIL(TUFF_E_UNSUPPORTED, "a device that poses as another runs nothing");
}

void tuff__device_pose(tuff_device *device, const tuff_device_info *as)
{
    device->posing = *device->driver;
    device->posing.program_create = create_nothing;
    device->posing.program_destroy = destroy_nothing;
    device->posing.loads_in_parallel = false;
    device->posing.is_binary_costly = NULL;
    device->posing.program_bytes = NULL;
    device->posing.tell_spills = NULL;
    device->posing.spilled_bytes = NULL;
    device->posing.recording_create = record_nothing;
    device->posing.recording_destroy = destroy_recording;
    device->posing.submit = refuse;
    device->posing.refused_dispatch = NULL;
    device->posing.library_absence = NULL;
    device->driver = &device->posing;
    device->info = *as;
}
