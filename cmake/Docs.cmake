# The target docs generates the reference of the public headers as HTML, in docs/html of the build folder. A declaration
# without a comment, or a comment that Doxygen cannot read, is an error. The target does not exist if Doxygen is
# missing.
find_program(TUFF_DOXYGEN doxygen)
find_package(Python3 QUIET COMPONENTS Interpreter)
mark_as_advanced(TUFF_DOXYGEN)
if(TUFF_DOXYGEN AND Python3_FOUND)
  set(tuff_docs_folder ${PROJECT_BINARY_DIR}/docs)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/Doxyfile.in ${tuff_docs_folder}/Doxyfile @ONLY)
  add_custom_target(docs
    COMMAND ${TUFF_DOXYGEN} ${tuff_docs_folder}/Doxyfile
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMENT "Writing the reference to ${tuff_docs_folder}/html"
    VERBATIM)
endif()
