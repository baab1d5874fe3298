# The files that cmake --install installs: headers, library, tool, the package for find_package(tuff) and the pkg-config
# file.
include(CMakePackageConfigHelpers)

install(TARGETS tuff EXPORT tuff_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET tuff_shaderc)
  install(TARGETS tuff_shaderc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tuff)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET tuff_tool)
  install(TARGETS tuff_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Tuning records from other machines (src/tunedb/folder.h).
install(DIRECTORY ${PROJECT_SOURCE_DIR}/share/tuff/tune DESTINATION ${CMAKE_INSTALL_DATADIR}/tuff OPTIONAL
  FILES_MATCHING PATTERN "*.jsonl")

set(tuff_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tuff)
install(EXPORT tuff_targets NAMESPACE tuff:: FILE tuffTargets.cmake DESTINATION ${tuff_package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tuffConfig.cmake.in ${PROJECT_BINARY_DIR}/tuffConfig.cmake
  INSTALL_DESTINATION ${tuff_package_folder})
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tuffConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tuffConfig.cmake ${PROJECT_BINARY_DIR}/tuffConfigVersion.cmake
  DESTINATION ${tuff_package_folder})

# Users of the static library must link its dependencies. pkg-config passes these to callers without --static only
# through Libs, so the static library uses Libs instead of Libs.private.
set(tuff_linker_words)
foreach(library IN LISTS tuff_linked_shaderc tuff_libraries)
  if(library MATCHES "^-" OR library MATCHES "/")
    list(APPEND tuff_linker_words ${library})
  else()
    list(APPEND tuff_linker_words -l${library})
  endif()
endforeach()
list(JOIN tuff_linker_words " " tuff_linker_words)
set(tuff_pc_libraries "${tuff_linker_words}")
set(tuff_pc_private_libraries)
if(BUILD_SHARED_LIBS)
  set(tuff_pc_libraries)
  set(tuff_pc_private_libraries "${tuff_linker_words}")
endif()
file(RELATIVE_PATH tuff_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" tuff_pc_prefix "${tuff_pc_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/tuff.pc.in ${PROJECT_BINARY_DIR}/tuff.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tuff.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
