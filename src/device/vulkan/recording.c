/* Lists of commands, recorded once and replayed. A recording is partitioned into segments, each with a command buffer
   and a submission of its own: their ends are the progress that bounded waits look for, and short ones do not run into
   watchdogs. */
#include <string.h>

#include "base/alloc.h"
#include "device/vulkan/state.h"

static const VkPipelineStageFlags compute_stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
static const VkPipelineStageFlags transfer_stage = VK_PIPELINE_STAGE_TRANSFER_BIT;

/* A grid of x * y groups that covers the count, with fewer than y groups too many. */
typedef struct grid {
    uint32_t x, y;
} grid;

static grid shape_grid(const vulkan_physical *physical, uint64_t group_count)
{
    const uint32_t *limits = physical->properties.properties.limits.maxComputeWorkGroupCount;
    uint64_t y = (group_count + limits[0] - 1) / limits[0];
    if (y > limits[1])
        return (grid){limits[0], limits[1]};
    return (grid){(uint32_t)((group_count + y - 1) / y), (uint32_t)y};
}

static tuff_status dispatch(driver_device *device, VkCommandBuffer commands, const command *step,
                            const vulkan_part *part)
{
    const driver_program *program = step->program;
    uint32_t words[MAX_WORDS];
    memcpy(words, step->words, sizeof words);
    device->vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, program->pipeline);
    for (uint64_t base = part->base; base < part->end;) {
        grid shape = shape_grid(&device->physical, part->end - base);
        uint64_t end = base + (uint64_t)shape.x * shape.y;
        /* Group indices are 32 bits wide; a wrapped one would do another group's work a second time. */
        if (end > UINT32_MAX || (end < part->end && !program->word_count))
            return FAIL(TUFF_E_LIMIT, "vulkan: a dispatch of %llu groups is too large",
                        (unsigned long long)step->group_count);
        /* Parts write different elements, but a validation layer cannot know that. They are too long for the barrier to
           matter. */
        if (base)
            tuff__vulkan_barrier(device, commands, compute_stage);
        if (program->word_count) {
            words[program->word_count - 1] = (uint32_t)base;
            device->vk->vkCmdPushConstants(commands, program->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                           program->word_count * 4u, words);
        }
        device->vk->vkCmdDispatch(commands, shape.x, shape.y, 1);
        base = end;
    }
    return TUFF_OK;
}

static void fill_set(driver_device *device, const command *step, VkDescriptorSet set)
{
    VkDescriptorBufferInfo buffers[MAX_BINDINGS];
    for (int i = 0; i < step->binding_count; i++)
        buffers[i] = (VkDescriptorBufferInfo){
            .buffer = step->bindings[i].buffer->handle,
            .offset = step->bindings[i].offset,
            .range = step->bindings[i].size,
        };
    VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = set,
        .descriptorCount = (uint32_t)step->binding_count,
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        .pBufferInfo = buffers,
    };
    device->vk->vkUpdateDescriptorSets(device->handle, 1, &write, 0, NULL);
}

static tuff_status record_command(driver_device *device, VkCommandBuffer commands, const command *step,
                                  const vulkan_part *part, VkDescriptorSet set)
{
    const buffer_binding *bindings = step->bindings;
    VkBufferCopy region;
    switch (step->kind) {
    case COMMAND_DISPATCH:
        if (set)
            device->vk->vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, step->program->layout, 0, 1,
                                                &set, 0, NULL);
        return dispatch(device, commands, step, part);
    case COMMAND_COPY:
        region = (VkBufferCopy){bindings[0].offset, bindings[1].offset, bindings[0].size};
        device->vk->vkCmdCopyBuffer(commands, bindings[0].buffer->handle, bindings[1].buffer->handle, 1, &region);
        return TUFF_OK;
    case COMMAND_FILL_ZERO:
        device->vk->vkCmdFillBuffer(commands, bindings[0].buffer->handle, bindings[0].offset, bindings[0].size, 0);
        return TUFF_OK;
    case COMMAND_LIBRARY_GEMM: /* rejected by device/recording.c */
        break;
    }
    return FAIL(TUFF_E_USAGE, "vulkan: unsupported command kind %d", (int)step->kind);
}

