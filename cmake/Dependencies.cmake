# Finds tuff's dependencies. tuff_libraries lists the libraries that tuff is linked with, as names and paths that also
# suit the linker line of an installed static library. Of OpenCL and Vulkan only headers are needed: the loaders are
# opened at run time.
set(tuff_libraries)

function(tuff_find_header variable header package)
  find_path(${variable} ${header})
  if(NOT ${variable})
    message(FATAL_ERROR "${header} was not found: install ${package} (tools/install-packages installs everything)")
  endif()
endfunction()

tuff_find_header(TUFF_JANSSON_INCLUDE jansson.h libjansson-dev)
tuff_find_header(TUFF_XXHASH_INCLUDE xxhash.h libxxhash-dev)
find_library(TUFF_JANSSON_LIBRARY jansson)
if(NOT TUFF_JANSSON_LIBRARY)
  message(FATAL_ERROR "the jansson library was not found: install libjansson-dev")
endif()
list(APPEND tuff_libraries jansson)

if(TUFF_OPENCL)
  tuff_find_header(TUFF_OPENCL_INCLUDE CL/cl.h opencl-headers)
endif()
if(TUFF_VULKAN)
  tuff_find_header(TUFF_VULKAN_INCLUDE vulkan/vulkan.h libvulkan-dev)
endif()

# cmake/Shaderc.cmake finds out which form of shaderc links and runs here. tuff_linked_shaderc has its libraries that
# tuff is linked with; it is empty if the module is used.
set(TUFF_SHADERC_LIBRARIES)
if(TUFF_VULKAN AND TUFF_SHADERC)
  include(cmake/Shaderc.cmake)
endif()
set(tuff_has_shaderc_module OFF)
if(TUFF_VULKAN AND TUFF_SHADERC AND TUFF_SHADERC_MODULE)
  set(tuff_has_shaderc_module ON)
endif()
set(tuff_linked_shaderc ${TUFF_SHADERC_LIBRARIES})
if(tuff_has_shaderc_module)
  set(tuff_linked_shaderc)
endif()

set(THREADS_PREFER_PTHREAD_FLAG OFF)
find_package(Threads REQUIRED)
list(APPEND tuff_libraries ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS} m)
