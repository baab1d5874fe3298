/* Which of the matrix units that a Vulkan device lists tuff means to use: those that the GLSL compiler knows, too. Both
   the devices and the compiler, which takes the place of shaderc, are fakes. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "each_device.h"

#if (!defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN) && (!defined(TUFF_WITH_SHADERC) || TUFF_WITH_SHADERC)
#include "device/state.h"
#include "device/vulkan/api.h"
#include "fake_glsl.h"
#include "fake_vulkan.h"

#define BF16 COMPONENT_BFLOAT16_KHR
static const fake_matrix both[] = {{16, 8, 16, 0}, {16, 16, 16, 0}, {16, 16, 16, BF16}, {0, 0, 0, 0}},
                         other_shape[] = {{16, 16, 16, 0}, {16, 8, 16, BF16}, {0, 0, 0, 0}},
                         only_f16[] = {{16, 16, 16, 0}, {0, 0, 0, 0}}, only_bf16[] = {{16, 16, 16, BF16}, {0, 0, 0, 0}};

#define CARD(title)                                                                                    \
    .name = title, .driver = "driver", .vendor = 0x1002, .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, \
    .memory = (uint64_t)1 << 30, .maps_all = true, .width = 32, .least_width = 32, .most_width = 32

#define GROUPS(list) .khr = both, .has_bfloat16 = true, .groups = list, .largest_group = 256, .largest_side = 1024
/* As NVIDIA's driver lists them, with others between. */
static const fake_group both_sizes[] = {{16, 16, 16, 0, 32, true},      {32, 32, 16, 0, 128, false},
                                        {32, 64, 16, 0, 256, false},    {32, 32, 16, BF16, 128, false},
                                        {32, 64, 16, BF16, 256, false}, {0}},
                        coarse[] = {{64, 32, 16, 0, 128, false},
                                    {32, 32, 16, 0, 256, false},
                                    {32, 48, 16, BF16, 128, false},
                                    {0}},
                        subgroups[] = {{16, 16, 16, 0, 128, true}, {0}};

/* In the order of their indices. */
static const fake_vulkan_device devices[] = {
    {CARD("both"), .khr = both, .has_bfloat16 = true},
    {CARD("no extension"), .khr = both},
    {CARD("another shape"), .khr = other_shape, .has_bfloat16 = true},
    {CARD("f16 alone"), .khr = only_f16, .has_bfloat16 = true},
    {CARD("bf16 alone"), .khr = only_bf16, .has_bfloat16 = true},
    {CARD("NV"), .nv = only_f16, .has_bfloat16 = true, .groups = both_sizes, .largest_group = 256,
     .largest_side = 1024},
    {CARD("groups"), GROUPS(both_sizes)},
    {CARD("groups of f16 alone"), .khr = only_f16, .groups = both_sizes, .largest_group = 128, .largest_side = 256},
    {CARD("coarse groups"), GROUPS(coarse)},
    {CARD("groups of subgroups"), GROUPS(subgroups)},
    {CARD("small sides"), .khr = both, .groups = both_sizes, .largest_group = 256, .largest_side = 128},
};
enum {
    BOTH,
    NO_EXTENSION,
    ANOTHER_SHAPE,
    F16_ALONE,
    BF16_ALONE,
    NV_ALONE,
    WITH_GROUPS,
    F16_GROUPS,
    COARSE,
    SUBGROUPS,
    SMALL_SIDES,
    DEVICES
};

/* What tuff means to use of a device, before any self-test. */
static tuff_device_info offer_of(int index)
{
    tuff_device_info info;
    for (int i = 0; i < tuff_device_count(); i++) {
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (strcmp(info.name, devices[index].name) == 0)
            return info;
    }
    fail_msg("%s is not listed", devices[index].name);
    return info;
}

static bool has_extension(const char *name)
{
    return strstr(fake_vulkan.extensions, name) != NULL;
}

static void bf16_is_used_in_the_shape_of_f16(void **state)
{
    (void)state;
    static const struct {
        uint32_t form;
        bool bf16;
    } expected[] = {[BOTH] = {TUFF_MATRIX_KHR, true},           [NO_EXTENSION] = {TUFF_MATRIX_KHR, false},
                    [ANOTHER_SHAPE] = {TUFF_MATRIX_KHR, false}, [F16_ALONE] = {TUFF_MATRIX_KHR, false},
                    [BF16_ALONE] = {TUFF_MATRIX_NONE, false},   [NV_ALONE] = {TUFF_MATRIX_NV, false}};
    for (int i = BOTH; i <= NV_ALONE; i++) {
        const tuff_device_info offer = offer_of(i);
        assert_int_equal(offer.cooperative_matrix, expected[i].form);
        assert_int_equal(offer.matrix_bf16, expected[i].bf16);
    }
}

