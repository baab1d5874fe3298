/* Memory that the host writes through caches that are not coherent. It is preferred to uncached memory, which is slow
   to read. A flush must not write back stale bytes around the written ones, which the device may have changed since. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_device.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/state.h"
#include "fake_vulkan.h"

static const fake_vulkan_device devices[] = {{.name = "Intel(R) Iris(R) Xe Graphics (TGL GT2)",
                                              .driver = "Intel open-source Mesa driver",
                                              .vendor = 0x8086,
                                              .id = 0x9a49,
                                              .type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                              .memory = (uint64_t)1 << 30,
                                              .maps_all = true,
                                              .is_incoherent = true,
                                              .width = 32,
                                              .least_width = 8,
                                              .most_width = 32}};

static void partial_writes_leave_their_neighbours(void **state)
{
    (void)state;
    storage *memory;
    const uint32_t word = 7;
    tuff_device *device = tuff_device_open("vulkan:0");
    if (!device)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff__storage_create(device, 4096, true, &memory), TUFF_OK);
    fake_vulkan.flushes = fake_vulkan.stale = 0;
    fake_vulkan.is_fresh = false;
    assert_int_equal(tuff__storage_write(device, memory, 8, &word, sizeof word), TUFF_OK);
    assert_int_equal(fake_vulkan.flushes, 1);
    assert_int_equal(fake_vulkan.stale, 0);
    tuff__storage_release(memory);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(partial_writes_leave_their_neighbours)};
    install_fake_vulkan(devices, 1);
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