/* Records a part of a command, with the barriers and timestamps around it. pending: the stages of the commands since
   the last barrier. They are added to the stages that the command names, because a barrier covers everything before
   it. */
static tuff_status record_part(driver_device *device, driver_recording *recording, VkCommandBuffer commands,
                               const command *step, const vulkan_part *part, VkPipelineStageFlags *pending)
{
    VkPipelineStageFlags from =
        *pending | (step->after_copy ? transfer_stage : 0u) | (step->after_dispatch ? compute_stage : 0u);
    const VkPipelineStageFlagBits end = VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
    const uint32_t query = 2 * part->command;
    /* Timed commands run alone. */
    if (part->is_first && (step->barrier || recording->queries) && from) {
        tuff__vulkan_barrier(device, commands, from);
        *pending = 0;
    }
    if (recording->queries && part->is_first)
        device->vk->vkCmdWriteTimestamp(commands, end, recording->queries, query);
    TRY(record_command(device, commands, step, part, recording->sets[part->command]));
    if (recording->queries && part->is_last)
        device->vk->vkCmdWriteTimestamp(commands, end, recording->queries, query + 1);
    *pending |= step->kind == COMMAND_DISPATCH ? compute_stage : transfer_stage;
    return TUFF_OK;
}

/* Resets the queries of the commands that begin in the segment. */
static void reset_queries(const driver_device *device, const driver_recording *recording, const vulkan_part *first,
                          int count, VkCommandBuffer commands)
{
    for (int i = 0; i < count; i++)
        if (first[i].is_first) {
            device->vk->vkCmdResetQueryPool(commands, recording->queries, 2 * first[i].command,
                                            2 * (first[count - 1].command + 1 - first[i].command));
            return;
        }
}

/* The first tick is written when all earlier work on the queue has ended, whoever submitted it. The segment must not
   begin before that: beside an application's graphics it would seem to take no time. */
static void begin_timing(const driver_device *device, VkCommandBuffer commands, VkQueryPool times, uint32_t query)
{
    device->vk->vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, compute_stage | transfer_stage, 0, 0,
                                     NULL, 0, NULL, 0, NULL);
    device->vk->vkCmdResetQueryPool(commands, times, query, 2);
    device->vk->vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, times, query);
}

static tuff_status record_segment(driver_device *device, driver_recording *recording, const command *commands,
                                  const vulkan_partition *partition, const vulkan_segment *segment)
{
    VkPipelineStageFlags pending = 0;
    const uint32_t query = 2 * (uint32_t)(segment - partition->segments);
    TRY(tuff__vulkan_begin(device, segment->commands, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
    if (partition->times)
        begin_timing(device, segment->commands, partition->times, query);
    if (recording->queries)
        reset_queries(device, recording, &partition->parts[segment->first], segment->end - segment->first,
                      segment->commands);
    for (int i = segment->first; i < segment->end; i++)
        TRY(record_part(device, recording, segment->commands, &commands[partition->parts[i].command],
                        &partition->parts[i], &pending));
    if (partition->times)
        device->vk->vkCmdWriteTimestamp(segment->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, partition->times,
                                        query + 1);
    return tuff__vulkan_end(device, segment->commands);
}

static bool has_set(const command *step)
{
    return step->kind == COMMAND_DISPATCH && step->program->buffer_count > 0;
}

/* Allocates set_count descriptor sets of these layouts, from a pool of their own. */
static tuff_status allocate_sets(driver_device *device, driver_recording *recording, uint32_t set_count,
                                 uint32_t descriptor_count, const VkDescriptorSetLayout *layouts)
{
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptor_count};
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = set_count,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    TRY(VULKAN(device->vk, vkCreateDescriptorPool, device->handle, &pool, NULL, &recording->pool));
    const VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = recording->pool,
        .descriptorSetCount = set_count,
        .pSetLayouts = layouts,
    };
    return VULKAN(device->vk, vkAllocateDescriptorSets, device->handle, &info, recording->sets);
}

