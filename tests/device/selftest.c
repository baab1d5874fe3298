/* The self-test against wrong drivers: on every device found, each falsified result or refused kernel turns off the
   feature that it tests, and no other. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"

typedef enum probe_kind { BARRIER, FLOATS, NARROW, HALF, INT64, SUBGROUPS, EXCHANGE, SHUFFLES, PROBE_COUNT } probe_kind;

/* Identifies a probe by a part of its text, in either language. */
static probe_kind kind_of(const char *text)
{
    static const char *const marks[PROBE_COUNT][2] = {{"tile[", "tile["},
                                                      {"a[62]", "a[62]"},
                                                      {"uchar", "uint8_t"},
                                                      {"half x", "float16"},
                                                      {"ulong", "uint64_t"},
                                                      {"reduce_min", "subgroupMin"},
                                                      {"uint x = a[i]", "uint x = a[i]"},
                                                      {"_shuffle(", "Shuffle("}};
    for (int kind = 0; kind < PROBE_COUNT; kind++)
        if (strstr(text, marks[kind][0]) || strstr(text, marks[kind][1]))
            return (probe_kind)kind;
    fail_msg("unknown kind of probe: %s", text);
    return PROBE_COUNT;
}

static void lose_nan_payloads(uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((words[i] & 0x7fffffffu) > 0x7f800000u)
            words[i] = 0x7fc00000u;
}

static void lose_negative_zero(uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (words[i] == 0x80000000u)
            words[i] = 0;
}

static void flush_denormals(uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((words[i] & 0x7f800000u) == 0)
            words[i] &= 0x80000000u;
}

/* Flushes denormals only in the output without negative numbers, which is the second. */
static void flush_magnitudes(uint32_t *words, size_t count)
{
    for (size_t i = 0; i < 64; i++)
        if (words[i] >> 31)
            return;
    flush_denormals(words, count);
}

static void change_last_item(uint32_t *words, size_t count)
{
    (void)count;
    words[63] ^= 4;
}

/* A store of a byte overwrites its neighbours. */
static void smear_bytes(uint32_t *words, size_t count)
{
    (void)count;
    words[16] = 0xff;
}

static void lose_high_words(uint32_t *words, size_t count)
{
    (void)count;
    memset(words + 64, 0, 64 * sizeof *words);
}

/* Eight lanes reported as sixteen: every second leader is missing, or there are too many. */
static void claim_more_lanes(uint32_t *words, size_t count)
{
    (void)count;
    for (int i = 0; i < 64; i++)
        words[i] *= 2;
}

/* Only sums of a subgroup. */
static void change_a_sum(uint32_t *words, size_t count)
{
    (void)count;
    words[127] ^= 4;
}

/* Only what is read from the first of four lanes. */
static void lose_first_of_four(uint32_t *words, size_t count)
{
    (void)count;
    words[191] ^= 4;
}

/* Only lanes of the last words, which are read from the first lane of a subgroup. */
static void lose_first_lanes(uint32_t *words, size_t count)
{
    (void)count;
    words[255] ^= 4;
}

typedef struct lie {
    const char *name;
    probe_kind kind;
    void (*falsify)(uint32_t *words, size_t count); /* NULL: the kernel does not compile */
    size_t field;                                   /* offset in tuff_device_info of the field that must become false or
                                                       0 */
} lie;

#define FIELD(name) offsetof(tuff_device_info, name)

