# build/tuff-recorder, for developers of the tuner (bench/README.md). It is never installed. All files except its main
# file form a library, because tests replay recordings.
file(GLOB tuff_recorder_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/recorder/*.c)
list(REMOVE_ITEM tuff_recorder_sources ${PROJECT_SOURCE_DIR}/bench/recorder/main.c)
add_library(tuff_recorder_parts STATIC ${tuff_recorder_sources})
set_target_properties(tuff_recorder_parts PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
target_include_directories(tuff_recorder_parts SYSTEM PRIVATE ${TUFF_JANSSON_INCLUDE})
target_link_libraries(tuff_recorder_parts PUBLIC tuff_tool_parts)

add_executable(tuff_recorder ${PROJECT_SOURCE_DIR}/bench/recorder/main.c)
set_target_properties(tuff_recorder PROPERTIES
  OUTPUT_NAME tuff-recorder RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} C_STANDARD 11 C_EXTENSIONS OFF)
target_link_libraries(tuff_recorder PRIVATE tuff_recorder_parts)
