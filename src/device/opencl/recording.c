/* Recordings: a list of launches, copies and fills, each launch with a kernel object of its own whose arguments are set
   once. The queue is in order, so barriers need nothing. */
#include "base/alloc.h"
#include "device/opencl/api.h"

/* An event is kept for every so many steps of a submission: the signs of progress that waits look for. */
enum { STEPS_A_SIGN = 16 };

/* What one call enqueues; a command that was split is several steps. */
typedef struct step {
    command_kind kind;
    int command; /* index of the command it belongs to */
    cl_kernel kernel;
    size_t global_size, local_size;
    cl_mem source, destination;
    size_t source_offset, destination_offset, size;
    command *product;       /* owned */
    cl_event before, event; /* of the last timed submission; before: a marker ahead of a product */
} step;

struct driver_recording {
    step *steps;
    int count, capacity;
    int command_count;
    int refused; /* the dispatch that the last submission ended at; -1: none */
    bool timed;
};

static tuff_status set_argument(cl_kernel kernel, int index, size_t size, const void *value)
{
    CL_TRY(SetKernelArg, (kernel, (cl_uint)index, size, value));
    return TUFF_OK;
}

static tuff_status set_arguments(cl_kernel kernel, const command *work, cl_uint base)
{
    for (int i = 0; i < work->binding_count; i++)
        TRY(set_argument(kernel, i, sizeof(cl_mem), &work->bindings[i].buffer->memory));
    for (int i = 0; i < work->word_count; i++) {
        cl_uint word = i == work->word_count - 1 ? base : work->words[i];
        TRY(set_argument(kernel, work->binding_count + i, sizeof word, &word));
    }
    return TUFF_OK;
}

static step *add_step(driver_recording *record, command_kind kind, int command_index)
{
    if (!GROW(record->steps, record->count, record->capacity))
        return NULL;
    step *part = &record->steps[record->count++];
    *part = (struct step){.kind = kind, .command = command_index};
    return part;
}

static tuff_status add_launch(driver_recording *record, const command *work, int index, uint64_t base, uint64_t groups)
{
    cl_int error = CL_SUCCESS;
    const driver_program *program = work->program;
    step *part = add_step(record, COMMAND_DISPATCH, index);
    if (!part)
        return TUFF_E_OOM_HOST;
    part->local_size = program->local_size;
    part->global_size = (size_t)groups * program->local_size;
    part->kernel = tuff__cl.CreateKernel(program->program, program->name, &error);
    if (error != CL_SUCCESS || !part->kernel)
        return tuff__cl_fail(error, "clCreateKernel");
    return set_arguments(part->kernel, work, (cl_uint)base);
}

/* One launch, or several with rising bases where a launch cannot have so many groups. */
static tuff_status add_dispatch(const driver_device *device, driver_recording *record, const command *work, int index)
{
    const driver_program *program = work->program;
    if (work->binding_count != program->buffer_count || work->word_count != program->word_count)
        return FAIL(TUFF_E_USAGE, "kernel %s takes %d buffers and %d words, not %d and %d", program->name,
                    program->buffer_count, program->word_count, work->binding_count, work->word_count);
    /* The items of a launch are counted in 32 bits, which is what small devices have. */
    uint64_t items_limit = UINT32_MAX / program->local_size;
    uint64_t limit = device->group_limit < items_limit ? device->group_limit : items_limit;
    if (work->group_count > limit && work->word_count == 0)
        return FAIL(TUFF_E_LIMIT, "kernel %s: %llu groups need a split, for which it has no word", program->name,
                    (unsigned long long)work->group_count);
    for (uint64_t base = 0; base < work->group_count; base += limit) {
        uint64_t left = work->group_count - base;
        TRY(add_launch(record, work, index, base, left < limit ? left : limit));
    }
    return TUFF_OK;
}

static tuff_status add_transfer(driver_recording *record, const command *work, int index)
{
    const buffer_binding *source = &work->bindings[0];
    const buffer_binding *destination = &work->bindings[work->binding_count - 1];
    step *part = add_step(record, work->kind, index);
    if (!part)
        return TUFF_E_OOM_HOST;
    part->source = source->buffer->memory;
    part->source_offset = (size_t)source->offset;
    part->destination = destination->buffer->memory;
    part->destination_offset = (size_t)destination->offset;
    part->size = (size_t)destination->size;
    return TUFF_OK;
}

