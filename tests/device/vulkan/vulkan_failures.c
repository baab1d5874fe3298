/* The Vulkan driver with failures: of the loader, of each call, of each allocation; also waits that never end, and
   memory that needs flushes. There must be no crash and no leak, the status must fit, and the next use must work. */
#include "vulkan_fixture.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

#include "vulkan_faults.h"

/* The functions that a broken loader lacks, and the calls that it fails. */
static const char *hidden;
static PFN_vkGetInstanceProcAddr real_find;

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL find_most(VkInstance from, const char *name)
{
    return hidden && strcmp(name, hidden) == 0 ? NULL : real_find(from, name);
}

static VKAPI_ATTR VkResult VKAPI_CALL old_version(uint32_t *version)
{
    *version = VK_API_VERSION_1_0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL no_driver(const VkInstanceCreateInfo *how, const VkAllocationCallbacks *memory,
                                                VkInstance *out)
{
    (void)how, (void)memory, (void)out;
    return VK_ERROR_INCOMPATIBLE_DRIVER;
}

static VKAPI_ATTR VkResult VKAPI_CALL no_extensions(const char *layer, uint32_t *count, VkExtensionProperties *out)
{
    (void)layer, (void)out;
    *count = 0;
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VKAPI_ATTR VkResult VKAPI_CALL no_list(VkInstance from, uint32_t *count, VkPhysicalDevice *out)
{
    (void)from, (void)out;
    *count = 0;
    return VK_ERROR_INITIALIZATION_FAILED;
}

static VKAPI_ATTR VkResult VKAPI_CALL empty_list(VkInstance from, uint32_t *count, VkPhysicalDevice *out)
{
    (void)from, (void)out;
    *count = 0;
    return VK_SUCCESS;
}

static void expect_absence(vulkan_api table, const char *reason)
{
    const char *absence = NULL;
    tuff__vk = table;
    assert_int_equal(vulkan->count(&absence), 0);
    assert_non_null(absence);
    if (!strstr(absence, reason) || !strstr(absence, "install"))
        fail_msg("\"%s\" does not name \"%s\" and what to install", absence, reason);
}

/* Must run first, because the driver keeps the first instance that works. Then prepares the other tests. */
static void finds_no_devices_where_the_loader_fails(void **state)
{
    (void)state;
    ok(tuff__vulkan_load_global());
    real_find = tuff__vk.vkGetInstanceProcAddr;
    vulkan_api table = {.vkGetInstanceProcAddr = find_most};
    expect_absence((vulkan_api){table.vkGetInstanceProcAddr, .vkEnumerateInstanceVersion = old_version}, "1.1");
    expect_absence((vulkan_api){find_most, .vkCreateInstance = no_driver}, "VK_ERROR_INCOMPATIBLE_DRIVER");
    expect_absence((vulkan_api){find_most, .vkEnumerateInstanceExtensionProperties = no_extensions}, "MEMORY");
    expect_absence((vulkan_api){find_most, .vkEnumeratePhysicalDevices = no_list}, "vkEnumeratePhysicalDevices");
    expect_absence((vulkan_api){find_most, .vkEnumeratePhysicalDevices = empty_list}, "no driver offers a device");
    static const char *const samples[] = {"vkCreateInstance", "vkDestroyInstance", "vkCmdDispatch", "vkCreateDevice"};
    for (int i = 0; i < 4; i++) {
        hidden = samples[i];
        expect_absence(table, hidden);
    }
    hidden = NULL;
    tuff__vk = (vulkan_api){.vkGetInstanceProcAddr = real_find};
    assert_int_equal(vulkan_start(), 0);
}

static void flushes_memory_that_is_not_coherent(void **state)
{
    (void)state;
    lies.incoherent = true;
    faults_install(vulkan_wait_idle());
    for (int i = 0; i < device_count; i++)
        for (int discrete = 0; discrete < 2; discrete++) {
            lies.discrete = discrete;
            driver_device *device = open_device(i);
            faults_reset();
            check_writes_and_reads(device);
            check_chain(device);
            assert_true(faults.calls[SITE_vkFlushMappedMemoryRanges] > 4);
            assert_true(faults.calls[SITE_vkInvalidateMappedMemoryRanges] > 4);
            vulkan->close(device);
        }
    faults_remove();
    lies.incoherent = lies.discrete = false;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_in_vain(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all,
                                                   uint64_t limit)
{
    (void)device, (void)count, (void)fences, (void)all, (void)limit;
    return VK_TIMEOUT;
}

static VKAPI_ATTR VkResult VKAPI_CALL never_done(VkDevice device, VkFence fence)
{
    (void)device, (void)fence;
    return VK_NOT_READY;
}

static void gives_up_waiting_and_recovers(void **state)
{
    (void)state;
    driver_device *device = open_device(0);
    driver_buffer *buffer = create_buffer(device, 1 << 20);
    command step = fill(buffer, 0, 1 << 20);
    driver_recording *recording = record(device, &step, 1, false);
    vulkan_api before = tuff__vk;
    device->wait_limit = 2000000;
    tuff__vk.vkWaitForFences = wait_in_vain;
    tuff__vk.vkGetFenceStatus = never_done;
    ok(vulkan->submit(device, recording));
    assert_int_equal(vulkan->wait(device), TUFF_E_TIMEOUT);
    assert_non_null(strstr(tuff_error(), "progress"));
    uint8_t byte;
    assert_int_equal(vulkan->buffer_read(device, buffer, 0, &byte, 1), TUFF_E_TIMEOUT);
    tuff__vk = before;
    device->wait_limit = UINT64_C(30000000000);
    ok(vulkan->wait(device));
    ok(vulkan->submit(device, recording));
    ok(vulkan->buffer_read(device, buffer, 0, &byte, 1));
    assert_int_equal(byte, 0);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, buffer);
    vulkan->close(device);
}

/* Uses everything in the driver once, until something fails. Destroys all that was created. */
typedef struct script {
    driver_device *device;
    driver_buffer *in, *out, *kept;
    driver_program *program;
    driver_recording *recording;
    driver_staging *staged;
    blob made;
} script;

#define SCRIPT_COUNT 2000u

static tuff_status copy_staged(script *run, const staged_copy *work, bool upload)
{
    bool done = false;
    TRY(vulkan->staging_copy(run->device, run->staged, work, 1, upload));
    while (!done)
        TRY(vulkan->staging_poll(run->device, run->staged, &done));
    return TUFF_OK;
}

static tuff_status move_staged(script *run)
{
    void *memory;
    TRY(vulkan->staging_create(run->device, 200, true, &run->staged, &memory));
    unsigned char *bytes = memory;
    for (int i = 0; i < 100; i++)
        bytes[i] = (unsigned char)(i + 50);
    TRY(copy_staged(run, &(staged_copy){run->kept, 300, 0, 100}, true));
    /* Sent twice, because data that were sent may be discarded. */
    for (int i = 0; i < 2; i++) {
        bool done = false;
        TRY(vulkan->staging_send(run->device, run->staged, 100));
        while (!done)
            TRY(vulkan->staging_poll(run->device, run->staged, &done));
    }
    TRY(copy_staged(run, &(staged_copy){run->kept, 300, 0, 100}, true));
    TRY(vulkan->buffer_copy(run->device, run->kept, 300, run->out, 5, 100));
    TRY(copy_staged(run, &(staged_copy){run->out, 5, 100, 100}, false));
    assert_memory_equal(bytes, bytes + 100, 100);
    return TUFF_OK;
}

static tuff_status run_steps(script *run, int index, blob spirv)
{
    program_request request = {"scale", scale_text, 2, 2, 64, 0, false};
    static float x[SCRIPT_COUNT], y[SCRIPT_COUNT];
    uint64_t nanoseconds[2];
    TRY(vulkan->open(index, &run->device));
    TRY(vulkan->buffer_create(run->device, sizeof x, &run->in));
    TRY(vulkan->buffer_create(run->device, sizeof x, &run->out));
    TRY(vulkan->buffer_create(run->device, sizeof x, &run->kept));
    TRY(vulkan->program_create(run->device, &request, spirv, &run->made, &run->program));
    command commands[] = {
        scale(run->program, run->in, run->out, SCRIPT_COUNT),
        copy(run->out, 0, run->kept, 0, sizeof x),
    };
    commands[1].barrier = commands[1].after_dispatch = true;
    TRY(vulkan->recording_create(run->device, commands, 2, true, &run->recording));
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < SCRIPT_COUNT; i++)
            x[i] = (float)(i + round);
        TRY(vulkan->buffer_write(run->device, run->in, 0, x, sizeof x));
        TRY(vulkan->submit(run->device, run->recording));
    }
    /* Enough submissions to reuse the fences. */
    for (int i = 0; i < MAX_IN_FLIGHT; i++)
        TRY(vulkan->submit(run->device, run->recording));
    TRY(vulkan->wait(run->device));
    TRY(vulkan->timestamps(run->device, run->recording, nanoseconds));
    TRY(vulkan->buffer_read(run->device, run->kept, 0, y, sizeof y));
    for (uint32_t i = 0; i < SCRIPT_COUNT; i++)
        assert_true(y[i] == 2 * x[i] + 1);
    return move_staged(run);
}

