# The command-line tool, build/tuff: tools/tuff.c over one file per verb. The verbs and their helpers are a library of
# their own, because tests use the op suite and the models of the tool.
file(GLOB tuff_tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.c)
list(REMOVE_ITEM tuff_tool_sources ${PROJECT_SOURCE_DIR}/tools/tuff.c)

if(tuff_tool_sources)
  add_library(tuff_tool_parts STATIC ${tuff_tool_sources})
  set_target_properties(tuff_tool_parts PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  target_include_directories(tuff_tool_parts PUBLIC ${PROJECT_SOURCE_DIR}/tools ${PROJECT_SOURCE_DIR})
  target_include_directories(tuff_tool_parts SYSTEM PRIVATE $<$<BOOL:${TUFF_OPENCL}>:${TUFF_OPENCL_INCLUDE}>)
  target_link_libraries(tuff_tool_parts PUBLIC tuff_internal)
else()
  add_library(tuff_tool_parts INTERFACE)
  target_link_libraries(tuff_tool_parts INTERFACE tuff_internal)
endif()

if(TUFF_TOOL AND EXISTS ${PROJECT_SOURCE_DIR}/tools/tuff.c)
  add_executable(tuff_tool ${PROJECT_SOURCE_DIR}/tools/tuff.c)
  set_target_properties(tuff_tool PROPERTIES
    OUTPUT_NAME tuff RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} C_STANDARD 11 C_EXTENSIONS OFF)
  target_link_libraries(tuff_tool PRIVATE tuff_tool_parts)
endif()
