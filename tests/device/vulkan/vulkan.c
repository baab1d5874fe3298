/* The Vulkan driver, called through its table, on every Vulkan device, with its own and with faked memory types and
   limits. The last test requires that the validation layer (core and synchronization) reported nothing. */
#include "vulkan_fixture.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

static uint8_t pattern(uint64_t i, unsigned seed)
{
    return (uint8_t)(i * 7 + i / 251 + seed);
}

static void describes_every_device(void **state)
{
    (void)state;
    for (int i = 0; i < device_count; i++) {
        tuff_device_info info;
        ok(vulkan->describe(i, &info));
        assert_true(info.name[0] && info.driver[0]);
        assert_memory_equal(info.api, "Vulkan 1.", 9);
        assert_true(info.memory_size >= 1u << 20 && info.max_allocation >= 1u << 20);
        assert_true(info.max_binding >= 1u << 27);
        assert_true(info.offset_alignment >= 16 && !(info.offset_alignment & (info.offset_alignment - 1)));
        assert_true(info.local_memory_size >= 16384);
        assert_true(info.max_group_size >= 128);
        assert_true(info.max_bindings >= 4 && info.max_bindings <= MAX_BINDINGS);
        printf("  vulkan:%d: %s, %s, %s; subgroup %u%s%s%s\n", i, info.name, info.driver, info.api, info.subgroup_size,
               info.narrow_storage ? ", narrow storage" : "", info.half_arithmetic ? ", half arithmetic" : "",
               info.int64 ? ", int64" : "");
    }
}

/* The same driver may be installed twice, which lists equal devices. */
static void identifies_devices_apart_and_always_the_same(void **state)
{
    (void)state;
    char *texts[16] = {0};
    tuff_device_info infos[16];
    for (int i = 0; i < device_count && i < 16; i++)
        for (int again = 0; again < 2; again++) {
            driver_device *device = open_device(i);
            const char *text = vulkan->identity(device);
            ok(vulkan->describe(i, &infos[i]));
            for (int j = 0; j < i; j++)
                if (strcmp(infos[i].name, infos[j].name) != 0)
                    assert_string_not_equal(text, texts[j]);
            assert_non_null(strstr(text, infos[i].name));
            if (again)
                assert_string_equal(text, texts[i]);
            else
                texts[i] = tuff__strdup(text);
            vulkan->close(device);
        }
    for (int i = 0; i < 16; i++)
        tuff__free(texts[i]);
}

/* Every property that may differ in another version of the driver changes the identity, which is part of a program's
   cache key. */
static void tells_versions_of_a_driver_apart(void **state)
{
    (void)state;
    driver_device *device = open_device(0);
    char *defaults = tuff__vulkan_identity(&device->physical);
    for (int i = 0; i < 9; i++) {
        vulkan_physical other = device->physical;
        VkPhysicalDeviceProperties *properties = &other.properties.properties;
        unsigned char *changes[] = {(unsigned char *)properties->deviceName,
                                    properties->pipelineCacheUUID,
                                    other.id.driverUUID,
                                    (unsigned char *)other.driver.driverName,
                                    (unsigned char *)other.driver.driverInfo,
                                    (unsigned char *)&properties->driverVersion,
                                    (unsigned char *)&properties->vendorID,
                                    (unsigned char *)&properties->deviceID};
        if (i < 8)
            changes[i][0] ^= 1;
        else
            properties->apiVersion += VK_MAKE_API_VERSION(0, 0, 1, 0);
        char *text = tuff__vulkan_identity(&other);
        if (strcmp(text, defaults) == 0)
            fail_msg("change %d does not change the identity", i);
        tuff__free(text);
    }
    assert_non_null(strstr(defaults, "SPIR-V "));
    assert_non_null(strstr(vulkan->build_options(device), "SPIR-V"));
    tuff__free(defaults);
    vulkan->close(device);
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

static void check_programs(driver_device *device)
{
    program_request request = {"scale", scale_text, 2, 2, 64, 0, false};
    driver_program *program = NULL, *again = NULL;
    blob made = {0}, empty = {0};
    ok(vulkan->program_create(device, &request, (blob){0}, &made, &program));
    /* With a cached binary the source is ignored, and there is nothing new to cache. */
    request.text = "no program";
    ok(vulkan->program_create(device, &request, made, &empty, &again));
    assert_int_equal(empty.size, 0);
    float x[100], y[100];
    driver_buffer *in = create_buffer(device, sizeof x), *out = create_buffer(device, sizeof y);
    for (int i = 0; i < 100; i++)
        x[i] = (float)i;
    ok(vulkan->buffer_write(device, in, 0, x, sizeof x));
    command commands[] = {scale(program, in, out, 100), scale(again, out, in, 100)};
    driver_recording *recording = record(device, commands, 2, false);
    ok(vulkan->submit(device, recording));
    ok(vulkan->buffer_read(device, in, 0, y, sizeof y));
    for (int i = 0; i < 100; i++)
        assert_true(y[i] == 4 * x[i] + 3);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, in);
    vulkan->buffer_destroy(device, out);
    vulkan->program_destroy(device, program);
    vulkan->program_destroy(device, again);
    tuff__free(made.data);
}

