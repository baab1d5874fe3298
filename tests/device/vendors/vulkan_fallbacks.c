/* Vulkan devices that lack or refuse what most have: tuff does without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_device.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/state.h"
#include "fake_vulkan.h"

enum { CARD, PHONE };

static const fake_vulkan_device devices[] = {{.name = "AMD Radeon RX 7900 XT (RADV NAVI31)",
                                              .driver = "radv",
                                              .vendor = 0x1002,
                                              .id = 0x744c,
                                              .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                              .memory = (uint64_t)1 << 30,
                                              .host_memory = (uint64_t)1 << 30,
                                              .maps_all = true,
                                              .width = 64},
                                             {.name = "Adreno (TM) 530",
                                              .driver = "Qualcomm Technologies Inc. Adreno Vulkan Driver",
                                              .vendor = 0x5143,
                                              .id = 0x5030004,
                                              .type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                              .memory = (uint64_t)1 << 30,
                                              .maps_all = true,
                                              .has_budget = true,
                                              .only_shuffles = true,
                                              .width = 64}};

static tuff_device *open_one(int index)
{
    tuff_device *device = tuff_device_open(index == CARD ? "vulkan:0" : "vulkan:1");
    if (!device)
        fail_msg("%s", tuff_error());
    return device;
}

static void memory_that_cannot_be_mapped_is_used(void **state)
{
    (void)state;
    storage *memory;
    const uint32_t word = 7;
    tuff_device *device = open_one(CARD);
    fake_vulkan.refuses_maps = true;
    assert_int_equal(tuff__storage_create(device, 4096, false, &memory), TUFF_OK);
    assert_int_equal(fake_vulkan.type, 0);
    const int before = fake_vulkan.copies;
    assert_int_equal(tuff__storage_write(device, memory, 0, &word, sizeof word), TUFF_OK);
    assert_int_equal(fake_vulkan.copies, before + 1);
    fake_vulkan.refuses_maps = false;
    tuff__storage_release(memory);
    tuff_device_close(device);
}

/* Kernels for subgroups need more than shuffles. */
static void subgroups_without_sums_are_not_used(void **state)
{
    (void)state;
    tuff_device_info info;
    tuff_device *device = open_one(PHONE);
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    assert_int_equal(info.subgroup_size, 0);
    assert_false(info.subgroup_shuffle);
    tuff_device_close(device);
    device = open_one(CARD);
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    assert_int_equal(info.subgroup_size, 64);
    tuff_device_close(device);
}

/* With one heap there is no other memory to go to. */
static void the_only_heap_is_used_beyond_its_budget(void **state)
{
    (void)state;
    storage *memory;
    tuff_device *device = open_one(PHONE);
    fake_vulkan.budget = fake_vulkan.usage = 1 << 20;
    assert_int_equal(tuff__storage_create(device, 4096, false, &memory), TUFF_OK);
    fake_vulkan.budget = fake_vulkan.usage = 0;
    tuff__storage_release(memory);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_that_cannot_be_mapped_is_used),
                                       cmocka_unit_test(subgroups_without_sums_are_not_used),
                                       cmocka_unit_test(the_only_heap_is_used_beyond_its_budget)};
    install_fake_vulkan(devices, 2);
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
