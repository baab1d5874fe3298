/* Keys, environments and kernel hashes as texts: what is written can be read, nothing else can, and devices are told
   apart by their drivers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tunedb/kernel_hash.h"
#include "tune_fixture.h"

static void keys_come_back(void **state)
{
    (void)state;
    tune_key read, other = fixture_product;
    assert_string_equal(KEY_TEXT(&fixture_product),
                        "matmul 00c1f2e3a4b59687 | f16,f32,f16 | NT | 1024x3072x768 | a16 | fast");
    assert_int_equal(tuff__key_parse(KEY_TEXT(&fixture_product), &read), TUFF_OK);
    assert_memory_equal(&read, &fixture_product, sizeof read);
    other = (tune_key){.family = "map", .alignment = 1};
    assert_string_equal(KEY_TEXT(&other), "map 0000000000000000 | - | - | - | a1 | -");
    assert_int_equal(tuff__key_parse(KEY_TEXT(&other), &read), TUFF_OK);
    assert_memory_equal(&read, &other, sizeof read);
    assert_true(tuff__key_hash(&fixture_product).low != tuff__key_hash(&other).low);
}

/* A text that parses must be the text of the parsed key. */
static void expect_no_other_key(const char *source)
{
    tune_key read;
    if (tuff__key_parse(source, &read) == TUFF_OK)
        assert_string_equal(KEY_TEXT(&read), source);
}

static void texts_that_are_no_keys_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "matmul",
                                      "matmul 00c1f2e3a4b59687",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 8 | a16",
                                      "matmul c1f2e3a4b59687 | f16 | NT | 8 | a16 | fast",
                                      "matmul 00C1f2e3a4b59687 | f16 | NT | 8 | a16 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 8x | a16 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 08 | a16 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 0x1 | a16 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 1x2x3x4x5x6x7x8x9 | a16 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 9999999999999999999 | a16 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 8 | a32 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 8 | 16 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | N T | 8 | a16 | fast",
                                      "matmul 00c1f2e3a4b59687 | f16 | NT | 8 | a16 | fast | more",
                                      "- 00c1f2e3a4b59687 | f16 | NT | 8 | a16 | fast"};
    tune_key read;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tuff__key_parse(bad[i], &read), TUFF_E_FORMAT);
    char source[TUNE_KEY_SIZE];
    (void)tuff__key_text(&fixture_product, source);
    for (size_t i = 0; source[i]; i++) {
        const char was = source[i];
        for (int c = 1; c < 256; c++) {
            source[i] = (char)c;
            expect_no_other_key(source);
        }
        source[i] = 0;
        expect_no_other_key(source);
        source[i] = was;
    }
}

static void near_is_within_twice(void **state)
{
    (void)state;
    tune_key other = fixture_product;
    assert_true(tuff__key_is_alike(&fixture_product, &other));
    assert_true(tuff__key_distance(&fixture_product, &other) == 0);
    other.dims[0] = 2048;
    other.dims[2] = 384;
    assert_true(tuff__key_distance(&fixture_product, &other) == 2);
    assert_true(tuff__key_distance(&other, &fixture_product) == 2);
    other.dims[0] = 2049;
    assert_true(tuff__key_distance(&fixture_product, &other) < 0);
    other = fixture_product;
    other.alignment = 4;
    assert_true(tuff__key_is_alike(&fixture_product, &other));
    other.structure++;
    assert_false(tuff__key_is_alike(&fixture_product, &other));
}

static void environments_come_back(void **state)
{
    (void)state;
    tune_environment read;
    assert_string_equal(ENVIRONMENT_TEXT(&fixture_board),
                        "opencl; device gfx1100; class gpu; vendor 1002:744c; units 96; local 65536; group 256; "
                        "subgroup 32; lanes 1; platform AMD-APP; driver AMD-APP 24.3; api OpenCL 2.0; system Linux "
                        "x86_64");
    assert_int_equal(tuff__environment_parse(ENVIRONMENT_TEXT(&fixture_board), &read), TUFF_OK);
    assert_memory_equal(&read, &fixture_board, sizeof read);
    assert_int_equal(tuff__environment_parse("opencl; device A; later thing; units 7", &read), TUFF_OK);
    assert_int_equal(read.units, 7);
    static const char *const bad[] = {"",
                                      "opencl",
                                      "opencl; device",
                                      "opencl; device A; units x",
                                      "opencl; device A; units 99999999999",
                                      "opencl; device A; vendor 1002",
                                      "a name that is far longer than any backend; device A"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tuff__environment_parse(bad[i], &read), TUFF_E_FORMAT);
}

/* The environment of a device is the same before it is opened and afterwards. */
static void devices_have_one_environment(void **state)
{
    (void)state;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        tune_environment described, opened, read;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        tuff__environment_from_info(&info, &described);
        tuff_device *device = tuff_device_open(info.selector);
        if (!device)
            continue;
        assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
        tuff__environment_from_info(&info, &opened);
        tuff_device_close(device);
        assert_string_equal(ENVIRONMENT_TEXT(&described), ENVIRONMENT_TEXT(&opened));
        assert_int_equal(tuff__environment_parse(ENVIRONMENT_TEXT(&opened), &read), TUFF_OK);
        assert_string_equal(ENVIRONMENT_TEXT(&read), ENVIRONMENT_TEXT(&opened));
    }
}