static void makes_programs_from_text_and_from_what_was_made(void **state)
{
    (void)state;
    on_every_device(check_programs);
}

static void check_refusals(driver_device *device)
{
    char text[4000] = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {\n    int first = undefined_name;\n";
    for (int i = 0; i < 60; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "    undefined_number_%d = 1;\n", i);
    strcat(text, "}\n");
    program_request request = {"broken", text, 0, 2, 1, 0, false};
    driver_program *program = NULL;
    blob made = {0};
    assert_int_equal(vulkan->program_create(device, &request, (blob){0}, &made, &program), TUFF_E_COMPILE);
    assert_non_null(strstr(tuff_error(), "broken"));
    assert_non_null(strstr(tuff_error(), "undefined_name"));
    assert_null(strstr(tuff_error(), "undefined_number_50"));
    assert_true(!program && !made.data);
    request.text = scale_text;
    char junk[64] = "not a program at all, only some text that is long enough";
    assert_int_equal(vulkan->program_create(device, &request, (blob){junk, 64}, &made, &program), TUFF_E_COMPILE);
    assert_int_equal(vulkan->program_create(device, &request, (blob){junk, 7}, &made, &program), TUFF_E_COMPILE);
    request = (program_request){"subgroups", scale_text, 2, 2, 64, 3, false};
    assert_int_equal(vulkan->program_create(device, &request, (blob){0}, &made, &program), TUFF_E_UNSUPPORTED);
    assert_true(!program && !made.data);
    driver_buffer *buffer = NULL;
    uint64_t too_much = tuff__vulkan_max_allocation(&device->physical);
    assert_int_equal(vulkan->buffer_create(device, too_much + 1, &buffer), TUFF_E_LIMIT);
    assert_null(buffer);
}

/* A number minus itself is zero, except NaN and infinities. Nothing in the text asks for exact arithmetic. */
static const char *const careless_text = "#version 450\n"
                                         "layout(local_size_x = 64) in;\n"
                                         "layout(std430, binding = 0) readonly buffer A { float x[]; };\n"
                                         "layout(std430, binding = 1) buffer B { float y[]; };\n"
                                         "layout(push_constant) uniform P { uint count; uint base; };\n"
                                         "void main() {\n"
                                         "    uint i = (gl_WorkGroupID.x + base) * 64u + gl_LocalInvocationID.x;\n"
                                         "    if (i < count) y[i] = (x[i] - x[i]) + x[0];\n"
                                         "}\n";

static void check_special_floats(driver_device *device)
{
    program_request request = {"careless", careless_text, 2, 2, 64, 0, false};
    driver_program *program = NULL;
    blob made = {0}, plain = {0};
    const float zero = 0, one = 1;
    float x[] = {-zero, one, one / zero, -one / zero, zero / zero}, y[5];
    ok(tuff__vulkan_compile(&request, &plain));
    ok(vulkan->program_create(device, &request, (blob){0}, &made, &program));
    const VkPhysicalDeviceFloatControlsProperties *controls = &device->physical.float_controls;
    bool declares = controls->shaderSignedZeroInfNanPreserveFloat32;
    assert_true((made.size > plain.size) == declares);
    /* A module that already declares it stays unchanged. */
    size_t size = made.size;
    ok(tuff__vulkan_declare_floats(&device->physical, &made));
    assert_int_equal(made.size, size);
    driver_buffer *in = create_buffer(device, sizeof x), *out = create_buffer(device, sizeof y);
    ok(vulkan->buffer_write(device, in, 0, x, sizeof x));
    command step = scale(program, in, out, 5);
    driver_recording *recording = record(device, &step, 1, false);
    ok(vulkan->submit(device, recording));
    ok(vulkan->buffer_read(device, out, 0, y, sizeof y));
    for (int i = 2; i < 5 && declares; i++)
        assert_true(y[i] != y[i]);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, in);
    vulkan->buffer_destroy(device, out);
    vulkan->program_destroy(device, program);
    tuff__free(made.data);
    tuff__free(plain.data);
}