/* Only sizes of groups that kernels have, at a granularity that divides their tiles. */
static void groups_are_used_if_tiles_fit(void **state)
{
    (void)state;
    static const uint32_t expected[DEVICES][2] = {
        [WITH_GROUPS] = {128 + 256, 128 + 256}, [F16_GROUPS] = {128, 0}, [COARSE] = {256, 0}};
    for (int i = 0; i < DEVICES; i++) {
        const tuff_device_info offer = offer_of(i);
        assert_int_equal(offer.matrix_group_sizes, expected[i][0]);
        assert_int_equal(offer.matrix_group_sizes_bf16, expected[i][1]);
    }
}

static void groups_are_enabled_on_the_device(void **state)
{
    (void)state;
    static const char *const selectors[] = {
        [WITH_GROUPS] = "vulkan:6", [COARSE] = "vulkan:8", [SUBGROUPS] = "vulkan:9"};
    for (int i = WITH_GROUPS; i <= SUBGROUPS; i++) {
        if (!selectors[i])
            continue;
        tuff_device_info info;
        tuff_device *device = tuff_device_open(selectors[i]);
        assert_non_null(device);
        assert_int_equal(has_extension("VK_NV_cooperative_matrix2 "), i != SUBGROUPS);
        assert_int_equal(fake_vulkan.enables_groups, i != SUBGROUPS);
        assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
        assert_int_equal(info.matrix_group_sizes, 0); /* nothing computes here, which the self-test finds */
        tuff_device_close(device);
    }
}

/* The device is created with the extension and its features only if bf16 is used. */
static void bf16_is_enabled_on_the_device(void **state)
{
    (void)state;
    static const char *const selectors[] = {[BOTH] = "vulkan:0", [F16_ALONE] = "vulkan:3"};
    for (int i = BOTH; i <= F16_ALONE; i += F16_ALONE) {
        tuff_device *device = tuff_device_open(selectors[i]);
        assert_non_null(device);
        assert_true(has_extension("VK_KHR_cooperative_matrix "));
        assert_int_equal(has_extension("VK_KHR_shader_bfloat16 "), i == BOTH);
        assert_int_equal(fake_vulkan.enables_bfloat16, i == BOTH);
        /* Nothing computes on these devices, so that the self-test must refuse what they list. */
        tuff_device_info info;
        assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
        assert_int_equal(info.cooperative_matrix, TUFF_MATRIX_NONE);
        assert_int_equal(info.matrix_state, TUFF_MATRICES_WRONG);
        assert_false(info.matrix_bf16);
        tuff_device_close(device);
    }
}

static bool refuses(const char *extension)
{
    return refused && strcmp(refused, extension) == 0;
}

/* The answer is kept for the process, whatever it is. */
static void the_compiler_is_asked_once(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(offer_of(BOTH).cooperative_matrix, TUFF_MATRIX_KHR);
        assert_int_equal(offer_of(BOTH).matrix_bf16, !refuses("GL_EXT_bfloat16"));
        assert_int_equal(offer_of(WITH_GROUPS).matrix_group_sizes,
                         refuses("GL_NV_cooperative_matrix2") ? 0 : 128 + 256);
        assert_int_equal(offer_of(WITH_GROUPS).matrix_group_sizes_bf16, refused ? 0 : 128 + 256);
    }
    assert_int_equal(bf16_trials, 1);
    assert_int_equal(group_trials, 1);
}

/* Runs the tests in a process whose compiler refuses an extension. */
static int run_with_refusal(const char *extension)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_compiler_is_asked_once)};
    int status = 1;
    const pid_t child = fork();
    if (child == 0) {
        refused = extension;
        exit(cmocka_run_group_tests_name(extension, tests, use_empty_cache, drop_cache));
    }
    return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_is_used_in_the_shape_of_f16), cmocka_unit_test(bf16_is_enabled_on_the_device),
        cmocka_unit_test(groups_are_used_if_tiles_fit), cmocka_unit_test(groups_are_enabled_on_the_device),
        cmocka_unit_test(the_compiler_is_asked_once)};
    if (getenv("TUFF_SHADERC_MODULE")) /* the compiler is a module, whose place this program cannot take */
        return 77;
    install_fake_vulkan(devices, DEVICES);
    const int failed = run_with_refusal("GL_EXT_bfloat16") + run_with_refusal("GL_NV_cooperative_matrix2");
    return failed + cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