static const lie lies[] = {
    {"NaN payloads lost", FLOATS, lose_nan_payloads, FIELD(proved_nan)},
    {"-0 lost", FLOATS, lose_negative_zero, FIELD(proved_negative_zero)},
    {"denormals flushed", FLOATS, flush_denormals, FIELD(proved_denormals)},
    {"denormals flushed in some functions", FLOATS, flush_magnitudes, FIELD(proved_denormals)},
    {"no float kernel", FLOATS, NULL, FIELD(proved_nan)},
    {"a barrier ignored", BARRIER, change_last_item, FIELD(proved_barrier)},
    {"no barrier kernel", BARRIER, NULL, FIELD(proved_barrier)},
    {"bytes smeared", NARROW, smear_bytes, FIELD(proved_narrow_storage)},
    {"bytes wrong", NARROW, change_last_item, FIELD(narrow_storage)},
    {"no narrow kernel", NARROW, NULL, FIELD(narrow_storage)},
    {"half sums wrong", HALF, change_last_item, FIELD(half_arithmetic)},
    {"no half kernel", HALF, NULL, FIELD(half_arithmetic)},
    {"high words lost", INT64, lose_high_words, FIELD(int64)},
    {"no int64 kernel", INT64, NULL, FIELD(int64)},
    {"too many lanes", SUBGROUPS, claim_more_lanes, FIELD(proved_subgroup_size)},
    {"lanes apart", SUBGROUPS, change_last_item, FIELD(proved_subgroup_size)},
    {"no subgroup kernel", SUBGROUPS, NULL, FIELD(proved_subgroup_size)},
    {"a lane's sum wrong", EXCHANGE, change_a_sum, FIELD(exchange_lanes)},
    {"the first of four not read", EXCHANGE, lose_first_of_four, FIELD(exchange_lanes)},
    {"the first lane not read", EXCHANGE, lose_first_lanes, FIELD(exchange_lanes)},
    {"other lanes counted", EXCHANGE, claim_more_lanes, FIELD(exchange_lanes)},
    {"no exchange kernel", EXCHANGE, NULL, FIELD(exchange_lanes)},
    {"a lane shuffled wrongly", SHUFFLES, change_last_item, FIELD(subgroup_shuffle)},
    {"no shuffle kernel", SHUFFLES, NULL, FIELD(subgroup_shuffle)},
};

static const driver *real;
static const lie *active_lie; /* NULL: the driver reports the truth */
static driver_program *_Atomic programs[PROBE_COUNT];
static probe_kind current;

/* Called from several threads. */
static tuff_status lying_create(driver_device *device, const program_request *request, blob cached, blob *made,
                                driver_program **out)
{
    if (strstr(request->text, "MATRIX_M")) /* no lies about matrix units */
        return real->program_create(device, request, cached, made, out);
    const probe_kind kind = kind_of(request->text);
    if (active_lie && !active_lie->falsify && active_lie->kind == kind)
        return tuff__fail(TUFF_E_COMPILE, "the compiler refuses this program");
    const tuff_status status = real->program_create(device, request, cached, made, out);
    if (status == TUFF_OK)
        programs[kind] = *out;
    return status;
}

static tuff_status lying_record(driver_device *device, const command *commands, int count, bool timed,
                                driver_recording **out)
{
    if (commands[0].kind == COMMAND_DISPATCH) {
        current = PROBE_COUNT;
        for (int kind = 0; kind < PROBE_COUNT; kind++)
            if (programs[kind] == commands[0].program)
                current = (probe_kind)kind;
    }
    return real->recording_create(device, commands, count, timed, out);
}

static tuff_status lying_read(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data, uint64_t size)
{
    tuff_status status = real->buffer_read(device, buffer, offset, data, size);
    if (active_lie && active_lie->falsify && active_lie->kind == current)
        active_lie->falsify(data, size / 4);
    return status;
}

/* Runs the self-test under a lie, starting from the features that the driver reports. */
static tuff_device_info prove_again(tuff_device *device, const tuff_device_info *claims, const lie *heard)
{
    driver liar = *device->driver;
    real = device->driver;
    liar.program_create = lying_create;
    liar.recording_create = lying_record;
    liar.buffer_read = lying_read;
    for (int kind = 0; kind < PROBE_COUNT; kind++)
        programs[kind] = NULL;
    active_lie = heard;
    device->info = *claims;
    device->driver = &liar;
    assert_int_equal(tuff__device_self_test(device), TUFF_OK);
    device->driver = real;
    assert_true(device->info.proved);
    return device->info;
}

static bool value_of(const tuff_device_info *info, size_t field)
{
    if (field == FIELD(proved_subgroup_size))
        return info->proved_subgroup_size > 0;
    if (field == FIELD(exchange_lanes)) {
        assert_true((info->exchange_lanes > 0) == (info->exchange_form != TUFF_EXCHANGE_NONE));
        return info->exchange_lanes > 0;
    }
    return *(const bool *)((const char *)info + field);
}