static void keeps_nan_and_infinities(void **state)
{
    (void)state;
    on_every_device(check_special_floats);
}

static void refuses_malformed_modules(void **state)
{
    (void)state;
    driver_device *device = open_device(0);
    device->physical.float_controls.shaderSignedZeroInfNanPreserveFloat32 = VK_TRUE;
    program_request request = {"scale", scale_text, 2, 2, 64, 0, false};
    blob plain = {0};
    ok(tuff__vulkan_compile(&request, &plain));
    int refused = 0;
    for (size_t size = 20; size < plain.size; size += 4) {
        blob cut = {tuff__memdup(plain.data, size), size};
        refused += tuff__vulkan_declare_floats(&device->physical, &cut) == TUFF_E_COMPILE;
        tuff__free(cut.data);
    }
    assert_true(refused > 10);
    uint32_t no_length[6] = {0x07230203, 0x10300, 0, 9, 0, 17};
    blob endless = {no_length, sizeof no_length};
    assert_int_equal(tuff__vulkan_declare_floats(&device->physical, &endless), TUFF_E_COMPILE);
    tuff__free(plain.data);
    vulkan->close(device);
}

static void refuses_what_is_no_program_and_says_why(void **state)
{
    (void)state;
    on_every_device(check_refusals);
}

static void check_subgroup_width(driver_device *device)
{
    tuff_device_info info;
    tuff__vulkan_describe(&device->physical, &info);
    program_request request = {"scale", scale_text, 2, 2, 64, info.subgroup_size, false};
    driver_program *program = NULL;
    blob made = {0};
    ok(vulkan->program_create(device, &request, (blob){0}, &made, &program));
    vulkan->program_destroy(device, program);
    tuff__free(made.data);
}

static void makes_programs_of_a_required_subgroup_width(void **state)
{
    (void)state;
    on_every_device(check_subgroup_width);
}

static void tally_groups(driver_device *device, uint32_t count)
{
    driver_program *program = create_program(device, tally_text, 1, 1);
    driver_buffer *buffer = create_buffer(device, count * 4u);
    uint32_t *x = calloc(count, 4);
    command commands[] = {fill(buffer, 0, count * 4u), tally(program, buffer, count)};
    commands[1].barrier = commands[1].after_copy = true;
    driver_recording *recording = record(device, commands, 2, false);
    ok(vulkan->submit(device, recording));
    ok(vulkan->buffer_read(device, buffer, 0, x, count * 4u));
    for (uint32_t i = 0; i < count; i++)
        if (x[i] != 1)
            fail_msg("group %u of %u ran %u times", i, count, x[i]);
    free(x);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, buffer);
    vulkan->program_destroy(device, program);
}

static void runs_every_group_once(void **state)
{
    (void)state;
    for (int i = 0; i < device_count; i++) {
        driver_device *device = open_device(i);
        static const uint32_t counts[] = {1, 65535, 65536, 200001};
        for (int j = 0; j < 4; j++)
            tally_groups(device, counts[j]);
        vulkan->close(device);
    }
}

