/* On a slow Vulkan device submissions are kept short: recordings are split by predicted time, dispatches by groups, and
   a recording is split anew if the measured times differ from the prediction. A simulated clock defines how long work
   takes. */
#define _POSIX_C_SOURCE 200809L
#include "vulkan_fixture.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

#define SECOND 1e9

enum { BUFFERS = 4096, FENCES = 256 };

static struct {
    double now, busy;  /* nanoseconds */
    double group_cost; /* seconds per dispatched group */
    double longest;    /* longest submission, in seconds */
    int submissions;   /* submissions with dispatches */
} simulated;

/* Seconds of the dispatches in each command buffer, and the end of each fence's submission. */
static struct {
    VkCommandBuffer commands;
    double groups;
} recorded[BUFFERS];
static int recorded_count;
static struct {
    VkFence fence;
    double end;
} fences[FENCES];
static int fence_count;

static vulkan_api truth;
static bool has_no_memory; /* fails to allocate command buffers */
static int refusals;

static uint64_t simulated_time(void)
{
    return (uint64_t)simulated.now;
}

static double *groups_of(VkCommandBuffer commands)
{
    for (int i = 0; i < recorded_count; i++)
        if (recorded[i].commands == commands)
            return &recorded[i].groups;
    assert_true(recorded_count < BUFFERS);
    recorded[recorded_count].commands = commands;
    return &recorded[recorded_count++].groups;
}

static VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info)
{
    *groups_of(commands) = 0;
    return truth.vkBeginCommandBuffer(commands, info);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    *groups_of(commands) += (double)x * y * z;
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
    double seconds = 0;
    for (uint32_t i = 0; i < infos[0].commandBufferCount; i++)
        seconds += *groups_of(infos[0].pCommandBuffers[i]) * simulated.group_cost;
    if (simulated.busy < simulated.now)
        simulated.busy = simulated.now;
    simulated.busy += seconds * SECOND;
    simulated.longest = seconds > simulated.longest ? seconds : simulated.longest;
    simulated.submissions += seconds > 0;
    *end_of(fence) = simulated.busy;
    return truth.vkQueueSubmit(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for(VkDevice device, uint32_t count, const VkFence *waited, VkBool32 all,
                                               uint64_t timeout)
{
    const VkResult result = truth.vkWaitForFences(device, count, waited, all, timeout);
    const double end = *end_of(waited[0]);
    if (result == VK_SUCCESS && simulated.now < end)
        simulated.now = end;
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL fence_status(VkDevice device, VkFence fence)
{
    return simulated.now < *end_of(fence) ? VK_NOT_READY : truth.vkGetFenceStatus(device, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                               VkCommandBuffer *out)
{
    refusals += has_no_memory;
    return has_no_memory ? VK_ERROR_OUT_OF_HOST_MEMORY : truth.vkAllocateCommandBuffers(device, info, out);
}

static void install(double group_cost)
{
    truth = tuff__vk;
    tuff__vk.vkBeginCommandBuffer = begin;
    tuff__vk.vkCmdDispatch = dispatch;
    tuff__vk.vkQueueSubmit = submit;
    tuff__vk.vkWaitForFences = wait_for;
    tuff__vk.vkGetFenceStatus = fence_status;
    tuff__vk.vkAllocateCommandBuffers = allocate;
    tuff__predictor_clock = simulated_time;
    memset(&simulated, 0, sizeof simulated);
    simulated.group_cost = group_cost;
    simulated.now = SECOND;
    recorded_count = fence_count = 0;
}

static void restore(void)
{
    tuff__vk = truth;
    tuff__predictor_clock = tuff__nanoseconds;
}

/* Submits the recording `times` times, with a wait after each. Every group must then have run `each` times per
   submission. */
static void run(driver_device *device, driver_recording *recording, driver_buffer *buffer, uint32_t count, int times,
                uint32_t *expected, uint32_t each)
{
    uint32_t *got = malloc(count * sizeof *got);
    for (int i = 0; i < times; i++) {
        ok(vulkan->submit(device, recording));
        ok(vulkan->wait(device));
        *expected += each;
    }
    ok(vulkan->buffer_read(device, buffer, 0, got, count * sizeof *got));
    for (uint32_t i = 0; i < count; i++)
        if (got[i] != *expected)
            fail_msg("group %u ran %u times, not %u", i, got[i], *expected);
    free(got);
}

static driver_buffer *zeros(driver_device *device, uint32_t count)
{
    driver_buffer *buffer = create_buffer(device, count * sizeof(uint32_t));
    uint32_t *words = calloc(count, sizeof *words);
    ok(vulkan->buffer_write(device, buffer, 0, words, count * sizeof *words));
    free(words);
    return buffer;
}

/* Returns the predicted seconds of the longest segment. */
static double longest_prediction(const driver_device *device, const driver_recording *recording)
{
    const vulkan_partition *partition = &recording->partition;
    double longest = 0;
    for (int i = 0; i < partition->segment_count; i++) {
        double seconds = 0;
        for (int k = partition->segments[i].first; k < partition->segments[i].end; k++)
            seconds += tuff__predictor_seconds(&device->predictor, &partition->shares[k]);
        longest = seconds > longest ? seconds : longest;
    }
    return longest;
}

/* One dispatch with a predicted time of ten seconds on a device a hundred times slower than modelled, and several
   shorter ones, which take 1.5 times as long as predicted, repeatedly. No submission takes too long, from the first on,
   when nothing has been measured. */
static void cut(uint32_t row)
{
    enum { GROUPS = 5000, COMMANDS = 6 };
    lies.discrete = true;
    lies.groups[0] = row;
    driver_device *device = open_device(0);
    assert_true(device->predictor.is_on);
    driver_program *program = create_program(device, tally_text, 1, 1);
    driver_buffer *buffer = zeros(device, GROUPS);
    command commands[COMMANDS];
    uint32_t expected = 0;
    for (int i = 0; i < COMMANDS; i++) {
        commands[i] = tally(program, buffer, GROUPS);
        commands[i].seconds = i == 2 ? 0.1 : 0.025;
        commands[i].barrier = commands[i].after_dispatch = i > 0;
    }
    /* Real times per group are equal, unlike the predicted ones. */
    install((0.1 + 5 * 0.025) / (COMMANDS * GROUPS) * INITIAL_TIME_SCALE);
    driver_recording *recording = record(device, commands, COMMANDS, false);
    assert_true(longest_prediction(device, recording) <= 1.0001 * MAX_SUBMISSION_SECONDS);
    run(device, recording, buffer, GROUPS, 9, &expected, COMMANDS);
    simulated.submissions = 0;
    run(device, recording, buffer, GROUPS, 1, &expected, COMMANDS);
    print_message("  rows of %u: longest submission %.2f s, %d submissions per run", row, simulated.longest,
                  simulated.submissions);
    assert_true(simulated.longest > 0.5 && simulated.longest <= 1);
    assert_true(simulated.submissions >= 10);
    /* On a fast device the recording becomes one submission again. */
    simulated.group_cost = 1e-9;
    run(device, recording, buffer, GROUPS, 20, &expected, COMMANDS);
    simulated.submissions = 0;
    run(device, recording, buffer, GROUPS, 1, &expected, COMMANDS);
    print_message("; on a fast device %d submissions\n", simulated.submissions);
    assert_int_equal(simulated.submissions, 1);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, buffer);
    vulkan->program_destroy(device, program);
    vulkan->close(device);
    restore();
    lies.groups[0] = 0;
    lies.discrete = false;
}

static void long_dispatches_are_split(void **state)
{
    (void)state;
    if (!has_compiler)
        skip();
    cut(65535);
    cut(100);
}

/* A recording that was split is merged again once it is known to be fast, however little the prediction says. If there
   is no memory to split it anew, that is postponed, and the run uses the old split. */
static void short_commands_become_whole_again(void **state)
{
    (void)state;
    enum { GROUPS = 640, COMMANDS = 3 };
    if (!has_compiler)
        skip();
    lies.discrete = true;
    driver_device *device = open_device(0);
    driver_program *program = create_program(device, tally_text, 1, 1);
    driver_buffer *buffer = zeros(device, GROUPS);
    command commands[COMMANDS];
    uint32_t expected = 0;
    for (int i = 0; i < COMMANDS; i++) {
        commands[i] = tally(program, buffer, GROUPS);
        commands[i].seconds = 1e-5;
        commands[i].barrier = commands[i].after_dispatch = i > 0;
    }
    install(1e-9);
    program->scale = 1e5; /* as if an unrelated delay of a second had been measured */
    driver_recording *recording = record(device, commands, COMMANDS, false);
    assert_true(recording->partition.segment_count >= 2 * COMMANDS);
    run(device, recording, buffer, GROUPS, 1, &expected, COMMANDS);
    assert_true(recording->partition.segment_count > 1);
    has_no_memory = true;
    refusals = 0;
    run(device, recording, buffer, GROUPS, 30, &expected, COMMANDS);
    has_no_memory = false;
    assert_true(refusals > 0);
    assert_true(recording->partition.segment_count > 1);
    device->predictor.version++;
    run(device, recording, buffer, GROUPS, 1, &expected, COMMANDS);
    assert_int_equal(recording->partition.segment_count, 1);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, buffer);
    vulkan->program_destroy(device, program);
    vulkan->close(device);
    restore();
    lies.discrete = false;
}

/* Timed recordings are split, too, and still report one time per command. */
static void timed_recordings_are_cut(void **state)
{
    (void)state;
    enum { GROUPS = 64 };
    if (!has_compiler)
        skip();
    lies.discrete = true;
    driver_device *device = open_device(0);
    driver_program *program = create_program(device, tally_text, 1, 1);
    driver_buffer *buffer = zeros(device, GROUPS);
    command commands[2] = {tally(program, buffer, GROUPS), tally(program, buffer, GROUPS)};
    uint64_t times[2] = {0};
    uint32_t expected = 0;
    commands[0].seconds = commands[1].seconds = 0.05;
    commands[1].barrier = commands[1].after_dispatch = true;
    install(0.05 / GROUPS * INITIAL_TIME_SCALE);
    driver_recording *recording = record(device, commands, 2, true);
    run(device, recording, buffer, GROUPS, 1, &expected, 2);
    assert_true(simulated.submissions >= 20);
    assert_true(simulated.longest <= 0.55);
    ok(vulkan->timestamps(device, recording, times));
    ok(vulkan->start_times(device, recording, times));
    assert_true(times[1] >= times[0]);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, buffer);
    vulkan->program_destroy(device, program);
    vulkan->close(device);
    restore();
    lies.discrete = false;
}

/* A CPU has no watchdog: its recordings stay unchanged. */
static void processors_are_left_alone(void **state)
{
    (void)state;
    driver_device *device = open_device(0);
    assert_false(device->predictor.is_on);
    vulkan->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_dispatches_are_split), cmocka_unit_test(short_commands_become_whole_again),
        cmocka_unit_test(timed_recordings_are_cut),  cmocka_unit_test(processors_are_left_alone),
        cmocka_unit_test(no_validation_messages),
    };
    if (vulkan_start() != 0)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