/* Whether a lie about this probe may change the field. */
static bool concerns(probe_kind kind, size_t field)
{
    switch (kind) {
    case BARRIER:
        return field == FIELD(proved_barrier);
    case FLOATS:
        return field == FIELD(proved_nan) || field == FIELD(proved_negative_zero) || field == FIELD(proved_denormals);
    case NARROW:
        return field == FIELD(proved_narrow_storage) || field == FIELD(narrow_storage);
    case HALF:
        return field == FIELD(half_arithmetic);
    case INT64:
        return field == FIELD(int64);
    case EXCHANGE:
        return field == FIELD(exchange_lanes);
    case SHUFFLES:
        return field == FIELD(subgroup_shuffle);
    case SUBGROUPS:
    case PROBE_COUNT:
        break;
    }
    return field == FIELD(proved_subgroup_size) || field == FIELD(subgroup_shuffle);
}

static int caught;

static void check_lies(tuff_device *device)
{
    const tuff_device_info claims = claims_of(device);
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    tuff_device_info truth = prove_again(device, &claims, NULL);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        tuff_device_info info = prove_again(device, &claims, &lies[i]);
        if (value_of(&info, lies[i].field))
            fail_msg("%s: not caught", lies[i].name);
        caught += value_of(&truth, lies[i].field);
        for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++)
            if (!concerns(lies[i].kind, lies[k].field) &&
                value_of(&info, lies[k].field) != value_of(&truth, lies[k].field))
                fail_msg("%s: also changed the field of \"%s\"", lies[i].name, lies[k].name);
    }
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

static void lies_are_caught(void **state)
{
    (void)state;
    for_each_driver(check_lies);
    /* On any device barriers or narrow types are supported, so that some lies must have been caught. */
    if (tuff_device_count() > 1)
        assert_true(caught > 4);
}

enum { LOOPS_END = 65535 };

static void end_loops(uint32_t *words, size_t count)
{
    (void)count;
    words[0] ^= 1;
    words[1] = LOOPS_END;
}

/* The self-test finds the loop limit of a driver, later runs read it from the record, and llvmpipe has one without a
   test. */
static void check_loops(tuff_device *device)
{
    static const lie ended = {"loops ended", BARRIER, end_loops, 0}, absent = {"no loop kernel", BARRIER, NULL, 0};
    const tuff_device_info claims = device->info;
    const bool is_llvmpipe = strstr(claims.name, "llvmpipe") != NULL;
    use_cache_subfolder("loops");
    assert_int_equal(prove_again(device, &claims, &ended).loop_limit, LOOPS_END);
    assert_int_equal(prove_again(device, &claims, NULL).loop_limit, LOOPS_END);
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    const uint32_t found = prove_again(device, &claims, NULL).loop_limit;
    assert_true(is_llvmpipe ? found > LOOPS_END - 16 && found <= LOOPS_END : found == 0);
    assert_int_equal(prove_again(device, &claims, &absent).loop_limit, is_llvmpipe ? LOOPS_END : 0);
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
    device->info = claims;
}

static void ended_loops_are_known(void **state)
{
    (void)state;
    for_each_driver(check_loops);
}

/* Fake drivers with matrix units: a plain kernel that computes the right product, one with a slightly wrong element,
   one that ignores that factors are transposed, one that ignores the pitch, or no kernel at all; for bf16 alone, a
   wrong element or no kernel; for units that a group shares alone, the same, or one that ignores that factors are
   transposed, or one that multiplies what lies beyond their edges. */
typedef enum units {
    UNITS_RIGHT,
    UNITS_WRONG,
    UNITS_NEVER_TURNED,
    UNITS_WITHOUT_PITCH,
    UNITS_ABSENT,
    UNITS_BF16_WRONG,
    UNITS_BF16_ABSENT,
    UNITS_GROUPS_ABSENT,
    UNITS_GROUPS_WRONG,
    UNITS_GROUPS_NEVER_TURNED,
    UNITS_GROUPS_UNCLAMPED,
    UNITS_END
} units;
static units stand_in;

/* Places the factors in local memory, with 8 more elements after each line of transposed ones, and reads them as the
   units would. */
