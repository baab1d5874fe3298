/* tuff on an application's own Vulkan device. A shader of the application writes a matrix x, tuff computes gelu(x w +
   b) in the application's buffers, and the shader reads the result. The device orders this work itself; the host waits
   only once, at the end, to check the numbers.

   Usage: build/examples/vulkan_interop [PART OF A DEVICE'S NAME]

   The steps that any application needs: create an instance and a device (open_device), describe them to tuff
   (wrap_device), share buffers as arrays (import), and order the work with one timeline semaphore (run). */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#include "interop_model.h"

enum { GROUP = 64 };

/* SPIR-V of the shader that both of the application's steps use:

       #version 450
       layout(local_size_x = 64) in;
       layout(std430, binding = 0) readonly buffer From { float from[]; };
       layout(std430, binding = 1) writeonly buffer To { float to[]; };
       layout(push_constant) uniform Factors { uint count; float scale, step; };
       void main()
       {
           uint i = gl_GlobalInvocationID.x;
           if (i < count)
               to[i] = (scale == 0.0 ? 0.0 : scale * from[i]) + step * float(i % 17u);
       } */
/* clang-format off */
static const uint32_t shader_words[] = {
    0x7230203, 0x10300, 0xd000b, 0x48, 0, 0x20011, 0x1, 0x6000b, 0x1, 0x4c534c47, 0x6474732e, 0x3035342e, 0, 0x3000e,
    0, 0x1, 0x6000f, 0x5, 0x4, 0x6e69616d, 0, 0xb, 0x60010, 0x4, 0x11, 0x40, 0x1, 0x1, 0x40047, 0xb, 0xb, 0x1c,
    0x50048, 0x12, 0, 0x23, 0, 0x50048, 0x12, 0x1, 0x23, 0x4, 0x50048, 0x12, 0x2, 0x23, 0x8, 0x30047, 0x12, 0x2,
    0x40047, 0x1e, 0x6, 0x4, 0x40048, 0x1f, 0, 0x19, 0x50048, 0x1f, 0, 0x23, 0, 0x30047, 0x1f, 0x2, 0x40047, 0x21,
    0x22, 0, 0x40047, 0x21, 0x21, 0x1, 0x40047, 0x30, 0x6, 0x4, 0x40048, 0x31, 0, 0x18, 0x50048, 0x31, 0, 0x23, 0,
    0x30047, 0x31, 0x2, 0x40047, 0x33, 0x22, 0, 0x40047, 0x33, 0x21, 0, 0x40047, 0x46, 0xb, 0x19, 0x20013, 0x2,
    0x30021, 0x3, 0x2, 0x40015, 0x6, 0x20, 0, 0x40017, 0x9, 0x6, 0x3, 0x40020, 0xa, 0x1, 0x9, 0x4003b, 0xa, 0xb, 0x1,
    0x4002b, 0x6, 0xc, 0, 0x40020, 0xd, 0x1, 0x6, 0x30016, 0x11, 0x20, 0x5001e, 0x12, 0x6, 0x11, 0x11, 0x40020, 0x13,
    0x9, 0x12, 0x4003b, 0x13, 0x14, 0x9, 0x40015, 0x15, 0x20, 0x1, 0x4002b, 0x15, 0x16, 0, 0x40020, 0x17, 0x9, 0x6,
    0x20014, 0x1a, 0x3001d, 0x1e, 0x11, 0x3001e, 0x1f, 0x1e, 0x40020, 0x20, 0xc, 0x1f, 0x4003b, 0x20, 0x21, 0xc,
    0x4002b, 0x15, 0x23, 0x1, 0x40020, 0x24, 0x9, 0x11, 0x4002b, 0x11, 0x27, 0, 0x3001d, 0x30, 0x11, 0x3001e, 0x31,
    0x30, 0x40020, 0x32, 0xc, 0x31, 0x4003b, 0x32, 0x33, 0xc, 0x40020, 0x35, 0xc, 0x11, 0x4002b, 0x15, 0x3a, 0x2,
    0x4002b, 0x6, 0x3e, 0x11, 0x4002b, 0x6, 0x44, 0x40, 0x4002b, 0x6, 0x45, 0x1, 0x6002c, 0x9, 0x46, 0x44, 0x45, 0x45,
    0x50036, 0x2, 0x4, 0, 0x3, 0x200f8, 0x5, 0x50041, 0xd, 0xe, 0xb, 0xc, 0x4003d, 0x6, 0xf, 0xe, 0x50041, 0x17, 0x18,
    0x14, 0x16, 0x4003d, 0x6, 0x19, 0x18, 0x500b0, 0x1a, 0x1b, 0xf, 0x19, 0x300f7, 0x1d, 0, 0x400fa, 0x1b, 0x1c, 0x1d,
    0x200f8, 0x1c, 0x50041, 0x24, 0x25, 0x14, 0x23, 0x4003d, 0x11, 0x26, 0x25, 0x500b4, 0x1a, 0x28, 0x26, 0x27,
    0x300f7, 0x2c, 0, 0x400fa, 0x28, 0x2b, 0x2d, 0x200f8, 0x2b, 0x200f9, 0x2c, 0x200f8, 0x2d, 0x60041, 0x35, 0x36,
    0x33, 0x16, 0xf, 0x4003d, 0x11, 0x37, 0x36, 0x50085, 0x11, 0x38, 0x26, 0x37, 0x200f9, 0x2c, 0x200f8, 0x2c,
    0x700f5, 0x11, 0x47, 0x27, 0x2b, 0x38, 0x2d, 0x50041, 0x24, 0x3b, 0x14, 0x3a, 0x4003d, 0x11, 0x3c, 0x3b, 0x50089,
    0x6, 0x3f, 0xf, 0x3e, 0x40070, 0x11, 0x40, 0x3f, 0x8000c, 0x11, 0x42, 0x1, 0x32, 0x3c, 0x40, 0x47, 0x60041, 0x35,
    0x43, 0x21, 0x16, 0xf, 0x3003e, 0x43, 0x42, 0x200f9, 0x1d, 0x200f8, 0x1d, 0x100fd, 0x10038,
};
/* clang-format on */