static void drivers_are_told_from_devices(void **state)
{
    (void)state;
    static const struct {
        const char *driver, *platform;
    } names[] = {{"Portable Computing Language, PoCL 3.1+debian", "Portable Computing Language, PoCL"},
                 {"llvmpipe Mesa 22.3.6 (LLVM 15.0.6)", "llvmpipe Mesa"},
                 {"AMD-APP (3590.0)", "AMD-APP"},
                 {"NVIDIA CUDA, CUDA 12.2.148, driver 535.54", "NVIDIA CUDA, CUDA"},
                 {"", ""}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tuff_device_info info = {.name = "gfx", .selector = "opencl:3"};
        tune_environment found;
        snprintf(info.driver, sizeof info.driver, "%s", names[i].driver);
        tuff__environment_from_info(&info, &found);
        assert_string_equal(found.platform, names[i].platform);
        assert_string_equal(found.backend, "opencl");
    }
    tune_environment other = fixture_board;
    assert_int_equal(tuff__environment_compare(&fixture_board, &other), LIKENESS_SAME);
    snprintf(other.driver, sizeof other.driver, "AMD-APP 25.1");
    assert_int_equal(tuff__environment_compare(&fixture_board, &other), LIKENESS_OTHER_DRIVER);
    snprintf(other.platform, sizeof other.platform, "rusticl");
    assert_int_equal(tuff__environment_compare(&fixture_board, &other), LIKENESS_OTHER_BACKEND);
    other.device_id = 0x7448;
    snprintf(other.device, sizeof other.device, "AMD Radeon PRO W7900 (RADV GFX1100)");
    assert_int_equal(tuff__environment_compare(&fixture_board, &other), LIKENESS_ARCHITECTURE);
    snprintf(other.device, sizeof other.device, "gfx1030");
    assert_int_equal(tuff__environment_compare(&fixture_board, &other), LIKENESS_NONE);
    tune_environment old = {.backend = "vulkan", .device = "llvmpipe (LLVM 15.0.6, 256 bits)", .kind = "cpu"},
                     new = old;
    snprintf(new.device, sizeof new.device, "llvmpipe (LLVM 17.0.1, 256 bits)");
    assert_int_equal(tuff__environment_compare(&old, &new), LIKENESS_OTHER_DRIVER);
    snprintf(new.device, sizeof new.device, "SwiftShader Device (Subzero)");
    assert_int_equal(tuff__environment_compare(&old, &new), LIKENESS_OTHER_BACKEND);
}

/* Winners of a device with other limits are at most seeds, whatever the driver's version. */
static void limits_are_told_from_drivers(void **state)
{
    (void)state;
    const tune_environment wide = {.backend = "opencl",
                                   .device = "AMD EPYC",
                                   .kind = "cpu",
                                   .driver = "Intel(R) OpenCL, LINUX, driver 2026.22",
                                   .units = 2,
                                   .local_memory = 262144,
                                   .group_size = 8192,
                                   .subgroup = 64,
                                   .lanes = 16};
    tune_environment narrow = wide, other = fixture_board;
    narrow.lanes = 8;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tuff__environment_compare(&wide, &narrow), LIKENESS_ARCHITECTURE);
        assert_int_equal(tuff__environment_compare(&narrow, &wide), LIKENESS_ARCHITECTURE);
        snprintf(narrow.driver, sizeof narrow.driver, "Intel(R) OpenCL, LINUX, driver 2025.1");
    }
    narrow.lanes = wide.lanes;
    assert_int_equal(tuff__environment_compare(&wide, &narrow), LIKENESS_OTHER_DRIVER);
    narrow.lanes = 0; /* unknown */
    assert_int_equal(tuff__environment_compare(&wide, &narrow), LIKENESS_OTHER_BACKEND);
    snprintf(other.api, sizeof other.api, "OpenCL 3.0");
    uint32_t *const limits[] = {&other.local_memory, &other.group_size, &other.subgroup, &other.lanes, &other.units};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        assert_int_equal(tuff__environment_compare(&fixture_board, &other), LIKENESS_OTHER_DRIVER);
        *limits[i] *= 2;
        assert_int_equal(tuff__environment_compare(&fixture_board, &other), LIKENESS_OTHER_BACKEND);
        *limits[i] /= 2;
    }
}

static void generators_tell_families_apart(void **state)
{
    (void)state;
    char matmul[KERNEL_HASH_SIZE], again[KERNEL_HASH_SIZE], row[KERNEL_HASH_SIZE];
    assert_string_equal(tuff__kernel_hash("matmul", matmul), tuff__kernel_hash("matmul", again));
    assert_string_not_equal(matmul, tuff__kernel_hash("row", row));
    assert_int_equal(strlen(matmul), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_come_back),
        cmocka_unit_test(texts_that_are_no_keys_are_refused),
        cmocka_unit_test(near_is_within_twice),
        cmocka_unit_test(environments_come_back),
        cmocka_unit_test(devices_have_one_environment),
        cmocka_unit_test(drivers_are_told_from_devices),
        cmocka_unit_test(limits_are_told_from_drivers),
        cmocka_unit_test(generators_tell_families_apart),
    };
    return cmocka_run_group_tests_name("tune_key", tests, NULL, NULL);
}
