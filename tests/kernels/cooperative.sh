#!/bin/sh
# Matmuls, attention and its gradients on matrix units, which GLSL has in two forms, one of them also with bf16; and
# matmuls on units that a work-group shares, for tiles of every size that the tuner may try: all must compile to valid
# SPIR-V. What no compiler knows is skipped, as is everything without a validator. GLSLANG_KHR may name a compiler that
# knows KHR's form, GLSLANG_NEW one that knows bf16 and units of work-groups, and SPIRV_VAL_KHR a validator
# (tools/setup-drivers). A run draws every sixth kernel of each vendor and some of the sizes, unless it is thorough.
# Usage: cooperative.sh BUILD
set -u
. "$(dirname "$0")/../tools/script_checks"
enter "$1"
begin_draws
every=6 every_size=154
[ "${TUFF_SUITE:-}" != thorough ] || every=1 every_size=1

device=$("$tuff" devices | sed -n 's/^\(vulkan:[0-9][0-9]*\) .*/\1/p' | tail -n 1)
[ -n "$device" ] || { echo "no Vulkan device"; exit 77; }
checked=

# knows COMPILER EXTENSION: whether it compiles an empty kernel that requires the extension.
knows() {
    command -v "$1" >/dev/null || return 1
    printf '#version 450\n#extension %s : require\nlayout(local_size_x = 1) in;\nvoid main() {}\n' "$2" >empty.comp
    "$1" -V --target-env vulkan1.1 empty.comp -o empty.spv >log 2>&1
}

# compile COMPILER TEXT: to valid SPIR-V, or the test fails.
compile() {
    "$1" -V --target-env vulkan1.1 "$2" -o kernel.spv >log 2>&1 || { echo "$2 does not compile"; cat log; exit 1; }
    "$validator" --target-env vulkan1.3 kernel.spv || { echo "the SPIR-V of $2 is not valid"; exit 1; }
    count=$((count + 1))
}

# find_compiler EXTENSION COMPILER...: sets `compiler` to the first one that knows the extension.
find_compiler() {
    extension=$1
    shift
    for compiler in "$@"; do
        ! knows "$compiler" "$extension" || return 0
    done
    echo "no GLSL compiler supports $extension"
    return 1
}

# write_kernels VENDOR PRECISION BODY...: writes the kernels for a vendor's GPUs to `folder`, with some of each body.
write_kernels() {
    folder=$1-$2
    "$tuff" kernel --out "$folder" --as "$1" --family cooperative --precision "$2" --device "$device" >list || exit 1
    shift 2
    for body in "$@"; do
        ls "$folder/tuff_$body"-* >/dev/null || { echo "$folder: no $body"; exit 1; }
    done
    count=0
}

# has_dtype TEXT DTYPE: whether the factors of a kernel have this dtype, f16 or bf16. Plans may have kernels of both.
has_dtype() {
    case $2 in
    bf16) grep -q "#define MATRIX_BF16 1" "$1" ;;
    *) grep -q "#define MATRIX_BF16 0" "$1" ;;
    esac
}

# check EXTENSION VENDOR PRECISION COMPILER...: compiles the kernels for a vendor's GPUs with a compiler that knows it.
check() {
    vendor=$2 precision=$3 wanted=$1
    shift 3
    write_kernels "$vendor" "$precision" matmul_cooperative attention_cooperative attention_backward_cooperative_shared
    find_compiler "$wanted" "$@" || return 0
    number=0
    draw $every
    for text in "$folder"/tuff_*_cooperative*-*; do
        has_dtype "$text" "$precision" || continue
        number=$((number + 1))
        [ $((number % every)) = "$drawn" ] || continue
        grep -q "#extension $wanted : require" "$text" || { echo "$text does not use $wanted"; exit 1; }
        compile "$compiler" "$text"
    done
    [ "$number" -ge $every ] || { echo "$folder has only $number kernels in $precision"; exit 1; }
    checked="$checked, $count kernels of $vendor in $precision with $wanted"
}

# with NAME VALUE...: prints a kernel's text with other values of its definitions.
with() {
    edits=
    while [ $# -gt 1 ]; do
        edits="$edits;s/^#define $1 [0-9]*\$/#define $1 $2/"
        shift 2
    done
    sed "$edits" "$text"
}

# Tiles of every size, of operands that lie in memory in every way: sizes are definitions in the text.
check_sizes() {
    number=0
    draw $every_size
    for tile in 32x64 32x128 32x256 64x64 64x128 64x256 128x64 128x128 128x256 256x64 256x128; do
        for steps in "32 1" "32 4" "32 8" "64 1" "64 2" "64 4" "64 8"; do
            for layout in "0 0 0" "0 1 1" "1 0 0" "1 0 1" "1 1 0" "1 1 1"; do
                number=$((number + 1))
                [ $((number % every_size)) = "$drawn" ] || continue
                set -- $steps $layout
                with BLOCK_ROWS "${tile%x*}" BLOCK_COLUMNS "${tile#*x}" STEP_K "$1" UNROLL_STEPS "$2" \
                    A_K_CONTIGUOUS "$3" B_K_CONTIGUOUS "$4" A_ALIGNED "$5" B_ALIGNED "$5" >sized.comp
                compile "$compiler" sized.comp
            done
        done
    done
}

# check_groups PRECISION EXTENSION: kernels for units that a work-group shares. EXTENSION: which one the precision needs.
check_groups() {
    write_kernels nvidia-hopper "$1" matmul_workgroup
    find_compiler GL_NV_cooperative_matrix2 "$new" "$khr" glslang glslangValidator && knows "$compiler" "$2" || return 0
    number=0
    draw $every
    for any in "$folder"/tuff_matmul_workgroup-*; do
        has_dtype "$any" "$1" || continue
        text=$any number=$((number + 1))
        [ $((number % every)) = "$drawn" ] || continue
        for extension in GL_KHR_cooperative_matrix GL_NV_cooperative_matrix2 "$2"; do
            grep -q "#extension $extension : require" "$text" || { echo "$text does not use $extension"; exit 1; }
        done
        compile "$compiler" "$text"
    done
    [ "$number" -ge $every ] || { echo "$folder has only $number kernels of work-groups in $1"; exit 1; }
    check_sizes
    checked="$checked, $count kernels of work-groups in $1"
}

validator=${SPIRV_VAL_KHR:-spirv-val}
command -v "$validator" >/dev/null || { echo "$validator is not installed"; exit 77; }
khr=${GLSLANG_KHR:-glslang} new=${GLSLANG_NEW:-glslang}
check GL_NV_cooperative_matrix nvidia f16 glslangValidator glslang "$khr"
check GL_KHR_cooperative_matrix amd f16 "$khr" glslangValidator
check GL_KHR_cooperative_matrix intel f16 "$khr" glslangValidator
check GL_EXT_bfloat16 amd bf16 "$new" "$khr" glslangValidator
check GL_EXT_bfloat16 intel bf16 "$new" "$khr" glslangValidator
check_groups f16 GL_KHR_cooperative_matrix
check_groups bf16 GL_EXT_bfloat16
[ -n "$checked" ] || exit 77
echo "valid:${checked#,}"
