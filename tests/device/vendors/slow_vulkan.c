/* Vulkan functions that take the time of a slow GPU: submissions, fences, timestamps. slow_gpu.h says of which. */
#include "slow_vulkan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/vulkan/state.h"

enum { BUFFERS = 4096, DISPATCHES = 64, SETS = 16384, FENCES = 1024 };

static vulkan_api truth;

/* The time of a group of each command, by its descriptor set. A handle may be in use again: the last entry counts. */
static struct {
    VkDescriptorSet set;
    double time;
} sets[SETS];
static int set_count;

/* The dispatches of each command buffer, and the end of each fence's submission. */
static struct {
    VkCommandBuffer commands;
    VkDescriptorSet bound;
    VkDescriptorSet sets[DISPATCHES];
    double groups[DISPATCHES];
    int count;
} recorded[BUFFERS];
static int recorded_count;
static struct {
    VkFence fence;
    double end;
} fences[FENCES];
static int fence_count;

static void begin_recording(const command *commands, int count)
{
    (void)commands, (void)count;
}

static void end_recording(driver_recording *made, const command *commands, int count)
{
    for (int i = 0; made && i < count; i++)
        if (made->sets[i]) {
            assert_true(set_count < SETS);
            sets[set_count].set = made->sets[i];
            sets[set_count++].time = slow_gpu_group_time(&commands[i]);
        }
}

static double group_time(VkDescriptorSet set)
{
    for (int i = set_count - 1; i >= 0; i--)
        if (sets[i].set == set)
            return sets[i].time;
    return 0;
}

static int index_of(VkCommandBuffer commands)
{
    for (int i = 0; i < recorded_count; i++)
        if (recorded[i].commands == commands)
            return i;
    assert_true(recorded_count < BUFFERS);
    recorded[recorded_count].commands = commands;
    return recorded_count++;
}

static VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info)
{
    recorded[index_of(commands)].count = 0;
    return truth.vkBeginCommandBuffer(commands, info);
}

static VKAPI_ATTR void VKAPI_CALL bind_sets(VkCommandBuffer commands, VkPipelineBindPoint point,
                                            VkPipelineLayout layout, uint32_t first, uint32_t count,
                                            const VkDescriptorSet *bound, uint32_t offset_count,
                                            const uint32_t *offsets)
{
    recorded[index_of(commands)].bound = *bound;
    truth.vkCmdBindDescriptorSets(commands, point, layout, first, count, bound, offset_count, offsets);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    const int at = index_of(commands);
    assert_true(recorded[at].count < DISPATCHES);
    recorded[at].sets[recorded[at].count] = recorded[at].bound;
    recorded[at].groups[recorded[at].count++] = (double)x * y * z;
    truth.vkCmdDispatch(commands, x, y, z);
}

static double *end_of(VkFence fence)
{
    for (int i = 0; i < fence_count; i++)
        if (fences[i].fence == fence)
            return &fences[i].end;
    assert_true(fence_count < FENCES);
    fences[fence_count].fence = fence;
    return &fences[fence_count++].end;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    double time = 0;
    for (uint32_t i = 0; i < infos[0].commandBufferCount; i++) {
        const int at = index_of(infos[0].pCommandBuffers[i]);
        for (int k = 0; k < recorded[at].count; k++)
            time += recorded[at].groups[k] * group_time(recorded[at].sets[k]);
    }
    slow_gpu_submit(time);
    *end_of(fence) = slow_gpu.busy;
    return truth.vkQueueSubmit(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for(VkDevice device, uint32_t count, const VkFence *waited, VkBool32 all,
                                               uint64_t timeout)
{
    const VkResult result = truth.vkWaitForFences(device, count, waited, all, timeout);
    const double end = *end_of(waited[0]);
    if (result == VK_SUCCESS && slow_gpu.now < end)
        slow_gpu.now = end;
    return slow_gpu.is_dead ? VK_ERROR_DEVICE_LOST : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL fence_status(VkDevice device, VkFence fence)
{
    if (slow_gpu.is_dead)
        return VK_ERROR_DEVICE_LOST;
    return slow_gpu.now < *end_of(fence) ? VK_NOT_READY : truth.vkGetFenceStatus(device, fence);
}

static VKAPI_ATTR void VKAPI_CALL tell_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out)
{
    truth.vkGetPhysicalDeviceProperties2(device, out);
    out->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static void install(void)
{
    truth = tuff__vk;
    set_count = recorded_count = fence_count = 0;
    tuff__vk.vkGetPhysicalDeviceProperties2 = tell_properties;
    tuff__vk.vkBeginCommandBuffer = begin;
    tuff__vk.vkCmdBindDescriptorSets = bind_sets;
    tuff__vk.vkCmdDispatch = dispatch;
    tuff__vk.vkQueueSubmit = submit;
    tuff__vk.vkWaitForFences = wait_for;
    tuff__vk.vkGetFenceStatus = fence_status;
}

static void restore(void)
{
    tuff__vk = truth;
}

static time_predictor *predictor(driver_device *device)
{
    return &device->predictor;
}

const slow_api slow_vulkan = {
    .install = install,
    .restore = restore,
    .begin_recording = begin_recording,
    .end_recording = end_recording,
    .predictor = predictor,
};
#else
const slow_api slow_vulkan = {.install = NULL};
#endif
