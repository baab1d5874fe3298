#!/bin/sh
# Holds every device found against the golden files, and those with kernels against the training runs without fusion too.
# Called: golden.sh BUILD
set -u
build=$1
data=${TUFF_TEST_DATA:-$(dirname "$0")/data}/golden
devices=$("$build/tuff" devices --json | sed -n 's/.*"selector": "\([^"]*\)".*/\1/p')
[ -n "$devices" ] || { echo "golden.sh: tuff devices --json names no device" >&2; exit 1; }
output=$(mktemp)
trap 'rm -f "$output"' EXIT

failed=0
# check DEVICE FILES AND OPTIONS: prints the rows that are not within their bars, and the closing line.
check() {
    device=$1
    shift
    "$build/tests/golden" "$@" --device "$device" >"$output" 2>&1 || failed=1
    echo "== $device: $(tail -n 1 "$output")"
    grep -v -e ' ok$' -e ' skipped: ' "$output" | sed '$d'
}
for device in $devices; do
    check "$device" "$data/gpt_tiny.safetensors" "$data/ops.safetensors"
    [ "$device" = reference ] || check "$device" "$data/gpt_tiny.safetensors" --fuse off
done
exit $failed
