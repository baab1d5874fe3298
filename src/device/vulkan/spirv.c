/* Declares in finished SPIR-V how floats must behave: GLSL cannot say it, and without it Vulkan lets a driver lose NaN,
   infinities and the sign of zero, or round as it likes. This is done after the optimizer, which leaves modules with
   these declarations nearly unchanged. Layout: SPIR-V specification 2.3 and 2.4; modes: SPV_KHR_float_controls. */
#include <string.h>

#include "base/alloc.h"
#include "device/vulkan/state.h"

enum { OP_EXTENSION = 10, OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, OP_CAPABILITY = 17 };
enum { HEADER_WORDS = 5, EXTENSION_WORDS = 7 };

/* A declaration for 32-bit floats: a capability and the execution mode that it allows. */
typedef struct declaration {
    uint32_t capability, mode;
} declaration;
static const declaration keep_denormals = {4464, 4459}, keep_special = {4466, 4461}, round_to_even = {4467, 4462};
enum { MAX_DECLARATIONS = 3, MAX_ADDED_WORDS = MAX_DECLARATIONS * (2 + 4) + EXTENSION_WORDS };

/* Offsets in a module, in words. */
typedef struct module_offsets {
    size_t capabilities_end, modes_end;
    uint32_t entry_point;
    bool declared; /* the module itself declares float behaviour */
} module_offsets;

static bool find_offsets(const uint32_t *words, size_t count, module_offsets *found)
{
    *found = (module_offsets){.capabilities_end = HEADER_WORDS};
    for (size_t i = HEADER_WORDS; i < count;) {
        size_t length = words[i] >> 16;
        uint32_t operation = words[i] & 0xffff;
        if (!length || length > count - i)
            return false;
        if (operation == OP_CAPABILITY && length == 2) {
            found->capabilities_end = i + length;
            found->declared |= words[i + 1] == keep_denormals.capability || words[i + 1] == keep_special.capability ||
                               words[i + 1] == round_to_even.capability;
        }
        if (operation == OP_ENTRY_POINT && length >= 4)
            found->entry_point = words[i + 2];
        if (operation == OP_ENTRY_POINT || operation == OP_EXECUTION_MODE)
            found->modes_end = i + length;
        i += length;
    }
    return found->modes_end > found->capabilities_end && found->entry_point;
}

static uint32_t *put(uint32_t *to, const uint32_t *words, size_t count)
{
    memcpy(to, words, count * sizeof *to);
    return to + count;
}

static uint32_t *put_capability(uint32_t *to, uint32_t capability)
{
    return put(to, (uint32_t[]){2u << 16 | OP_CAPABILITY, capability}, 2);
}

static uint32_t *put_mode(uint32_t *to, uint32_t entry_point, uint32_t mode)
{
    return put(to, (uint32_t[]){4u << 16 | OP_EXECUTION_MODE, entry_point, mode, 32}, 4);
}

/* Characters are packed into words with the first one in the lowest byte, whatever the machine's byte order. */
static uint32_t *put_extension(uint32_t *to)
{
    static const char name[(EXTENSION_WORDS - 1) * 4] = "SPV_KHR_float_controls";
    uint32_t words[EXTENSION_WORDS] = {(uint32_t)EXTENSION_WORDS << 16 | OP_EXTENSION};
    for (size_t i = 0; i < sizeof name; i++)
        words[1 + i / 4] |= (uint32_t)(unsigned char)name[i] << (8 * (i % 4));
    return put(to, words, EXTENSION_WORDS);
}

/* Lists the declarations that the device supports and returns how many. If widths depend on each other, a mode for one
   width alone is not allowed. */
static int list_declarations(const vulkan_physical *physical, const declaration *out[MAX_DECLARATIONS])
{
    const VkPhysicalDeviceFloatControlsProperties *controls = &physical->float_controls;
    const VkShaderFloatControlsIndependence none = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    int count = 0;
    if (controls->shaderDenormPreserveFloat32 && controls->denormBehaviorIndependence != none)
        out[count++] = &keep_denormals;
    if (controls->shaderSignedZeroInfNanPreserveFloat32)
        out[count++] = &keep_special;
    if (controls->shaderRoundingModeRTEFloat32 && controls->roundingModeIndependence != none)
        out[count++] = &round_to_even;
    return count;
}

