/* Stores, records and keys of the tuner for tests; tune_fixture.h describes them. */
#include "tune_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
#include "tunedb/folder.h"

const tune_key fixture_product = {.family = "matmul",
                                  .structure = 0xc1f2e3a4b59687,
                                  .dtypes = "f16,f32,f16",
                                  .layout = "NT",
                                  .dims = {1024, 3072, 768},
                                  .dim_count = 3,
                                  .alignment = 16,
                                  .math = "fast"};
const tune_environment fixture_board = {.backend = "opencl",
                                        .device = "gfx1100",
                                        .kind = "gpu",
                                        .platform = "AMD-APP",
                                        .driver = "AMD-APP 24.3",
                                        .api = "OpenCL 2.0",
                                        .system = "Linux x86_64",
                                        .vendor = 0x1002,
                                        .device_id = 0x744c,
                                        .units = 96,
                                        .local_memory = 65536,
                                        .group_size = 256,
                                        .subgroup = 32,
                                        .lanes = 1};

tune_store *open_device_store(tuff_device *device, char *environment)
{
    tune_environment device_environment;
    tune_store *store;
    tuff__environment_from_info(tuff__device_info(device), &device_environment);
    tuff__environment_text(&device_environment, environment);
    assert_int_equal(tuff__tune_open(environment, &store), TUFF_OK);
    return store;
}

const tune_record *find_store_record(const tune_store *store, record_kind kind, const char *reason)
{
    int at = 0;
    for (const tune_record *one; (one = tuff__store_next(store, &at)) != NULL;)
        if (one->kind == kind && (reason == NULL || strcmp(one->reason, reason) == 0))
            return one;
    return NULL;
}