static tuff_status run_script(int index, blob spirv)
{
    script run = {0};
    tuff_status status = run_steps(&run, index, spirv);
    if (run.staged)
        vulkan->staging_destroy(run.device, run.staged);
    if (run.recording)
        vulkan->recording_destroy(run.device, run.recording);
    if (run.program)
        vulkan->program_destroy(run.device, run.program);
    if (run.in)
        vulkan->buffer_destroy(run.device, run.in);
    if (run.out)
        vulkan->buffer_destroy(run.device, run.out);
    if (run.kept)
        vulkan->buffer_destroy(run.device, run.kept);
    if (run.device)
        vulkan->close(run.device);
    tuff__free(run.made.data);
    return status;
}

static blob compile_scale(void)
{
    program_request request = {"scale", scale_text, 2, 2, 64, 0, false};
    blob spirv = {0};
    ok(tuff__vulkan_compile(&request, &spirv));
    return spirv;
}

static tuff_status meaning(VkResult result)
{
    return result == VK_ERROR_OUT_OF_HOST_MEMORY     ? TUFF_E_OOM_HOST
           : result == VK_ERROR_OUT_OF_DEVICE_MEMORY ? TUFF_E_OOM_DEVICE
                                                     : TUFF_E_DEVICE_LOST;
}

