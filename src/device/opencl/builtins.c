/* Declarations of the OpenCL C functions that kernels call, for drivers built on Clang. Those drivers include Clang's
   header opencl-c.h in every program, and parsing its 14,500 declarations takes PoCL 3.1 a quarter of a second, more
   than half of the time that it needs for a kernel. An option defines the header's include guard, so that it is
   skipped, and these declarations come before the program's text instead. Attributes and types are those of the header,
   so the machine code is the same. A program that calls a function which is missing here fails to compile, and is then
   compiled again with the header: see program.c. But a call with a scalar of a type that is missing for that function
   compiles with a conversion that the header would not need: whoever lets kernels compute in another type than int,
   uint and float adds its functions. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "device/opencl/api.h"

static const char builtins[] =
    "#define VECTORS(F, ...) F(2, __VA_ARGS__) F(4, __VA_ARGS__) F(8, __VA_ARGS__) F(16, __VA_ARGS__)\n"
    "#define WIDTHS(F, ...) F(, __VA_ARGS__) VECTORS(F, __VA_ARGS__)\n"
    "#define BUILTIN __attribute__((overloadable))\n"
    "#define CONSTANT __attribute__((overloadable, const))\n"
    "#define READING __attribute__((overloadable, pure))\n"
    "size_t CONSTANT get_global_id(uint);\n"
    "size_t CONSTANT get_group_id(uint);\n"
    "size_t CONSTANT get_local_id(uint);\n"
    "size_t CONSTANT get_num_groups(uint);\n"
    "void BUILTIN __attribute__((convergent)) barrier(cl_mem_fence_flags);\n"
    "void BUILTIN mem_fence(cl_mem_fence_flags);\n"
    "uint BUILTIN atomic_add(volatile __global uint *, uint);\n"
    "uint BUILTIN atomic_inc(volatile __global uint *);\n"
    "uint BUILTIN atomic_cmpxchg(volatile __global uint *, uint, uint);\n"

    "#define UNARY(n, name, result, type) result##n CONSTANT name(type##n);\n"
    "#define BINARY(n, name, type) type##n CONSTANT name(type##n, type##n);\n"
    "#define TERNARY(n, name, type) type##n CONSTANT name(type##n, type##n, type##n);\n"
    "WIDTHS(UNARY, fabs, float, float)\n"
    "WIDTHS(UNARY, floor, float, float)\n"
    "WIDTHS(UNARY, sqrt, float, float)\n"
    "WIDTHS(UNARY, rsqrt, float, float)\n"
    "WIDTHS(UNARY, native_exp2, float, float)\n"
    "WIDTHS(TERNARY, fma, float)\n"
    "WIDTHS(BINARY, fmax, float)\n"
    "float CONSTANT dot(float4, float4);\n"
    /* All integer types of the kernels, so that an argument is never converted to a type that the header would not
       have chosen. */
    "WIDTHS(UNARY, abs, uint, int)\n"
    "WIDTHS(UNARY, abs, uint, uint)\n"
    "WIDTHS(BINARY, min, int)\n"
    "WIDTHS(BINARY, min, uint)\n"
    "WIDTHS(BINARY, max, int)\n"
    "WIDTHS(BINARY, max, uint)\n"
    "WIDTHS(BINARY, mul_hi, int)\n"
    "WIDTHS(BINARY, mul_hi, uint)\n"
    "WIDTHS(BINARY, rotate, int)\n"
    "WIDTHS(BINARY, rotate, uint)\n"
    "#define ANY(n, type) int CONSTANT any(type##n);\n"
    "WIDTHS(ANY, int)\n"

    "#define CONVERT(n, result, type) result##n CONSTANT convert_##result##n(type##n);\n"
    "VECTORS(CONVERT, float, int)\n"
    "VECTORS(CONVERT, float, uint)\n"
    "VECTORS(CONVERT, int, float)\n"
    "VECTORS(CONVERT, uint, float)\n"
    "VECTORS(CONVERT, int, char)\n"
    "VECTORS(CONVERT, int, uchar)\n"
    "VECTORS(CONVERT, uint, uchar)\n"
    "VECTORS(CONVERT, uint, ushort)\n"
    "VECTORS(CONVERT, char, int)\n"
    "VECTORS(CONVERT, uchar, int)\n"
    "VECTORS(CONVERT, uchar, uint)\n"
    "VECTORS(CONVERT, ushort, uint)\n"

    "#define LOAD(n, type, space) type##n READING vload##n(size_t, const space type *);\n"
    "#define STORE(n, type, space) void BUILTIN vstore##n(type##n, size_t, space type *);\n"
    "#define LOAD_HALF(n, space) float##n READING vload_half##n(size_t, const space half *);\n"
    "#define STORE_HALF(n, space) void BUILTIN vstore_half##n##_rte(float##n, size_t, space half *);\n"
    "#define SPACES(F, type) VECTORS(F, type, __global) VECTORS(F, type, __local) \\\n"
    "    VECTORS(F, type, __private)\n"
    "#define ACCESSES(type) SPACES(LOAD, type) SPACES(STORE, type)\n"
    "ACCESSES(char)\n"
    "ACCESSES(uchar)\n"
    "ACCESSES(ushort)\n"
    "ACCESSES(int)\n"
    "ACCESSES(uint)\n"
    "ACCESSES(float)\n"
    "WIDTHS(LOAD_HALF, __global) WIDTHS(LOAD_HALF, __local) WIDTHS(LOAD_HALF, __private)\n"
    "WIDTHS(STORE_HALF, __global) WIDTHS(STORE_HALF, __local) WIDTHS(STORE_HALF, __private)\n"

    /* Programs may use these names for something else. */
    "#undef VECTORS\n#undef WIDTHS\n#undef BUILTIN\n#undef CONSTANT\n#undef READING\n"
    "#undef UNARY\n#undef BINARY\n#undef TERNARY\n#undef ANY\n#undef CONVERT\n#undef LOAD\n#undef STORE\n"
    "#undef LOAD_HALF\n#undef STORE_HALF\n#undef SPACES\n#undef ACCESSES\n"
    "#line 1\n";

const char *tuff__cl_builtins(const driver_device *device)
{
    return device->plain_options < strlen(device->build_options) ? builtins : NULL;
}

/* The guard's value is a hash of the declarations, because programs in the cache depend on them and are looked up by
   the options. */
void tuff__cl_declare_builtins(driver_device *device)
{
    const size_t length = strlen(device->build_options), room = sizeof device->build_options - length;
    device->plain_options = length;
    if (device->is_pocl)
        snprintf(device->build_options + length, room, " -D_OPENCL_H_=0x%016llx",
                 (unsigned long long)tuff__hash(builtins, sizeof builtins - 1).high);
}