static void splits_dispatches_by_base(void **state)
{
    (void)state;
    for (int i = 0; i < device_count; i++) {
        lies.groups[0] = 7;
        lies.groups[1] = 3;
        driver_device *device = open_device(i);
        static const uint32_t counts[] = {1, 7, 8, 20, 21, 22, 42, 43, 1000};
        for (int j = 0; j < 9; j++)
            tally_groups(device, counts[j]);
        lies.groups[0] = lies.groups[1] = 0;
        vulkan->close(device);
    }
}

static void refuses_more_groups_than_an_index_can_count(void **state)
{
    (void)state;
    driver_device *device = open_device(0);
    driver_program *program = create_program(device, tally_text, 1, 1);
    driver_buffer *buffer = create_buffer(device, 64);
    driver_recording *recording = NULL;
    command step = tally(program, buffer, 16);
    step.group_count = UINT64_C(1) << 33;
    assert_int_equal(vulkan->recording_create(device, &step, 1, false, &recording), TUFF_E_LIMIT);
    assert_null(recording);
    vulkan->buffer_destroy(device, buffer);
    vulkan->program_destroy(device, program);
    vulkan->close(device);
}

static void check_copies(driver_device *device)
{
    uint8_t data[1024], back[1024];
    driver_buffer *from = create_buffer(device, sizeof data), *to = create_buffer(device, sizeof data);
    for (uint64_t i = 0; i < sizeof data; i++)
        data[i] = pattern(i, 5);
    ok(vulkan->buffer_write(device, from, 0, data, sizeof data));
    memset(back, 0xee, sizeof back);
    ok(vulkan->buffer_write(device, to, 0, back, sizeof back));
    command commands[] = {copy(from, 4, to, 512, 100), fill(to, 256, 12), copy(to, 512, from, 0, 8)};
    commands[2].barrier = commands[2].after_copy = true;
    driver_recording *recording = record(device, commands, 3, false);
    ok(vulkan->submit(device, recording));
    ok(vulkan->buffer_read(device, to, 0, back, sizeof back));
    for (int i = 0; i < 1024; i++)
        assert_int_equal(back[i], i >= 512 && i < 612 ? data[i - 508] : i >= 256 && i < 268 ? 0 : 0xee);
    ok(vulkan->buffer_read(device, from, 0, back, sizeof back));
    assert_memory_equal(back, data + 4, 8);
    assert_memory_equal(back + 8, data + 8, sizeof data - 8);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, from);
    vulkan->buffer_destroy(device, to);
}

static void copies_and_fills_ranges(void **state)
{
    (void)state;
    on_every_device(check_copies);
}

/* Proves that the layer detects missing barriers, on which the tests rely: the same chain without them. */
static void notices_missing_barriers(void **state)
{
    (void)state;
    if (!validated)
        skip();
    driver_device *device = open_device(0);
    driver_program *program = create_program(device, scale_text, 2, 64);
    driver_buffer *from = create_buffer(device, 256), *to = create_buffer(device, 256);
    command commands[] = {scale(program, from, to, 64), scale(program, to, from, 64)};
    commands[1].barrier = false;
    expects_messages = true;
    driver_recording *recording = record(device, commands, 2, false);
    ok(vulkan->submit(device, recording));
    expects_messages = false;
    assert_true(validation_messages > 0);
    validation_messages = 0;
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, from);
    vulkan->buffer_destroy(device, to);
    vulkan->program_destroy(device, program);
    vulkan->close(device);
}

static void keeps_the_order_of_a_long_chain(void **state)
{
    (void)state;
    on_every_device(check_chain);
}

static PFN_vkQueueSubmit real_submit;
static int submits;

static VKAPI_ATTR VkResult VKAPI_CALL count_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos,
                                                   VkFence fence)
{
    submits++;
    assert_int_equal(count, 1);
    assert_int_equal(infos->commandBufferCount, 1);
    assert_true(fence != VK_NULL_HANDLE); /* waits detect progress by fences */
    return real_submit(queue, count, infos, fence);
}

