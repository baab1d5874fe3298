#!/bin/sh
# A user's program builds against an installed tuff by find_package and by pkg-config, and against its sources by
# add_subdirectory, and gets correct results on the reference device and on the best one. The last builds all sources
# again: runs in every fifth hour, when build_options.sh builds nothing, and thorough ones do that. Usage: embed.sh
# BUILD_FOLDER
set -eu
build=$1
source_folder=${TUFF_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
# Nobody installs a library with a sanitizer.
[ -z "${TUFF_TEST_SANITIZE:-}" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() {
    "$1" reference
    "$1" auto
}

cmake --install "$build" --prefix "$work/prefix" >"$work/log"
cmake -S "$source_folder/examples" -B "$work/package" -DCMAKE_PREFIX_PATH="$work/prefix" >>"$work/log"
cmake --build "$work/package" -j2 >>"$work/log" || { cat "$work/log"; exit 1; }
echo "find_package:"
run "$work/package/gelu_c"
run "$work/package/gelu_cpp"

# The installed files alone must suffice: they must not contain a path of the source or build folder.
if grep -rlF -e "$source_folder" -e "$build" "$work/prefix/lib"*/pkgconfig "$work/prefix/lib"*/cmake; then
    echo "the files above contain the path of tuff's source folder"
    exit 1
fi
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name tuff.pc)")
export PKG_CONFIG_PATH
echo "pkg-config $(pkg-config --modversion tuff):"
${CC:-cc} -std=c11 "$source_folder/examples/gelu.c" -o "$work/gelu_c" $(pkg-config --cflags --libs tuff) -lm
run "$work/gelu_c"
${CXX:-c++} -std=c++17 "$source_folder/examples/gelu.cpp" -o "$work/gelu_cpp" $(pkg-config --cflags --libs tuff)
run "$work/gelu_cpp"

seed=${TUFF_TEST_SEED:-$(($(date +%s) / 3600))}
echo "TUFF_TEST_SEED=$seed repeats what this run draws"
[ "${TUFF_SUITE:-}" = thorough ] || [ $((seed % 5)) -eq 3 ] || exit 0
cmake -S "$source_folder/examples" -B "$work/subdirectory" -DTUFF_SOURCE="$source_folder" -DCMAKE_BUILD_TYPE=Debug \
    >>"$work/log"
cmake --build "$work/subdirectory" -j2 >>"$work/log" || { cat "$work/log"; exit 1; }
echo "add_subdirectory:"
run "$work/subdirectory/gelu_c"