static const char product_text[] = "layout(local_size_x = 64) in;\n"
                                   "layout(std430, set = 0, binding = 0) readonly buffer A { uint a[]; };\n"
                                   "layout(std430, set = 0, binding = 1) buffer B { uint b[]; };\n"
                                   "layout(std430, set = 0, binding = 2) buffer C { uint c[]; };\n"
                                   "layout(push_constant) uniform P { uint base; };\n"
                                   "const uint pitch = TURNED ? 24u : 16u, seen = LIE == 3 ? 16u : pitch;\n"
                                   "uint place(uint row, uint column)\n{\n"
                                   "    return TURNED && LIE != 2 ? column * seen + row : row * seen + column;\n}\n"
                                   "uint index(uint h)\n{\n"
                                   "    return TURNED ? h % pitch * 16u + h / pitch : h / pitch * 16u + h % pitch;\n}\n"
                                   "uint x(uint h) { return h % pitch < 16u ? a[index(h)] : 9u; }\n"
                                   "uint y(uint h) { return h % pitch < 16u ? a[255u - index(h)] + 1u : 9u; }\n"
                                   "void main()\n{\n"
                                   "    for (uint i = gl_LocalInvocationID.x; i < 256u; i += 64u) {\n"
                                   "        uint sum = LIE == 1 && i == 200u ? 1u : 0u;\n"
                                   "        for (uint k = 0u; k < 16u; k++)\n"
                                   "            sum += x(place(i / 16u, k)) * y(place(k, i % 16u));\n"
                                   "        b[i] = sum;\n    }\n}\n";

/* The same for groups, whose factors are tiles in lines of 72 elements: 60 by 40 and 40 by 52. */
static const char group_text[] =
    "layout(local_size_x = GROUP) in;\n"
    "layout(std430, set = 0, binding = 0) readonly buffer A { uint a[]; };\n"
    "layout(std430, set = 0, binding = 1) buffer B { uint b[]; };\n"
    "layout(std430, set = 0, binding = 2) buffer C { uint c[]; };\n"
    "layout(push_constant) uniform P { uint base; };\n"
    "const bool turned = TURNED && LIE != 2;\n"
    "float element(uint i)\n{\n    uint bits = a[i / 2u] >> i % 2u * 16u & 0xffffu;\n"
    "    return BF16 ? uintBitsToFloat(bits << 16) : unpackHalf2x16(bits).x;\n}\n"
    "float x(uint m, uint k) { return element(turned ? k * 72u + m : m * 72u + k); }\n"
    "float y(uint k, uint n) { return element(4608u + (turned ? n * 72u + k : k * 72u + n)); }\n"
    "void main()\n{\n"
    "    for (uint i = gl_LocalInvocationID.x; i < 256u; i += GROUP) {\n"
    "        float sum = LIE == 1 && i == 200u ? 1.0 : 0.0;\n"
    "        for (uint q = i; q < 60u * 52u; q += 256u)\n"
    "            for (uint k = 0u; k < (LIE == 3 ? 64u : 40u); k++)\n"
    "                sum += x(q / 52u, k) * y(k, q % 52u);\n"
    "        b[i] = uint(sum);\n    }\n}\n";

static const char *flag_of(const program_request *request, const char *line)
{
    return strstr(request->text, line) ? "true" : "false";
}

static tuff_status create_with_groups(driver_device *device, const program_request *request, blob *made,
                                      driver_program **out)
{
    char text[sizeof group_text + 128];
    program_request changed = *request;
    if (stand_in == UNITS_GROUPS_ABSENT)
        return tuff__fail(TUFF_E_COMPILE, "this compiler knows no matrix units of groups");
    const int told = stand_in >= UNITS_GROUPS_WRONG ? (int)stand_in - UNITS_GROUPS_WRONG + 1 : 0;
    snprintf(text, sizeof text,
             "#version 450\n#define TURNED %s\n#define BF16 %s\n#define GROUP %uu\n#define LIE %d\n%s",
             flag_of(request, "#define MATRIX_TRANSPOSED 1\n"), flag_of(request, "#define MATRIX_BF16 1\n"),
             request->local_size, told, group_text);
    changed.text = text;
    return real->program_create(device, &changed, (blob){0}, made, out);
}

