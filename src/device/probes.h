/* The kernels of the self-test, each in both languages. All have groups of 64 items and see three buffers: 0 has input
   words, 1 and 2 take results. Their only word is the base of the group index, which they ignore. */
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

/* The first item runs a loop of a[0] + 57655 steps, which is longer than some drivers allow. c = the final state of a
   random number generator, and the number of its steps. On a driver that cuts loops short, that number is the limit
   less the steps of the loop before; a loop after it would be cut, too. */
#define LOOP_BODY(result)                                          \
    "    if (g == 0u && i == 0u) {\n"                              \
    "        uint x = a[1], count = 0u;\n"                         \
    "        for (uint k = 0u; k < a[0] + 57655u; k++) {\n"        \
    "            x = x * 1664525u + 1013904223u;\n"                \
    "            count++;\n"                                       \
    "        }\n"                                                  \
    "        " result "[0] = x;\n        " result "[1] = count;\n" \
    "    }\n"

/* b = the group's words in reverse order, each plus the sum of all, through local memory and barriers. */
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

/* b = a copied, a times the one in a[62], a plus itself, a times the half in a[63]; c = the bits of a's magnitude, of
   the larger of a and 0, of a times one plus 0, and whether a is greater than 0. Some drivers flush denormals in only
   some of these. */
#define FLOATS_BODY(c, bits, magnitude, larger)              \
    "    float x = a[i], zero = a[62] - a[62];\n"            \
    "    b[i] = x;\n"                                        \
    "    b[64u + i] = x * a[62];\n"                          \
    "    b[128u + i] = x + x;\n"                             \
    "    b[192u + i] = x * a[63];\n"                         \
    "    " c "[i] = " bits "(" magnitude "(x));\n"           \
    "    " c "[64u + i] = " bits "(" larger "(x, zero));\n"  \
    "    " c "[128u + i] = " bits "(fma(x, a[62], zero));\n" \
    "    " c "[192u + i] = x > zero ? 1u : 0u;\n"

static const char floats_opencl[] = "#pragma OPENCL FP_CONTRACT OFF\n" OPENCL_PROBE(
    "float", FLOATS_BODY("((__global uint *)c)", "as_uint", "fabs", "fmax"));
static const char floats_glsl[] =
    "#version 450\n" GLSL_PROBE("float", "float", "uint", "", FLOATS_BODY("c", "floatBitsToUint", "abs", "max"));

/* Neighbouring items store neighbouring bytes and 16-bit words. */
static const char narrow_opencl[] = OPENCL_PROBE("uint", "    ((__global uchar *)b)[i] = (uchar)a[i];\n"
                                                         "    c[i] = (ushort)(a[i] * 257u);\n");
static const char narrow_glsl[] =
    "#version 450\n#extension GL_EXT_shader_16bit_storage : require\n#extension GL_EXT_shader_8bit_storage : "
    "require\n" GLSL_PROBE("uint", "uint8_t", "uint16_t", "",
                           "    b[i] = uint8_t(a[i]);\n    c[i] = uint16_t(a[i] * 257u);\n");

/* b = x·y + z in 16-bit floats, of small integers, for which it is exact. */
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

/* b = the number of lanes that an item sees in its subgroup, then the lowest item among them. */
static const char subgroup_opencl[] =
    "#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n"
    "#pragma OPENCL EXTENSION cl_intel_subgroups : enable\n" OPENCL_PROBE(
        "uint", "    b[i] = (uint)sub_group_reduce_add(1);\n    b[64u + i] = (uint)sub_group_reduce_min((int)i);\n");
static const char subgroup_glsl[] =
    "#version 450\n#extension GL_KHR_shader_subgroup_ballot : require\n"
    "#extension GL_KHR_shader_subgroup_arithmetic : require\n" GLSL_PROBE(
        "uint", "uint", "uint", "",
        "    b[i] = subgroupBallotBitCount(subgroupBallot(true));\n    b[64u + i] = subgroupMin(i);\n");

/* b = the item that the lane exchanged numbers with, then the item's lane; c = the subgroup's width. */
static const char shuffle_opencl[] = "#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable\n" OPENCL_PROBE(
    "uint", "    uint width = get_sub_group_size(), lane = get_sub_group_local_id();\n"
            "    b[i] = sub_group_shuffle(i, width - 1u - lane);\n"
            "    b[64u + i] = lane;\n    c[2u * i] = (ushort)width;\n    c[2u * i + 1u] = 0;\n");
static const char shuffle_glsl[] = "#version 450\n#extension GL_KHR_shader_subgroup_shuffle : require\n" GLSL_PROBE(
    "uint", "uint", "uint", "",
    "    b[i] = subgroupShuffle(i, gl_SubgroupSize - 1u - gl_SubgroupInvocationID);\n"
    "    b[64u + i] = gl_SubgroupInvocationID;\n    c[i] = gl_SubgroupSize;\n");