static tuff_status add_product(driver_device *device, driver_recording *record, const command *work, int index)
{
    step *part = add_step(record, COMMAND_PRODUCT, index);
    if (!part || !(part->product = tuff__alloc(sizeof *part->product)))
        return TUFF_E_OOM_HOST;
    *part->product = *work;
    device->used_library = true;
    return TUFF_OK;
}

static tuff_status add_command(driver_device *device, driver_recording *record, const command *work, int index)
{
    if (work->kind == COMMAND_DISPATCH)
        return add_dispatch(device, record, work, index);
    return work->kind == COMMAND_PRODUCT ? add_product(device, record, work, index) : add_transfer(record, work, index);
}

tuff_status tuff__cl_recording_create(driver_device *device, const command *commands, int count, bool timed,
                                      driver_recording **out)
{
    driver_recording *record = tuff__calloc(1, sizeof *record);
    if (!record)
        return TUFF_E_OOM_HOST;
    record->timed = timed;
    record->command_count = count;
    record->refused = -1;
    tuff_status status = TUFF_OK;
    for (int i = 0; i < count && status == TUFF_OK; i++)
        status = add_command(device, record, &commands[i], i);
    if (status != TUFF_OK) {
        tuff__cl_recording_destroy(device, record);
        return status;
    }
    *out = record;
    return TUFF_OK;
}

static void release_events(driver_recording *record)
{
    for (int i = 0; i < record->count; i++) {
        step *part = &record->steps[i];
        if (part->event)
            tuff__cl.ReleaseEvent(part->event);
        if (part->before)
            tuff__cl.ReleaseEvent(part->before);
        part->event = part->before = NULL;
    }
}

/* OpenCL keeps kernels until the launches that use them have run. */
void tuff__cl_recording_destroy(driver_device *device, driver_recording *record)
{
    (void)device;
    release_events(record);
    for (int i = 0; i < record->count; i++) {
        if (record->steps[i].kernel)
            tuff__cl.ReleaseKernel(record->steps[i].kernel);
        tuff__free(record->steps[i].product);
    }
    tuff__free(record->steps);
    tuff__free(record);
}

static tuff_status enqueue(cl_command_queue queue, const step *part, cl_event *event)
{
    static const cl_uint zero = 0;
    switch (part->kind) {
    case COMMAND_DISPATCH:
        CL_TRY(EnqueueNDRangeKernel,
               (queue, part->kernel, 1, NULL, &part->global_size, &part->local_size, 0, NULL, event));
        break;
    case COMMAND_COPY:
        CL_TRY(EnqueueCopyBuffer, (queue, part->source, part->destination, part->source_offset,
                                   part->destination_offset, part->size, 0, NULL, event));
        break;
    case COMMAND_FILL_ZERO:
        CL_TRY(EnqueueFillBuffer,
               (queue, part->destination, &zero, sizeof zero, part->destination_offset, part->size, 0, NULL, event));
        break;
    case COMMAND_PRODUCT:
        return tuff__cl_library_enqueue(part->product, queue, event);
    }
    return TUFF_OK;
}

/* What took the device away, or the host's memory, is nobody's kernel. */
static tuff_status note_refusal(driver_recording *record, const step *part, tuff_status why)
{
    if (part->kind == COMMAND_DISPATCH && why != TUFF_E_DEVICE_LOST && why != TUFF_E_OOM_HOST)
        record->refused = part->command;
    return why;
}

/* The last step always has an event, so that a wait for the ring waits for everything. */
static tuff_status submit_plain(driver_device *device, driver_recording *record)
{
    for (int i = 0; i < record->count; i++) {
        bool sign = i % STEPS_A_SIGN == STEPS_A_SIGN - 1 || i == record->count - 1;
        cl_event event = NULL;
        if (sign)
            TRY(tuff__cl_make_room(device, SIZE_MAX));
        const tuff_status status = enqueue(device->queue, &record->steps[i], sign ? &event : NULL);
        if (status != TUFF_OK)
            return note_refusal(record, &record->steps[i], status);
        if (!sign)
            continue;
        tuff__cl_track(device, event, NULL, 0);
        CL_TRY(Flush, (device->queue));
    }
    return TUFF_OK;
}

