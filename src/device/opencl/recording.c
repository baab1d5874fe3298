/* Recordings: a list of launches, copies and fills. Each launch has a kernel object of its own, whose arguments are set
   once. The queue is in order, so barriers need no commands. On devices with command buffers, launches that belong to
   one event are enqueued together. */
#include "base/alloc.h"
#include "device/opencl/api.h"

/* One event is kept for this many steps of a submission: its completion is the progress that waits look for. */
enum { STEPS_PER_EVENT = 16 };

/* What one call enqueues; a command that was split has several steps. */
typedef struct step {
    command_kind kind;
    int command; /* index of the step's command */
    cl_kernel kernel;
    size_t global_size, local_size;
    cl_uint base, base_index; /* the first group, and the index of the kernel's argument for it; 0: there is none */
    bool has_other_base;      /* the argument still has another value, from an earlier submission */
    cl_mem source, destination;
    size_t source_offset, destination_offset, size;
    command *product;             /* owned */
    cl_event start_marker, event; /* of the last timed submission; start_marker: a marker in front of a product */
} step;

struct driver_recording {
    step *steps;
    int count, capacity;
    work_share *shares; /* one per step, for predictions */
    command_buffer *
        *blocks; /* one for each STEPS_PER_EVENT steps; NULL: these are enqueued one by one. The list is NULL
                                if the device has no command buffers */
    int share_capacity;
    int command_count;
    int refused; /* the dispatch that the driver refused in the last submission; -1: none */
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

static step *add_step(driver_recording *record, command_kind kind, int command_index, work_share share)
{
    if (!GROW(record->shares, record->count, record->share_capacity) ||
        !GROW(record->steps, record->count, record->capacity))
        return NULL;
    record->shares[record->count] = share;
    step *part = &record->steps[record->count++];
    *part = (struct step){.kind = kind, .command = command_index};
    return part;
}

/* Returns the program as built for the command's buffers. */
static tuff_status program_for(driver_device *device, const command *work, cl_program *out)
{
    *out = work->program->program;
    for (int i = 0; i < work->binding_count; i++)
        if (work->bindings[i].buffer->is_large)
            return tuff__cl_program_for_large(device, work->program, out);
    return TUFF_OK;
}

static work_share share_of(const command *work, uint64_t groups)
{
    return (work_share){&work->program->scale, work->seconds * (double)groups / (double)work->group_count};
}

static tuff_status add_launch(driver_device *device, driver_recording *record, const command *work, int index,
                              uint64_t base, uint64_t groups)
{
    cl_int error = CL_SUCCESS;
    cl_program from = NULL;
    const driver_program *program = work->program;
    step *part = add_step(record, COMMAND_DISPATCH, index, share_of(work, groups));
    if (!part)
        return TUFF_E_OOM_HOST;
    TRY(program_for(device, work, &from));
    part->local_size = program->local_size;
    part->global_size = (size_t)groups * program->local_size;
    part->base = (cl_uint)base;
    part->base_index = work->word_count > 0 ? (cl_uint)(work->binding_count + work->word_count - 1) : 0;
    part->kernel = tuff__cl.CreateKernel(from, program->name, &error);
    if (error != CL_SUCCESS || !part->kernel)
        return tuff__cl_fail(error, "clCreateKernel");
    return set_arguments(part->kernel, work, (cl_uint)base);
}

/* Returns the most groups of one launch. Items are counted in 32 bits, because small devices have no more. Timed
   commands are split by time when they are recorded, because each launch has an event of its own; others when they are
   submitted. */
static uint64_t launch_limit(const driver_device *device, const driver_recording *record, const command *work)
{
    const uint64_t items_limit = UINT32_MAX / work->program->local_size;
    uint64_t limit = device->group_limit < items_limit ? device->group_limit : items_limit;
    if (record->timed && work->word_count > 0) {
        const work_share share = share_of(work, work->group_count);
        const uint64_t parts = tuff__predictor_parts(&device->predictor, &share, work->group_count);
        const uint64_t groups = (work->group_count + parts - 1) / parts;
        limit = groups < limit ? groups : limit;
    }
    return limit;
}

/* Adds one launch, or several with rising bases if there are too many groups for one. */
static tuff_status add_dispatch(driver_device *device, driver_recording *record, const command *work, int index)
{
    const driver_program *program = work->program;
    if (work->binding_count != program->buffer_count || work->word_count != program->word_count)
        return FAIL(TUFF_E_USAGE, "kernel %s expects %d buffers and %d words, got %d and %d", program->name,
                    program->buffer_count, program->word_count, work->binding_count, work->word_count);
    const uint64_t limit = launch_limit(device, record, work);
    if (work->group_count > limit && work->word_count == 0)
        return FAIL(TUFF_E_LIMIT,
                    "kernel %s: %llu groups must be split into several launches, but the kernel has no group-offset "
                    "parameter",
                    program->name, (unsigned long long)work->group_count);
    for (uint64_t base = 0; base < work->group_count; base += limit) {
        uint64_t left = work->group_count - base;
        TRY(add_launch(device, record, work, index, base, left < limit ? left : limit));
    }
    return TUFF_OK;
}

static tuff_status add_transfer(driver_recording *record, const command *work, int index)
{
    const buffer_binding *source = &work->bindings[0];
    const buffer_binding *destination = &work->bindings[work->binding_count - 1];
    step *part = add_step(record, work->kind, index, (work_share){NULL, work->seconds});
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
    step *part = add_step(record, COMMAND_LIBRARY_GEMM, index, (work_share){NULL, work->seconds});
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
    return work->kind == COMMAND_LIBRARY_GEMM ? add_product(device, record, work, index)
                                              : add_transfer(record, work, index);
}

static int block_count(const driver_recording *record)
{
    return (record->count + STEPS_PER_EVENT - 1) / STEPS_PER_EVENT;
}

static int block_end(const driver_recording *record, int block)
{
    const int end = (block + 1) * STEPS_PER_EVENT;
    return end < record->count ? end : record->count;
}

/* Returns a command buffer with the steps of a block; NULL if there is only one, not all are launches, or the driver
   refuses. */
static command_buffer *make_block(driver_device *device, const driver_recording *record, int block)
{
    const int begin = block * STEPS_PER_EVENT, end = block_end(record, block);
    for (int i = begin; i < end; i++)
        if (end - begin == 1 || record->steps[i].kind != COMMAND_DISPATCH)
            return NULL;
    command_buffer *made = tuff__cl_command_buffer_create(device);
    bool recorded = made != NULL;
    for (int i = begin; i < end && recorded; i++) {
        const step *part = &record->steps[i];
        recorded = tuff__cl_command_buffer_add(device, made, part->kernel, part->global_size, part->local_size);
    }
    if (recorded && tuff__cl_command_buffer_finalize(device, made))
        return made;
    tuff__cl_command_buffer_destroy(device, made);
    return NULL;
}

static tuff_status make_blocks(driver_device *device, driver_recording *record)
{
    if (device->command_buffers.create == NULL || record->timed)
        return TUFF_OK;
    record->blocks = tuff__calloc((size_t)block_count(record) + 1, sizeof *record->blocks);
    if (record->blocks == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < block_count(record); i++)
        record->blocks[i] = make_block(device, record, i);
    return TUFF_OK;
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
    if (status == TUFF_OK)
        status = make_blocks(device, record);
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
        if (part->start_marker)
            tuff__cl.ReleaseEvent(part->start_marker);
        part->event = part->start_marker = NULL;
    }
}