/* Lanes exchange registers as cl/exchange.cl and shaders/exchange.glsl say: b = the sums of words over blocks of four
   lanes, over the subgroup, then the words of the first lanes of both; c = the subgroup's width. `sums` doubles the
   length of the blocks that `x` sums from 4 to the width. In OpenCL C, subgroups have 16 lanes where compilers choose
   their width. */
#define EXCHANGE_BODY(exchange, first, width, sums)                                                        \
    "    uint x = a[i];\n    x += " exchange "(x, 1);\n    x += " exchange "(x, 2);\n    b[i] = x;\n" sums \
    "    b[64u + i] = x;\n    b[128u + i] = " first "(a[i], 4u);\n    b[192u + i] = " first "(a[i], " width ");\n"
#define EXCHANGE_WIDTH(width) "    c[2u * i] = (ushort)" width ";\n    c[2u * i + 1u] = 0;\n"
#define EXCHANGE_LOOP(exchange, width) \
    "    for (uint step = 4u; step < " width "; step *= 2u)\n        x += " exchange "(x, step);\n"

static const char exchange_opencl[] =
    "#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n"
    "#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable\n"
    "#define FROM_FIRST(x, count) sub_group_shuffle(x, get_sub_group_local_id() & "
    "~((count) - 1u))\n__attribute__((intel_reqd_sub_group_size(16))) " OPENCL_PROBE("uint",
                                      EXCHANGE_BODY("sub_group_shuffle_xor", "FROM_FIRST", "get_sub_group_size()",
                                                    EXCHANGE_LOOP("sub_group_shuffle_xor", "get_sub_group_size()"))
                                          EXCHANGE_WIDTH("get_sub_group_size()"));
static const char exchange_nvidia[] =
    "uint exchanged(uint x, uint step)\n{\n    uint found;\n"
    "    __asm__ volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;\"\n"
    "                     : \"=r\"(found) : \"r\"(x), \"r\"(step));\n"
    "    return found;\n}\n"
    "uint from_first(uint x, uint count)\n{\n    uint found, first = (uint)get_local_id(0) & 31u & ~(count - 1u);\n"
    "    __asm__ volatile(\"shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;\"\n"
    "                     : \"=r\"(found) : \"r\"(x), \"r\"(first));\n"
    "    return found;\n}\n" OPENCL_PROBE(
        "uint",
        EXCHANGE_BODY("exchanged", "from_first", "32u", EXCHANGE_LOOP("exchanged", "32u")) EXCHANGE_WIDTH("32u"));
static const char exchange_amd[] =
    "#define WIDTH ((uint)__builtin_amdgcn_wavefrontsize())\n"
    "#define FROM_LANE(x, lane) (uint)__builtin_amdgcn_ds_bpermute((int)((lane) * 4u), (int)(x))\n"
    "#define MOVED(x, control) (uint)__builtin_amdgcn_mov_dpp((int)(x), control, 0xf, 0xf, true)\n"
    "#define EXCHANGED(x, step) ((step) == 1 ? MOVED(x, 0xb1) : MOVED(x, 0x4e))\n"
    "#define FROM_FIRST(x, count) ((count) == WIDTH ? (uint)__builtin_amdgcn_readfirstlane((int)(x)) : "
    "FROM_LANE(x, i & (WIDTH - 1u) & ~((count) - 1u)))\n" OPENCL_PROBE(
        "uint", EXCHANGE_BODY("EXCHANGED", "FROM_FIRST", "WIDTH",
                              "    x += MOVED(x, 0x141);\n    x += MOVED(x, 0x140);\n"
                              "    x += (uint)__builtin_amdgcn_ds_swizzle((int)x, 0x401f);\n"
                              "    x += WIDTH > 32u ? FROM_LANE(x, i ^ 32u) : 0u;\n") EXCHANGE_WIDTH("WIDTH"));
static const char exchange_glsl[] =
    "#version 450\n#extension GL_KHR_shader_subgroup_shuffle : require\n"
    "#define FROM_FIRST(x, count) subgroupShuffle(x, gl_SubgroupInvocationID & ~((count) - 1u))\n" GLSL_PROBE(
        "uint", "uint", "uint", "",
        EXCHANGE_BODY("subgroupShuffleXor", "FROM_FIRST", "gl_SubgroupSize",
                      EXCHANGE_LOOP("subgroupShuffleXor", "gl_SubgroupSize")) "    c[i] = gl_SubgroupSize;\n");

