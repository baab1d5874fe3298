#!/bin/sh
# Holds every device found against the golden files: training with fusion and without it, or, where the second argument is
# ops, the cases of single ops, on the reference and one driver of each API unless TUFF_SUITE=thorough: what an op means
# depends on no device, and every_op holds all against the reference. Called: golden.sh BUILD [ops]
set -u
build=$1
data=${TUFF_TEST_DATA:-$(dirname "$0")/data}/golden
devices=$("$build/tuff" devices --json | sed -n 's/.*"selector": "\([^"]*\)".*/\1/p')
[ -n "$devices" ] || { echo "golden.sh: tuff devices --json names no device" >&2; exit 1; }
if [ "${2:-}" = ops ] && [ "${TUFF_SUITE:-}" != thorough ]; then
    devices=$(printf '%s\n' $devices | awk -F : '{ last[$1] = $0 } END { for (api in last) print last[api] }')
fi
output=$(mktemp)
trap 'rm -f "$output"' EXIT

failed=0
# check DEVICE FILE OPTIONS: prints the closing line and the rows that are beyond their bars.
check() {
    device=$1
    shift
    "$build/tests/golden" "$@" --device "$device" >"$output" 2>&1 || failed=1
    echo "== $device: $(tail -n 1 "$output")"
    sed -e '$d' -e '/ ok$/d' -e '/ skipped: /d' -e '/\.safetensors$/d' "$output"
}
for device in $devices; do
    if [ "${2:-}" = ops ]; then
        check "$device" "$data/ops.safetensors"
    else
        check "$device" "$data/gpt_tiny.safetensors"
        [ "$device" = reference ] || check "$device" "$data/gpt_tiny.safetensors" --fuse off
    fi
done
exit $failed
