# Compile options of our own C: the interface target tuff_compiler sets the language, the warnings and the sanitizers.
set(tuff_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wvla)

add_library(tuff_compiler INTERFACE)
target_compile_features(tuff_compiler INTERFACE c_std_11)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options(tuff_compiler INTERFACE "$<$<COMPILE_LANGUAGE:C>:-std=c11;${tuff_warnings}>")
  # No contraction, as in the C standard, so that host references are the same everywhere.
  target_compile_options(tuff_compiler INTERFACE "$<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>")
  if(TUFF_WERROR)
    target_compile_options(tuff_compiler INTERFACE "$<$<COMPILE_LANGUAGE:C>:-Werror>")
  endif()
endif()

string(REPLACE "," ";" tuff_sanitizers "${TUFF_SANITIZE}")
if(NOT tuff_sanitizers) # Clang links their runtime into programs only
  set(tuff_no_undefined -Wl,--no-undefined)
endif()
foreach(sanitizer IN LISTS tuff_sanitizers)
  if(NOT sanitizer MATCHES "^(address|undefined|thread)$")
    message(FATAL_ERROR "unknown sanitizer '${sanitizer}' in TUFF_SANITIZE: expected address, undefined or thread")
  endif()
  target_compile_options(tuff_compiler INTERFACE -fsanitize=${sanitizer} -fno-omit-frame-pointer)
  target_link_options(tuff_compiler INTERFACE -fsanitize=${sanitizer})
endforeach()
if(tuff_sanitizers)
  # As the sanitizers' documents advise. GCC otherwise spends most of such a build on tracking where variables are. With
  # -O1 it does not know the range of numbers that are printed.
  target_compile_options(tuff_compiler INTERFACE
    -O1 "$<$<C_COMPILER_ID:GNU>:-fno-var-tracking;-Wno-format-truncation>")
endif()
if("undefined" IN_LIST tuff_sanitizers)
  target_compile_options(tuff_compiler INTERFACE -fno-sanitize-recover=undefined)
endif()
