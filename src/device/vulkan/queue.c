/* The order of work on the compute queue, and of concurrent uploads: numbered submissions, bounded waits, and the
   barriers that order submissions. */
#include "base/alloc.h"
#include "base/thread.h"
#include "device/vulkan/state.h"

#define WAIT_SLICE UINT64_C(100000000)

static const VkPipelineStageFlags work_stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

tuff_status tuff__vulkan_check_device(driver_device *device, VkResult result, const char *function)
{
    if (result == VK_ERROR_DEVICE_LOST) {
        if (!device->lost)
            device->lost_in = function;
        device->lost = true;
        device->finished = device->submitted;
    }
    return tuff__vulkan_check(result, function);
}

tuff_status tuff__vulkan_check_lost(const driver_device *device)
{
    if (!device->lost)
        return TUFF_OK;
    return FAIL(TUFF_E_DEVICE_LOST, "vulkan: %s was lost in %s", device->physical.properties.properties.deviceName,
                device->lost_in);
}

tuff_status tuff__vulkan_create_ring(driver_device *device)
{
    device->submissions = tuff__calloc(MAX_IN_FLIGHT, sizeof *device->submissions);
    if (!device->submissions)
        return TUFF_E_OOM_HOST;
    device->submission_capacity = MAX_IN_FLIGHT;
    return TUFF_OK;
}

void tuff__vulkan_destroy_ring(driver_device *device)
{
    for (uint64_t i = 0; i < device->submission_capacity; i++)
        if (device->submissions[i].fence)
            device->vk->vkDestroyFence(device->handle, device->submissions[i].fence, NULL);
}

vulkan_submission *tuff__vulkan_submission(const driver_device *device, uint64_t ticket)
{
    return &device->submissions[ticket % device->submission_capacity];
}

static VkFence oldest(const driver_device *device)
{
    return tuff__vulkan_submission(device, device->finished + 1)->fence;
}

uint64_t tuff__vulkan_nanoseconds(const vulkan_physical *physical, uint64_t begin, uint64_t end)
{
    uint32_t bits = physical->timestamp_bits;
    uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    return (uint64_t)((double)((end - begin) & mask) * (double)physical->properties.properties.limits.timestampPeriod);
}

/* Reads how long a submission took. Its recording may have been submitted again, and the ticks reset: then there are
   none, or newer ones, which are as good. */