/* OpenCL keeps kernels until the launches that use them have run. If the device hangs, a release may never return, so
   the objects are leaked. */
void tuff__cl_recording_destroy(driver_device *device, driver_recording *record)
{
    tuff__cl_forget_submissions(device, record);
    if (device->hung)
        (void)tuff__cl_is_idle(device); /* it may have gone on meanwhile */
    if (!device->hung)
        release_events(record);
    for (int i = 0; record->blocks && i < block_count(record) && !device->hung; i++)
        tuff__cl_command_buffer_destroy(device, record->blocks[i]);
    for (int i = 0; i < record->count; i++) {
        if (record->steps[i].kernel && !device->hung)
            tuff__cl.ReleaseKernel(record->steps[i].kernel);
        tuff__free(record->steps[i].product);
    }
    tuff__free(record->blocks);
    tuff__free(record->shares);
    tuff__free(record->steps);
    tuff__free(record);
}

static tuff_status launch(cl_command_queue queue, const step *part, cl_event *event, cl_int *error)
{
    *error = tuff__cl.EnqueueNDRangeKernel(queue, part->kernel, 1, NULL, &part->global_size, &part->local_size, 0, NULL,
                                           event);
    return *error == CL_SUCCESS ? TUFF_OK : tuff__cl_fail(*error, "clEnqueueNDRangeKernel");
}

