#!/bin/sh
# Compares the reference and one driver of each API with the golden files: training, with fusion on one driver and
# without it on the other; or, if the second argument is ops, the cases of single ops, all of them on the reference and
# some on the drivers, since an op means the same on every device, and every_op compares all drivers with the reference.
# TUFF_TEST_SEED (default: the time) draws the drivers and the turns, so that a few runs together try all;
# TUFF_SUITE=thorough leaves nothing out. Usage: golden.sh BUILD [ops]
set -u
build=$1
data=${TUFF_TEST_DATA:-$(dirname "$0")/../data}/golden
devices=$("$build/tuff" devices --json | sed -n 's/.*"selector": "\([^"]*\)".*/\1/p')
[ -n "$devices" ] || { echo "golden.sh: tuff devices --json names no device" >&2; exit 1; }
seed=${TUFF_TEST_SEED:-$(date +%s)}
echo "TUFF_TEST_SEED=$seed repeats what this run draws"
few=$(printf '%s\n' $devices | awk -F : -v seed="$seed" '
    { of_api[$1, count[$1]++] = $0 }
    END { for (api in count) print of_api[api, int(seed / 2) % count[api]] }')
[ "${TUFF_SUITE:-}" != thorough ] || few=$devices
output=$(mktemp)
trap 'rm -f "$output"' EXIT

failed=0
# check DEVICE FILE OPTIONS: prints the summary and the lines beyond their tolerance or skipped; a skip fails, too.
check() {
    device=$1
    shift
    "$build/tests/golden" "$@" --device "$device" >"$output" 2>&1 || failed=1
    echo "== $device: $(tail -n 1 "$output")"
    sed -e '$d' -e '/ ok$/d' -e '/\.safetensors$/d' "$output"
}
drivers=$(printf '%s\n' $few | grep -v '^reference$')
count=$(printf '%s\n' $drivers | wc -w)
turn=$seed
turns=$((3 * count))
if [ "${2:-}" = ops ]; then
    check reference "$data/ops.safetensors"
    for device in $drivers; do
        [ "${TUFF_SUITE:-}" != thorough ] || turn=0 turns=1
        check "$device" "$data/ops.safetensors" --turn "$((turn % turns))/$turns"
        turn=$((turn + 1))
    done
else
    check reference "$data/gpt_tiny.safetensors"
    # A single driver does both.
    for device in $(printf '%s\n' $drivers | sort); do
        turn=$((turn + 1))
        [ "${TUFF_SUITE:-}" != thorough ] && [ "$count" -gt 1 ] && [ $((turn % 2)) -eq 0 ] ||
            check "$device" "$data/gpt_tiny.safetensors"
        [ "${TUFF_SUITE:-}" != thorough ] && [ "$count" -gt 1 ] && [ $((turn % 2)) -eq 1 ] ||
            check "$device" "$data/gpt_tiny.safetensors" --fuse off
    done
fi
exit $failed
