# Makes generated/kernel_texts.c, in which every kernel text is an array: src/kernels/math.k, src/kernels/bodies (and
# the folders in it), cl/*.cl and shaders/*.glsl.
file(GLOB tuff_kernel_texts CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/kernels/math.k ${PROJECT_SOURCE_DIR}/src/kernels/bodies/*.k ${PROJECT_SOURCE_DIR}/src/kernels/bodies/*/*.k
  ${PROJECT_SOURCE_DIR}/cl/*.cl ${PROJECT_SOURCE_DIR}/shaders/*.glsl)
set(tuff_kernel_texts_source ${PROJECT_BINARY_DIR}/generated/kernel_texts.c)
add_custom_command(
  OUTPUT ${tuff_kernel_texts_source}
  COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${tuff_kernel_texts_source}" "-DFILES=${tuff_kernel_texts}"
    -P ${PROJECT_SOURCE_DIR}/cmake/EmbedTexts.cmake
  DEPENDS ${tuff_kernel_texts} ${PROJECT_SOURCE_DIR}/cmake/EmbedTexts.cmake
  COMMENT "Embedding the kernel texts"
  VERBATIM)
