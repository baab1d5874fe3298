/* The kernels of the self-test, each in both languages. All have groups of 64 items and see three buffers: 0 is input
   words, 1 and 2 take results; their only word is the base of the group index, which they leave aside. */
#ifndef TUFF_DEVICE_PROBES_H
#define TUFF_DEVICE_PROBES_H

#define OPENCL_PROBE(first, body)                                                                                      \
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void probe(__global const " first " *a, __global " first \
    " *b, __global ushort *c, uint base)\n"                                                                            \
    "{\n"                                                                                                              \
    "    uint i = get_local_id(0), g = get_group_id(0);\n" body "}\n"

#define GLSL_PROBE(first, second, third, shared_text, body)                         \
    "layout(local_size_x = 64) in;\n"                                               \
    "layout(std430, set = 0, binding = 0) readonly buffer A { " first " a[]; };\n"  \
    "layout(std430, set = 0, binding = 1) buffer B { " second " b[]; };\n"          \
    "layout(std430, set = 0, binding = 2) buffer C { " third " c[]; };\n"           \
    "layout(push_constant) uniform P { uint base; };\n" shared_text "void main()\n" \
    "{\n"                                                                           \
    "    uint i = gl_LocalInvocationID.x, g = gl_WorkGroupID.x;\n" body "}\n"

/* The first item walks a loop of a[0] + 57655 steps, which is longer than some drivers allow: c = what a generator of
   random numbers holds at its end, and how often it stepped. On a driver that ends loops that is less by the steps of
   the loop before it; one behind would be ended, too. */
#define LOOP_BODY(result)                                          \
    "    if (g == 0u && i == 0u) {\n"                              \
    "        uint x = a[1], count = 0u;\n"                         \
    "        for (uint k = 0u; k < a[0] + 57655u; k++) {\n"        \
    "            x = x * 1664525u + 1013904223u;\n"                \
    "            count++;\n"                                       \
    "        }\n"                                                  \
    "        " result "[0] = x;\n        " result "[1] = count;\n" \
    "    }\n"

/* b = the group's words in reverse order, each plus their sum, through local memory and barriers. */
#define BARRIER_BODY(barrier)                                                                \
    "    tile[i] = a[g * 64u + i];\n" barrier "    uint mirrored = tile[63u - i];\n" barrier \
    "    for (uint s = 32u; s > 0u; s >>= 1) {\n"                                            \
    "        if (i < s)\n"                                                                   \
    "            tile[i] += tile[i + s];\n" barrier "    }\n"                                \
    "    b[g * 64u + i] = mirrored + tile[0];\n"

static const char barrier_opencl[] =
    OPENCL_PROBE("uint", "    __local uint tile[64];\n" BARRIER_BODY("    barrier(CLK_LOCAL_MEM_FENCE);\n")
                             LOOP_BODY("((__global uint *)c)"));
static const char barrier_glsl[] = "#version 450\n" GLSL_PROBE("uint", "uint", "uint", "shared uint tile[64];\n",
                                                               BARRIER_BODY("    barrier();\n") LOOP_BODY("c"));

/* b = a copied, a times the one in a[62], a plus itself, a times the half in a[63]. */
#define FLOATS_BODY                 \
    "    float x = a[i];\n"         \
    "    b[i] = x;\n"               \
    "    b[64u + i] = x * a[62];\n" \
    "    b[128u + i] = x + x;\n"    \
    "    b[192u + i] = x * a[63];\n"

static const char floats_opencl[] = "#pragma OPENCL FP_CONTRACT OFF\n" OPENCL_PROBE("float", FLOATS_BODY);
static const char floats_glsl[] = "#version 450\n" GLSL_PROBE("float", "float", "uint", "", FLOATS_BODY);

/* Neighbouring items store neighbouring bytes and 16-bit words. */
static const char narrow_opencl[] = OPENCL_PROBE("uint", "    ((__global uchar *)b)[i] = (uchar)a[i];\n"
                                                         "    c[i] = (ushort)(a[i] * 257u);\n");
static const char narrow_glsl[] =
    "#version 450\n#extension GL_EXT_shader_16bit_storage : require\n#extension GL_EXT_shader_8bit_storage : "
    "require\n" GLSL_PROBE("uint", "uint8_t", "uint16_t", "",
                           "    b[i] = uint8_t(a[i]);\n    c[i] = uint16_t(a[i] * 257u);\n");

/* b = x·y + z in 16-bit floats, from small integers, which are exact. */
static const char half_opencl[] = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" OPENCL_PROBE(
    "uint", "    half x = (half)(float)a[i], y = (half)(float)a[64u + i], z = (half)(float)i;\n"
            "    b[i] = (uint)(float)(x * y + z);\n");
static const char half_glsl[] =
    "#version 450\n#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n" GLSL_PROBE(
        "uint", "uint", "uint", "",
        "    float16_t x = float16_t(float(a[i])), y = float16_t(float(a[64u + i])), z = float16_t(float(i));\n"
        "    b[i] = uint(float(x * y + z));\n");