/* Creates the sets of all dispatches that have buffers, each at its command's index. */
static tuff_status create_sets(driver_device *device, driver_recording *recording, const command *commands)
{
    const uint32_t count = recording->command_count;
    uint32_t set_count = 0, descriptor_count = 0;
    recording->sets = tuff__calloc(count, sizeof *recording->sets);
    VkDescriptorSetLayout *layouts = tuff__calloc(count, sizeof *layouts);
    tuff_status status = recording->sets && layouts ? TUFF_OK : TUFF_E_OOM_HOST;
    for (uint32_t i = 0; status == TUFF_OK && i < count; i++)
        if (has_set(&commands[i])) {
            layouts[set_count++] = commands[i].program->set_layout;
            descriptor_count += commands[i].program->buffer_count;
        }
    if (set_count > 0)
        status = allocate_sets(device, recording, set_count, descriptor_count, layouts);
    tuff__free(layouts);
    TRY(status);
    for (uint32_t i = count; i-- > 0;) {
        recording->sets[i] = has_set(&commands[i]) ? recording->sets[--set_count] : VK_NULL_HANDLE;
        if (recording->sets[i])
            fill_set(device, &commands[i], recording->sets[i]);
    }
    return TUFF_OK;
}

static void note_buffer(driver_recording *recording, driver_buffer *buffer)
{
    for (uint32_t i = 0; i < recording->buffer_count; i++)
        if (recording->buffers[i] == buffer)
            return;
    recording->buffers[recording->buffer_count++] = buffer;
}

static tuff_status note_buffers(driver_recording *recording, const command *commands)
{
    size_t bindings = 0;
    for (uint32_t i = 0; i < recording->command_count; i++)
        bindings += (size_t)commands[i].binding_count;
    recording->buffers = tuff__calloc(bindings, sizeof *recording->buffers);
    if (!recording->buffers)
        return TUFF_E_OOM_HOST;
    for (uint32_t i = 0; i < recording->command_count; i++)
        for (int j = 0; j < commands[i].binding_count; j++)
            note_buffer(recording, commands[i].bindings[j].buffer);
    return TUFF_OK;
}

static bool has_timestamps(const driver_device *device)
{
    return device->physical.timestamp_bits && device->physical.properties.properties.limits.timestampPeriod > 0;
}

static tuff_status create_queries(driver_device *device, driver_recording *recording)
{
    if (!has_timestamps(device))
        return FAIL(TUFF_E_UNSUPPORTED, "vulkan: %s does not support timestamps",
                    device->physical.properties.properties.deviceName);
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = 2 * recording->command_count,
    };
    return VULKAN(device->vk, vkCreateQueryPool, device->handle, &info, NULL, &recording->queries);
}

/* On a shared queue the host cannot tell tuff's work from others', so the device itself measures segments. Without
   timestamps they are not measured, which only means that predictions stay high. */
static void create_times(driver_device *device, vulkan_partition *partition)
{
    const VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = 2 * (uint32_t)partition->segment_count,
    };
    if (!device->predictor.is_on || !device->predictor.is_shared || !has_timestamps(device) ||
        device->vk->vkCreateQueryPool(device->handle, &info, NULL, &partition->times) != VK_SUCCESS)
        partition->times = VK_NULL_HANDLE;
}

