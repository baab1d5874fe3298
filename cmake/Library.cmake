# The library. Its sources are compiled once, as objects. Two libraries are made from them: tuff for users, and
# tuff_internal, always static, for the tool and the tests, which may use internal symbols.
file(GLOB_RECURSE tuff_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
if(NOT TUFF_OPENCL)
  list(FILTER tuff_sources EXCLUDE REGEX "/src/device/opencl/")
endif()
if(NOT TUFF_VULKAN)
  list(FILTER tuff_sources EXCLUDE REGEX "/src/device/vulkan/")
endif()
set(tuff_shaderc_source ${PROJECT_SOURCE_DIR}/src/device/vulkan/shaderc.c)
if(NOT TUFF_SHADERC OR tuff_has_shaderc_module)
  list(REMOVE_ITEM tuff_sources ${tuff_shaderc_source})
endif()

# Without the tuner, api/untuned.c replaces the sources excluded here. The portfolio stays, because `tuff cache` shows
# it.
if(TUFF_AUTOTUNE)
  list(FILTER tuff_sources EXCLUDE REGEX "/src/api/untuned\\.c$")
else()
  list(FILTER tuff_sources EXCLUDE REGEX "/src/(autotune|worker)/|/src/measure/(candidate_run|test_buffers|oracle|cache_flush)\\.c$|/src/api/(tune_plan|launch_failure|device_race)\\.c$")
  list(FILTER tuff_sources EXCLUDE REGEX "/src/search/(budget|search[a-z_]*|space|times)\\.c$")
endif()

add_library(tuff_objects OBJECT ${tuff_sources} ${tuff_kernel_texts_source})
set_target_properties(tuff_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden C_STANDARD 11 C_EXTENSIONS OFF)
target_link_libraries(tuff_objects PRIVATE tuff_compiler)
target_include_directories(tuff_objects PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_include_directories(tuff_objects SYSTEM PRIVATE
  ${TUFF_JANSSON_INCLUDE} ${TUFF_XXHASH_INCLUDE} ${TUFF_SHADERC_INCLUDE}
  $<$<BOOL:${TUFF_OPENCL}>:${TUFF_OPENCL_INCLUDE}> $<$<BOOL:${TUFF_VULKAN}>:${TUFF_VULKAN_INCLUDE}>)
set(tuff_definitions
  TUFF_WITH_OPENCL=$<BOOL:${TUFF_OPENCL}> TUFF_WITH_VULKAN=$<BOOL:${TUFF_VULKAN}>
  TUFF_WITH_AUTOTUNE=$<BOOL:${TUFF_AUTOTUNE}>
  TUFF_WITH_SHADERC=$<AND:$<BOOL:${TUFF_VULKAN}>,$<BOOL:${TUFF_SHADERC}>>)
target_compile_definitions(tuff_objects PRIVATE ${tuff_definitions})
# The folder of shipped tuning records; TUFF_SHARE_DIR overrides it at run time.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/tunedb/folder.c PROPERTIES
  COMPILE_DEFINITIONS "TUFF_SHARE_FOLDER=\"${CMAKE_INSTALL_FULL_DATADIR}/tuff\"")
# The tool that tunes in the background for programs: its path relative to a shared library, and where it is installed.
file(RELATIVE_PATH tuff_tool_from_library ${CMAKE_INSTALL_FULL_LIBDIR} ${CMAKE_INSTALL_FULL_BINDIR}/tuff)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/worker/worker_process.c PROPERTIES COMPILE_DEFINITIONS
  "TUFF_TOOL_FROM_LIBRARY=\"${tuff_tool_from_library}\";TUFF_TOOL_INSTALLED=\"${CMAKE_INSTALL_FULL_BINDIR}/tuff\"")

# The module that contains shaderc, and the paths where the library looks for it (src/device/vulkan/glsl.c).
if(tuff_has_shaderc_module)
  add_library(tuff_shaderc MODULE ${tuff_shaderc_source})
  set_target_properties(tuff_shaderc PROPERTIES
    PREFIX lib SUFFIX .so POSITION_INDEPENDENT_CODE ON C_STANDARD 11 C_EXTENSIONS OFF LINKER_LANGUAGE C)
  target_include_directories(tuff_shaderc PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(tuff_shaderc SYSTEM PRIVATE ${TUFF_SHADERC_INCLUDE})
  target_compile_definitions(tuff_shaderc PRIVATE TUFF_SHADERC_MODULE=1)
  target_link_libraries(tuff_shaderc PRIVATE tuff_compiler ${TUFF_SHADERC_LIBRARIES})
  target_link_options(tuff_shaderc PRIVATE -Wl,--exclude-libs,ALL ${tuff_no_undefined})
  set(tuff_module_folder ${CMAKE_INSTALL_FULL_LIBDIR}/tuff)
  file(RELATIVE_PATH tuff_module_from_program ${CMAKE_INSTALL_FULL_BINDIR} ${tuff_module_folder}/libtuff_shaderc.so)
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/device/vulkan/glsl.c APPEND PROPERTY COMPILE_DEFINITIONS
    TUFF_SHADERC_MODULE=1
    "TUFF_SHADERC_MODULE_FROM_PROGRAM=\"${tuff_module_from_program}\""
    "TUFF_SHADERC_MODULE_INSTALLED=\"${tuff_module_folder}/libtuff_shaderc.so\"")
endif()

add_library(tuff $<TARGET_OBJECTS:tuff_objects>)
add_library(tuff::tuff ALIAS tuff)
set_target_properties(tuff PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINKER_LANGUAGE C)
target_include_directories(tuff PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tuff PRIVATE $<BUILD_INTERFACE:tuff_compiler> ${tuff_linked_shaderc} ${tuff_libraries})
if(BUILD_SHARED_LIBS)
  # Only the declarations in include/ are exported, no symbols of the static libraries that are linked in.
  target_link_options(tuff PRIVATE -Wl,--exclude-libs,ALL ${tuff_no_undefined})
endif()

add_library(tuff_internal STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:tuff_objects>)
target_include_directories(tuff_internal PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(tuff_internal PUBLIC ${tuff_definitions})
target_link_libraries(tuff_internal PUBLIC tuff_compiler ${tuff_linked_shaderc} ${tuff_libraries})
set_target_properties(tuff_internal PROPERTIES LINKER_LANGUAGE C)
if(tuff_has_shaderc_module)
  add_dependencies(tuff tuff_shaderc)
  add_dependencies(tuff_internal tuff_shaderc)
endif()
