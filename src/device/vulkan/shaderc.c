/* The GLSL compiler built on shaderc. cmake/Library.cmake builds this file into the library or, with
   TUFF_SHADERC_MODULE, as the only file of the module libtuff_shaderc.so; without TUFF_SHADERC, not at all. */
#include <shaderc/shaderc.h>
#include <string.h>

#include "device/vulkan/glsl_compiler.h"

static shaderc_compiler_t compiler; /* made at first use and kept: starting it costs more than a small kernel */

/* If these options change, GLSL_COMPILER_OPTIONS must change. */
static shaderc_compilation_result_t run_shaderc(const char *name, const char *text)
{
    if (!compiler)
        compiler = shaderc_compiler_initialize();
    shaderc_compile_options_t options = shaderc_compile_options_initialize();
    shaderc_compilation_result_t result = NULL;
    if (compiler && options) {
        shaderc_compile_options_set_target_env(options, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_1);
        shaderc_compile_options_set_optimization_level(options, shaderc_optimization_level_performance);
        result = shaderc_compile_into_spv(compiler, text, strlen(text), shaderc_compute_shader, name, "main", options);
    }
    shaderc_compile_options_release(options);
    return result;
}

static glsl_outcome compile(const char *name, const char *text, glsl_result *result)
{
    shaderc_compilation_result_t made = run_shaderc(name, text);
    *result = (glsl_result){.handle = made};
    if (!made)
        return GLSL_OUT_OF_MEMORY;
    if (shaderc_result_get_compilation_status(made) != shaderc_compilation_status_success) {
        result->log = shaderc_result_get_error_message(made);
        return GLSL_REJECTED;
    }
    result->spirv = shaderc_result_get_bytes(made);
    result->size = shaderc_result_get_length(made);
    return GLSL_COMPILED;
}

static void release(glsl_result *result)
{
    shaderc_result_release(result->handle);
    *result = (glsl_result){0};
}

const glsl_compiler tuff__glsl_compiler = {
    .interface = GLSL_COMPILER_INTERFACE,
    .options = GLSL_COMPILER_OPTIONS,
    .compile = compile,
    .release = release,
};

#if defined(TUFF_SHADERC_MODULE)
/* The C++ objects of the archives in this module register their destructors here instead of with the C library, and are
   never destroyed. The module is opened at the first compilation, so its destructors would be the first to run when the
   process exits, while another thread may still be compiling. */
__attribute__((visibility("hidden"))) int __cxa_atexit(void (*destroy)(void *), void *object, void *library);

int __cxa_atexit(void (*destroy)(void *), void *object, void *library)
{
    (void)destroy, (void)object, (void)library;
    return 0;
}
#endif