typedef struct factors {
    uint32_t count;
    float scale, step;
} factors;

typedef struct application {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    pthread_mutex_t lock; /* guards the queue */
    VkCommandPool commands;
    VkDescriptorPool descriptors;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    VkSemaphore timeline; /* 1: x is written; 2: tuff is done; 3: the result is written */
    const void *features;
} application;

typedef struct shared_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    float *mapped;
    tuff_vulkan_buffer import;
} shared_buffer;

#define CALL(function, ...) need(function(__VA_ARGS__) >= 0, #function)

/* The device and its queue */

static void choose_device(application *self, const char *part)
{
    const VkApplicationInfo program = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &program};
    VkPhysicalDevice all[16];
    VkQueueFamilyProperties families[16];
    uint32_t count = 16, family_count = 16;
    CALL(vkCreateInstance, &info, NULL, &self->instance);
    CALL(vkEnumeratePhysicalDevices, self->instance, &count, all);
    for (uint32_t i = 0; i < count && !self->physical; i++) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(all[i], &properties);
        if (properties.apiVersion >= VK_API_VERSION_1_2 && (!part || strstr(properties.deviceName, part))) {
            printf("%s\n", properties.deviceName);
            self->physical = all[i];
        }
    }
    need(self->physical != NULL, "no device of that name supports Vulkan 1.2");
    vkGetPhysicalDeviceQueueFamilyProperties(self->physical, &family_count, families);
    while (!(families[self->family].queueFlags & VK_QUEUE_COMPUTE_BIT))
        need(++self->family < family_count, "no compute queue");
}

/* The application itself needs only the timeline semaphore. tuff uses further features if they are enabled:
   tuff_vulkan_requirements lists them, and an application may enable as many as it likes. */
static void open_device(application *self)
{
    static VkPhysicalDeviceVulkan12Features features12 = {.sType =
                                                              VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    static VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                                 .pNext = &features12};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, self->family, 1, &priority};
    const VkDeviceCreateInfo info = {
        VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features, 0, 1, &queue, 0, NULL, 0, NULL, NULL};
    features12.timelineSemaphore = VK_TRUE;
    self->features = &features;
    CALL(vkCreateDevice, self->physical, &info, NULL, &self->device);
    vkGetDeviceQueue(self->device, self->family, 0, &self->queue);
    need(pthread_mutex_init(&self->lock, NULL) == 0, "pthread_mutex_init");
}

static void lock_queue(void *user)
{
    (void)pthread_mutex_lock(user);
}

static void unlock_queue(void *user)
{
    (void)pthread_mutex_unlock(user);
}

static tuff_device *wrap_device(application *self)
{
    const tuff_vulkan_handles handles = {
        .instance = self->instance,
        .physical_device = self->physical,
        .device = self->device,
        .queue = self->queue,
        .queue_family = self->family,
        .get_instance_proc = (void *(*)(void *, const char *))vkGetInstanceProcAddr,
        .api_version = VK_API_VERSION_1_2,
        .features = self->features,
        .lock_queue = lock_queue,
        .unlock_queue = unlock_queue,
        .lock_user = &self->lock,
    };
    tuff_device *device = tuff_device_wrap_vulkan(&handles);
    need(device != NULL, "tuff_device_wrap_vulkan");
    return device;
}