/* Destroys what record_partition made. */
static void free_commands(driver_device *device, vulkan_partition *partition)
{
    if (partition->times)
        device->vk->vkDestroyQueryPool(device->handle, partition->times, NULL);
    partition->times = VK_NULL_HANDLE;
    for (int i = 0; i < partition->segment_count; i++)
        if (partition->segments[i].commands)
            device->vk->vkFreeCommandBuffers(device->handle, device->commands, 1, &partition->segments[i].commands);
}

static void drop_partition(driver_device *device, vulkan_partition *partition)
{
    free_commands(device, partition);
    tuff__vulkan_partition_free(partition);
}

/* Allocates and records the command buffers of a partition. */
static tuff_status record_partition(driver_device *device, driver_recording *recording, const command *commands,
                                    vulkan_partition *partition)
{
    create_times(device, partition);
    for (int i = 0; i < partition->segment_count; i++) {
        TRY(tuff__vulkan_allocate_commands(device, device->commands, 1, &partition->segments[i].commands));
        TRY(record_segment(device, recording, commands, partition, &partition->segments[i]));
    }
    return TUFF_OK;
}

/* Keeps the commands if the recording may have to be partitioned again. */
static tuff_status keep_commands(const driver_device *device, driver_recording *recording, const command *commands)
{
    recording->version = device->predictor.version;
    if (!tuff__vulkan_may_repartition(device, &recording->partition, recording->command_count))
        return TUFF_OK;
    recording->commands = tuff__memdup(commands, recording->command_count * sizeof *commands);
    return recording->commands ? TUFF_OK : TUFF_E_OOM_HOST;
}

static tuff_status record_all(driver_device *device, driver_recording *recording, const command *commands, bool timed)
{
    TRY(note_buffers(recording, commands));
    if (timed)
        TRY(create_queries(device, recording));
    TRY(create_sets(device, recording, commands));
    TRY(tuff__vulkan_partition(device, commands, recording->command_count, &recording->partition));
    TRY(keep_commands(device, recording, commands));
    return record_partition(device, recording, commands, &recording->partition);
}

tuff_status tuff__vulkan_record(driver_device *device, const command *commands, int count, bool timed,
                                driver_recording **out)
{
    driver_recording *recording = tuff__calloc(1, sizeof *recording);
    if (!recording)
        return TUFF_E_OOM_HOST;
    recording->command_count = (uint32_t)count;
    tuff_status status = record_all(device, recording, commands, timed);
    if (status == TUFF_OK)
        *out = recording;
    else
        tuff__vulkan_drop_recording(device, recording);
    return status;
}

static void destroy_objects(driver_device *device, driver_recording *recording)
{
    free_commands(device, &recording->partition);
    free_commands(device, &recording->retired);
    if (recording->pool)
        device->vk->vkDestroyDescriptorPool(device->handle, recording->pool, NULL);
    if (recording->queries)
        device->vk->vkDestroyQueryPool(device->handle, recording->queries, NULL);
}

void tuff__vulkan_drop_recording(driver_device *device, driver_recording *recording)
{
    if (tuff__vulkan_settle(device, recording->last_use))
        destroy_objects(device, recording);
    else if (recording->last_use > device->leaked_use)
        device->leaked_use = recording->last_use;
    tuff__vulkan_forget_submissions(device, recording);
    tuff__vulkan_partition_free(&recording->partition);
    tuff__vulkan_partition_free(&recording->retired);
    tuff__free(recording->commands);
    tuff__free(recording->sets);
    tuff__free(recording->buffers);
    tuff__free(recording);
}

/* Partitions the recording again, if measurements suggest it. The old partition may be in flight, for how long an
   application's semaphore may decide: it is kept until it has ended, and the host does not wait. If a new one cannot be
   made, for example for lack of memory, the present one still works. */
