# The tests: every tests/NAME.c is a program build/tests/NAME and a test, except one that has a header of its name beside
# it (shared by the programs) and fuzz targets (cmake/Fuzz.cmake). Every tests/NAME.sh is a test too, called with the build
# folder. All run through tests/driver_environment, which makes the drivers of tools/setup-drivers visible.
find_package(cmocka QUIET)
find_path(TUFF_CMOCKA_INCLUDE cmocka.h)
find_library(TUFF_CMOCKA_LIBRARY cmocka)
if(NOT TUFF_CMOCKA_INCLUDE OR NOT TUFF_CMOCKA_LIBRARY)
  message(FATAL_ERROR "cmocka was not found: install libcmocka-dev, or build with -DTUFF_TESTS=OFF")
endif()

file(GLOB tuff_test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.c)
file(GLOB tuff_test_scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.sh)
list(FILTER tuff_test_sources EXCLUDE REGEX "/fuzz_[^/]*$")
set(tuff_test_programs)
set(tuff_test_parts)
foreach(source IN LISTS tuff_test_sources)
  string(REGEX REPLACE "\\.c$" ".h" header ${source})
  if(EXISTS ${header})
    list(APPEND tuff_test_parts ${source})
  else()
    list(APPEND tuff_test_programs ${source})
  endif()
endforeach()

add_library(tuff_test_base INTERFACE)
target_include_directories(tuff_test_base INTERFACE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR})
target_include_directories(tuff_test_base SYSTEM INTERFACE
  ${TUFF_CMOCKA_INCLUDE} ${TUFF_JANSSON_INCLUDE} ${TUFF_XXHASH_INCLUDE}
  $<$<BOOL:${TUFF_OPENCL}>:${TUFF_OPENCL_INCLUDE}> $<$<BOOL:${TUFF_VULKAN}>:${TUFF_VULKAN_INCLUDE}>)
target_compile_definitions(tuff_test_base INTERFACE TUFF_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
target_link_libraries(tuff_test_base INTERFACE tuff_recorder_parts tuff_tool_parts ${TUFF_CMOCKA_LIBRARY})
if(tuff_test_parts)
  add_library(tuff_test_parts STATIC ${tuff_test_parts})
  target_link_libraries(tuff_test_parts PUBLIC tuff_test_base)
else()
  add_library(tuff_test_parts INTERFACE)
  target_link_libraries(tuff_test_parts INTERFACE tuff_test_base)
endif()

set(tuff_environment
  TUFF_TEST_DATA=${PROJECT_SOURCE_DIR}/tests/data TUFF_SOURCE=${PROJECT_SOURCE_DIR} TUFF_BUILD=${PROJECT_BINARY_DIR}
  TUFF_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/cache TUFF_SHARE_DIR=${PROJECT_BINARY_DIR}/tests/share "TUFF_TEST_SANITIZE=${TUFF_SANITIZE}")
# Background tuning is done by the tool of this build, never by one that is installed.
if(TARGET tuff_tool)
  list(APPEND tuff_environment TUFF_HELPER=$<TARGET_FILE:tuff_tool>)
else()
  list(APPEND tuff_environment "TUFF_HELPER=")
endif()
function(tuff_add_test name)
  add_test(NAME ${name} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/driver_environment ${ARGN}
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_tests_properties(${name} PROPERTIES TIMEOUT 1400 SKIP_RETURN_CODE 77 ENVIRONMENT "${tuff_environment}")
endfunction()

foreach(source IN LISTS tuff_test_programs)
  get_filename_component(name ${source} NAME_WE)
  add_executable(test_${name} ${source})
  set_target_properties(test_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests C_STANDARD 11 C_EXTENSIONS OFF)
  target_link_libraries(test_${name} PRIVATE tuff_test_parts)
  # A program that takes arguments is called by a script of its name instead.
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/tests/${name}.sh)
    tuff_add_test(${name} $<TARGET_FILE:test_${name}>)
  endif()
endforeach()
foreach(script IN LISTS tuff_test_scripts)
  get_filename_component(name ${script} NAME_WE)
  tuff_add_test(${name} sh ${script} ${PROJECT_BINARY_DIR})
endforeach()
# The longest go first, so that no processor is left with one of them at the end.
foreach(name every_op golden golden_cases attention matmul tune_kill tune_variants producers)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST 1000)
  endif()
endforeach()

# The rules of the sources, as tests.
foreach(check check-layers check-budgets)
  add_test(NAME ${check} COMMAND ${PROJECT_SOURCE_DIR}/tools/${check})
endforeach()
