#!/bin/sh
# The programs that share their own OpenCL and Vulkan objects with tuff, on every driver found: correct results, and no
# message from the validation layer (with synchronization) if it is installed. Usage: interop.sh BUILD_FOLDER
set -eu
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TUFF_CACHE_DIR="$work/cache"
# Drivers are unloaded with the program's instance, and the symbols of their leaks are lost; vulkan_wrap checks leaks.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
ran=0

# run PROGRAM NAME: the program prints on which device it ran, then the deviation of its results from the host's.
run() {
    "$@" >"$work/out" 2>&1 || { echo "$* failed:"; cat "$work/out"; exit 1; }
    grep -q '^8192 numbers' "$work/out" || { echo "$* printed:"; cat "$work/out"; exit 1; }
    grep -v '^Validation Layer Info' "$work/out" | sed 'N; s/\n/: /'
    ran=$((ran + 1))
}

# Prints the names of an API's devices, or of their drivers' platforms.
names() {
    "$build/tuff" devices | awk -v api="$1" '
        $1 ~ "^" api ":[0-9]" { name = $0; sub(/^[^ ]+ +/, "", name); if (api == "vulkan") print name; next_line = 1; next }
        next_line && api == "opencl" { sub(/^ *[^,]*, /, ""); sub(/,.*/, ""); print }
        { next_line = 0 }'
}

layers=${TUFF_VALIDATION_LAYERS:-/usr/share/vulkan/explicit_layer.d}
log=$work/layer.log
has_layer=$(ls "$layers" 2>/dev/null | grep -ci 'khronos_validation' || :)
synchronisation=$(printf "validate_sync = true\nkhronos_validation.syncval_shader_accesses_heuristic = true")
[ -n "${TUFF_VALIDATION_LAYERS:-}" ] ||
    synchronisation='enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT'
cat >"$work/vk_layer_settings.txt" <<END
khronos_validation.$synchronisation
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn
khronos_validation.log_filename = $log
END

if [ -x "$build/examples/vulkan_interop" ] && ! grep -q '^TUFF_SHADERC:BOOL=OFF' "$build/CMakeCache.txt"; then
    [ "$has_layer" != 0 ] || echo "no validation layer in $layers: the programs run without it"
    names vulkan >"$work/vulkan"
    while read -r name; do
        if [ "$has_layer" = 0 ]; then
            run "$build/examples/vulkan_interop" "$name"
            continue
        fi
        rm -f "$log"
        (
            export VK_LAYER_PATH="$layers" VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation VK_LAYER_SETTINGS_PATH="$work"
            run "$build/examples/vulkan_interop" "$name"
        )
        ran=$((ran + 1))
        [ -f "$log" ] || { echo "the validation layer wrote no log: it was not loaded"; exit 1; }
        [ ! -s "$log" ] || { head -n 40 "$log"; exit 1; }
    done <"$work/vulkan"
fi
if [ -x "$build/examples/opencl_interop" ]; then
    names opencl >"$work/opencl"
    while read -r name; do
        run "$build/examples/opencl_interop" "$name"
    done <"$work/opencl"
fi
if [ "$ran" = 0 ]; then
    echo "no driver, or the programs were not built"
    exit 77
fi