static tuff_status update_partition(driver_device *device, driver_recording *recording)
{
    vulkan_partition fresh;
    bool is_better = false;
    saved_error before;
    if (recording->retired.segment_count > 0 && !tuff__vulkan_is_done(device, recording->retired_use))
        return TUFF_OK;
    drop_partition(device, &recording->retired);
    tuff__error_save(&before);
    tuff_status status = tuff__vulkan_repartition(device, recording, &fresh, &is_better);
    if (status == TUFF_OK && is_better)
        status = record_partition(device, recording, recording->commands, &fresh);
    if (status == TUFF_OK && is_better) {
        recording->retired = recording->partition;
        recording->retired_use = recording->last_use;
        recording->partition = fresh;
    } else {
        drop_partition(device, &fresh);
    }
    if (status == TUFF_E_DEVICE_LOST)
        return status;
    tuff__error_restore(&before);
    return TUFF_OK;
}

static tuff_status submit_segment(driver_device *device, driver_recording *recording, const vulkan_segment *segment)
{
    const bool is_idle = device->predictor.is_on && tuff__vulkan_is_done(device, device->submitted);
    TRY(tuff__vulkan_submit(device, segment->commands, &recording->last_use));
    if (device->predictor.is_on)
        tuff__vulkan_record_submission(device,
                                       (submission_record){.owner = recording,
                                                           .shares = recording->partition.shares + segment->first,
                                                           .count = segment->end - segment->first},
                                       is_idle, recording->partition.times,
                                       2 * (uint32_t)(segment - recording->partition.segments));
    return TUFF_OK;
}

tuff_status tuff__vulkan_replay(driver_device *device, driver_recording *recording)
{
    if (recording->commands)
        TRY(update_partition(device, recording));
    tuff_status status = TUFF_OK;
    for (int i = 0; status == TUFF_OK && i < recording->partition.segment_count; i++)
        status = submit_segment(device, recording, &recording->partition.segments[i]);
    for (uint32_t i = 0; i < recording->buffer_count; i++)
        recording->buffers[i]->last_use = device->submitted;
    return status;
}

/* Reads the two ticks around a command. */
static tuff_status read_ticks(driver_device *device, driver_recording *recording, uint32_t index, uint64_t ticks[2])
{
    VkResult result =
        device->vk->vkGetQueryPoolResults(device->handle, recording->queries, 2 * index, 2, 2 * sizeof *ticks, ticks,
                                          sizeof *ticks, VK_QUERY_RESULT_64_BIT);
    TRY(tuff__vulkan_check(result, "vkGetQueryPoolResults"));
    return result == VK_SUCCESS ? TUFF_OK : FAIL(TUFF_E_UNSUPPORTED, "vulkan: the driver returned no timestamps");
}

static tuff_status wait_for_ticks(driver_device *device, driver_recording *recording)
{
    if (!recording->queries || !recording->last_use)
        return FAIL(TUFF_E_USAGE, "vulkan: no timestamps: the recording is not timed or was not submitted");
    return tuff__vulkan_wait_until(device, recording->last_use);
}

tuff_status tuff__vulkan_timestamps(driver_device *device, driver_recording *recording, uint64_t *nanoseconds)
{
    TRY(wait_for_ticks(device, recording));
    for (uint32_t i = 0; i < recording->command_count; i++) {
        uint64_t ticks[2];
        TRY(read_ticks(device, recording, i, ticks));
        nanoseconds[i] = tuff__vulkan_nanoseconds(&device->physical, ticks[0], ticks[1]);
    }
    return TUFF_OK;
}

/* Times count from the first command, so that a clock with few bits may wrap around meanwhile. */
tuff_status tuff__vulkan_start_times(driver_device *device, driver_recording *recording, uint64_t *nanoseconds)
{
    uint64_t first[2];
    TRY(wait_for_ticks(device, recording));
    TRY(read_ticks(device, recording, 0, first));
    for (uint32_t i = 0; i < recording->command_count; i++) {
        uint64_t ticks[2];
        TRY(read_ticks(device, recording, i, ticks));
        nanoseconds[i] = tuff__vulkan_nanoseconds(&device->physical, first[0], ticks[0]);
    }
    return TUFF_OK;
}
