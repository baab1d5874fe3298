/* A GLSL compiler as the Vulkan driver sees it: one table, which is part of either the library or a module that is
   opened at run time (glsl.c). The implementation (shaderc.c) uses nothing else of tuff, because a module cannot: no
   allocator, no messages. */
#ifndef TUFF_DEVICE_VULKAN_GLSL_COMPILER_H
#define TUFF_DEVICE_VULKAN_GLSL_COMPILER_H

#include <stddef.h>

/* Raised whenever the structs below change. */
enum { GLSL_COMPILER_INTERFACE = 1 };

/* The options that every compiler uses. Part of the keys of compiled programs: change it together with shaderc.c's
   options. */
#define GLSL_COMPILER_OPTIONS "SPIR-V for Vulkan 1.1, optimised for performance"

typedef enum glsl_outcome { GLSL_COMPILED, GLSL_REJECTED, GLSL_OUT_OF_MEMORY } glsl_outcome;

/* Valid until glsl_compiler.release. */
typedef struct glsl_result {
    const void *spirv; /* if compiled */
    size_t size;       /* of spirv, in bytes */
    const char *log;   /* if rejected */
    void *handle;      /* the compiler's own */
} glsl_result;

typedef struct glsl_compiler {
    int interface;       /* the GLSL_COMPILER_INTERFACE that it was built with */
    const char *options; /* the GLSL_COMPILER_OPTIONS that it was built with */
    /* Compiles a compute shader with main; name is for messages. One call at a time. */
    glsl_outcome (*compile)(const char *name, const char *text, glsl_result *result);
    void (*release)(glsl_result *result); /* to be called after every compile, whatever its outcome */
} glsl_compiler;

extern const glsl_compiler tuff__glsl_compiler;

#endif
