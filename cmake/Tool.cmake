# The command-line tool, build/tuff: tools/tuff.c and one file per verb, in a folder per subject. The verbs and their
# shared code form a library, because tests use the op suite and the models of the tool.
file(GLOB_RECURSE tuff_tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.c)
list(REMOVE_ITEM tuff_tool_sources ${PROJECT_SOURCE_DIR}/tools/tuff.c)
list(FILTER tuff_tool_sources EXCLUDE REGEX "/tools/vendors/")

# Verbs that measure kernels need the tuner.
if(TUFF_AUTOTUNE)
  list(FILTER tuff_tool_sources EXCLUDE REGEX "/tools/cache/rerun_untuned\\.c$")
else()
  list(FILTER tuff_tool_sources EXCLUDE REGEX "/tools/tune/(tune|warm|worker|measure|report[a-z_]*)\\.c$|/tools/cache/rerun\\.c$")
endif()

if(tuff_tool_sources)
  add_library(tuff_tool_parts STATIC ${tuff_tool_sources})
  set_target_properties(tuff_tool_parts PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  target_include_directories(tuff_tool_parts PUBLIC ${PROJECT_SOURCE_DIR})
  target_include_directories(tuff_tool_parts SYSTEM PRIVATE
    ${TUFF_JANSSON_INCLUDE} $<$<BOOL:${TUFF_OPENCL}>:${TUFF_OPENCL_INCLUDE}>)
  target_link_libraries(tuff_tool_parts PUBLIC tuff_internal)
else()
  add_library(tuff_tool_parts INTERFACE)
  target_link_libraries(tuff_tool_parts INTERFACE tuff_internal)
endif()

# Plain C loops with the best compiler flags, for tuff bench. They use -ffast-math and are not part of the library. With
# sanitizers, the benchmark would measure the sanitizers.
if(TUFF_BENCH AND NOT TUFF_SANITIZE AND CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  find_package(OpenMP QUIET COMPONENTS C)
endif()
if(OpenMP_C_FOUND)
  add_library(tuff_plain_gpt STATIC ${PROJECT_SOURCE_DIR}/bench/plain_gpt.c)
  set_target_properties(tuff_plain_gpt PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  target_include_directories(tuff_plain_gpt PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(tuff_plain_gpt PRIVATE -O3 -march=native -ffast-math)
  target_link_libraries(tuff_plain_gpt PRIVATE OpenMP::OpenMP_C m)
  target_compile_definitions(tuff_tool_parts PRIVATE TUFF_WITH_PLAIN_GPT=1)
  target_link_libraries(tuff_tool_parts PRIVATE tuff_plain_gpt)
else()
  target_compile_definitions(tuff_tool_parts PRIVATE TUFF_WITH_PLAIN_GPT=0)
endif()

if(TUFF_TOOL AND EXISTS ${PROJECT_SOURCE_DIR}/tools/tuff.c)
  add_executable(tuff_tool ${PROJECT_SOURCE_DIR}/tools/tuff.c)
  set_target_properties(tuff_tool PROPERTIES
    OUTPUT_NAME tuff RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} C_STANDARD 11 C_EXTENSIONS OFF)
  target_link_libraries(tuff_tool PRIVATE tuff_tool_parts)
endif()

# Queries Vulkan drivers for the statistics of compiled kernels. Built only for tools/check-vendors and
# tools/check-loops; the only program here that links a Vulkan loader.
find_library(TUFF_VULKAN_LOADER vulkan)
mark_as_advanced(TUFF_VULKAN_LOADER)
if(TUFF_SHADERC_FOUND AND TUFF_VULKAN_LOADER)
  add_executable(vendor_pipelines EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/vendors/pipelines.c)
  set_target_properties(vendor_pipelines PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  target_include_directories(vendor_pipelines SYSTEM PRIVATE ${TUFF_VULKAN_INCLUDE})
  target_link_libraries(vendor_pipelines PRIVATE ${TUFF_SHADERC_LIBRARIES} ${TUFF_VULKAN_LOADER})
endif()

# Writes kernels; built only for tools/check-loops and tools/check-vendors.
if(TUFF_TOOL)
  add_executable(vendor_kernels EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/vendors/kernels.c
    ${PROJECT_SOURCE_DIR}/tools/inspect/override_gpu.c)
  set_target_properties(vendor_kernels PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  target_include_directories(vendor_kernels PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(vendor_kernels PRIVATE tuff_internal)
endif()
