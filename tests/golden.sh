#!/bin/sh
# Holds every device found against the golden files, fused and, on devices with kernels, unfused too.
# Called: golden.sh BUILD
set -u
build=$1
data=${TUFF_TEST_DATA:-$(dirname "$0")/data}/golden
devices=$("$build/tuff" devices --json | sed -n 's/.*"selector": "\([^"]*\)".*/\1/p')
[ -n "$devices" ] || { echo "golden.sh: tuff devices --json names no device" >&2; exit 1; }

failed=0
# check DEVICE OPTIONS: prints the rows that are not within their bars, and the closing line.
check() {
    echo "== $*"
    "$build/tests/golden" "$data/gpt_tiny.safetensors" "$data/ops.safetensors" --device "$@" >golden.out 2>&1 || failed=1
    grep -v ' ok$' golden.out
}
for device in $devices; do
    check "$device"
    [ "$device" = reference ] || check "$device" --fuse off
done
rm -f golden.out
exit $failed
