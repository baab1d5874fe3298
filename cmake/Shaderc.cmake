# Finds a shaderc that really works, by linking and running a program that compiles a shader. Some distributions (Debian
# 12) ship a shared library with unresolved symbols; there only the static archives together with those of glslang work.
# Sets TUFF_SHADERC_FOUND (if it is not found, turns TUFF_SHADERC off) and TUFF_SHADERC_LIBRARIES, the libraries to
# link: into the module if there is one, else into the library or, if that is static, into all its users.

set(shaderc_test "${CMAKE_BINARY_DIR}/shaderc_test.c")
file(WRITE "${shaderc_test}" [[
#include <shaderc/shaderc.h>
#include <string.h>
int main(void)
{
    const char *text = "#version 450\nlayout(local_size_x = 1) in; void main() {}\n";
    shaderc_compiler_t compiler = shaderc_compiler_initialize();
    shaderc_compile_options_t options = shaderc_compile_options_initialize();
    if (!compiler || !options)
        return 1;
    shaderc_compile_options_set_target_env(options, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_1);
    shaderc_compile_options_set_optimization_level(options, shaderc_optimization_level_performance);
    shaderc_compilation_result_t result =
        shaderc_compile_into_spv(compiler, text, strlen(text), shaderc_compute_shader, "test", "main", options);
    return shaderc_result_get_compilation_status(result) != shaderc_compilation_status_success;
}
]])

set(TUFF_SHADERC_FOUND FALSE)
set(TUFF_SHADERC_LIBRARIES "")

# Makes one attempt, with the libraries after the first argument.
macro(tuff_try_shaderc name)
  if(NOT TUFF_SHADERC_FOUND)
    if(NOT DEFINED TUFF_SHADERC_${name})
      if(CMAKE_CROSSCOMPILING)
        try_compile(TUFF_SHADERC_LINKS_${name} "${CMAKE_BINARY_DIR}/shaderc_test_${name}" SOURCES "${shaderc_test}"
          LINK_LIBRARIES ${ARGN})
        set(TUFF_SHADERC_RUNS_${name} 0)
      else()
        try_run(TUFF_SHADERC_RUNS_${name} TUFF_SHADERC_LINKS_${name} "${CMAKE_BINARY_DIR}/shaderc_test_${name}"
          SOURCES "${shaderc_test}" LINK_LIBRARIES ${ARGN})
      endif()
      # Only success is cached, so that configuring again after installing a package finds it.
      if(TUFF_SHADERC_LINKS_${name} AND TUFF_SHADERC_RUNS_${name} EQUAL 0)
        set(TUFF_SHADERC_${name} TRUE CACHE INTERNAL "shaderc works when linked this way")
      endif()
      unset(TUFF_SHADERC_LINKS_${name} CACHE)
      unset(TUFF_SHADERC_RUNS_${name} CACHE)
    endif()
    if(TUFF_SHADERC_${name})
      set(TUFF_SHADERC_FOUND TRUE)
      set(TUFF_SHADERC_LIBRARIES ${ARGN})
      message(STATUS "shaderc: works when linked as ${name}")
    endif()
  endif()
endmacro()

tuff_try_shaderc(shared shaderc_shared)
tuff_try_shaderc(plain shaderc)
tuff_try_shaderc(combined -l:libshaderc_combined.a stdc++ m pthread)
tuff_try_shaderc(archives -Wl,--start-group -l:libshaderc_combined.a glslang MachineIndependent GenericCodeGen
  OSDependent OGLCompiler HLSL SPIRV SPIRV-Tools-opt SPIRV-Tools -Wl,--end-group stdc++ m pthread)

if(NOT TUFF_SHADERC_FOUND)
  set(TUFF_SHADERC OFF)
  message(WARNING "shaderc was not found or does not work: install libshaderc-dev, glslang-dev and spirv-tools, or "
    "configure with -DTUFF_SHADERC=OFF. Without shaderc, Vulkan can run only cached programs.")
endif()