/* Matrix units: x is MATRIX_M by MATRIX_K and y MATRIX_K by MATRIX_N. The elements of x are those of a, and the
   elements of y those of a from its end backwards, each plus one; both repeat. They are small integers, whose products
   are exact. b = the elements of x y; if these are more than there are words, each word is the sum of every 256th
   element. All subgroups compute the product, the first one stores it. The shape is defined in front of the text, and
   so is MATRIX_TRANSPOSED: if it is 1, both factors are transposed in local memory, as some kernels keep them, and a
   line is longer than the block, so that other elements lie in between. */
#define MATRIX_RESULT(sums)                                                \
    "    for (uint j = i; j < 256u; j += 64u) {\n"                         \
    "        float folded = 0.0f;\n"                                       \
    "        for (uint q = 0u; q * 256u + j < MATRIX_M * MATRIX_N; q++)\n" \
    "            folded += " sums ";\n"                                    \
    "        b[j] = WORD(folded);\n"                                       \
    "    }\n"

/* In OpenCL C both factors lie in local memory as lines of terms, f16 or bf16: the rows of x from the start, then the
   columns of y. The macros for instructions are those of cl/matrix_*.cl, under the same names, which tests replace in
   the same way; places are byte offsets in `tiles`. If MATRIX_TRANSPOSED, instructions that can read transposed factors
   find one line per term, lines being 24 elements apart; instructions that take words of two terms get them made from
   transposed ones. */
#define OPENCL_MATRIX(attribute, lanes, instructions, body)                                                           \
    "#define LANE ((uint)get_local_id(0))\n#ifndef LOCAL_SIZE\n#define LOCAL_SIZE 64\n#define TILES_ALIGNED\n"        \
    "#endif\n#define MATRIX_LANES " lanes "\n"                                                                        \
    "#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)\n#define WORD(x) (uint)(x)\n"                                     \
    "#define X_BITS(m, k) bits_of(a[((m) * MATRIX_K + (k)) % 256u])\n"                                                \
    "#define Y_BITS(k, n) bits_of(a[255u - ((k) * MATRIX_N + (n)) % 256u] + 1u)\n"                                    \
    "#define RIGHT (3 * MATRIX_M * MATRIX_K)\n#define COPIED (RIGHT + 3 * MATRIX_K * MATRIX_N)\n" instructions        \
    "#ifndef X_PLACE\n#define X_PLACE(m, k) (2u * ((m) * MATRIX_K + (k)))\n"                                          \
    "#define Y_PLACE(k, n) (RIGHT + 2u * ((n) * MATRIX_K + (k)))\n#endif\n"                                           \
    "static ushort bits_of(float x)\n{\n    ushort bits;\n    vstore_half_rte(x, 0, (half *)&bits);\n"                \
    "    return MATRIX_BF16 ? (ushort)(as_uint(x) >> 16) : bits;\n}\n"                                                \
    "#define AT(type, place) (*(__local type *)((__local char *)tiles + (place)))\n"                                  \
    "__kernel " attribute                                                                                             \
    "__attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void probe(__global const uint *a, "                     \
    "__global uint *b, __global ushort *c, uint base)\n{\n    __local uint4 tiles[COPIED / 16 + 64] TILES_ALIGNED;\n" \
    "    __local float sums[MATRIX_M * MATRIX_N];\n    const uint i = LANE, lane = i % MATRIX_LANES;\n"               \
    "    for (uint j = i; j < COPIED / 2u; j += 64u)\n        AT(ushort, 2u * j) = bits_of(9.0f);\n    BARRIER();\n"  \
    "    for (uint j = i; j < MATRIX_M * MATRIX_K; j += 64u)\n"                                                       \
    "        AT(ushort, X_PLACE(j / MATRIX_K, j % MATRIX_K)) = X_BITS(j / MATRIX_K, j % MATRIX_K);\n"                 \
    "    for (uint j = i; j < MATRIX_K * MATRIX_N; j += 64u)\n"                                                       \
    "        AT(ushort, Y_PLACE(j / MATRIX_N, j % MATRIX_N)) = Y_BITS(j / MATRIX_N, j % MATRIX_N);\n"                 \
    "    BARRIER();\n" body "    BARRIER();\n" MATRIX_RESULT("sums[q * 256u + j]") "}\n"