static bool read_duration(const driver_device *device, const vulkan_submission *submission, double *seconds)
{
    uint64_t ticks[2];
    if (!submission->times ||
        device->vk->vkGetQueryPoolResults(device->handle, submission->times, submission->query, 2, sizeof ticks, ticks,
                                          sizeof *ticks, VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return false;
    *seconds = (double)tuff__vulkan_nanoseconds(&device->physical, ticks[0], ticks[1]) * 1e-9;
    return true;
}

/* Notes that the oldest ticket is done. waited: the caller waited for its end, which is now. */
static void finish_oldest(driver_device *device, bool waited)
{
    const vulkan_submission *oldest_one = tuff__vulkan_submission(device, ++device->finished);
    double seconds;
    if (read_duration(device, oldest_one, &seconds))
        tuff__predictor_measured(&device->predictor, &oldest_one->record, seconds);
    else
        tuff__predictor_ended(&device->predictor, &oldest_one->record, waited);
}

/* Whether a wait took longer than one for a fence that was already signalled. */
static bool has_blocked(const driver_device *device, uint64_t begin)
{
    enum { CALL_NANOSECONDS = 50000 };
    return device->predictor.is_on && tuff__predictor_clock() - begin > CALL_NANOSECONDS;
}

static tuff_status wait_within(driver_device *device, uint64_t ticket, uint64_t limit)
{
    uint64_t idle = 0, begin = 0;
    while (device->finished < ticket) {
        VkFence fence = oldest(device);
        if (device->predictor.is_on && begin == 0)
            begin = tuff__predictor_clock();
        uint64_t start = tuff__nanoseconds(), slice = limit < WAIT_SLICE ? limit : WAIT_SLICE;
        VkResult result = device->vk->vkWaitForFences(device->handle, 1, &fence, VK_TRUE, slice);
        if (result == VK_SUCCESS) {
            finish_oldest(device, has_blocked(device, begin));
            device->hung = false;
            idle = begin = 0;
            continue;
        }
        if (result != VK_TIMEOUT)
            return tuff__vulkan_check_device(device, result, "vkWaitForFences");
        /* A process that was stopped for an hour has waited for only one slice. */
        uint64_t elapsed = tuff__nanoseconds() - start;
        idle += elapsed < slice ? elapsed : slice;
        if (idle >= limit) {
            device->hung = true;
            return FAIL(TUFF_E_TIMEOUT, "vulkan: %s made no progress for %llu ms",
                        device->physical.properties.properties.deviceName, (unsigned long long)(limit / 1000000));
        }
    }
    return TUFF_OK;
}

tuff_status tuff__vulkan_wait_until(driver_device *device, uint64_t ticket)
{
    TRY(tuff__vulkan_check_lost(device));
    return wait_within(device, ticket, device->wait_limit);
}

bool tuff__vulkan_is_done(driver_device *device, uint64_t ticket)
{
    while (device->finished < ticket) {
        const VkResult result = device->vk->vkGetFenceStatus(device->handle, oldest(device));
        if (result == VK_ERROR_DEVICE_LOST)
            (void)tuff__vulkan_check_device(device, result, "vkGetFenceStatus");
        if (result != VK_SUCCESS)
            break;
        finish_oldest(device, false);
        device->hung = false;
    }
    return device->finished >= ticket;
}

bool tuff__vulkan_settle(driver_device *device, uint64_t ticket)
{
    /* A device that hung once does not get the whole time again for every object. A wait that fails for lack of memory
       is worth another try, because giving up leaks objects. */
    for (int attempt = 0; attempt < 3 && !device->lost && !device->hung; attempt++)
        if (wait_within(device, ticket, device->wait_limit) == TUFF_OK)
            return true;
    if (device->lost || tuff__vulkan_is_done(device, ticket))
        return true;
    device->has_leaks = true;
    return false;
}

/* Submits under the application's lock if the queue is an application's. */
static tuff_status submit(driver_device *device, VkQueue queue, const VkSubmitInfo *info, VkFence fence)
{
    const tuff_vulkan_handles *application = &device->application;
    TRY(tuff__vulkan_check_lost(device));
    if (application->lock_queue)
        application->lock_queue(application->lock_user);
    const VkResult result = device->vk->vkQueueSubmit(queue, 1, info, fence);
    if (application->unlock_queue)
        application->unlock_queue(application->lock_user);
    return tuff__vulkan_check_device(device, result, "vkQueueSubmit");
}

/* Doubles the full ring. */
static tuff_status grow_ring(driver_device *device)
{
    const uint64_t capacity = 2 * device->submission_capacity;
    vulkan_submission *ring = tuff__calloc(capacity, sizeof *ring);
    if (!ring)
        return TUFF_E_OOM_HOST;
    for (uint64_t ticket = device->finished + 1; ticket <= device->submitted; ticket++)
        ring[ticket % capacity] = *tuff__vulkan_submission(device, ticket);
    tuff__free(device->submissions);
    device->submissions = ring;
    device->submission_capacity = capacity;
    return TUFF_OK;
}

static bool is_full(const driver_device *device)
{
    return device->submitted - device->finished == device->submission_capacity;
}

/* Makes room for the next ticket. An application's semaphore may hold up what is in flight, until the thread that
   submits now has gone on: the host does not wait then. */
static tuff_status make_room(driver_device *device)
{
    if (!is_full(device))
        return TUFF_OK;
    if (!device->predictor.is_shared || device->submission_capacity >= MAX_IN_FLIGHT_SHARED)
        return tuff__vulkan_wait_until(device, device->finished + 1);
    (void)tuff__vulkan_is_done(device, device->submitted);
    return is_full(device) ? grow_ring(device) : TUFF_OK;
}

/* Returns the fence of the next ticket, not signalled. */
static tuff_status next_fence(driver_device *device, VkFence *out)
{
    VkFence *fence = &tuff__vulkan_submission(device, device->submitted + 1)->fence;
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (*fence)
        TRY(tuff__vulkan_check_device(device, device->vk->vkResetFences(device->handle, 1, fence), "vkResetFences"));
    else
        TRY(tuff__vulkan_check_device(device, device->vk->vkCreateFence(device->handle, &info, NULL, fence),
                                      "vkCreateFence"));
    *out = *fence;
    return TUFF_OK;
}

tuff_status tuff__vulkan_submit(driver_device *device, VkCommandBuffer commands, uint64_t *ticket)
{
    return tuff__vulkan_submit_with_semaphores(device, commands, NULL, NULL, ticket);
}

tuff_status tuff__vulkan_submit_with_semaphores(driver_device *device, VkCommandBuffer commands,
                                                const vulkan_semaphore *wait, const vulkan_semaphore *signal,
                                                uint64_t *ticket)
{
    static const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const vulkan_semaphore none = {0}, *before = wait ? wait : &none, *after = signal ? signal : &none;
    VkFence fence;
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = wait ? 1 : 0,
        .pWaitSemaphoreValues = &before->value,
        .signalSemaphoreValueCount = signal ? 1 : 0,
        .pSignalSemaphoreValues = &after->value,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = before->value || after->value ? &values : NULL,
        .waitSemaphoreCount = wait ? 1 : 0,
        .pWaitSemaphores = &before->handle,
        .pWaitDstStageMask = &all,
        .commandBufferCount = commands ? 1 : 0,
        .pCommandBuffers = &commands,
        .signalSemaphoreCount = signal ? 1 : 0,
        .pSignalSemaphores = &after->handle,
    };
    TRY(make_room(device));
    TRY(next_fence(device, &fence));
    TRY(submit(device, device->queue, &info, fence));
    *ticket = ++device->submitted;
    *tuff__vulkan_submission(device, *ticket) = (vulkan_submission){.fence = fence, .signal = *after};
    return TUFF_OK;
}

void tuff__vulkan_record_submission(driver_device *device, submission_record submission, bool is_idle,
                                    VkQueryPool times, uint32_t query)
{
    vulkan_submission *last = tuff__vulkan_submission(device, device->submitted);
    tuff__predictor_submitted(&device->predictor, &submission, is_idle);
    last->record = submission;
    last->times = times;
    last->query = query;
}

void tuff__vulkan_forget_submissions(driver_device *device, const driver_recording *recording)
{
    for (uint64_t i = 0; i < device->submission_capacity; i++)
        if (device->submissions[i].record.owner == recording) {
            device->submissions[i].record = (submission_record){0};
            device->submissions[i].times = VK_NULL_HANDLE;
        }
}

tuff_status tuff__vulkan_submit_upload(driver_device *device, VkCommandBuffer commands, VkSemaphore signal,
                                       VkFence fence)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &signal,
    };
    return submit(device, device->upload_queue, &info, fence);
}