static uint32_t find_memory(const application *self, uint32_t allowed)
{
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(self->physical, &memory);
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++)
        if (allowed >> i & 1 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted)
            return i;
    need(false, "no host-visible coherent memory");
    return 0;
}

static shared_buffer create_buffer(const application *self, uint32_t count)
{
    shared_buffer buffer = {.import = {.size = sizeof(float) * count,
                                       .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                                VK_BUFFER_USAGE_TRANSFER_DST_BIT}};
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = buffer.import.size, .usage = buffer.import.usage};
    VkMemoryRequirements needed;
    void *mapped;
    CALL(vkCreateBuffer, self->device, &info, NULL, &buffer.handle);
    vkGetBufferMemoryRequirements(self->device, buffer.handle, &needed);
    const VkMemoryAllocateInfo memory = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, needed.size,
                                         find_memory(self, needed.memoryTypeBits)};
    CALL(vkAllocateMemory, self->device, &memory, NULL, &buffer.memory);
    CALL(vkBindBufferMemory, self->device, buffer.handle, buffer.memory, 0);
    CALL(vkMapMemory, self->device, buffer.memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    buffer.mapped = mapped;
    memcpy(&buffer.import.buffer, &buffer.handle, sizeof buffer.handle);
    return buffer;
}

static tuff_array *import(tuff_device *device, const shared_buffer *buffer, tuff_shape shape)
{
    tuff_array *array = tuff_array_import_vulkan(device, &buffer->import, 0, TUFF_F32, shape);
    need(array != NULL, "tuff_array_import_vulkan");
    return array;
}

/* The application's own shader */

static void create_pipeline(application *self)
{
    const VkDescriptorSetLayoutBinding bindings[] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
        {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
    const VkDescriptorSetLayoutCreateInfo set = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, NULL, 0, 2,
                                                 bindings};
    const VkPushConstantRange words = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(factors)};
    const VkShaderModuleCreateInfo code = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, NULL, 0, sizeof shader_words,
                                           shader_words};
    VkShaderModule module;
    CALL(vkCreateDescriptorSetLayout, self->device, &set, NULL, &self->set_layout);
    const VkPipelineLayoutCreateInfo layout = {
        VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, NULL, 0, 1, &self->set_layout, 1, &words};
    CALL(vkCreatePipelineLayout, self->device, &layout, NULL, &self->layout);
    CALL(vkCreateShaderModule, self->device, &code, NULL, &module);
    const VkPipelineShaderStageCreateInfo stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                   .module = module,
                                                   .pName = "main"};
    const VkComputePipelineCreateInfo info = {
        VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, NULL, 0, stage, self->layout, VK_NULL_HANDLE, 0};
    CALL(vkCreateComputePipelines, self->device, VK_NULL_HANDLE, 1, &info, NULL, &self->pipeline);
    vkDestroyShaderModule(self->device, module, NULL);
}

static void create_objects(application *self)
{
    const VkCommandPoolCreateInfo commands = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, self->family};
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4};
    const VkDescriptorPoolCreateInfo sets = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, NULL, 0, 2, 1, &size};
    const VkSemaphoreTypeCreateInfo timeline = {VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, NULL,
                                                VK_SEMAPHORE_TYPE_TIMELINE, 0};
    const VkSemaphoreCreateInfo line = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &timeline};
    CALL(vkCreateCommandPool, self->device, &commands, NULL, &self->commands);
    CALL(vkCreateDescriptorPool, self->device, &sets, NULL, &self->descriptors);
    CALL(vkCreateSemaphore, self->device, &line, NULL, &self->timeline);
    create_pipeline(self);
}

static VkDescriptorSet create_set(const application *self, VkBuffer from, VkBuffer to)
{
    const VkDescriptorSetAllocateInfo info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, NULL, self->descriptors,
                                              1, &self->set_layout};
    const VkDescriptorBufferInfo buffers[] = {{from, 0, VK_WHOLE_SIZE}, {to, 0, VK_WHOLE_SIZE}};
    VkDescriptorSet set;
    CALL(vkAllocateDescriptorSets, self->device, &info, &set);
    const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                        .dstSet = set,
                                        .descriptorCount = 2,
                                        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                        .pBufferInfo = buffers};
    vkUpdateDescriptorSets(self->device, 1, &write, 0, NULL);
    return set;
}