/* The left factor is also copied by cp.async; ldmatrix loads both factors. */
static const char matrix_nvidia[] = OPENCL_MATRIX(
    "", "32",
    "#ifndef MMA\n#if MATRIX_BF16\n#define MMA_TYPES \"bf16.bf16\"\n#else\n#define MMA_TYPES \"f16.f16\"\n#endif\n"
    "#define SHARED_ADDRESS(place) ((uint)(size_t)tiles + (uint)(place))\n"
    "#define LDMATRIX(form, x, place) __asm__ volatile(\"ldmatrix.sync.aligned.m8n8.x4\" form \".shared.b16 "
    "{%0,%1,%2,%3}, [%4];\" : \"=r\"((x)[0]), \"=r\"((x)[1]), \"=r\"((x)[2]), \"=r\"((x)[3]) : "
    "\"r\"(SHARED_ADDRESS(place)) : \"memory\")\n"
    "#define MMA(sum, a, b) __asm__(\"mma.sync.aligned.m16n8k16.row.col.f32.\" MMA_TYPES \".f32 {%0,%1,%2,%3}, "
    "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\" : \"+f\"((sum)[0]), \"+f\"((sum)[1]), \"+f\"((sum)[2]), "
    "\"+f\"((sum)[3]) : \"r\"((a)[0]), \"r\"((a)[1]), \"r\"((a)[2]), \"r\"((a)[3]), \"r\"((b)[0]), \"r\"((b)[1]))\n"
    "#define COPY_PART(place, from) __asm__ volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" "
    "::\"r\"(SHARED_ADDRESS(place)), \"l\"(from) : \"memory\")\n"
    "#define COMMIT_COPIES() __asm__ volatile(\"cp.async.commit_group;\" ::: \"memory\")\n"
    "#define WAIT_FOR_COPIES(left) __asm__ volatile(\"cp.async.wait_group %0;\" ::\"n\"(left) : \"memory\")\n#endif\n"
    "#if MATRIX_TRANSPOSED\n#define X_PLACE(m, k) (48u * (k) + 2u * (m))\n"
    "#define Y_PLACE(k, n) (RIGHT + 48u * (k) + 2u * (n))\n#endif\n",
    "    uint x[4], y[4];\n    float d[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};\n"
    "    COPY_PART(COPIED + 16u * i, a + 4u * i);\n    COMMIT_COPIES();\n    WAIT_FOR_COPIES(0);\n    BARRIER();\n"
    "    for (uint j = i; j < 256u; j += 64u)\n"
    "        AT(ushort, X_PLACE(j / 16u, j % 16u)) = bits_of(AT(uint, COPIED + 4u * j));\n"
    "    BARRIER();\n#if MATRIX_TRANSPOSED\n"
    "    LDMATRIX(\".trans\", x, X_PLACE(lane / 8u % 2u * 8u, lane % 8u + lane / 16u * 8u));\n"
    "    LDMATRIX(\".trans\", y, Y_PLACE(lane % 16u, lane / 16u * 8u));\n#else\n"
    "    LDMATRIX(\"\", x, 32u * (lane % 16u) + 16u * (lane / 16u));\n"
    "    LDMATRIX(\"\", y, RIGHT + 32u * (lane % 8u + lane / 16u * 8u) + 16u * (lane / 8u % 2u));\n#endif\n"
    "    MMA(d, x, y);\n    MMA(d + 4, x, y + 2);\n"
    "    if (i < 32u)\n        for (uint z = 0u; z < 8u; z++)\n"
    "            sums[(lane / 4u + z % 4u / 2u * 8u) * 16u + lane % 4u * 2u + z % 2u + z / 4u * 8u] = d[z];\n");

/* Products of a warpgroup: 64 by 64, in steps of 16 terms. Both factors stay in local memory, with their parts of 16
   bytes swizzled as in cl/matrix_nvidia.cl: within 64 bytes for 32 terms, within 128 bytes for 64 terms or, if
   transposed, 64 lines. */