/* *error: the OpenCL error of a dispatch; CL_SUCCESS for others. */
static tuff_status enqueue(cl_command_queue queue, const step *part, cl_event *event, cl_int *error)
{
    static const cl_uint zero = 0;
    *error = CL_SUCCESS;
    switch (part->kind) {
    case COMMAND_DISPATCH:
        return launch(queue, part, event, error);
    case COMMAND_COPY:
        CL_TRY(EnqueueCopyBuffer, (queue, part->source, part->destination, part->source_offset,
                                   part->destination_offset, part->size, 0, NULL, event));
        break;
    case COMMAND_FILL_ZERO:
        CL_TRY(EnqueueFillBuffer,
               (queue, part->destination, &zero, sizeof zero, part->destination_offset, part->size, 0, NULL, event));
        break;
    case COMMAND_LIBRARY_GEMM:
        return tuff__cl_library_enqueue(part->product, queue, event);
    }
    return TUFF_OK;
}

/* Enqueues a step and notes the dispatch that the driver refused. The loss of the device and lack of memory, on the
   host or for buffers, are not a kernel's fault. */
static tuff_status enqueue_checked(const driver_device *device, driver_recording *record, const step *part,
                                   cl_event *event)
{
    cl_int error;
    const tuff_status status = enqueue(device->queue, part, event, &error);
    if (error != CL_SUCCESS && error != CL_MEM_OBJECT_ALLOCATION_FAILURE && status != TUFF_E_DEVICE_LOST &&
        status != TUFF_E_OOM_HOST)
        record->refused = part->command;
    return status;
}

/* The steps enqueued since the last event. */
typedef struct step_batch {
    int first;
    double seconds; /* predicted */
    bool is_idle;   /* the queue was idle when the first of them was enqueued */
} step_batch;

static double predict(const driver_device *device, const driver_recording *record, int index)
{
    return tuff__predictor_seconds(&device->predictor, &record->shares[index]);
}

/* Whether a step is the last of its batch: events must be frequent enough, and no batch may take too long. */
static bool ends_batch(const driver_device *device, const driver_recording *record, const step_batch *batch, int index)
{
    if (index % STEPS_PER_EVENT == STEPS_PER_EVENT - 1 || index == record->count - 1)
        return true;
    return device->predictor.is_on &&
           batch->seconds + predict(device, record, index) + predict(device, record, index + 1) >
               MAX_SUBMISSION_SECONDS;
}

/* Tracks the event at the end of a batch and flushes the queue. */
static tuff_status end_batch(driver_device *device, cl_event event, submission_record submission, bool is_idle)
{
    tuff__cl_track(device, event, NULL, 0);
    if (device->predictor.is_on)
        tuff__cl_record_submission(device, submission, is_idle);
    CL_TRY(Flush, (device->queue));
    return TUFF_OK;
}

static tuff_status set_base(step *part, cl_uint base)
{
    part->has_other_base = base != part->base;
    return set_argument(part->kernel, (int)part->base_index, sizeof base, &base);
}

