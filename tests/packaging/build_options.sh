#!/bin/sh
# The builds with something left out, or shared, compile without warnings and compute: without Vulkan, without OpenCL, and as
# a shared library that exports what include/ declares, nothing else; in a thorough run also without either, and without
# shaderc.
set -eu
source_folder=${TUFF_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
[ -z "${TUFF_TEST_SANITIZE:-}" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {
    name=$1
    shift
    echo "$name: $*"
    cmake -S "$source_folder" -B "$work/$name" -DCMAKE_BUILD_TYPE=Debug -DTUFF_TESTS=OFF -DTUFF_TOOL=OFF \
        -DTUFF_EXAMPLES=ON -DTUFF_WERROR=ON "$@" >"$work/log"
    cmake --build "$work/$name" -j2 >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

build no_vulkan -DTUFF_VULKAN=OFF
"$work/no_vulkan/examples/gelu_c" opencl
! "$work/no_vulkan/examples/gelu_c" vulkan || exit 1
rm -rf "$work/no_vulkan"

build no_opencl -DTUFF_OPENCL=OFF
"$work/no_opencl/examples/gelu_c" vulkan
! "$work/no_opencl/examples/gelu_c" opencl || exit 1
rm -rf "$work/no_opencl"

if [ "${TUFF_SUITE:-}" = thorough ]; then
    build neither -DTUFF_OPENCL=OFF -DTUFF_VULKAN=OFF
    "$work/neither/examples/gelu_c" reference
    rm -rf "$work/neither"

    # Programs from the cache do not need the compiler, so the cache is an empty one here.
    build no_shaderc -DTUFF_SHADERC=OFF
    "$work/no_shaderc/examples/gelu_c" opencl
    ! XDG_CACHE_HOME="$work/empty" TUFF_CACHE_DIR="$work/empty" "$work/no_shaderc/examples/gelu_c" vulkan || exit 1
    rm -rf "$work/no_shaderc"
fi

build shared -DBUILD_SHARED_LIBS=ON
"$work/shared/examples/gelu_c" auto
nm -D --defined-only "$work/shared/libtuff.so" | awk '{ print $3 }' | grep -v '^$' | sort >"$work/exported"
grep -rhoE '\btuff_[a-z0-9_]+\(' "$source_folder/include" | tr -d '(' | sort -u >"$work/declared"
if grep -vxFf "$work/declared" "$work/exported"; then
    echo "the symbols above are exported, but include/ does not declare them"
    exit 1
fi
echo "$(wc -l <"$work/exported") symbols are exported"
readelf -d "$work/shared/libtuff.so" | grep -q 'SONAME.*\[libtuff\.so\.[0-9]*\.[0-9]*\]' ||
    { echo "the SONAME does not name the minor version"; exit 1; }