static const char warpgroup_instructions[] =
    "#define LOCAL_SIZE 128\n#define TILES_ALIGNED __attribute__((aligned(1024)))\n"
    "#if MATRIX_TRANSPOSED\n#define LEFT_TURNED \"1\"\n#define RIGHT_TURNED \"1\"\n#else\n#define LEFT_TURNED \"0\"\n"
    "#define RIGHT_TURNED \"0\"\n#endif\n#ifndef WGMMA\n#if MATRIX_BF16\n#define MMA_TYPES "
    "\"bf16.bf16\"\n#else\n#define MMA_TYPES \"f16.f16\"\n#endif\n"
    "#define SHARED_ADDRESS(place) ((uint)(size_t)tiles + (uint)(place))\n"
    "#define S(s, n) \"+f\"((s)[n]), \"+f\"((s)[n + 1]), \"+f\"((s)[n + 2]), \"+f\"((s)[n + 3])\n"
    "#define WGMMA(s, left, right) __asm__ volatile(\"{\\n\\t.reg .pred adds;\\n\\tsetp.eq.u32 adds, 0, 0;\\n\\t"
    "//@wgmma.mma_async.sync.aligned.m64n64k16.f32.\" MMA_TYPES \" {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
    "%12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
    "%32, %33, adds, 1, 1, \" LEFT_TURNED \", \" RIGHT_TURNED \";\\n\\t}\" : "
    "S(s, 0), S(s, 4), S(s, 8), S(s, 12), S(s, 16), S(s, 20), "
    "S(s, 24), S(s, 28) : "
    "\"l\"(left), \"l\"(right))\n"
    "#define BEGIN_PRODUCTS() __asm__ volatile(\"//@wgmma.fence.sync.aligned;\" ::: \"memory\")\n"
    "#define COMMIT_PRODUCTS() __asm__ volatile(\"//@wgmma.commit_group.sync.aligned;\" ::: \"memory\")\n"
    "#define FINISH_PRODUCTS() __asm__ volatile(\"//@wgmma.wait_group.sync.aligned 0;\" ::: \"memory\")\n"
    "#define SHOW_TILES() __asm__ volatile(\"//@fence.proxy.async.shared::cta;\" ::: \"memory\")\n#endif\n"
    "#define FACTOR(place) ((ulong)((SHARED_ADDRESS(place) & 0x3ffffu) / 16u) | (ulong)(MATRIX_TRANSPOSED ? 64u : "
    "MATRIX_K) "
    "<< 32 | (ulong)(MATRIX_TRANSPOSED || MATRIX_K == 64u ? 1 : 2) << 62)\n"
    "#define PART_PLACE(line, part, parts, turn) (16u * ((line) * (parts) + ((part) ^ ((line) >> (turn) & ((parts) - "
    "1u)))))\n"
    "#if MATRIX_TRANSPOSED\n#define STEP 2048u\n"
    "#define X_PLACE(m, k) (PART_PLACE(k, (m) / 8u, 8u, 0u) + (m) % 8u * 2u)\n"
    "#define Y_PLACE(k, n) (RIGHT + PART_PLACE(k, (n) / 8u, 8u, 0u) + (n) % 8u * 2u)\n#else\n#define STEP 32u\n"
    "#define TERMS(line, k) (PART_PLACE(line, (k) / 8u, MATRIX_K / 8u, MATRIX_K == 64u ? 0u : 1u) + (k) % 8u * 2u)\n"
    "#define X_PLACE(m, k) TERMS(m, k)\n#define Y_PLACE(k, n) (RIGHT + TERMS(n, k))\n#endif\n";
static const char matrix_warpgroup[] = OPENCL_MATRIX(
    "", "128", "",
    "    float d[32];\n#pragma unroll\n    for (int z = 0; z < 32; z++)\n        d[z] = 0.0f;\n"
    "    SHOW_TILES();\n    BARRIER();\n    BEGIN_PRODUCTS();\n#pragma unroll\n"
    "    for (uint k = 0u; k < MATRIX_K / 16u; k++)\n        WGMMA(d, FACTOR(k * STEP), FACTOR(RIGHT + k * STEP));\n"
    "    COMMIT_PRODUCTS();\n    FINISH_PRODUCTS();\n#pragma unroll\n    for (uint z = 0u; z < 32u; z++)\n"
    "        sums[(lane / 32u * 16u + lane % 32u / 4u + z % 4u / 2u * 8u) * 64u + lane % 4u * 2u + z % 2u + z / 4u * "
    "8u] "
    "= d[z];\n");

/* If transposed: makes words of two terms from words of two rows. */
#define AMD_TRANSPOSED                                                                                \
    "#if MATRIX_TRANSPOSED\n    for (uint j = i; j < MATRIX_M * MATRIX_K / 4u; j += 64u) {\n"         \
    "        const uint m = j / (MATRIX_K / 2u) * 2u, k = j % (MATRIX_K / 2u) * 2u;\n"                \
    "        const uint one = (uint)X_BITS(m, k) | (uint)X_BITS(m + 1u, k) << 16;\n"                  \
    "        const uint other = (uint)X_BITS(m, k + 1u) | (uint)X_BITS(m + 1u, k + 1u) << 16;\n"      \
    "        AT(uint, X_PLACE(m, k)) = __builtin_amdgcn_perm(other, one, 0x05040100u);\n"             \
    "        AT(uint, X_PLACE(m + 1u, k)) = __builtin_amdgcn_perm(other, one, 0x07060302u);\n    }\n" \
    "    BARRIER();\n#endif\n"

static const char matrix_mfma[] = OPENCL_MATRIX(
    "", "64",
    "#ifndef MFMA\n#if MATRIX_BF16\n"
    "#define MFMA(sum, a, b) sum = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(as_short4(a), as_short4(b), sum, 0, 0, 0)\n"
    "#else\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    "#define MFMA(sum, a, b) sum = __builtin_amdgcn_mfma_f32_32x32x8f16(as_half4(a), as_half4(b), sum, 0, 0, 0)\n"
    "#endif\n#endif\n",
    AMD_TRANSPOSED
    "    const uint4 x = AT(uint4, 32u * (lane % 32u) + 16u * (lane / 32u));\n"
    "    const uint4 y = AT(uint4, RIGHT + 32u * (lane % 32u) + 16u * (lane / 32u));\n    float16 d = 0.0f;\n"
    "    MFMA(d, x.lo, y.lo);\n    MFMA(d, x.hi, y.hi);\n"
    "    for (uint z = 0u; z < 16u; z++)\n"
    "        sums[(z / 4u * 8u + lane / 32u * 4u + z % 4u) * 32u + lane % 32u] = ((float *)&d)[z];\n");