static void fail_one_call(int index, blob spirv, int site, int call, VkResult result, bool *reached)
{
    faults_arm(site, call, result);
    tuff_status status = run_script(index, spirv);
    /* The number of calls depends on the device's speed: an idle buffer is written at once. */
    if (!faults.hits) {
        assert_int_equal(status, TUFF_OK);
        return;
    }
    /* A failing status query counts as "not finished", waits before destruction are repeated, copies reach memory that
       cannot be mapped, and nothing needs the cache of pipelines. */
    bool may_pass = site == SITE_vkGetFenceStatus || site == SITE_vkWaitForFences ||
                    site == SITE_vkCreatePipelineCache || site == SITE_vkGetPipelineCacheData ||
                    (site == SITE_vkMapMemory && result != VK_ERROR_DEVICE_LOST);
    reached[site] = true;
    if (status != meaning(result) && !(may_pass && status == TUFF_OK))
        fail_msg("%s, call %d, VkResult %d: %s: %s", site_names[site], call, (int)result, tuff_status_name(status),
                 tuff_error());
    if (status != TUFF_OK)
        assert_non_null(strstr(tuff_error(), site_names[site]));
    if (faults.alive || faults.null_destroyed)
        fail_msg("%s, call %d: %d objects were left, %d null handles destroyed", site_names[site], call, faults.alive,
                 faults.null_destroyed);
}

