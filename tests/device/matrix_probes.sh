#!/bin/sh
# The self-test's products for matrix units that CPU drivers lack must compile to valid SPIR-V: KHR's form, with f16 and
# bf16, and units that a work-group shares. Needs GLSLANG_NEW and SPIRV_VAL_KHR (tools/setup-drivers), or is skipped.
# Usage: matrix_probes.sh BUILD
set -u
. "$(dirname "$0")/../tools/script_checks"
enter "$1"
compiler=${GLSLANG_NEW:-} validator=${SPIRV_VAL_KHR:-spirv-val}
[ -x "$compiler" ] && command -v "$validator" >/dev/null || { echo "no compiler for them, or no validator"; exit 77; }
mkdir texts
"$1/tests/matrix_probes" texts || exit $?
count=0
for text in texts/*.comp; do
    "$compiler" -V --target-env vulkan1.1 "$text" -o probe.spv >log 2>&1 || { echo "$text does not compile"; cat log; exit 1; }
    "$validator" --target-env vulkan1.3 probe.spv || { echo "the SPIR-V of $text is not valid"; exit 1; }
    count=$((count + 1))
done
[ $count = 12 ] || { echo "there are $count texts instead of 12"; exit 1; }
echo "valid: $count kernels"