/* Submits a launch in parts, each a batch of its own. */
static tuff_status submit_parts(driver_device *device, driver_recording *record, int index, uint64_t parts)
{
    const work_share whole = record->shares[index];
    step part = record->steps[index];
    const uint64_t groups = part.global_size / part.local_size, most = (groups + parts - 1) / parts;
    record->steps[index].has_other_base = true;
    for (uint64_t at = 0; at < groups; at += most) {
        const uint64_t count = groups - at < most ? groups - at : most;
        cl_event event = NULL;
        TRY(tuff__cl_reserve_staging(device, SIZE_MAX));
        const bool is_idle = tuff__cl_is_idle(device);
        TRY(set_base(&part, part.base + (cl_uint)at));
        part.global_size = (size_t)count * part.local_size;
        TRY(enqueue_checked(device, record, &part, &event));
        const work_share own = {whole.scale, whole.seconds * (double)count / (double)groups};
        TRY(end_batch(device, event, (submission_record){.owner = record, .own = own}, is_idle));
    }
    return TUFF_OK;
}

static tuff_status submit_step(driver_device *device, driver_recording *record, int index, step_batch *batch)
{
    step *part = &record->steps[index];
    cl_event event = NULL;
    const bool has_event = ends_batch(device, record, batch, index);
    if (has_event)
        TRY(tuff__cl_reserve_staging(device, SIZE_MAX));
    if (device->predictor.is_on && batch->first == index)
        batch->is_idle = tuff__cl_is_idle(device);
    if (part->has_other_base)
        TRY(set_base(part, part->base));
    TRY(enqueue_checked(device, record, part, has_event ? &event : NULL));
    batch->seconds += device->predictor.is_on ? predict(device, record, index) : 0;
    if (!has_event)
        return TUFF_OK;
    const submission_record submission = {
        .owner = record, .shares = record->shares + batch->first, .count = index + 1 - batch->first};
    const bool is_idle = batch->is_idle;
    *batch = (step_batch){.first = index + 1};
    return end_batch(device, event, submission, is_idle);
}

/* Whether a block may be submitted at once: its launches take no longer than a submission may. */
static bool is_short(const driver_device *device, const driver_recording *record, int block)
{
    double seconds = 0;
    for (int i = block * STEPS_PER_EVENT; device->predictor.is_on && i < block_end(record, block); i++)
        seconds += predict(device, record, i);
    return seconds <= MAX_SUBMISSION_SECONDS;
}

/* Submits a block's command buffer. One that the driver refuses is dropped, and *submitted is false: its launches are
   then enqueued one by one, which shows what is wrong. */
static tuff_status submit_block(driver_device *device, driver_recording *record, int block, bool *submitted)
{
    const int begin = block * STEPS_PER_EVENT;
    cl_event event = NULL;
    TRY(tuff__cl_reserve_staging(device, SIZE_MAX));
    const bool is_idle = device->predictor.is_on && tuff__cl_is_idle(device);
    const cl_int error = tuff__cl_command_buffer_enqueue(device, record->blocks[block], &event);
    *submitted = error == CL_SUCCESS;
    if (*submitted)
        return end_batch(device, event,
                         (submission_record){.owner = record,
                                             .shares = record->shares + begin,
                                             .count = block_end(record, block) - begin},
                         is_idle);
    tuff__cl_command_buffer_destroy(device, record->blocks[block]);
    record->blocks[block] = NULL;
    saved_error before;
    tuff__error_save(&before);
    const tuff_status status = tuff__cl_fail(error, "clEnqueueCommandBufferKHR");
    if (status == TUFF_E_DEVICE_LOST)
        return status;
    tuff__error_restore(&before);
    return TUFF_OK;
}

