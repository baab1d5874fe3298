/* Native handles of devices and arrays: the application's own commands run on tuff's queue and memory, and plans see
   what they wrote. For wrapped devices see opencl_wrap.c and vulkan_wrap.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

enum { EXTENT = 64, COUNT = EXTENT * EXTENT };
#define ONE 0x3f800000u /* the bits of 1.0f */

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"

/* The queue is in order, so that no wait is needed. */
static void fill_opencl(tuff_device *device, const tuff_buffer_handle *buffer)
{
    static uint32_t ones[COUNT];
    tuff_opencl_handles handles = {0};
    assert_int_equal(tuff_device_unwrap_opencl(device, &handles), TUFF_OK);
    assert_non_null(handles.context);
    assert_non_null(handles.device_id);
    assert_non_null(handles.queue);
    assert_non_null(buffer->opencl);
    assert_true(buffer->vulkan == 0 && buffer->size <= sizeof ones);
    for (int i = 0; i < COUNT; i++)
        ones[i] = ONE;
    assert_int_equal(tuff__cl.EnqueueWriteBuffer(handles.queue, buffer->opencl, CL_FALSE, buffer->offset, buffer->size,
                                                 ones, 0, NULL, NULL),
                     CL_SUCCESS);
}
#else
static void fill_opencl(tuff_device *device, const tuff_buffer_handle *buffer)
{
    (void)device, (void)buffer;
    fail_msg("there is no OpenCL in this build");
}
#endif

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/vulkan/api.h"

/* Functions that an application loads itself through the handles. */
typedef struct vulkan_calls {
    PFN_vkCreateCommandPool create_pool;
    PFN_vkDestroyCommandPool destroy_pool;
    PFN_vkAllocateCommandBuffers allocate;
    PFN_vkBeginCommandBuffer begin;
    PFN_vkCmdFillBuffer fill;
    PFN_vkCmdPipelineBarrier barrier;
    PFN_vkEndCommandBuffer end;
    PFN_vkQueueSubmit submit;
    PFN_vkQueueWaitIdle wait;
    PFN_vkCreateSemaphore create_semaphore;
    PFN_vkDestroySemaphore destroy_semaphore;
} vulkan_calls;

static void load(const tuff_vulkan_handles *handles, const char *name, void *out)
{
    void *found = handles->get_instance_proc(handles->instance, name);
    assert_non_null(found);
    memcpy(out, &found, sizeof found);
}

static vulkan_calls load_all(const tuff_vulkan_handles *handles)
{
    vulkan_calls calls;
    load(handles, "vkCreateCommandPool", &calls.create_pool);
    load(handles, "vkDestroyCommandPool", &calls.destroy_pool);
    load(handles, "vkAllocateCommandBuffers", &calls.allocate);
    load(handles, "vkBeginCommandBuffer", &calls.begin);
    load(handles, "vkCmdFillBuffer", &calls.fill);
    load(handles, "vkCmdPipelineBarrier", &calls.barrier);
    load(handles, "vkEndCommandBuffer", &calls.end);
    load(handles, "vkQueueSubmit", &calls.submit);
    load(handles, "vkQueueWaitIdle", &calls.wait);
    load(handles, "vkCreateSemaphore", &calls.create_semaphore);
    load(handles, "vkDestroySemaphore", &calls.destroy_semaphore);
    return calls;
}

static void record_fill(const vulkan_calls *calls, VkCommandBuffer commands, const tuff_buffer_handle *buffer)
{
    VkBuffer handle;
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    const VkMemoryBarrier written = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    _Static_assert(sizeof handle == sizeof buffer->vulkan, "handles of 64 bits");
    memcpy(&handle, &buffer->vulkan, sizeof handle);
    assert_int_equal(calls->begin(commands, &info), VK_SUCCESS);
    calls->barrier(commands, all, all, 0, 1, &written, 0, NULL, 0, NULL);
    calls->fill(commands, handle, buffer->offset, buffer->size, ONE);
    calls->barrier(commands, all, all | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &written, 0, NULL, 0, NULL);
    assert_int_equal(calls->end(commands), VK_SUCCESS);
}

static VkSemaphore create_timeline(const vulkan_calls *calls, VkDevice device)
{
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore semaphore;
    assert_int_equal(calls->create_semaphore(device, &info, NULL, &semaphore), VK_SUCCESS);
    return semaphore;
}

/* Submits after tuff's work, by waiting for one value of a timeline semaphore, and before its later work, by signalling
   another. */
static void submit_between(tuff_device *device, const vulkan_calls *calls, const tuff_vulkan_handles *handles,
                           VkCommandBuffer commands)
{
    static const uint64_t behind = 1, before = 2;
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSemaphore timeline = create_timeline(calls, handles->device);
    uint64_t number;
    memcpy(&number, &timeline, sizeof number);
    const VkTimelineSemaphoreSubmitInfo values = {
        VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, NULL, 1, &behind, 1, &before};
    const VkSubmitInfo submission = {
        VK_STRUCTURE_TYPE_SUBMIT_INFO, &values, 1, &timeline, &all, 1, &commands, 1, &timeline};
    assert_int_equal(tuff_vulkan_enqueue_signal(device, number, behind), TUFF_OK);
    assert_int_equal(calls->submit(handles->queue, 1, &submission, VK_NULL_HANDLE), VK_SUCCESS);
    assert_int_equal(tuff_vulkan_enqueue_wait(device, number, before), TUFF_OK);
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    assert_int_equal(calls->wait(handles->queue), VK_SUCCESS); /* a driver's thread may still use it */
    calls->destroy_semaphore(handles->device, timeline, NULL);
}

