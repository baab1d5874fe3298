/* Recordings: commands are checked and their barriers set, then the driver is called; submissions are counted. */
#include "base/alloc.h"
#include "device/state.h"

struct recording {
    driver_recording *driver; /* NULL if there are no commands */
    uint64_t dispatch_count;
    uint64_t submission; /* ordinal of the last one; 0: never submitted */
    bool timed;
    int count;
};

static tuff_status check_dispatch(const command *work, int index)
{
    if (!work->program)
        return FAIL(TUFF_E_USAGE, "command %d: the dispatch has no program", index);
    if (work->group_count == 0)
        return FAIL(TUFF_E_USAGE, "command %d: the dispatch has no groups", index);
    if (work->group_count > UINT32_MAX)
        return FAIL(TUFF_E_LIMIT, "command %d: %llu groups; at most 2^32 - 1 are allowed", index,
                    (unsigned long long)work->group_count);
    if (work->word_count < 0 || work->word_count > MAX_WORDS)
        return FAIL(TUFF_E_USAGE, "command %d: %d words; at most %d are allowed", index, work->word_count, MAX_WORDS);
    return TUFF_OK;
}

static tuff_status check_transfer(const command *work, int index)
{
    int expected = work->kind == COMMAND_COPY ? 2 : 1;
    if (work->binding_count != expected)
        return FAIL(TUFF_E_USAGE, "command %d: a copy needs 2 bindings and a fill needs 1, got %d", index,
                    work->binding_count);
    for (int i = 0; i < expected; i++)
        if ((work->bindings[i].offset | work->bindings[i].size) & 3)
            return FAIL(TUFF_E_USAGE, "command %d: offsets and sizes of copies and fills must be multiples of 4 bytes",
                        index);
    if (expected == 2 && work->bindings[0].size != work->bindings[1].size)
        return FAIL(TUFF_E_USAGE, "command %d: source and destination of the copy differ in size", index);
    return TUFF_OK;
}

static tuff_status check_product(const command *work, int index)
{
    const library_product *gemm = &work->product;
    if (work->binding_count != 3)
        return FAIL(TUFF_E_USAGE, "command %d: a product needs 3 bindings, got %d", index, work->binding_count);
    if (gemm->rows <= 0 || gemm->columns <= 0 || gemm->inner <= 0 || gemm->batches <= 0)
        return FAIL(TUFF_E_USAGE, "command %d: the product is empty", index);
    return TUFF_OK;
}

static tuff_status check_command(const command *work, int index)
{
    if (work->binding_count < 0 || work->binding_count > MAX_BINDINGS)
        return FAIL(TUFF_E_LIMIT, "command %d: %d bindings; at most %d are allowed", index, work->binding_count,
                    MAX_BINDINGS);
    for (int i = 0; i < work->binding_count; i++)
        if (!work->bindings[i].buffer || work->bindings[i].size == 0)
            return FAIL(TUFF_E_USAGE, "command %d: binding %d is empty", index, i);
    if (work->kind == COMMAND_LIBRARY_GEMM)
        return check_product(work, index);
    return work->kind == COMMAND_DISPATCH ? check_dispatch(work, index) : check_transfer(work, index);
}

tuff_status tuff__recording_create(tuff_device *device, command *commands, int count, bool barriers_everywhere,
                                   bool timed, recording **out)
{
    *out = NULL;
    if (!device->driver)
        return FAIL(TUFF_E_UNSUPPORTED, "the reference device does not support recordings");
    for (int i = 0; i < count; i++) {
        /* Asking loads the library. */
        const char *reason =
            commands[i].kind == COMMAND_LIBRARY_GEMM ? tuff__device_library_unavailable_reason(device) : NULL;
        if (reason)
            return FAIL(TUFF_E_UNSUPPORTED, "%s", reason);
        TRY(check_command(&commands[i], i));
    }
    tuff__set_barriers(commands, count, barriers_everywhere);
    if (tuff__verification_is_on())
        TRY(tuff__verify_hazards(commands, count));
    recording *record = tuff__calloc(1, sizeof *record);
    if (!record)
        return TUFF_E_OOM_HOST;
    record->timed = timed;
    record->count = count;
    for (int i = 0; i < count; i++)
        record->dispatch_count += commands[i].kind == COMMAND_DISPATCH || commands[i].kind == COMMAND_LIBRARY_GEMM;
    tuff_status status = tuff__device_begin(device);
    if (status == TUFF_OK) {
        if (count > 0) {
            status = device->driver->recording_create(device->handle, commands, count, timed, &record->driver);
            if (tuff__pool_reclaim(device, status))
                status = device->driver->recording_create(device->handle, commands, count, timed, &record->driver);
        }
        status = tuff__device_end(device, status);
    }
    if (status != TUFF_OK) {
        tuff__free(record);
        return status;
    }
    *out = record;
    return TUFF_OK;
}

