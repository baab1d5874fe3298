/* GLSL to SPIR-V with shaderc, inside the process. Compilers of one process run one at a time: glslang shares tables.
   Without TUFF_WITH_SHADERC only programs from the cache run. */
#include "base/alloc.h"
#include "base/thread.h"
#include "device/vulkan/state.h"

#if !defined(TUFF_WITH_SHADERC) || TUFF_WITH_SHADERC

#include <shaderc/shaderc.h>
#include <string.h>

#define LOG_LINES 8

static mutex lock = MUTEX_INITIALIZER;
static shaderc_compiler_t compiler; /* made at the first use and kept: starting it costs more than a small kernel */

/* Bytes of the first lines of a log. */
static int first_lines(const char *log)
{
    const char *end = log;
    for (int line = 0; line < LOG_LINES && *end; line++) {
        end += strcspn(end, "\n");
        end += *end == '\n';
    }
    while (end > log && end[-1] == '\n')
        end--;
    return (int)(end - log);
}

static tuff_status take_result(const program_request *request, shaderc_compilation_result_t result, blob *spirv)
{
    if (!result)
        return FAIL(TUFF_E_OOM_HOST, "%s: shaderc ran out of memory", request->name);
    if (shaderc_result_get_compilation_status(result) != shaderc_compilation_status_success) {
        const char *log = shaderc_result_get_error_message(result);
        return FAIL(TUFF_E_COMPILE, "%s: %.*s", request->name, first_lines(log), log);
    }
    spirv->size = shaderc_result_get_length(result);
    spirv->data = tuff__memdup(shaderc_result_get_bytes(result), spirv->size);
    return spirv->data ? TUFF_OK : TUFF_E_OOM_HOST;
}

/* A change of these options is a change of SHADERC_OPTIONS, which stands in the keys of compiled programs. */
static tuff_status compile(const program_request *request, blob *spirv)
{
    if (!compiler)
        compiler = shaderc_compiler_initialize();
    shaderc_compile_options_t options = shaderc_compile_options_initialize();
    tuff_status status;
    if (compiler && options) {
        shaderc_compile_options_set_target_env(options, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_1);
        shaderc_compile_options_set_optimization_level(options, shaderc_optimization_level_performance);
        shaderc_compilation_result_t result = shaderc_compile_into_spv(
            compiler, request->text, strlen(request->text), shaderc_compute_shader, request->name, "main", options);
        status = take_result(request, result, spirv);
        shaderc_result_release(result);
    } else {
        status = FAIL(TUFF_E_OOM_HOST, "%s: shaderc could not be started", request->name);
    }
    shaderc_compile_options_release(options);
    return status;
}

tuff_status tuff__vulkan_compile(const program_request *request, blob *spirv)
{
    tuff__lock(&lock);
    tuff_status status = compile(request, spirv);
    tuff__unlock(&lock);
    return status;
}

#else

tuff_status tuff__vulkan_compile(const program_request *request, blob *spirv)
{
    *spirv = (blob){0};
    return FAIL(TUFF_E_UNSUPPORTED,
                "%s: this build of tuff has no GLSL compiler (shaderc), and the program is not in "
                "the cache",
                request->name);
}

#endif
