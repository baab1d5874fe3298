#!/bin/sh
# Matmuls, attention and its gradients on matrix units, which GLSL has in two forms: all must compile to valid SPIR-V. A
# form that no compiler knows is skipped, as are both without a validator. GLSLANG_KHR may name a compiler that knows
# KHR's, and SPIRV_VAL_KHR a validator (tools/setup-drivers). A run draws every third kernel of each vendor, unless
# it is thorough. Usage: cooperative.sh BUILD
set -u
. "$(dirname "$0")/../tools/script_checks"
enter "$1"
begin_draws
every=3
[ "${TUFF_SUITE:-}" != thorough ] || every=1

device=$("$tuff" devices | sed -n 's/^\(vulkan:[0-9][0-9]*\) .*/\1/p' | tail -n 1)
[ -n "$device" ] || { echo "no Vulkan device"; exit 77; }
checked=
bodies="matmul_cooperative attention_cooperative attention_backward_cooperative_shared"

# knows COMPILER FORM: whether it compiles an empty kernel that requires the extension.
knows() {
    command -v "$1" >/dev/null || return 1
    printf '#version 450\n#extension GL_%s_cooperative_matrix : require\nlayout(local_size_x = 1) in;\nvoid main() {}\n' "$2" >empty.comp
    "$1" -V --target-env vulkan1.1 empty.comp -o empty.spv >log 2>&1
}

# check FORM VENDOR COMPILER...: compiles the kernels for a vendor's GPUs with the first compiler that knows the form.
check() {
    form=$1 vendor=$2
    shift 2
    "$tuff" kernel --out "$vendor" --as "$vendor" --family cooperative --precision f16 --device "$device" >list || exit 1
    count=0 number=0
    draw $every
    for compiler in "$@"; do
        knows "$compiler" "$form" || continue
        for text in "$vendor"/tuff_*_cooperative*-*; do
            number=$((number + 1))
            [ $((number % every)) = "$drawn" ] || continue
            grep -q "GL_${form}_cooperative_matrix : require" "$text" || { echo "$text does not use the $form extension"; exit 1; }
            "$compiler" -V --target-env vulkan1.1 "$text" -o kernel.spv >log 2>&1 || { cat log; exit 1; }
            "$validator" --target-env vulkan1.3 kernel.spv || exit 1
            count=$((count + 1))
        done
        for body in $bodies; do
            ls "$vendor/tuff_$body"-* >/dev/null || { echo "$vendor: no $body"; exit 1; }
        done
        checked="$checked, $count kernels of $vendor in the form of $form"
        return
    done
    echo "no GLSL compiler supports GL_${form}_cooperative_matrix, for $vendor"
}

validator=${SPIRV_VAL_KHR:-spirv-val}
command -v "$validator" >/dev/null || { echo "$validator is not installed"; exit 77; }
khr=${GLSLANG_KHR:-glslang}
check NV nvidia glslangValidator glslang "$khr"
check KHR amd "$khr" glslangValidator
check KHR intel "$khr" glslangValidator
[ -n "$checked" ] || exit 77
echo "valid:${checked#,}"