static const char matrix_wmma[] = OPENCL_MATRIX(
    "", "32",
    "#ifdef __GFX12__\n#define FACTOR uint4\n#define FACTOR_AT(line) (32u * (line) + lane / 16u * 16u)\n"
    "#define AS_HALVES(x) as_half8(x)\n#define AS_SHORTS(x) as_short8(x)\n#define SUM_ROW(z) (lane / 16u * 8u + (z))\n"
    "#define WMMA_NAME(types) __builtin_amdgcn_wmma_f32_16x16x16_##types##_w32_gfx12\n"
    "#else\n#define FACTOR uint8\n#define FACTOR_AT(line) (32u * (line))\n"
    "#define AS_HALVES(x) as_half16(x)\n#define AS_SHORTS(x) as_short16(x)\n"
    "#define SUM_ROW(z) ((z) * 2u + lane / 16u)\n"
    "#define WMMA_NAME(types) __builtin_amdgcn_wmma_f32_16x16x16_##types##_w32\n#endif\n"
    "#ifndef WMMA\n#if MATRIX_BF16\n"
    "#define WMMA(sum, a, b) sum = WMMA_NAME(bf16)(AS_SHORTS(a), AS_SHORTS(b), sum)\n"
    "#else\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    "#define WMMA(sum, a, b) sum = WMMA_NAME(f16)(AS_HALVES(a), AS_HALVES(b), sum)\n"
    "#endif\n#endif\n",
    AMD_TRANSPOSED
    "    const FACTOR x = AT(FACTOR, FACTOR_AT(lane % 16u)), y = AT(FACTOR, RIGHT + FACTOR_AT(lane % 16u));\n"
    "    float8 d = 0.0f;\n    WMMA(d, x, y);\n"
    "    if (i < 32u)\n        for (uint z = 0u; z < 8u; z++)\n"
    "            sums[SUM_ROW(z) * 16u + lane % 16u] = ((float *)&d)[z];\n");

/* Loads both factors by block reads, the right one as pairs of terms, which are put in the place for copies, unused
   otherwise. */
static const char matrix_intel[] = OPENCL_MATRIX(
    "__attribute__((intel_reqd_sub_group_size(MATRIX_N))) ", "MATRIX_N",
    "#if MATRIX_N == 16\n#define LEFT_BLOCK short8\n#else\n#define LEFT_BLOCK int8\n#endif\n"
    "#ifndef DPAS\n#pragma OPENCL EXTENSION cl_intel_subgroups : enable\n"
    "float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(LEFT_BLOCK a, int8 b, float8 sum);\n"
    "float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(LEFT_BLOCK a, int8 b, float8 sum);\n"
    "uint8 __attribute__((overloadable)) intel_sub_group_block_read8(const __local uint *from);\n"
    "ushort8 __attribute__((overloadable)) intel_sub_group_block_read_us8(const __local ushort *from);\n"
    "#if MATRIX_BF16\n#define DPAS(sum, a, b) sum = intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, sum)\n#else\n"
    "#define DPAS(sum, a, b) sum = intel_sub_group_f16_f16_matrix_mad_k16(a, b, sum)\n#endif\n"
    "#define READ_WORDS(place) as_int8(intel_sub_group_block_read8((const __local uint *)((__local char *)tiles + "
    "(place))))\n"
    "#define READ_HALVES(place) as_short8(intel_sub_group_block_read_us8((const __local ushort *)((__local char "
    "*)tiles + (place))))\n#endif\n",
    "    for (uint j = i; j < 8u * MATRIX_N; j += 64u)\n"
    "        AT(uint, COPIED + 4u * j) = AT(uint, RIGHT + 4u * (j % MATRIX_N * 8u + j / MATRIX_N));\n    BARRIER();\n"
    "#if MATRIX_N == 16\n    const LEFT_BLOCK x = READ_HALVES(0);\n#else\n    const LEFT_BLOCK x = READ_WORDS(0);\n"
    "#endif\n    const int8 y = READ_WORDS(COPIED);\n    float8 d = 0.0f;\n    DPAS(d, x, y);\n"
    "    if (i < MATRIX_N)\n        for (uint z = 0u; z < 8u; z++)\n"
    "            sums[z * MATRIX_N + lane] = ((float *)&d)[z];\n");

