#!/bin/sh
# The library never aborts, exits, prints or installs a handler, keeps its names to itself, and asks for memory and files
# only in src/base: told from the symbols of its objects. Called: symbols.sh BUILD_FOLDER
set -eu
build=$1
objects=$(find "$build/CMakeFiles/tuff_objects.dir" -name '*.o')
[ -n "$objects" ] || { echo "no objects in $build"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refuse WHAT REGEX OBJECTS... : no object may refer to such a symbol.
refuse() {
    what=$1
    regex=$2
    shift 2
    if nm -A --undefined-only "$@" | awk -v regex="^($regex)\$" '$NF ~ regex' | sed "s|^$build/||" | grep .; then
        echo "$what"
        failed=1
    fi
}

prints='printf|vprintf|fprintf|vfprintf|puts|putchar|fputs|fputc|putc|fwrite|perror|stdout|stderr|__[v]*f*printf_chk'
refuse "the library never prints" "$prints" $objects
refuse "the library never ends the process" 'abort|exit|_exit|quick_exit|raise|__stack_chk_fail_local' $objects
refuse "nor any other but its helper" 'kill' $(echo "$objects" | grep -v '/src/run/helper_process\.c')
refuse "the library installs no handler" 'signal|sigaction|at_quick_exit|__cxa_atexit|on_exit' $objects
refuse "but for one where a thread must have left its driver before the process ends" 'atexit' \
    $(echo "$objects" | grep -v '/src/run/background\.c')
refuse "the library changes no state of the process" 'setlocale|chdir|fesetround|fesetenv|setenv|putenv|umask' $objects
if ! grep -qx 'CMAKE_BUILD_TYPE:STRING=Debug' "$build/CMakeCache.txt"; then
    refuse "asserts are for debug builds" '__assert_fail' $objects
fi

others=$(echo "$objects" | grep -v '/src/base/')
refuse "memory comes from base/alloc.h" 'malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign' $others
refuse "files are opened through base/file.h" 'fopen|open|open64|openat|openat64|creat|rename|unlink|mkdir|fopen64' $others
refuse "libraries are opened through base/library.h" 'dlopen|dlsym|dlclose' $others

nm -A --defined-only -g $objects | awk '$NF !~ /^tuff_/ && $(NF-1) ~ /[A-Z]/' | grep -v ' [wWVu] ' |
    grep -v -e '__asan' -e '__odr_asan' -e '__ubsan' -e '__tsan' -e '__sancov' >"$work/strangers" || :
if [ -s "$work/strangers" ]; then
    sed "s|^$build/||" "$work/strangers"
    echo "symbols that cross files start with tuff__"
    failed=1
fi
exit $failed
