/* The Vulkan driver, straight on its table, on every Vulkan device, as it is and with other memory and limits than the
   device has. Where the Khronos validation layer is installed, all tests run under it (core and synchronisation), and
   the last one demands that it had nothing to say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

#include "base/alloc.h"
#include "device/vulkan/state.h"
#include "vulkan_faults.h"

static const driver *const vulkan = &tuff__driver_vulkan;
static int device_count;
static int validation_messages;
static bool validated;
static VkInstance instance;

/* What the driver is told of the device instead of the truth. */
static struct {
    bool discrete;      /* memory is not reached by the host: staging */
    bool incoherent;    /* memory needs flushes */
    uint32_t groups[2]; /* limits of groups along x and y, 0: as they are */
    bool no_timestamps;
    bool old; /* Vulkan 1.1 without any feature */
} lies;

/* Between the tests' table and the loader: the functions that tell lies call these. */
static vulkan_api truth;

#define ok(call) \
    do { \
        if ((call) != TUFF_OK) \
            fail_msg("%s: %s", #call, tuff_error()); \
    } while (0)

static const char *const scale_text =
    "#version 450\n"
    "layout(local_size_x = 64) in;\n"
    "layout(std430, binding = 0) readonly buffer A { float x[]; };\n"
    "layout(std430, binding = 1) buffer B { float y[]; };\n"
    "layout(push_constant) uniform P { uint count; uint base; };\n"
    "void main() {\n"
    "    uint i = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + base) * 64u + gl_LocalInvocationID.x;\n"
    "    if (i < count) y[i] = 2.0 * x[i] + 1.0;\n"
    "}\n";

/* Every group adds one to its element: a group that runs twice or never is seen. */
static const char *const tally_text =
    "#version 450\n"
    "layout(local_size_x = 1) in;\n"
    "layout(std430, binding = 0) buffer A { uint x[]; };\n"
    "layout(push_constant) uniform P { uint count; uint base; };\n"
    "void main() {\n"
    "    uint group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + base;\n"
    "    if (group < count) x[group] += 1u;\n"
    "}\n";

static driver_device *open_device(int index)
{
    driver_device *device = NULL;
    ok(vulkan->open(index, &device));
    return device;
}

static driver_buffer *create_buffer(driver_device *device, uint64_t size)
{
    driver_buffer *buffer = NULL;
    ok(vulkan->buffer_create(device, size, &buffer));
    return buffer;
}

static driver_program *create_program(driver_device *device, const char *text, int buffers, uint32_t local_size)
{
    program_request request = {"test", text, buffers, 2, local_size, 0};
    driver_program *program = NULL;
    blob made = {0};
    ok(vulkan->program_create(device, &request, (blob){0}, &made, &program));
    assert_true(made.size > 20);
    tuff__free(made.data);
    return program;
}

static driver_recording *record(driver_device *device, const command *commands, int count, bool timed)
{
    driver_recording *recording = NULL;
    ok(vulkan->recording_create(device, commands, count, timed, &recording));
    return recording;
}

static command scale(driver_program *program, driver_buffer *from, driver_buffer *to, uint32_t count)
{
    return (command){
        .kind = COMMAND_DISPATCH,
        .program = program,
        .group_count = (count + 63) / 64,
        .binding_count = 2,
        .word_count = 2,
        .bindings = {{from, 0, count * 4u, false}, {to, 0, count * 4u, true}},
        .words = {count, 0},
        .barrier = true,
        .after_dispatch = true,
    };
}

static command tally(driver_program *program, driver_buffer *buffer, uint32_t count)
{
    return (command){
        .kind = COMMAND_DISPATCH,
        .program = program,
        .group_count = count,
        .binding_count = 1,
        .word_count = 2,
        .bindings = {{buffer, 0, count * 4u, true}},
        .words = {count, 0},
    };
}

static command copy(driver_buffer *from, uint64_t from_offset, driver_buffer *to, uint64_t to_offset, uint64_t size)
{
    return (command){
        .kind = COMMAND_COPY,
        .binding_count = 2,
        .bindings = {{from, from_offset, size, false}, {to, to_offset, size, true}},
    };
}

static command fill(driver_buffer *buffer, uint64_t offset, uint64_t size)
{
    return (command){
        .kind = COMMAND_FILL_ZERO,
        .binding_count = 1,
        .bindings = {{buffer, offset, size, true}},
    };
}

static void describes_every_device(void **state)
{
    (void)state;
    for (int i = 0; i < device_count; i++) {
        tuff_device_info info;
        char selector[32];
        ok(vulkan->describe(i, &info));
        snprintf(selector, sizeof selector, "vulkan:%d", i);
        assert_string_equal(info.selector, selector);
        assert_true(info.name[0] && info.driver[0]);
        assert_memory_equal(info.api, "Vulkan 1.", 9);
        assert_true(info.memory_size >= 1u << 20 && info.max_allocation >= 1u << 20);
        assert_true(info.max_binding >= 1u << 27);
        assert_true(info.offset_alignment && !(info.offset_alignment & (info.offset_alignment - 1)));
        assert_true(info.local_memory_size >= 16384);
        assert_true(info.max_group_size >= 128);
        assert_true(info.max_bindings >= 4 && info.max_bindings <= MAX_BINDINGS);
        printf("  %s: %s, %s, %s; subgroup %u%s%s%s\n", info.selector, info.name, info.driver, info.api,
               info.subgroup_size, info.narrow_storage ? ", narrow storage" : "",
               info.half_arithmetic ? ", half arithmetic" : "", info.int64 ? ", int64" : "");
    }
}

static void identifies_devices_apart_and_always_the_same(void **state)
{
    (void)state;
    char *texts[16] = {0};
    for (int i = 0; i < device_count && i < 16; i++)
        for (int again = 0; again < 2; again++) {
            driver_device *device = open_device(i);
            const char *text = vulkan->identity(device);
            for (int j = 0; j < i; j++)
                assert_string_not_equal(text, texts[j]);
            if (again)
                assert_string_equal(text, texts[i]);
            else
                texts[i] = strdup(text);
            vulkan->close(device);
        }
    for (int i = 0; i < 16; i++)
        free(texts[i]);
}

static uint8_t pattern(uint64_t i, unsigned seed)
{
    return (uint8_t)(i * 7 + i / 251 + seed);
}

static void write_and_read(driver_device *device, uint64_t offset, uint64_t size)
{
    uint64_t whole = offset + size + 13;
    driver_buffer *buffer = create_buffer(device, whole);
    uint8_t *data = malloc(whole), *back = malloc(whole);
    for (uint64_t i = 0; i < whole; i++)
        data[i] = pattern(i, 1);
    ok(vulkan->buffer_write(device, buffer, 0, data, whole));
    memset(data, 0, whole);
    for (uint64_t i = 0; i < size; i++)
        data[i] = pattern(i, 99);
    ok(vulkan->buffer_write(device, buffer, offset, data, size));
    memset(data, 0, whole);
    ok(vulkan->buffer_read(device, buffer, 0, back, whole));
    for (uint64_t i = 0; i < whole; i++) {
        bool inside = i >= offset && i < offset + size;
        if (back[i] != (inside ? pattern(i - offset, 99) : pattern(i, 1)))
            fail_msg("byte %llu of %llu at %llu", (unsigned long long)i, (unsigned long long)size,
                     (unsigned long long)offset);
    }
    ok(vulkan->buffer_read(device, buffer, offset, back, size));
    assert_int_equal(back[size - 1], pattern(size - 1, 99));
    free(data);
    free(back);
    vulkan->buffer_destroy(device, buffer);
}

/* Runs a check on every device, with host-visible memory and with staging. */
static void on_every_device(void (*check)(driver_device *device))
{
    for (int i = 0; i < device_count; i++)
        for (int discrete = 0; discrete < 2; discrete++) {
            lies.discrete = discrete;
            driver_device *device = open_device(i);
            
            check(device);
            vulkan->close(device);
            lies.discrete = false;
        }
}

static void check_writes_and_reads(driver_device *device)
{
    write_and_read(device, 0, 1);
    write_and_read(device, 3, 5);
    write_and_read(device, 256, 4096);
    write_and_read(device, 1, 2 * STAGING_SLOT_SIZE);
    write_and_read(device, 7, 11 * (uint64_t)STAGING_SLOT_SIZE + 3);
}

static void writes_and_reads_bytes(void **state)
{
    (void)state;
    on_every_device(check_writes_and_reads);
}

static void check_orders_writes(driver_device *device)
{
    enum { COUNT = 4096, ROUNDS = 20 };
    static float x[COUNT], y[ROUNDS][COUNT];
    driver_program *program = create_program(device, scale_text, 2, 64);
    driver_buffer *in = create_buffer(device, sizeof x), *out = create_buffer(device, sizeof x);
    driver_buffer *kept = create_buffer(device, sizeof y);
    driver_recording *recordings[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        command commands[] = {
            scale(program, in, out, COUNT),
            copy(out, 0, kept, (uint64_t)i * sizeof x, sizeof x),
        };
        commands[1].barrier = commands[1].after_dispatch = true;
        recordings[i] = record(device, commands, 2, false);
    }
    for (int i = 0; i < ROUNDS; i++) {
        for (int j = 0; j < COUNT; j++)
            x[j] = (float)(i * COUNT + j);
        ok(vulkan->buffer_write(device, in, 0, x, sizeof x));
        memset(x, 0, sizeof x);
        ok(vulkan->submit(device, recordings[i]));
    }
    ok(vulkan->buffer_read(device, kept, 0, y, sizeof y));
    for (int i = 0; i < ROUNDS; i++)
        for (int j = 0; j < COUNT; j++)
            assert_true(y[i][j] == 2 * (float)(i * COUNT + j) + 1);
    for (int i = 0; i < ROUNDS; i++)
        vulkan->recording_destroy(device, recordings[i]);
    vulkan->buffer_destroy(device, in);
    vulkan->buffer_destroy(device, out);
    vulkan->buffer_destroy(device, kept);
    vulkan->program_destroy(device, program);
}

static void orders_writes_between_submissions(void **state)
{
    (void)state;
    on_every_device(check_orders_writes);
}

int main(void)
{
    const char *absence = NULL;
    device_count = vulkan->count(&absence);
    if (!device_count) {
        printf("no Vulkan devices: %s\n", absence);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_every_device),
        cmocka_unit_test(identifies_devices_apart_and_always_the_same),
        cmocka_unit_test(writes_and_reads_bytes),
        cmocka_unit_test(orders_writes_between_submissions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