static tuff_status need_timed_queue(driver_device *device)
{
    cl_int error = CL_SUCCESS;
    if (device->timed_queue)
        return TUFF_OK;
    cl_command_queue queue =
        tuff__cl.CreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &error);
    if (error != CL_SUCCESS || !queue)
        return tuff__cl_fail(error, "clCreateCommandQueue");
    device->timed_queue = queue;
    return TUFF_OK;
}

/* The event of a library's call is that of its last kernel alone: its first ones begin behind a marker. */
static tuff_status enqueue_timed(cl_command_queue queue, step *part)
{
    if (part->kind == COMMAND_PRODUCT)
        CL_TRY(EnqueueMarkerWithWaitList, (queue, 0, NULL, &part->before));
    return enqueue(queue, part, &part->event);
}

static tuff_status flush(cl_command_queue queue)
{
    CL_TRY(Flush, (queue));
    return TUFF_OK;
}

/* The timed queue has the device to itself: the other one is idle before, and this one after. */
static tuff_status submit_timed(driver_device *device, driver_recording *record)
{
    TRY(need_timed_queue(device));
    TRY(tuff__cl_wait(device));
    release_events(record);
    tuff_status status = TUFF_OK;
    int enqueued = 0;
    for (; enqueued < record->count && status == TUFF_OK; enqueued++)
        status = enqueue_timed(device->timed_queue, &record->steps[enqueued]);
    if (status == TUFF_OK)
        status = flush(device->timed_queue);
    if (enqueued > 0 && record->steps[enqueued - 1].event)
        tuff__cl_lend(device, record->steps[enqueued - 1].event);
    for (int i = 0; i < record->count && record->steps[i].event; i++) {
        tuff_status one = tuff__cl_wait_event(device, record->steps[i].event);
        if (status == TUFF_OK)
            status = one;
        if (one == TUFF_E_TIMEOUT)
            break;
    }
    return status;
}

tuff_status tuff__cl_submit(driver_device *device, driver_recording *record)
{
    record->refused = -1;
    return record->timed ? submit_timed(device, record) : submit_plain(device, record);
}

int tuff__cl_refused_dispatch(const driver_recording *record)
{
    return record->refused;
}

static tuff_status start_of(const step *part, cl_ulong *begin)
{
    if (!part->event)
        return FAIL(TUFF_E_USAGE, "the recording was not submitted");
    if (part->before)
        CL_TRY(GetEventProfilingInfo, (part->before, CL_PROFILING_COMMAND_END, sizeof *begin, begin, NULL));
    else
        CL_TRY(GetEventProfilingInfo, (part->event, CL_PROFILING_COMMAND_START, sizeof *begin, begin, NULL));
    return TUFF_OK;
}

/* A command that was split begins with its first step. */
tuff_status tuff__cl_start_times(driver_device *device, driver_recording *record, uint64_t *nanoseconds)
{
    (void)device;
    for (int i = record->count - 1; i >= 0; i--) {
        cl_ulong begin = 0;
        TRY(start_of(&record->steps[i], &begin));
        nanoseconds[record->steps[i].command] = begin;
    }
    return TUFF_OK;
}

tuff_status tuff__cl_timestamps(driver_device *device, driver_recording *record, uint64_t *nanoseconds)
{
    (void)device;
    for (int i = 0; i < record->command_count; i++)
        nanoseconds[i] = 0;
    for (int i = 0; i < record->count; i++) {
        const step *part = &record->steps[i];
        cl_ulong begin = 0, end = 0;
        TRY(start_of(part, &begin));
        CL_TRY(GetEventProfilingInfo, (part->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
        nanoseconds[part->command] += end > begin ? end - begin : 0;
    }
    return TUFF_OK;
}
