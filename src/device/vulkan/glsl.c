/* Compiles GLSL to SPIR-V inside the process. The compiler (glsl_compiler.h) is part of the library, or a module that
   is opened at the first compilation, so that the library itself imports nothing that prints, aborts or throws.
   Compilations of a process run one at a time, because glslang shares tables. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/library.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/vulkan/glsl_compiler.h"
#include "device/vulkan/state.h"

#if defined(TUFF_WITH_SHADERC) && !TUFF_WITH_SHADERC

tuff_status tuff__vulkan_compile(const program_request *request, blob *spirv)
{
    *spirv = (blob){0};
    return FAIL(TUFF_E_UNSUPPORTED,
                "%s: this build of tuff has no GLSL compiler (shaderc), and the program is not in the cache",
                request->name);
}

#else

#define LOG_LINES 8

static mutex lock = MUTEX_INITIALIZER; /* held while the compiler is found and while it compiles */

#if defined(TUFF_SHADERC_MODULE)

#define MODULE "libtuff_shaderc.so"

/* Where the module is looked for. The first three are relative to the folder of the library, or of the program that it
   is linked into: like lib/tuff/ to lib/ and to bin/, and in the same folder, as in a build. The last one is where it
   is to be installed. */
static const char *const module_paths[] = {("tuff/" MODULE), TUFF_SHADERC_MODULE_FROM_PROGRAM, MODULE,
                                           TUFF_SHADERC_MODULE_INSTALLED};
enum { MODULE_PATH_COUNT = sizeof module_paths / sizeof module_paths[0], PATH_SIZE = 4096 };

static tuff_status open_module(const char *path, void **module)
{
    *module = tuff__library_open(&path, 1);
    return *module ? TUFF_OK
                   : FAIL(TUFF_E_IO, "the GLSL compiler module %s cannot be opened: %s", path, tuff__library_error());
}

/* The first place that has the file decides: a damaged module is not skipped in favour of an older one. */
static tuff_status find_module(void **module)
{
    char folder[PATH_SIZE], path[2 * PATH_SIZE];
    const char *override = secure_getenv("TUFF_SHADERC_MODULE");
    if (override)
        return open_module(override, module);
    const bool has_folder = tuff__library_folder(folder, sizeof folder);
    for (int i = 0; i < MODULE_PATH_COUNT; i++) {
        const bool is_absolute = module_paths[i][0] == '/';
        if (!is_absolute && !has_folder)
            continue;
        snprintf(path, sizeof path, "%s%s%s", is_absolute ? "" : folder, is_absolute ? "" : "/", module_paths[i]);
        if (tuff__library_exists(path))
            return open_module(path, module);
    }
    return FAIL(TUFF_E_IO,
                "the GLSL compiler module %s cannot be opened: it is neither next to tuff in %s nor at %s; if it is "
                "elsewhere, set TUFF_SHADERC_MODULE to its path",
                MODULE, has_folder ? folder : "?", TUFF_SHADERC_MODULE_INSTALLED);
}

/* Modules are never closed: the compiler's threads and thread-local objects would not survive that. */
static tuff_status find_compiler(const glsl_compiler **out)
{
    static const glsl_compiler *found;
    void *module = NULL;
    if (!found) {
        TRY(find_module(&module));
        const glsl_compiler *compiler = tuff__library_symbol(module, "tuff__glsl_compiler");
        if (!compiler || compiler->interface != GLSL_COMPILER_INTERFACE ||
            strcmp(compiler->options, GLSL_COMPILER_OPTIONS) != 0)
            return FAIL(TUFF_E_IO, "the GLSL compiler module %s belongs to another version of tuff than %s", MODULE,
                        tuff_version());
        found = compiler;
    }
    *out = found;
    return TUFF_OK;
}

#else

static tuff_status find_compiler(const glsl_compiler **out)
{
    *out = &tuff__glsl_compiler;
    return TUFF_OK;
}

#endif

static tuff_status copy_spirv(const glsl_result *result, blob *spirv)
{
    void *copy = tuff__memdup(result->spirv, result->size);
    if (!copy)
        return TUFF_E_OOM_HOST;
    *spirv = (blob){copy, result->size};
    return TUFF_OK;
}

static tuff_status compile(const program_request *request, blob *spirv)
{
    const glsl_compiler *compiler = NULL;
    glsl_result result = {0};
    TRY(find_compiler(&compiler));
    const glsl_outcome outcome = compiler->compile(request->name, request->text, &result);
    tuff_status status;
    if (outcome == GLSL_COMPILED)
        status = copy_spirv(&result, spirv);
    else if (outcome == GLSL_REJECTED)
        status =
            FAIL(TUFF_E_COMPILE, "%s: %.*s", request->name, tuff__text_first_lines(result.log, LOG_LINES), result.log);
    else
        status = FAIL(TUFF_E_OOM_HOST, "%s: shaderc ran out of memory", request->name);
    compiler->release(&result);
    return status;
}

tuff_status tuff__vulkan_compile(const program_request *request, blob *spirv)
{
    *spirv = (blob){0};
    tuff__lock(&lock);
    tuff_status status = compile(request, spirv);
    tuff__unlock(&lock);
    return status;
}

#endif