/* The type of factors, and two of them in a word. */
#define GLSL_FACTORS                                                                              \
    "#if MATRIX_BF16\n#extension GL_EXT_bfloat16 : require\n#define FACTOR bfloat16_t\n"          \
    "#define PACK(x, y) (floatBitsToUint(x) >> 16 | (floatBitsToUint(y) & 0xffff0000u))\n#else\n" \
    "#define FACTOR float16_t\n#define PACK(x, y) packHalf2x16(vec2(x, y))\n#endif\n"

/* In GLSL the factors lie in shared memory in the layout of device memory, in parts of 16 bytes, as in real kernels. */
#define GLSL_MATRIX(form, left_type, right_type, sum_type, load_left, load_right, multiply, store)                 \
    "#extension GL_" form "_cooperative_matrix : require\n#extension GL_KHR_memory_scope_semantics : require\n"    \
    "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"                                       \
    "#extension GL_KHR_shader_subgroup_basic : require\n#define WORD(x) uint(x)\n" GLSL_FACTORS                    \
    "#if MATRIX_TRANSPOSED\n#define X_LINES MATRIX_K\n#define X_WIDTH MATRIX_M\n#define Y_LINES MATRIX_N\n"        \
    "#define Y_WIDTH MATRIX_K\n#define IN_COLUMNS(line, at, width) ((at) * (width) + (line))\n"                    \
    "#define LAYOUT gl_CooperativeMatrixLayoutColumnMajor\n#else\n"                                                \
    "#define X_LINES MATRIX_M\n#define X_WIDTH MATRIX_K\n#define Y_LINES MATRIX_K\n#define Y_WIDTH MATRIX_N\n"     \
    "#define IN_COLUMNS(line, at, width) ((line) * (width) + (at))\n"                                              \
    "#define LAYOUT gl_CooperativeMatrixLayoutRowMajor\n#endif\n"                                                  \
    "#define PITCH(width, unit) ((width) / (unit) + MATRIX_TRANSPOSED)\n" GLSL_PROBE(                              \
        "uint", "uint", "uint",                                                                                    \
        "shared uvec4 left[X_LINES * PITCH(X_WIDTH, 8u)], right[Y_LINES * PITCH(Y_WIDTH, 8u)];\n"                  \
        "shared uvec4 sums[MATRIX_M * PITCH(MATRIX_N, 4u)];\n"                                                     \
        "float x_of(uint line, uint at)\n{\n"                                                                      \
        "    return at < X_WIDTH ? float(a[IN_COLUMNS(line, at, MATRIX_K) % 256u]) : 9.0;\n}\n"                    \
        "float y_of(uint line, uint at)\n{\n"                                                                      \
        "    return at < Y_WIDTH ? float(a[255u - IN_COLUMNS(line, at, MATRIX_N) % 256u] + 1u) : 9.0;\n}\n",       \
        "    for (uint j = i; j < X_LINES * PITCH(X_WIDTH, 8u) * 4u; j += 64u) {\n"                                \
        "        uint line = j / (PITCH(X_WIDTH, 8u) * 4u), at = j % (PITCH(X_WIDTH, 8u) * 4u) * 2u;\n"            \
        "        left[j / 4u][j % 4u] = PACK(x_of(line, at), x_of(line, at + 1u));\n    }\n"                       \
        "    for (uint j = i; j < Y_LINES * PITCH(Y_WIDTH, 8u) * 4u; j += 64u) {\n"                                \
        "        uint line = j / (PITCH(Y_WIDTH, 8u) * 4u), at = j % (PITCH(Y_WIDTH, 8u) * 4u) * 2u;\n"            \
        "        right[j / 4u][j % 4u] = PACK(y_of(line, at), y_of(line, at + 1u));\n    }\n"                      \
        "    barrier();\n    " left_type " x;\n    " right_type " y;\n    " sum_type " sum = " sum_type "(0.0);\n" \
        "    " load_left ";\n    " load_right ";\n    " multiply ";\n"                                             \
        "    if (gl_SubgroupID == 0u)\n        " store ";\n    barrier();\n" MATRIX_RESULT(                        \
            "uintBitsToFloat(sums[(q * 256u + j) / MATRIX_N * PITCH(MATRIX_N, 4u) + (q * 256u + j) % MATRIX_N / "  \
            "4u][j % 4u])"))

static const char matrix_nv_glsl[] = GLSL_MATRIX(
    "NV", "fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_M, MATRIX_K>",
    "fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_K, MATRIX_N>", "fcoopmatNV<32, gl_ScopeSubgroup, MATRIX_M, MATRIX_N>",
    "coopMatLoadNV(x, left, 0, PITCH(X_WIDTH, 8u), MATRIX_TRANSPOSED != 0)",
    "coopMatLoadNV(y, right, 0, PITCH(Y_WIDTH, 8u), MATRIX_TRANSPOSED != 0)", "sum = coopMatMulAddNV(x, y, sum)",
    "coopMatStoreNV(sum, sums, 0, PITCH(MATRIX_N, 4u), false)");