tuff_status tuff__vulkan_declare_floats(const vulkan_physical *physical, blob *spirv)
{
    const declaration *added[MAX_DECLARATIONS];
    const int added_count = list_declarations(physical, added);
    const uint32_t *words = spirv->data;
    size_t count = spirv->size / 4;
    module_offsets at;
    if (!find_offsets(words, count, &at))
        return FAIL(TUFF_E_COMPILE, "vulkan: the compiler's SPIR-V is malformed");
    if (at.declared || added_count == 0)
        return TUFF_OK;
    uint32_t *out = tuff__alloc((count + MAX_ADDED_WORDS) * 4), *to = out;
    if (!out)
        return TUFF_E_OOM_HOST;
    to = put(to, words, at.capabilities_end);
    for (int i = 0; i < added_count; i++)
        to = put_capability(to, added[i]->capability);
    to = put_extension(to);
    to = put(to, words + at.capabilities_end, at.modes_end - at.capabilities_end);
    for (int i = 0; i < added_count; i++)
        to = put_mode(to, at.entry_point, added[i]->mode);
    to = put(to, words + at.modes_end, count - at.modes_end);
    tuff__free(spirv->data);
    *spirv = (blob){out, (size_t)(to - out) * 4};
    return TUFF_OK;
}

/* A variable for a buffer. */
typedef struct bound_variable {
    uint32_t id, binding;
} bound_variable;
enum { OP_DECORATE = 71, OP_MEMBER_DECORATE = 72, DECORATION_ALIASED = 20, DECORATION_BINDING = 33 };
enum { DECORATION_WORDS = 3, MAX_VARIABLES = 4 * MAX_BINDINGS };

/* Lists the variables with a binding and returns how many; *end: where decorations end, in words. */
static int list_variables(const uint32_t *words, size_t count, bound_variable *out, size_t *end)
{
    int found = 0;
    *end = 0;
    for (size_t i = HEADER_WORDS; i < count; i += words[i] >> 16) {
        const uint32_t operation = words[i] & 0xffff, length = words[i] >> 16;
        if (length == 0 || length > count - i)
            return 0;
        if (operation == OP_DECORATE || operation == OP_MEMBER_DECORATE)
            *end = i + length;
        if (operation == OP_DECORATE && length == 4 && words[i + 2] == DECORATION_BINDING && found < MAX_VARIABLES)
            out[found++] = (bound_variable){words[i + 1], words[i + 3]};
    }
    return found;
}

static bool is_shared(const bound_variable *all, int count, int index)
{
    for (int i = 0; i < count; i++)
        if (i != index && all[i].binding == all[index].binding)
            return true;
    return false;
}

/* Kernels see a buffer as single elements and as vectors: two variables with one binding. A driver may assume that they
   are different memory unless they are declared aliased (SPIR-V specification 2.18.2). */
tuff_status tuff__vulkan_declare_aliases(blob *spirv)
{
    bound_variable all[MAX_VARIABLES];
    const uint32_t *words = spirv->data;
    const size_t count = spirv->size / 4;
    size_t end;
    int shared = 0;
    const int found = list_variables(words, count, all, &end);
    for (int i = 0; i < found; i++)
        shared += is_shared(all, found, i);
    if (shared == 0)
        return TUFF_OK;
    uint32_t *out = tuff__alloc((count + (size_t)shared * DECORATION_WORDS) * 4), *to = out;
    if (!out)
        return TUFF_E_OOM_HOST;
    to = put(to, words, end);
    for (int i = 0; i < found; i++)
        if (is_shared(all, found, i))
            to = put(to, (uint32_t[]){(uint32_t)DECORATION_WORDS << 16 | OP_DECORATE, all[i].id, DECORATION_ALIASED},
                     DECORATION_WORDS);
    to = put(to, words + end, count - end);
    tuff__free(spirv->data);
    *spirv = (blob){out, (size_t)(to - out) * 4};
    return TUFF_OK;
}
