/* OpenCL as a driver: the table through which src/device calls it. */
#include "device/opencl/api.h"

static void set_timeout(driver_device *device, uint64_t nanoseconds)
{
    device->timeout = nanoseconds;
}

static bool takes_whole(driver_device *device, double seconds)
{
    const work_share share = {NULL, seconds};
    return !device->predictor.is_on || tuff__predictor_seconds(&device->predictor, &share) <= MAX_SUBMISSION_SECONDS;
}

const driver tuff__driver_opencl = {
    .name = "opencl",
    .language = "OpenCL C",
    .import = "tuff_array_import",
    .count = tuff__cl_count,
    .describe = tuff__cl_describe,
    .open = tuff__cl_open,
    .close = tuff__cl_close,
    .identity = tuff__cl_identity,
    .build_options = tuff__cl_build_options,
    .buffer_create = tuff__cl_buffer_create,
    .buffer_create_anywhere = tuff__cl_buffer_create_anywhere,
    .buffer_destroy = tuff__cl_buffer_destroy,
    .buffer_write = tuff__cl_buffer_write,
    .buffer_read = tuff__cl_buffer_read,
    .buffer_copy = tuff__cl_buffer_copy,
    .staging_create = tuff__cl_staging_create,
    .staging_destroy = tuff__cl_staging_destroy,
    .staging_copy = tuff__cl_staging_copy,
    .staging_send = tuff__cl_staging_send,
    .staging_poll = tuff__cl_staging_poll,
    .has_upload_queue = tuff__cl_has_upload_queue,
    .has_command_buffers = tuff__cl_has_command_buffers,
    .program_create = tuff__cl_program_create,
    .compiles_in_parallel = true,
    .program_destroy = tuff__cl_program_destroy,
    .is_binary_costly = tuff__cl_is_binary_costly,
    .program_bytes = tuff__cl_program_bytes,
    .spilled_bytes = tuff__cl_spilled_bytes,
    .recording_create = tuff__cl_recording_create,
    .recording_destroy = tuff__cl_recording_destroy,
    .submit = tuff__cl_submit,
    .refused_dispatch = tuff__cl_refused_dispatch,
    .is_lost = tuff__cl_is_lost,
    .wait = tuff__cl_wait,
    .set_timeout = set_timeout,
    .timestamps = tuff__cl_timestamps,
    .start_times = tuff__cl_start_times,
    .wrap = tuff__cl_wrap,
    .buffer_import = tuff__cl_buffer_import,
    .unwrap = tuff__cl_unwrap,
    .buffer_unwrap = tuff__cl_buffer_unwrap,
    .enqueue_wait = tuff__cl_enqueue_wait,
    .enqueue_signal = tuff__cl_enqueue_signal,
    .library_unavailable_reason = tuff__cl_library_unavailable_reason,
    .takes_whole = takes_whole,
};
