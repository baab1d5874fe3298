/* A GLSL compiler that makes an empty kernel of every text, except those of an extension that it refuses. A test
   program that includes this has no other: the linker leaves shaderc.c out. The program must not run if
   $TUFF_SHADERC_MODULE is set: the compiler is then a module, whose place this one cannot take. */
#ifndef TUFF_TESTS_FAKE_GLSL_H
#define TUFF_TESTS_FAKE_GLSL_H

#include <string.h>

#include "device/vulkan/glsl_compiler.h"

/* The extension that the compiler refuses; NULL: none. How often it was asked whether it knows bf16 and groups. */
static const char *refused;
static int bf16_trials, group_trials;

/* An empty kernel. */
static const uint32_t module[] = {
    0x07230203, 0x00010300, 0,  5,          0,    /* header */
    0x00020011, 1,                                /* OpCapability Shader */
    0x0003000e, 0,          1,                    /* OpMemoryModel Logical GLSL450 */
    0x0005000f, 5,          1,  0x6e69616d, 0,    /* OpEntryPoint GLCompute %1 "main" */
    0x00060010, 1,          17, 64,         1, 1, /* OpExecutionMode %1 LocalSize 64 1 1 */
    0x00020013, 2,                                /* %2 = OpTypeVoid */
    0x00030021, 3,          2,                    /* %3 = OpTypeFunction %2 */
    0x00050036, 2,          1,  0,          3,    /* %1 = OpFunction */
    0x000200f8, 4,                                /* OpLabel */
    0x000100fd,                                   /* OpReturn */
    0x00010038                                    /* OpFunctionEnd */
};

static glsl_outcome compile(const char *name, const char *source, glsl_result *result)
{
    (void)name;
    if (strstr(source, "void main() {}")) {
        bf16_trials += strstr(source, "GL_EXT_bfloat16") != NULL;
        group_trials += strstr(source, "GL_NV_cooperative_matrix2") != NULL;
    }
    *result = (glsl_result){.spirv = module, .size = sizeof module, .log = "the extension is unknown"};
    return refused && strstr(source, refused) ? GLSL_REJECTED : GLSL_COMPILED;
}

static void release(glsl_result *result)
{
    (void)result;
}

const glsl_compiler tuff__glsl_compiler = {
    .interface = GLSL_COMPILER_INTERFACE, .options = GLSL_COMPILER_OPTIONS, .compile = compile, .release = release};

#endif