tuff_status tuff__vulkan_is_uploaded(driver_device *device, VkFence fence, bool *done)
{
    const VkResult result = device->vk->vkGetFenceStatus(device->handle, fence);
    *done = result == VK_SUCCESS;
    return tuff__vulkan_check_device(device, result, "vkGetFenceStatus");
}

bool tuff__vulkan_settle_upload(driver_device *device, VkFence fence)
{
    uint64_t left = device->hung ? 0 : device->wait_limit;
    VkResult result = VK_TIMEOUT;
    for (int attempt = 0; attempt < 3 && result != VK_SUCCESS && !device->lost; attempt++) {
        /* Waits in slices, so that the time for which a process was stopped does not count. */
        do {
            const uint64_t slice = left < WAIT_SLICE ? left : WAIT_SLICE;
            result = device->vk->vkWaitForFences(device->handle, 1, &fence, VK_TRUE, slice);
            left -= slice;
        } while (result == VK_TIMEOUT && left > 0);
        (void)tuff__vulkan_check_device(device, result, "vkWaitForFences");
    }
    if (result == VK_SUCCESS || device->lost)
        return true;
    device->has_stuck_upload = device->has_leaks = true;
    return false;
}

void tuff__vulkan_barrier(const driver_device *device, VkCommandBuffer commands, VkPipelineStageFlags from)
{
    /* Later commands of either kind may rely on this barrier, so it covers both. */
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = (from & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT ? VK_ACCESS_SHADER_WRITE_BIT : 0u) |
                         (from & VK_PIPELINE_STAGE_TRANSFER_BIT ? VK_ACCESS_TRANSFER_WRITE_BIT : 0u),
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                         VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    device->vk->vkCmdPipelineBarrier(commands, from, work_stages, 0, 1, &barrier, 0, NULL, 0, NULL);
}

tuff_status tuff__vulkan_allocate_commands(const driver_device *device, VkCommandPool pool, uint32_t count,
                                           VkCommandBuffer *out)
{
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = count,
    };
    return VULKAN(device->vk, vkAllocateCommandBuffers, device->handle, &info, out);
}

tuff_status tuff__vulkan_begin(const driver_device *device, VkCommandBuffer commands, VkCommandBufferUsageFlags usage)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = usage};
    TRY(VULKAN(device->vk, vkBeginCommandBuffer, commands, &info));
    tuff__vulkan_barrier(device, commands, work_stages);
    return TUFF_OK;
}

tuff_status tuff__vulkan_end(const driver_device *device, VkCommandBuffer commands)
{
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT,
    };
    device->vk->vkCmdPipelineBarrier(commands, work_stages, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0,
                                     NULL);
    return VULKAN(device->vk, vkEndCommandBuffer, commands);
}