static tuff_status create_with_units(driver_device *device, const program_request *request, blob cached, blob *made,
                                     driver_program **out)
{
    char text[sizeof product_text + 64];
    program_request changed = *request;
    if (strstr(request->text, "GL_NV_cooperative_matrix2"))
        return create_with_groups(device, request, made, out);
    if (!strstr(request->text, "cooperative_matrix"))
        return real->program_create(device, request, cached, made, out);
    const bool bf16 = strstr(request->text, "#define MATRIX_BF16 1") != NULL;
    if (stand_in == UNITS_ABSENT || (stand_in == UNITS_BF16_ABSENT && bf16))
        return tuff__fail(TUFF_E_COMPILE, "this compiler knows no matrix units");
    const units told = stand_in == UNITS_BF16_WRONG && bf16 ? UNITS_WRONG
                       : stand_in < UNITS_ABSENT            ? stand_in
                                                            : UNITS_RIGHT;
    snprintf(text, sizeof text, "#version 450\n#define TURNED %s\n#define LIE %d\n%s",
             strstr(request->text, "#define MATRIX_TRANSPOSED 1") ? "true" : "false", (int)told, product_text);
    changed.text = text;
    return real->program_create(device, &changed, cached, made, out);
}

/* Claims matrix units of a form, and checks what the self-test leaves of them. */
static void try_units(tuff_device *device, uint32_t form, units which)
{
    enum { BOTH_SIZES = 128 + 256 };
    const bool works = which == UNITS_RIGHT || which >= UNITS_BF16_WRONG,
               has_bf16 = which == UNITS_RIGHT || which >= UNITS_GROUPS_ABSENT,
               has_groups = works && which < UNITS_GROUPS_ABSENT && form == TUFF_MATRIX_KHR;
    tuff_device_info *info = &device->info;
    stand_in = which;
    info->cooperative_matrix = form;
    info->matrix_bf16 = true;
    info->matrix_shape[0] = info->matrix_shape[1] = info->matrix_shape[2] = 16;
    info->matrix_group_sizes = info->matrix_group_sizes_bf16 = form == TUFF_MATRIX_KHR ? BOTH_SIZES : 0;
    assert_int_equal(tuff__device_self_test(device), TUFF_OK);
    assert_int_equal(info->cooperative_matrix, works ? form : 0);
    assert_int_equal(info->matrix_bf16, has_bf16);
    assert_int_equal(info->matrix_group_sizes, has_groups ? BOTH_SIZES : 0);
    assert_int_equal(info->matrix_group_sizes_bf16, has_groups && has_bf16 ? BOTH_SIZES : 0);
}

/* Reported matrix units of either form are accepted only if the product of a block is right; bf16, and groups that
   share units, only if their products are right, too. */
static void check_units(tuff_device *device)
{
    if (!tuff__device_takes_glsl(device)) {
        leave_out_device("matrix units are in GLSL alone");
        return;
    }
    driver with_units = *device->driver;
    real = device->driver;
    with_units.program_create = create_with_units;
    const tuff_device_info before = device->info;
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    device->driver = &with_units;
    for (uint32_t form = 1; form <= 2; form++)
        for (int which = UNITS_RIGHT; which < UNITS_END; which++)
            try_units(device, form, (units)which);
    device->driver = real;
    device->info = before;
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

static void matrix_units_must_multiply_right(void **state)
{
    (void)state;
    for_each_driver(check_units);
}

/* An error that does not come from a feature fails the open. */
static tuff_status failing_read(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                                uint64_t size)
{
    (void)device;
    (void)buffer;
    (void)offset;
    (void)data;
    (void)size;
    return tuff__fail(TUFF_E_TIMEOUT, "no answer");
}

static void check_failure(tuff_device *device)
{
    driver silent = *device->driver;
    real = device->driver;
    silent.buffer_read = failing_read;
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    device->driver = &silent;
    assert_int_equal(tuff__device_self_test(device), TUFF_E_TIMEOUT);
    device->driver = real;
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

static void a_silent_device_does_not_open(void **state)
{
    (void)state;
    for_each_driver(check_failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_caught),
        cmocka_unit_test(ended_loops_are_known),
        cmocka_unit_test(matrix_units_must_multiply_right),
        cmocka_unit_test(a_silent_device_does_not_open),
    };
    return cmocka_run_group_tests_name("selftest", tests, use_empty_cache, drop_cache);
}
