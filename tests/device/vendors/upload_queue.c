/* Uploads that are sent ahead run on the device's queue for them: which queue, the pool of its commands, the buffers
   that two families share, and the semaphore that orders the copies from there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_device.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/state.h"
#include "fake_vulkan.h"

#define CARD                                                                                        \
    .driver = "radv", .vendor = 0x1002, .id = 0x744c, .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, \
    .memory = (uint64_t)1 << 30, .host_memory = (uint64_t)1 << 30, .width = 64
static const fake_vulkan_device devices[] = {
    {.name = "a card with copy engines", .queues = 2, .transfer_queues = 2, CARD},
    {.name = "a card with two queues", .queues = 2, CARD},
    {.name = "a card with one queue", CARD},
};
enum { WITH_ENGINES, WITH_TWO, WITH_ONE, COUNT };

static const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;

/* Sends ahead, then copies to an array; the queue of the former is this one. */
static void check(tuff_device *device, uint32_t family, uint32_t index)
{
    const bool has_families = family != 0;
    staging *batch = NULL;
    storage *memory = make_words(device, 1024);
    const staging_transfer transfer = {.storage = memory, .size = 4096};
    assert_int_equal(tuff__staging_create(device, 4096, true, &batch), TUFF_OK);
    for (int i = 0; i < 3; i++) {
        int before = fake_vulkan.submissions;
        assert_int_equal(tuff__staging_send(batch, 4096), TUFF_OK);
        const fake_submission sent = fake_vulkan.last;
        assert_int_equal(fake_vulkan.submissions, before + 1);
        assert_int_equal(sent.family, family);
        assert_int_equal(sent.index, index);
        assert_int_equal(sent.pool_family, family);
        assert_int_equal(sent.copies, 1);
        assert_int_equal(sent.shared, has_families ? 2 : 0);
        assert_false(sent.stages & compute); /* a copy engine has no such stage */
        assert_true(sent.signalled != VK_NULL_HANDLE);
        before = fake_vulkan.submissions;
        assert_int_equal(tuff__staging_upload(batch, &transfer, 1), TUFF_OK);
        const fake_submission copied = fake_vulkan.last;
        assert_int_equal(fake_vulkan.submissions, before + 1);
        assert_int_equal(copied.family, 0);
        assert_int_equal(copied.index, 0);
        assert_int_equal(copied.pool_family, 0);
        assert_int_equal(copied.copies, 1);
        assert_int_equal(copied.shared, has_families ? 1 : 0); /* the sent bytes; the array belongs to family 0 alone */
        assert_true(copied.stages & compute);
        assert_true(copied.waited == sent.signalled);
    }
    tuff__staging_destroy(batch);
    tuff__storage_release(memory);
}

static void uploads_run_on_their_queue(void **state)
{
    (void)state;
    static const struct {
        const char *selector;
        uint32_t family, index;
    } cases[COUNT] = {
        [WITH_ENGINES] = {"vulkan:0", 1, 0}, [WITH_TWO] = {"vulkan:1", 0, 1}, [WITH_ONE] = {"vulkan:2", 0, 0}};
    for (int i = 0; i < COUNT; i++) {
        tuff_device *device = tuff_device_open(cases[i].selector);
        if (!device)
            fail_msg("%s", tuff_error());
        assert_int_equal(tuff__device_has_upload_queue(device), i != WITH_ONE);
        check(device, cases[i].family, cases[i].index);
        tuff_device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(uploads_run_on_their_queue)};
    install_fake_vulkan(devices, COUNT);
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