/* A segment has up to eight commands on CPUs, and 32 on other devices. */
static void check_segments(driver_device *device)
{
    enum { COUNT = 100 };
    static command commands[COUNT];
    driver_buffer *buffer = create_buffer(device, COUNT * 4);
    const VkPhysicalDeviceType type = device->physical.properties.properties.deviceType;
    const int most = type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 8 : 32;
    for (int length = 1; length <= COUNT; length += 33) {
        for (int i = 0; i < length; i++)
            commands[i] = fill(buffer, (uint64_t)i * 4, 4);
        driver_recording *recording = record(device, commands, length, false);
        submits = 0;
        ok(vulkan->submit(device, recording));
        assert_int_equal(submits, (length + most - 1) / most);
        ok(vulkan->wait(device));
        vulkan->recording_destroy(device, recording);
    }
    vulkan->buffer_destroy(device, buffer);
}

static void submits_long_recordings_in_segments(void **state)
{
    (void)state;
    real_submit = tuff__vk.vkQueueSubmit;
    tuff__vk.vkQueueSubmit = count_submit;
    on_every_device(check_segments);
    tuff__vk.vkQueueSubmit = real_submit;
}

/* More submissions than can be in flight, none of them waited for. */
static void check_replays(driver_device *device)
{
    enum { COUNT = 300, REPLAYS = 3 * MAX_IN_FLIGHT + 1 };
    uint32_t x[COUNT] = {0};
    driver_program *program = create_program(device, tally_text, 1, 1);
    driver_buffer *buffer = create_buffer(device, sizeof x);
    command step = tally(program, buffer, COUNT);
    driver_recording *recording = record(device, &step, 1, false);
    ok(vulkan->buffer_write(device, buffer, 0, x, sizeof x));
    for (int i = 0; i < REPLAYS; i++)
        ok(vulkan->submit(device, recording));
    ok(vulkan->buffer_read(device, buffer, 0, x, sizeof x));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(x[i], REPLAYS);
    /* Destroys the recording while it runs: this must wait. */
    ok(vulkan->submit(device, recording));
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, buffer);
    vulkan->program_destroy(device, program);
}

static void replays_a_recording_that_is_still_running(void **state)
{
    (void)state;
    on_every_device(check_replays);
}

static void check_timestamps(driver_device *device)
{
    enum { COUNT = 1 << 20, LENGTH = 40 };
    driver_program *program = create_program(device, scale_text, 2, 64);
    driver_buffer *from = create_buffer(device, COUNT * 4), *to = create_buffer(device, COUNT * 4);
    static command commands[LENGTH];
    uint64_t nanoseconds[LENGTH], total = 0, start = 0;
    for (int i = 0; i < LENGTH; i++) {
        commands[i] = i % 2 ? copy(to, 0, from, 0, COUNT * 4) : scale(program, from, to, COUNT);
        commands[i].barrier = true;
    }
    driver_recording *recording = record(device, commands, LENGTH, true);
    assert_int_equal(vulkan->timestamps(device, recording, nanoseconds), TUFF_E_USAGE);
    for (int again = 0; again < 2; again++) {
        ok(vulkan->wait(device));
        start = tuff__nanoseconds();
        ok(vulkan->submit(device, recording));
        ok(vulkan->timestamps(device, recording, nanoseconds));
        start = tuff__nanoseconds() - start;
        total = 0;
        for (int i = 0; i < LENGTH; i++) {
            assert_true(nanoseconds[i] > 0);
            total += nanoseconds[i];
        }
        assert_true(total <= start);
    }
    vulkan->recording_destroy(device, recording);
    recording = record(device, commands, LENGTH, false);
    assert_int_equal(vulkan->timestamps(device, recording, nanoseconds), TUFF_E_USAGE);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, from);
    vulkan->buffer_destroy(device, to);
    vulkan->program_destroy(device, program);
}