void tuff__recording_destroy(tuff_device *device, recording *record)
{
    if (!record)
        return;
    tuff__lock(&device->lock);
    tuff_status status = TUFF_OK;
    /* A device that hangs does not get the whole time again for each recording: the driver then leaves to it what it
       may still use. */
    if (record->submission > atomic_load(&device->finished) && !device->lost && !device->has_timed_out)
        status = tuff__device_drain(device);
    if (record->driver)
        device->driver->recording_destroy(device->handle, record->driver);
    tuff__device_end(device, status);
    tuff__free(record);
}

/* Lock held. */
static tuff_status submit(tuff_device *device, recording *record)
{
    tuff_status status = TUFF_OK;
    if (record->driver) {
        /* A submission that fails may have begun: it counts as one to wait for. */
        record->submission = atomic_fetch_add(&device->submitted, 1) + 1;
        status = device->driver->submit(device->handle, record->driver);
    }
    if (status == TUFF_OK) {
        device->counters.submissions++;
        device->counters.dispatches += record->dispatch_count;
    }
    return status;
}

tuff_status tuff__submit(tuff_device *device, recording *record)
{
    TRY(tuff__device_begin_work(device));
    return tuff__device_end_work(device, submit(device, record));
}

tuff_status tuff__submit_prepared(tuff_device *device, const prepared_submission *pair, const recording **last)
{
    tuff_status status = TUFF_OK;
    *last = pair->preparation ? pair->preparation : pair->main;
    TRY(tuff__device_begin_work(device));
    if (pair->preparation && pair->needs_preparation(pair->state))
        status = submit(device, pair->preparation);
    if (status == TUFF_OK) {
        *last = pair->main;
        status = pair->main ? submit(device, pair->main) : TUFF_OK;
        if (pair->ended)
            pair->ended(pair->state);
    }
    return tuff__device_end_work(device, status);
}

int tuff__refused_dispatch(tuff_device *device, const recording *recorded)
{
    if (!recorded || !recorded->driver || !device->driver->refused_dispatch)
        return -1;
    tuff__lock(&device->lock);
    const int refused = device->lost ? -1 : device->driver->refused_dispatch(recorded->driver);
    tuff__unlock(&device->lock);
    return refused;
}

tuff_status tuff__wait(tuff_device *device)
{
    TRY(tuff__device_begin_work(device));
    return tuff__device_end_work(device, device->driver ? tuff__device_drain(device) : TUFF_OK);
}

static tuff_status check_timed(const recording *record)
{
    if (record->timed && record->submission > 0)
        return TUFF_OK;
    return FAIL(TUFF_E_USAGE, "no timestamps: the recording was not %s",
                record->timed ? "submitted" : "recorded for timing");
}

tuff_status tuff__timestamps(tuff_device *device, recording *record, uint64_t *nanoseconds)
{
    if (record->count == 0)
        return TUFF_OK;
    TRY(check_timed(record));
    TRY(tuff__device_begin(device));
    return tuff__device_end(device, device->driver->timestamps(device->handle, record->driver, nanoseconds));
}

tuff_status tuff__submit_timed(tuff_device *device, recording *record, uint64_t *stamps, bool *has_stamps,
                               uint64_t *passed)
{
    const uint64_t begin = tuff__nanoseconds();
    TRY(tuff__submit(device, record));
    TRY(tuff__wait(device));
    *passed = tuff__nanoseconds() - begin;
    const tuff_status status = tuff__timestamps(device, record, stamps);
    *has_stamps = status == TUFF_OK;
    return status == TUFF_E_UNSUPPORTED ? TUFF_OK : status;
}

tuff_status tuff__start_times(tuff_device *device, recording *record, uint64_t *nanoseconds)
{
    if (record->count == 0)
        return TUFF_OK;
    TRY(check_timed(record));
    TRY(tuff__device_begin(device));
    TRY(tuff__device_end(device, device->driver->start_times(device->handle, record->driver, nanoseconds)));
    uint64_t first = UINT64_MAX;
    for (int i = 0; i < record->count; i++)
        first = nanoseconds[i] < first ? nanoseconds[i] : first;
    for (int i = 0; i < record->count; i++)
        nanoseconds[i] -= first;
    return TUFF_OK;
}