/* b = the low words, then the high words of 64-bit products. */
static const char int64_opencl[] = OPENCL_PROBE("uint", "    ulong product = (ulong)a[i] * a[64u + i];\n"
                                                        "    b[i] = (uint)product;\n"
                                                        "    b[64u + i] = (uint)(product >> 32);\n");
static const char int64_glsl[] =
    "#version 450\n#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n" GLSL_PROBE(
        "uint", "uint", "uint", "",
        "    uint64_t product = uint64_t(a[i]) * uint64_t(a[64u + i]);\n"
        "    b[i] = uint(product);\n    b[64u + i] = uint(product >> 32);\n");

/* b = the lanes that an item sees in its subgroup, then the lowest item among them. */
static const char subgroup_opencl[] =
    "#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n"
    "#pragma OPENCL EXTENSION cl_intel_subgroups : enable\n" OPENCL_PROBE(
        "uint", "    b[i] = (uint)sub_group_reduce_add(1);\n    b[64u + i] = (uint)sub_group_reduce_min((int)i);\n");
static const char subgroup_glsl[] =
    "#version 450\n#extension GL_KHR_shader_subgroup_ballot : require\n"
    "#extension GL_KHR_shader_subgroup_arithmetic : require\n" GLSL_PROBE(
        "uint", "uint", "uint", "",
        "    b[i] = subgroupBallotBitCount(subgroupBallot(true));\n    b[64u + i] = subgroupMin(i);\n");

/* b = the item that a lane exchanged numbers with, then the item's lane; c = the width. */
static const char shuffle_opencl[] = "#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable\n" OPENCL_PROBE(
    "uint", "    uint width = get_sub_group_size(), lane = get_sub_group_local_id();\n"
            "    b[i] = sub_group_shuffle(i, width - 1u - lane);\n"
            "    b[64u + i] = lane;\n    c[2u * i] = (ushort)width;\n    c[2u * i + 1u] = 0;\n");
static const char shuffle_glsl[] = "#version 450\n#extension GL_KHR_shader_subgroup_shuffle : require\n" GLSL_PROBE(
    "uint", "uint", "uint", "",
    "    b[i] = subgroupShuffle(i, gl_SubgroupSize - 1u - gl_SubgroupInvocationID);\n"
    "    b[64u + i] = gl_SubgroupInvocationID;\n    c[i] = gl_SubgroupSize;\n");

/* b = the product of two blocks of 16 by 16: a, and a from its end backwards, each plus one. All subgroups compute it,
   one stores. */
#define MATRIX_BODY(left_type, right_type, sum_type, zero, load_left, load_right)     \
    "    for (uint j = i; j < 256u; j += 64u) {\n"                                    \
    "        left[j] = float16_t(float(a[j]));\n"                                     \
    "        right[j] = float16_t(float(a[255u - j] + 1u));\n"                        \
    "    }\n"                                                                         \
    "    barrier();\n"                                                                \
    "    " left_type " x;\n    " right_type " y;\n    " sum_type " sum = " zero ";\n" \
    "    " load_left ";\n    " load_right ";\n"

#define MATRIX_TILES "shared float16_t left[256], right[256];\nshared float sums[256];\n"
#define MATRIX_END                               \
    "    barrier();\n"                           \
    "    for (uint j = i; j < 256u; j += 64u)\n" \
    "        b[j] = uint(sums[j]);\n"

static const char matrix_nv_glsl[] =
    "#version 450\n#extension GL_NV_cooperative_matrix : require\n#extension GL_KHR_memory_scope_semantics : require\n"
    "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
    "#extension GL_KHR_shader_subgroup_basic : require\n" GLSL_PROBE(
        "uint", "uint", "uint", MATRIX_TILES,
        MATRIX_BODY("fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>", "fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>",
                    "fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>", "fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0)",
                    "coopMatLoadNV(x, left, 0, 16, false)",
                    "coopMatLoadNV(y, right, 0, 16, false)") "    sum = coopMatMulAddNV(x, y, sum);\n"
                                                             "    if (gl_SubgroupID == 0u)\n        "
                                                             "coopMatStoreNV(sum, sums, 0, 16, false);\n" MATRIX_END);
static const char matrix_khr_glsl[] =
    "#version 450\n#extension GL_KHR_cooperative_matrix : require\n#extension GL_KHR_memory_scope_semantics : require\n"
    "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
    "#extension GL_KHR_shader_subgroup_basic : require\n" GLSL_PROBE(
        "uint", "uint", "uint", MATRIX_TILES,
        MATRIX_BODY(
            "coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>",
            "coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>",
            "coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>",
            "coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0)",
            "coopMatLoad(x, left, 0, 16, gl_CooperativeMatrixLayoutRowMajor)",
            "coopMatLoad(y, right, 0, 16, gl_CooperativeMatrixLayoutRowMajor)") "    sum = coopMatMulAdd(x, y, sum);\n"
                                                                                "    if (gl_SubgroupID == 0u)\n"
                                                                                "        coopMatStore(sum, sums, 0, "
                                                                                "16, "
                                                                                "gl_CooperativeMatrixLayoutRowMajor);"
                                                                                "\n" MATRIX_END);

#endif