static void measures_every_command(void **state)
{
    (void)state;
    on_every_device(check_timestamps);
    lies.no_timestamps = true;
    driver_device *device = open_device(0);
    driver_buffer *buffer = create_buffer(device, 64);
    command step = fill(buffer, 0, 64);
    driver_recording *recording = NULL;
    assert_int_equal(vulkan->recording_create(device, &step, 1, true, &recording), TUFF_E_UNSUPPORTED);
    assert_null(recording);
    vulkan->buffer_destroy(device, buffer);
    vulkan->close(device);
    lies.no_timestamps = false;
}

static void runs_without_any_feature_of_a_later_version(void **state)
{
    (void)state;
    lies.old = true;
    for (int i = 0; i < device_count; i++) {
        tuff_device_info info;
        ok(vulkan->describe(i, &info));
        assert_string_equal(info.api, "Vulkan 1.1");
        assert_false(info.narrow_storage || info.half_arithmetic || info.int64);
        driver_device *device = open_device(i);
        assert_int_equal(device->physical.extension_count, 0);
        check_orders_writes(device);
        check_programs(device);
        check_subgroup_width(device);
        vulkan->close(device);
    }
    lies.old = false;
}

static void has_several_devices_open(void **state)
{
    (void)state;
    driver_device *devices[4];
    for (int i = 0; i < 4; i++)
        devices[i] = open_device(i % device_count);
    for (int i = 0; i < 4; i++)
        check_chain(devices[i]);
    for (int i = 0; i < 4; i++)
        vulkan->close(devices[i]);
}

/* Queue families as drivers list them, and which queue is chosen for uploads if kernels run on the first queue of a
   given family. */
static void chooses_the_copy_engine_for_uploads(void **state)
{
    enum {
        G = VK_QUEUE_GRAPHICS_BIT,
        C = VK_QUEUE_COMPUTE_BIT,
        T = VK_QUEUE_TRANSFER_BIT,
        DECODES = 0x20,
        NOTHING = 9
    };
    static const struct {
        uint32_t flags[4], counts[4], compute;
        vulkan_upload_queue chosen;
    } cases[] = {
        {{G | C | T, T, C | T, T | DECODES}, {16, 2, 8, 5}, 2, {1, 0, true}}, /* NVIDIA */
        {{G | C | T, C | T, T | DECODES, T | 8}, {1, 4, 1, 2}, 1, {3, 0, true}},
        {{G | C | T, C | T, T, 0}, {1, 4, 0, 0}, 1, {1, 1, true}}, /* a family without queues */
        {{G | C | T, T | DECODES, 0, 0}, {1, 1, 0, 0}, 0, {0, 0, false}},
        {{G | C, 0, 0, 0}, {2, 0, 0, 0}, 0, {0, 1, true}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        VkQueueFamilyProperties families[4] = {{0}};
        for (int f = 0; f < 4; f++)
            families[f] = (VkQueueFamilyProperties){.queueFlags = cases[i].flags[f], .queueCount = cases[i].counts[f]};
        const vulkan_upload_queue chosen = tuff__vulkan_choose_upload_queue(families, 4, cases[i].compute);
        assert_int_equal(chosen.family, cases[i].chosen.family);
        assert_int_equal(chosen.index, cases[i].chosen.index);
        assert_int_equal(chosen.is_separate, cases[i].chosen.is_separate);
    }
}

static void wait_for_staging(driver_device *device, driver_staging *staged)
{
    bool done = false;
    while (!done)
        ok(vulkan->staging_poll(device, staged, &done));
}

/* Uploads data ahead while kernels read the previous data, alternating between two stagings, and sometimes discards
   what was sent. */
static void check_uploads(driver_device *device)
{
    enum { COUNT = 3001, SIZE = COUNT * 4, ROUNDS = 12 };
    float x[COUNT], y[COUNT];
    driver_buffer *in = create_buffer(device, SIZE), *out = create_buffer(device, SIZE);
    driver_program *program = create_program(device, scale_text, 2, 64);
    const command work = scale(program, in, out, COUNT);
    driver_recording *recording = record(device, &work, 1, false);
    driver_staging *staged[2];
    void *memory[2];
    for (int i = 0; i < 2; i++)
        ok(vulkan->staging_create(device, SIZE, true, &staged[i], &memory[i]));
    for (int round = 0; round < ROUNDS; round++) {
        driver_staging *now = staged[round % 2];
        for (int again = round % 3 == 1; again >= 0; again--) {
            wait_for_staging(device, now);
            for (int i = 0; i < COUNT; i++)
                x[i] = (float)(i + 10 * round + 7 * again);
            memcpy(memory[round % 2], x, SIZE);
            ok(vulkan->staging_send(device, now, SIZE));
        }
        const staged_copy parts[] = {{in, 0, 0, 400}, {in, 400, 400, SIZE - 400}};
        ok(vulkan->staging_copy(device, now, parts, 2, true));
        ok(vulkan->submit(device, recording));
    }
    ok(vulkan->buffer_read(device, out, 0, y, SIZE));
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 2 * x[i] + 1);
    for (int i = 0; i < 2; i++) {
        wait_for_staging(device, staged[i]);
        ok(vulkan->staging_send(device, staged[i], SIZE));
        vulkan->staging_destroy(device, staged[i]);
    }
    vulkan->recording_destroy(device, recording);
    vulkan->program_destroy(device, program);
    vulkan->buffer_destroy(device, in);
    vulkan->buffer_destroy(device, out);
}

