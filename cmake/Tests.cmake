# The tests, in folders by subject. Every NAME.c below tests/ is a program build/tests/NAME and a test, except files
# with a header of the same name (which several programs share) and fuzz targets (cmake/Fuzz.cmake). Every NAME.sh is
# also a test, called with the build folder. All run through tests/support/driver_environment, which makes the drivers
# of tools/setup-drivers visible. Headers of tests/support are included by their bare name, those of other folders by
# path.
find_package(cmocka QUIET)
find_path(TUFF_CMOCKA_INCLUDE cmocka.h)
find_library(TUFF_CMOCKA_LIBRARY cmocka)
if(NOT TUFF_CMOCKA_INCLUDE OR NOT TUFF_CMOCKA_LIBRARY)
  message(FATAL_ERROR "cmocka was not found: install libcmocka-dev, or build with -DTUFF_TESTS=OFF")
endif()

file(GLOB_RECURSE tuff_test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.c)
file(GLOB_RECURSE tuff_test_scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.sh)
list(FILTER tuff_test_sources EXCLUDE REGEX "/fuzz_[^/]*$")
# Leave out the tests of the tuner and those that tune.
if(NOT TUFF_AUTOTUNE)
  set(tuned "/tests/(autotune|search|measure|worker)/|/tests/api/(tune_[a-z]*|fastest|cache_plans|cache_api)\\.c$")
  string(APPEND tuned "|/tests/tools/(tune_[a-z]*\\.c|(record|report|rerun|cache)_cli\\.sh|tool\\.sh)$|/tests/compile/cost\\.c$|/tests/tunedb/tune_crash\\.c$")
  list(FILTER tuff_test_sources EXCLUDE REGEX "${tuned}")
  list(FILTER tuff_test_scripts EXCLUDE REGEX "${tuned}")
endif()
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

set(TUFF_TEST_EXCLUDE "" CACHE STRING "Regex of names of tests that are neither built nor run")
if(TUFF_TEST_EXCLUDE)
  list(FILTER tuff_test_programs EXCLUDE REGEX "/(${TUFF_TEST_EXCLUDE})\\.c$")
  list(FILTER tuff_test_scripts EXCLUDE REGEX "/(${TUFF_TEST_EXCLUDE})\\.sh$")
endif()

# The training examples, as a library for the golden tests and the tests of the examples.
file(GLOB tuff_example_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c ${PROJECT_SOURCE_DIR}/examples/common/*.c)
list(FILTER tuff_example_sources EXCLUDE REGEX "/(gelu|[a-z]*_interop|common/main)\\.c$")
add_library(tuff_test_examples STATIC ${tuff_example_sources})
set_target_properties(tuff_test_examples PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
target_link_libraries(tuff_test_examples PUBLIC tuff_internal)

add_library(tuff_test_base INTERFACE)
target_include_directories(tuff_test_base INTERFACE ${PROJECT_SOURCE_DIR}/tests/support ${PROJECT_SOURCE_DIR})
target_include_directories(tuff_test_base SYSTEM INTERFACE
  ${TUFF_CMOCKA_INCLUDE} ${TUFF_JANSSON_INCLUDE} ${TUFF_XXHASH_INCLUDE}
  $<$<BOOL:${TUFF_OPENCL}>:${TUFF_OPENCL_INCLUDE}> $<$<BOOL:${TUFF_VULKAN}>:${TUFF_VULKAN_INCLUDE}>)
target_compile_definitions(tuff_test_base INTERFACE TUFF_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
target_link_libraries(tuff_test_base INTERFACE $<$<BOOL:${TUFF_AUTOTUNE}>:tuff_recorder_parts> tuff_test_examples tuff_tool_parts ${TUFF_CMOCKA_LIBRARY})
# See tests/support/skipping.h.
target_link_options(tuff_test_base INTERFACE LINKER:--wrap=_skip,--wrap=_cmocka_run_group_tests)
# GNU ld takes twice as long or more, for each of some 170 programs.
include(CheckLinkerFlag)
foreach(linker lld gold)
  check_linker_flag(C -fuse-ld=${linker} TUFF_HAS_${linker})
  if(TUFF_HAS_${linker})
    target_link_options(tuff_test_base INTERFACE -fuse-ld=${linker})
    break()
  endif()
endforeach()
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
# Background tuning uses the tool of this build, never an installed one.
if(TARGET tuff_tool)
  list(APPEND tuff_environment TUFF_WORKER=$<TARGET_FILE:tuff_tool>)
else()
  list(APPEND tuff_environment "TUFF_WORKER=")
endif()
# Test programs are in a deeper folder than the paths where the library looks for the module.
if(TARGET tuff_shaderc)
  list(APPEND tuff_environment TUFF_SHADERC_MODULE=$<TARGET_FILE:tuff_shaderc>)
endif()
set(TUFF_TEST_TIMEOUT 1400 CACHE STRING "Seconds after which ctest ends a test")
function(tuff_add_test name)
  add_test(NAME ${name} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/support/driver_environment ${ARGN}
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TUFF_TEST_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "${tuff_environment}")
endfunction()

foreach(source IN LISTS tuff_test_programs)
  get_filename_component(name ${source} NAME_WE)
  add_executable(test_${name} ${source})
  set_target_properties(test_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests C_STANDARD 11 C_EXTENSIONS OFF)
  target_link_libraries(test_${name} PRIVATE tuff_test_parts)
  # A program that takes arguments is called by a script of the same name instead.
  string(REGEX REPLACE "\\.c$" ".sh" script ${source})
  if(NOT EXISTS ${script})
    tuff_add_test(${name} $<TARGET_FILE:test_${name}>)
  endif()
endforeach()
foreach(script IN LISTS tuff_test_scripts)
  get_filename_component(name ${script} NAME_WE)
  tuff_add_test(${name} sh ${script} ${PROJECT_BINARY_DIR})
endforeach()
# The longest tests start first, so that none of them runs alone at the end.
foreach(name every_op golden golden_cases attention matmul tune_kill tune_variants tool documents workloads fusion
    graph_cli profile_cli train_kill train_options random_programs tune_store cache_cli cache_api)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST 1000)
  endif()
endforeach()
# Drivers optimize (tests/support/driver_environment) in the tests of every op and of five models, in those that depend on
# times, and where kernels run for long.
foreach(name every_op workloads tune tune_background tune_isolate profile_cli monitor_cli)
  if(TEST ${name})
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT TUFF_DRIVER_OPTIMIZER=1)
  endif()
endforeach()

# Launches are merged in the tests of whole programs.
foreach(name persistent workloads random_programs golden example_route_cost example_ragged_sequence train)
  if(TEST ${name})
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT TUFF_PERSISTENT_KERNELS=1)
  endif()
endforeach()

# The rules of the sources, as tests.
add_test(NAME check-budgets COMMAND ${PROJECT_SOURCE_DIR}/tools/check-budgets)
add_test(NAME check-layers COMMAND ${PROJECT_SOURCE_DIR}/tools/check-layers --objects ${PROJECT_BINARY_DIR})
add_test(NAME check-mutants COMMAND ${PROJECT_SOURCE_DIR}/tools/mutants --list)