/* The last step always has an event, so that a wait for the ring waits for everything. */
static tuff_status submit_plain(driver_device *device, driver_recording *record)
{
    step_batch batch = {0};
    for (int i = 0; i < record->count; i++) {
        const int block = i / STEPS_PER_EVENT;
        if (i % STEPS_PER_EVENT == 0 && record->blocks && record->blocks[block] && is_short(device, record, block)) {
            bool submitted = false;
            TRY(submit_block(device, record, block, &submitted));
            if (submitted) {
                i = block_end(record, block) - 1;
                batch = (step_batch){.first = i + 1};
                continue;
            }
        }
        const step *part = &record->steps[i];
        const uint64_t parts = part->base_index > 0 ? tuff__predictor_parts(&device->predictor, &record->shares[i],
                                                                            part->global_size / part->local_size)
                                                    : 1;
        if (parts > 1 && batch.first == i) {
            TRY(submit_parts(device, record, i, parts));
            batch = (step_batch){.first = i + 1};
        } else {
            TRY(submit_step(device, record, i, &batch));
        }
    }
    return TUFF_OK;
}

static tuff_status ensure_timed_queue(driver_device *device)
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

/* The event of a library call covers only its last kernel: a marker in front shows when the first one may begin. */
static tuff_status enqueue_timed(cl_command_queue queue, step *part)
{
    cl_int error;
    if (part->kind == COMMAND_LIBRARY_GEMM)
        CL_TRY(EnqueueMarkerWithWaitList, (queue, 0, NULL, &part->start_marker));
    return enqueue(queue, part, &part->event, &error);
}

static tuff_status flush(cl_command_queue queue)
{
    CL_TRY(Flush, (queue));
    return TUFF_OK;
}

/* Keeps track of steps that are late on the timed queue: waits include them, and what is enqueued from now on begins
   after the last of them. */
static tuff_status track_late_steps(driver_device *device, const driver_recording *record, int late)
{
    int last = late;
    cl_event marker = NULL;
    while (last + 1 < record->count && record->steps[last + 1].event)
        ++last;
    CL_TRY(RetainEvent, (record->steps[late].event));
    tuff__cl_track(device, record->steps[late].event, NULL, 0);
    CL_TRY(EnqueueMarkerWithWaitList, (device->queue, 1, &record->steps[last].event, &marker));
    tuff__cl_track(device, marker, NULL, 0);
    return flush(device->queue);
}

/* Waits for all steps that were enqueued; returns the first error. */
static tuff_status wait_timed(driver_device *device, const driver_recording *record)
{
    tuff_status status = TUFF_OK;
    for (int i = 0; i < record->count && record->steps[i].event; i++) {
        const tuff_status own_status = tuff__cl_wait_event(device, record->steps[i].event);
        if (status == TUFF_OK)
            status = own_status;
        if (own_status == TUFF_E_TIMEOUT) {
            (void)track_late_steps(device, record, i);
            break;
        }
    }
    return status;
}

/* Gives the timed queue the device to itself: the other queue is idle before. Afterwards the timed queue is idle too,
   or the other queue waits for it. */
static tuff_status submit_timed(driver_device *device, driver_recording *record)
{
    TRY(ensure_timed_queue(device));
    TRY(tuff__cl_wait(device));
    release_events(record);
    tuff_status status = TUFF_OK;
    int enqueued = 0;
    double seconds = 0;
    for (; enqueued < record->count && status == TUFF_OK; enqueued++) {
        seconds += device->predictor.is_on ? predict(device, record, enqueued) : 0;
        if (seconds > MAX_SUBMISSION_SECONDS && enqueued > 0)
            status = flush(device->timed_queue);
        seconds = seconds > MAX_SUBMISSION_SECONDS ? predict(device, record, enqueued) : seconds;
        if (status == TUFF_OK)
            status = enqueue_timed(device->timed_queue, &record->steps[enqueued]);
    }
    /* Steps enqueued before one that failed are waited for as well. */
    const tuff_status flushed = flush(device->timed_queue);
    status = status == TUFF_OK ? flushed : status;
    if (enqueued > 0 && record->steps[enqueued - 1].event)
        tuff__cl_wait_thread_post(device, record->steps[enqueued - 1].event);
    const tuff_status ended = wait_timed(device, record);
    return status == TUFF_OK ? ended : status;
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
    if (part->start_marker)
        CL_TRY(GetEventProfilingInfo, (part->start_marker, CL_PROFILING_COMMAND_END, sizeof *begin, begin, NULL));
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
