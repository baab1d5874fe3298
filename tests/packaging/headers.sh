#!/bin/sh
# Every header compiles on its own: the public ones as C11 and as C++17 without warnings, the internal ones as C11.
set -eu
cd "${TUFF_SOURCE:-$(dirname "$0")/../..}"
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
count=0
for compilers in "${CC:-cc} ${CXX:-c++}" "clang clang++"; do
    set -- $compilers
    command -v "$1" >/dev/null || continue
    for header in include/tuff.h include/tuff/*.h; do
        echo "#include <${header#include/}>" | "$1" -x c -std=c11 $warnings -Wstrict-prototypes -Iinclude -fsyntax-only -
        echo "#include <${header#include/}>" | "$2" -x c++ -std=c++17 $warnings -Iinclude -fsyntax-only -
        count=$((count + 1))
    done
    for header in $(find src tools -name '*.h'); do
        echo "#include \"$header\"" |
            "$1" -x c -std=c11 $warnings -Wstrict-prototypes -Iinclude -Isrc -I. -Itools -fsyntax-only -
        count=$((count + 1))
    done
done
echo "$count headers compile on their own"
[ "$count" -gt 10 ]
