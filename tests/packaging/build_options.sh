#!/bin/sh
# Builds with parts left out, or shared, compile without warnings and work: in turn, by the hour, without Vulkan, without
# OpenCL, as a shared library, with and without the module that compiles GLSL, or without the tuner; embed.sh has the
# fourth turn. In a thorough run all of these, without both APIs, and without shaderc.
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
        -DTUFF_EXAMPLES=ON -DTUFF_WERROR=ON "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    cmake --build "$work/$name" -j2 >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

# without MACRO NAME OTHER: leaves out one API, and computes on a device of the other.
without() {
    build "no_$2" "-DTUFF_$1=OFF"
    "$work/no_$2/examples/gelu_c" "$3"
    ! "$work/no_$2/examples/gelu_c" "$2" || exit 1
    rm -rf "$work/no_$2"
}

seed=${TUFF_TEST_SEED:-$(($(date +%s) / 3600))}
echo "TUFF_TEST_SEED=$seed repeats what this run draws"
[ "${TUFF_SUITE:-}" = thorough ] || [ $((seed % 5)) -ne 3 ] || exit 77
if [ "${TUFF_SUITE:-}" = thorough ] || [ $((seed % 5)) -eq 0 ]; then
    without VULKAN vulkan opencl
fi
if [ "${TUFF_SUITE:-}" = thorough ] || [ $((seed % 5)) -eq 1 ]; then
    without OPENCL opencl vulkan
fi

if [ "${TUFF_SUITE:-}" = thorough ] || [ $((seed % 5)) -eq 4 ]; then
    # All plans run with their defaults. The tool trains, says that it cannot tune, and lacks the verb.
    build untuned -DTUFF_AUTOTUNE=OFF -DTUFF_TOOL=ON -DTUFF_BENCH=OFF
    tuff=$work/untuned/tuff
    "$work/untuned/examples/gelu_c" auto
    for i in $(seq 200); do echo "Every line of this text is like the one before it."; done >"$work/text"
    "$tuff" train --data "$work/text" --device auto --steps 4 --layers 1 --heads 1 --width 16 --context 16 --batch 2 \
        --sample 0 --save "$work/model.safetensors" | tee "$work/printed"
    grep -q 'loss' "$work/printed" && [ -s "$work/model.safetensors" ]
    ! "$tuff" tune warm >"$work/log" 2>&1 || { echo "a tool without the tuner has the verb tune"; exit 1; }
    if nm "$work/untuned/libtuff.a" | grep -q ' T tuff__session_measure$'; then
        echo "the library without the tuner has its code"
        exit 1
    fi
    rm -rf "$work/untuned"
fi

if [ "${TUFF_SUITE:-}" = thorough ]; then
    build neither -DTUFF_OPENCL=OFF -DTUFF_VULKAN=OFF
    "$work/neither/examples/gelu_c" reference
    rm -rf "$work/neither"

    # Cached programs do not need the compiler, so that this needs an empty cache.
    build no_shaderc -DTUFF_SHADERC=OFF
    "$work/no_shaderc/examples/gelu_c" opencl
    ! XDG_CACHE_HOME="$work/empty" TUFF_CACHE_DIR="$work/empty" "$work/no_shaderc/examples/gelu_c" vulkan || exit 1
    rm -rf "$work/no_shaderc"
fi

[ "${TUFF_SUITE:-}" = thorough ] || [ $((seed % 5)) -eq 2 ] || exit 0

# The shared library has shaderc in a separate module. If that is missing or invalid, a device that must compile reports
# it; an empty cache makes it compile.
build shared -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo
gelu=$work/shared/examples/gelu_c
"$gelu" auto
sh "$(dirname "$0")/symbols.sh" "$work/shared"
readelf -d "$work/shared/libtuff.so" | grep -q 'SONAME.*\[libtuff\.so\.[0-9]*\.[0-9]*\]' ||
    { echo "the SONAME does not include the minor version"; exit 1; }

export TUFF_CACHE_DIR="$work/empty" XDG_CACHE_HOME="$work/empty"
unset TUFF_SHADERC_MODULE || :
refuse_module() {
    ! "$gelu" vulkan >"$work/log" 2>&1 || { echo "compiling succeeded without a GLSL compiler module"; exit 1; }
    grep -q "$1" "$work/log" || { cat "$work/log"; echo "the output does not contain \"$1\""; exit 1; }
}
"$gelu" vulkan
rm -rf "$work/empty"
mv "$work/shared/libtuff_shaderc.so" "$work/module.so"
refuse_module 'the GLSL compiler module libtuff_shaderc.so cannot be opened: it is neither'
"$gelu" auto
TUFF_SHADERC_MODULE="$work/module.so" "$gelu" vulkan
rm -rf "$work/empty"
export TUFF_SHADERC_MODULE="$work/shared/libtuff.so"
refuse_module 'belongs to another version'
TUFF_SHADERC_MODULE="$work/nowhere.so"
refuse_module "the GLSL compiler module $work/nowhere.so cannot be opened: .*No such file"