static void fail_every_call(int index, blob spirv, bool *reached)
{
    int calls[SITE_COUNT];
    faults_reset();
    ok(run_script(index, spirv));
    memcpy(calls, faults.calls, sizeof calls);
    for (int site = 0; site < SITE_COUNT; site++) {
        if (!calls[site])
            continue;
        fail_one_call(index, spirv, site, 1, VK_ERROR_DEVICE_LOST, reached);
        fail_one_call(index, spirv, site, 1, VK_ERROR_OUT_OF_HOST_MEMORY, reached);
        for (int call = 2; call <= calls[site] && call <= 6; call++)
            fail_one_call(index, spirv, site, call, VK_ERROR_OUT_OF_DEVICE_MEMORY, reached);
    }
    faults_reset();
    ok(run_script(index, spirv));
}

static void survives_the_failure_of_every_call(void **state)
{
    (void)state;
    bool reached[SITE_COUNT] = {false};
    blob spirv = compile_scale();
    faults_install(vulkan_wait_idle());
    for (int i = 0; i < device_count; i++)
        for (int mode = 0; mode < 2; mode++) {
            lies.discrete = lies.incoherent = mode;
            fail_every_call(i, spirv, reached);
        }
    lies.discrete = lies.incoherent = false;
    faults_remove();
    for (int site = 0; site < SITE_COUNT; site++)
        if (!reached[site])
            fail_msg("%s was never made to fail", site_names[site]);
    tuff__free(spirv.data);
}

static struct {
    _Atomic int64_t until_failure, blocks;
} heap;

static void *failing_allocate(void *user, size_t size)
{
    (void)user;
    void *block = heap.until_failure-- == 0 ? NULL : malloc(size);
    heap.blocks += block != NULL;
    return block;
}

static void *failing_reallocate(void *user, void *block, size_t size)
{
    if (!block)
        return failing_allocate(user, size);
    return heap.until_failure-- == 0 ? NULL : realloc(block, size);
}

static void counting_release(void *user, void *block)
{
    (void)user;
    heap.blocks -= block != NULL;
    free(block);
}

static void survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    const tuff_allocator allocator = {failing_allocate, failing_reallocate, counting_release, NULL};
    blob none = {0};
    tuff_status status = TUFF_E_OOM_HOST;
    int failures = 0;
    faults_install(vulkan_wait_idle());
    tuff_set_allocator(&allocator);
    for (int64_t site = 0; status != TUFF_OK; site++, failures++) {
        heap.until_failure = site;
        heap.blocks = 0;
        status = run_script(0, none);
        assert_true(status == TUFF_OK || status == TUFF_E_OOM_HOST);
        assert_int_equal(heap.blocks, 0);
        assert_int_equal(faults.alive, 0);
    }
    tuff_set_allocator(NULL);
    faults_remove();
    assert_true(failures > 8);
}

/* Whether a loader and a driver are installed, which the tests themselves do not load at first. Keeps the instance, so
   that no driver is unloaded between the tests: leaks of an unloaded driver have no symbols, so that they could not be
   suppressed. */
static bool has_driver(void)
{
    static VkInstance probe;
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    if (tuff__vulkan_load_global() != TUFF_OK || tuff__vk.vkCreateInstance(&info, NULL, &probe) != VK_SUCCESS)
        return false;
    uint32_t count = 0;
    if (tuff__vulkan_load_instance(&tuff__vk, probe) != TUFF_OK)
        return false;
    tuff__vk.vkEnumeratePhysicalDevices(probe, &count, NULL);
    tuff__vk = (vulkan_api){0};
    return count > 0;
}

int main(void)
{
    if (!has_compiler || !has_driver()) {
        printf("no Vulkan device or no GLSL compiler\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_no_devices_where_the_loader_fails),
        cmocka_unit_test(flushes_memory_that_is_not_coherent),
        cmocka_unit_test(gives_up_waiting_and_recovers),
        cmocka_unit_test(survives_the_failure_of_every_call),
        cmocka_unit_test(survives_the_failure_of_every_allocation),
        cmocka_unit_test(no_validation_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;
}

#endif
