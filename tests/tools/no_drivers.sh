#!/bin/sh
# The tool starts without a driver and without a loader, says what to install, and computes on the reference device.
# Usage: no_drivers.sh BUILD_FOLDER
set -eu
tuff=$1/tuff
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TUFF_DEVICE || :

check() {
    what=$1
    "$tuff" devices >"$work/devices" 2>&1 || { cat "$work/devices"; echo "$what: devices failed"; exit 1; }
    grep -q reference "$work/devices" || { cat "$work/devices"; echo "$what: no reference device"; exit 1; }
    if grep -qE '^(opencl|vulkan):[0-9]' "$work/devices"; then
        cat "$work/devices"
        echo "$what: a driver was found all the same"
        exit 1
    fi
    if ! TUFF_CACHE_DIR="$work/cache" "$tuff" cache list >"$work/out" 2>&1; then
        cat "$work/out"
        echo "$what: tuff cache list failed"
        exit 1
    fi
    code=0
    head -c 5000 "$0" /dev/zero >"$work/text"
    "$tuff" train --data "$work/text" --steps 1 >"$work/out" 2>"$work/errors" || code=$?
    if [ "$code" != 1 ] || ! grep -qi 'install' "$work/errors"; then
        cat "$work/errors"
        echo "$what: train exited with $code; 1 and what to install were expected"
        exit 1
    fi
}

mkdir "$work/none"
(
    export OCL_ICD_VENDORS="$work/none" VK_ICD_FILENAMES="$work/none/none.json"
    check "no driver"
)
# A file that is not a library hides the real loader of that name.
(
    for name in libOpenCL.so.1 libOpenCL.so libvulkan.so.1 libvulkan.so; do
        echo "not a library" >"$work/none/$name"
    done
    export LD_LIBRARY_PATH="$work/none"
    check "no loader"
)
"$tuff" verify --help >/dev/null