static const char matrix_khr_glsl[] =
    GLSL_MATRIX("KHR", "coopmat<FACTOR, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>",
                "coopmat<FACTOR, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>",
                "coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>",
                "coopMatLoad(x, left, 0, PITCH(X_WIDTH, 8u), LAYOUT)",
                "coopMatLoad(y, right, 0, PITCH(Y_WIDTH, 8u), LAYOUT)", "sum = coopMatMulAdd(x, y, sum)",
                "coopMatStore(sum, sums, 0, PITCH(MATRIX_N, 4u), gl_CooperativeMatrixLayoutRowMajor)");

/* Products of a work-group of GROUP_SIZE items: tiles of 64 by 64 by 64, of which x and y fill the first rows, columns
   and terms. What lies beyond must count as zeros, although the input has other numbers there. The input is x, then y,
   each in lines of 64 elements and 8 more, f16 or bf16. The names of instructions are those of
   shaders/matrix_workgroup.glsl; the epilogue is a function, as there. */
static const char matrix_group_glsl[] =
    "#extension GL_KHR_cooperative_matrix : require\n#extension GL_NV_cooperative_matrix2 : require\n"
    "#extension GL_KHR_memory_scope_semantics : require\n"
    "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n" GLSL_FACTORS
    "#define TILE 64u\n#define PITCH 72u\n#define CLAMPED gl_CooperativeMatrixClampModeConstantNV\n"
    "layout(local_size_x = GROUP_SIZE) in;\n"
    "layout(std430, set = 0, binding = 0) readonly buffer A { uvec4 a[]; };\n"
    "layout(std430, set = 0, binding = 1) buffer B { uint b[]; };\n"
    "layout(std430, set = 0, binding = 2) buffer C { uint c[]; };\n"
    "layout(push_constant) uniform P { uint base; };\nshared float sums[TILE * TILE];\n"
    "float keep(const in uint row, const in uint column, const in float value, const in uint columns)\n{\n"
    "    if (row < MATRIX_M && column < columns)\n        sums[row * columns + column] = value;\n"
    "    return value;\n}\n"
    "void main()\n{\n    uint i = gl_LocalInvocationID.x;\n"
    "    coopmat<FACTOR, gl_ScopeWorkgroup, TILE, TILE, gl_MatrixUseA> x;\n"
    "    coopmat<FACTOR, gl_ScopeWorkgroup, TILE, TILE, gl_MatrixUseB> y;\n"
    "    coopmat<float, gl_ScopeWorkgroup, TILE, TILE, gl_MatrixUseAccumulator> sum =\n"
    "        coopmat<float, gl_ScopeWorkgroup, TILE, TILE, gl_MatrixUseAccumulator>(0.0);\n"
    "    tensorLayoutNV<2, CLAMPED> at_x = createTensorLayoutNV(2, CLAMPED), at_y = createTensorLayoutNV(2, CLAMPED);\n"
    "#if MATRIX_TRANSPOSED\n    at_x = setTensorLayoutDimensionNV(at_x, MATRIX_K, MATRIX_M);\n"
    "    at_y = setTensorLayoutDimensionNV(at_y, MATRIX_N, MATRIX_K);\n#define VIEW , createTensorViewNV(2, false, 1, "
    "0)\n"
    "#else\n    at_x = setTensorLayoutDimensionNV(at_x, MATRIX_M, MATRIX_K);\n"
    "    at_y = setTensorLayoutDimensionNV(at_y, MATRIX_K, MATRIX_N);\n#define VIEW\n#endif\n"
    "    at_x = setTensorLayoutStrideNV(at_x, PITCH, 1u);\n    at_y = setTensorLayoutStrideNV(at_y, PITCH, 1u);\n"
    "    coopMatLoadTensorNV(x, a, 0u, sliceTensorLayoutNV(at_x, 0u, TILE, 0u, TILE) VIEW);\n"
    "    coopMatLoadTensorNV(y, a, TILE * PITCH / 8u, sliceTensorLayoutNV(at_y, 0u, TILE, 0u, TILE) VIEW);\n"
    "    sum = coopMatMulAdd(x, y, sum);\n    coopMatPerElementNV(sum, sum, keep, MATRIX_N);\n    barrier();\n"
    "    for (uint j = i; j < 256u; j += GROUP_SIZE) {\n        float folded = 0.0f;\n"
    "        for (uint q = j; q < MATRIX_M * MATRIX_N; q += 256u)\n            folded += sums[q];\n"
    "        b[j] = uint(folded);\n    }\n}\n";

#endif