static VkCommandBuffer record_step(const application *self, VkBuffer from, VkBuffer to, factors words)
{
    const VkCommandBufferAllocateInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, self->commands,
                                              VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    const VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL,
                                            VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, NULL};
    const VkMemoryBarrier to_host = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, VK_ACCESS_SHADER_WRITE_BIT,
                                     VK_ACCESS_HOST_READ_BIT};
    const VkDescriptorSet set = create_set(self, from, to);
    VkCommandBuffer commands;
    CALL(vkAllocateCommandBuffers, self->device, &info, &commands);
    CALL(vkBeginCommandBuffer, commands, &begin);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, self->pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, self->layout, 0, 1, &set, 0, NULL);
    vkCmdPushConstants(commands, self->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof words, &words);
    vkCmdDispatch(commands, (words.count + GROUP - 1) / GROUP, 1, 1);
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host, 0,
                         NULL, 0, NULL);
    CALL(vkEndCommandBuffer, commands);
    return commands;
}

/* Submits a step that waits until the timeline semaphore reaches wait_value (0: at once) and then sets it to
   signal_value. */
static void submit_step(application *self, VkCommandBuffer commands, uint64_t wait_value, uint64_t signal_value)
{
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkTimelineSemaphoreSubmitInfo values = {
        VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, NULL, 1, &wait_value, 1, &signal_value};
    const VkSubmitInfo info = {
        VK_STRUCTURE_TYPE_SUBMIT_INFO, &values, 1, &self->timeline, &stage, 1, &commands, 1, &self->timeline};
    lock_queue(&self->lock);
    CALL(vkQueueSubmit, self->queue, 1, &info, VK_NULL_HANDLE);
    unlock_queue(&self->lock);
}

/* tuff's part */

static double run(application *self, tuff_device *device, shared_buffer buffers[3])
{
    uint64_t line, last = 3;
    tuff_array *x = import(device, &buffers[0], TUFF_SHAPE(ROWS, INNER));
    tuff_array *y = import(device, &buffers[1], TUFF_SHAPE(ROWS, COLUMNS));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile(graph, x, y);
    memcpy(&line, &self->timeline, sizeof line);

    submit_step(self, record_step(self, buffers[1].handle, buffers[0].handle, (factors){ROWS * INNER, 0, 0.125f}), 0,
                1);
    need(tuff_vulkan_enqueue_wait(device, line, 1) == TUFF_OK, "tuff_vulkan_enqueue_wait");
    need(tuff_plan_run(plan) == TUFF_OK, "tuff_plan_run");
    need(tuff_vulkan_enqueue_signal(device, line, 2) == TUFF_OK, "tuff_vulkan_enqueue_signal");
    submit_step(self, record_step(self, buffers[1].handle, buffers[2].handle, (factors){ROWS * COLUMNS, 2, 1}), 2,
                last);

    const VkSemaphoreWaitInfo end = {VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, NULL, 0, 1, &self->timeline, &last};
    need(vkWaitSemaphores(self->device, &end, UINT64_C(30000000000)) == VK_SUCCESS, "vkWaitSemaphores");
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_array_destroy(x);
    tuff_array_destroy(y);
    return check(buffers[2].mapped);
}

static void close_application(application *self)
{
    CALL(vkDeviceWaitIdle, self->device); /* lavapipe's thread was seen to use a semaphore after its last signal */
    vkDestroySemaphore(self->device, self->timeline, NULL);
    vkDestroyPipeline(self->device, self->pipeline, NULL);
    vkDestroyPipelineLayout(self->device, self->layout, NULL);
    vkDestroyDescriptorSetLayout(self->device, self->set_layout, NULL);
    vkDestroyDescriptorPool(self->device, self->descriptors, NULL);
    vkDestroyCommandPool(self->device, self->commands, NULL);
    vkDestroyDevice(self->device, NULL);
    vkDestroyInstance(self->instance, NULL);
    (void)pthread_mutex_destroy(&self->lock);
}

int main(int count, char **arguments)
{
    application self = {0};
    shared_buffer buffers[3];
    fill_weights();
    choose_device(&self, count > 1 ? arguments[1] : NULL);
    open_device(&self);
    create_objects(&self);
    for (int i = 0; i < 3; i++) /* x, y and the shader's result */
        buffers[i] = create_buffer(&self, ROWS * (i == 0 ? INNER : COLUMNS));
    tuff_device *device = wrap_device(&self);
    const double worst = run(&self, device, buffers);
    tuff_device_close(device);
    for (int i = 0; i < 3; i++) {
        vkDestroyBuffer(self.device, buffers[i].handle, NULL);
        vkFreeMemory(self.device, buffers[i].memory, NULL);
    }
    close_application(&self);
    return report(worst);
}