static void uploads_beside_kernels(void **state)
{
    (void)state;
    on_every_device(check_uploads);
}

static void says_that_there_is_no_compiler(void **state)
{
    (void)state;
    driver_device *device = open_device(0);
    program_request request = {"scale", scale_text, 2, 2, 64, 0, false};
    driver_program *program = NULL;
    blob made = {0};
    assert_int_equal(vulkan->program_create(device, &request, (blob){0}, &made, &program), TUFF_E_UNSUPPORTED);
    assert_non_null(strstr(tuff_error(), "compiler"));
    assert_true(!program && !made.data);
    vulkan->close(device);
}

static int run_without_compiler(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_every_device),
        cmocka_unit_test(identifies_devices_apart_and_always_the_same),
        cmocka_unit_test(tells_versions_of_a_driver_apart),
        cmocka_unit_test(writes_and_reads_bytes),
        cmocka_unit_test(copies_and_fills_ranges),
        cmocka_unit_test(says_that_there_is_no_compiler),
        cmocka_unit_test(no_validation_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    if (vulkan_start() != 0)
        return 77;
    if (!has_compiler)
        return run_without_compiler();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_missing_barriers),
        cmocka_unit_test(describes_every_device),
        cmocka_unit_test(identifies_devices_apart_and_always_the_same),
        cmocka_unit_test(tells_versions_of_a_driver_apart),
        cmocka_unit_test(writes_and_reads_bytes),
        cmocka_unit_test(orders_writes_between_submissions),
        cmocka_unit_test(makes_programs_from_text_and_from_what_was_made),
        cmocka_unit_test(keeps_nan_and_infinities),
        cmocka_unit_test(refuses_malformed_modules),
        cmocka_unit_test(refuses_what_is_no_program_and_says_why),
        cmocka_unit_test(makes_programs_of_a_required_subgroup_width),
        cmocka_unit_test(runs_every_group_once),
        cmocka_unit_test(splits_dispatches_by_base),
        cmocka_unit_test(refuses_more_groups_than_an_index_can_count),
        cmocka_unit_test(copies_and_fills_ranges),
        cmocka_unit_test(keeps_the_order_of_a_long_chain),
        cmocka_unit_test(submits_long_recordings_in_segments),
        cmocka_unit_test(replays_a_recording_that_is_still_running),
        cmocka_unit_test(measures_every_command),
        cmocka_unit_test(runs_without_any_feature_of_a_later_version),
        cmocka_unit_test(has_several_devices_open),
        cmocka_unit_test(chooses_the_copy_engine_for_uploads),
        cmocka_unit_test(uploads_beside_kernels),
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