static void fill_vulkan(tuff_device *device, const tuff_buffer_handle *buffer)
{
    tuff_vulkan_handles handles = {0};
    assert_int_equal(tuff_device_unwrap_vulkan(device, &handles), TUFF_OK);
    assert_true(handles.instance && handles.physical_device && handles.device && handles.queue);
    assert_true(handles.get_instance_proc && buffer->vulkan != 0 && !buffer->opencl);
    const vulkan_calls calls = load_all(&handles);
    VkCommandPool pool;
    VkCommandBuffer commands;
    const VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                               .queueFamilyIndex = handles.queue_family};
    assert_int_equal(calls.create_pool(handles.device, &pool_info, NULL, &pool), VK_SUCCESS);
    const VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = pool,
                                              .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                              .commandBufferCount = 1};
    assert_int_equal(calls.allocate(handles.device, &info, &commands), VK_SUCCESS);
    record_fill(&calls, commands, buffer);
    submit_between(device, &calls, &handles, commands);
    calls.destroy_pool(handles.device, pool, NULL);
}
#else
static void fill_vulkan(tuff_device *device, const tuff_buffer_handle *buffer)
{
    (void)device, (void)buffer;
    fail_msg("there is no Vulkan in this build");
}
#endif

static bool is_opencl(const tuff_device *device)
{
    return strncmp(tuff__device_info(device)->selector, "opencl:", 7) == 0;
}

/* The application sets all elements to 1 with a command of its own. */
static void fill_with_ones(tuff_device *device, tuff_array *array)
{
    tuff_buffer_handle buffer = {0};
    assert_int_equal(tuff_array_unwrap(array, &buffer), TUFF_OK);
    assert_int_equal(buffer.size, tuff_array_size(array));
    (is_opencl(device) ? fill_opencl : fill_vulkan)(device, &buffer);
}

static void lend_a_part(tuff_device *device)
{
    static float values[COUNT];
    memset(values, 0, sizeof values);
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(COUNT));
    tuff_array *part = tuff_array_view(array, 2 * EXTENT, TUFF_SHAPE(EXTENT));
    assert_non_null(part);
    fill_with_ones(device, part);
    assert_int_equal(tuff_array_read(array, values, sizeof values), TUFF_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(values[i] == (i >= 2 * EXTENT && i < 3 * EXTENT ? 1.0f : 0.0f));
    tuff_array_destroy(array);
    tuff_array_destroy(part);
}

static void commands_write_a_part_of_an_array(void **state)
{
    (void)state;
    for_each_driver(lend_a_part);
}

/* Plans keep weights in the layout that kernels need, and convert them again when the version has increased. */
static void change_a_weight(tuff_device *device)
{
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 7);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_array *weight = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(EXTENT, EXTENT));
    assert_non_null(weight);
    tuff_tensor *input = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(EXTENT, EXTENT));
    tuff_output(graph, "y", tuff_matmul(input, tuff_array_tensor(graph, weight)));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", y, sizeof y), TUFF_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 0);
    const uint64_t version = tuff_array_version(weight);
    fill_with_ones(device, weight);
    assert_int_equal(tuff_array_touch(weight), TUFF_OK);
    assert_true(tuff_array_version(weight) > version);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", y, sizeof y), TUFF_OK);
    for (int i = 0; i < COUNT; i++) {
        float sum = 0;
        for (int k = 0; k < EXTENT; k++)
            sum += x[i / EXTENT * EXTENT + k];
        assert_true(y[i] == sum);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(weight);
}

static void plans_see_what_commands_wrote(void **state)
{
    (void)state;
    for_each_driver(change_a_weight);
}

/* Every device has the handles of its own API, and the reference device none; wrong calls change nothing. */
static void query_all_handles(tuff_device *device)
{
    tuff_opencl_handles opencl = {0};
    tuff_vulkan_handles vulkan = {0};
    tuff_buffer_handle buffer = {.size = 7};
    const bool is_reference = tuff__device_is_reference(device);
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(4));
    assert_non_null(array);
    assert_int_equal(tuff_device_unwrap_opencl(device, &opencl),
                     !is_reference && is_opencl(device) ? TUFF_OK : TUFF_E_UNSUPPORTED);
    assert_int_equal(tuff_device_unwrap_vulkan(device, &vulkan),
                     !is_reference && !is_opencl(device) ? TUFF_OK : TUFF_E_UNSUPPORTED);
    assert_int_equal((opencl.queue != NULL) + (vulkan.queue != NULL), !is_reference);
    assert_int_equal(tuff_array_unwrap(array, &buffer), is_reference ? TUFF_E_UNSUPPORTED : TUFF_OK);
    assert_int_equal(buffer.size, is_reference ? 7 : 16);
    assert_int_equal(tuff_device_unwrap_opencl(device, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_device_unwrap_vulkan(device, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_array_unwrap(array, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_array_touch(array), TUFF_OK);
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    tuff_array_destroy(array);
}

static void every_device_has_its_own(void **state)
{
    (void)state;
    tuff_opencl_handles opencl;
    tuff_vulkan_handles vulkan;
    tuff_buffer_handle buffer;
    for_each_device(query_all_handles);
    assert_int_equal(tuff_device_unwrap_opencl(NULL, &opencl), TUFF_E_USAGE);
    assert_int_equal(tuff_device_unwrap_vulkan(NULL, &vulkan), TUFF_E_USAGE);
    assert_int_equal(tuff_array_unwrap(NULL, &buffer), TUFF_E_USAGE);
    assert_int_equal(tuff_array_touch(NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_device_wait(NULL), TUFF_E_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_write_a_part_of_an_array),
        cmocka_unit_test(plans_see_what_commands_wrote),
        cmocka_unit_test(every_device_has_its_own),
    };
    return cmocka_run_group_tests_name("native_handles", tests, use_fresh_cache, drop_cache);
}
