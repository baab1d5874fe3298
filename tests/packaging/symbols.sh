#!/bin/sh
# The library never aborts, exits, prints or installs a handler, exports no private names, and allocates memory and
# opens files only in src/base. This is checked by the symbols of its objects and, for a shared library, by its imports
# and exports. Usage: symbols.sh BUILD_FOLDER
set -eu
build=$1
source_folder=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
objects=$(find "$build/CMakeFiles/tuff_objects.dir" -name '*.o')
[ -n "$objects" ] || { echo "no object files in $build"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refuse RULE REGEX OBJECTS...: no object may refer to such a symbol.
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
refuse "the library must not print" "$prints" $objects
refuse "the library must not end the process" 'abort|exit|_exit|quick_exit|raise|__stack_chk_fail_local' $objects
refuse "only the worker's code may end a process" 'kill' $(echo "$objects" | grep -v '/src/worker/worker_process\.c')
refuse "the library must not install handlers" 'signal|sigaction|at_quick_exit|__cxa_atexit|on_exit' $objects
refuse "only background.c may install an exit handler" 'atexit' \
    $(echo "$objects" | grep -v '/src/worker/background\.c')
refuse "the library changes no state of the process" 'setlocale|chdir|fesetround|fesetenv|setenv|putenv|umask' $objects
if ! grep -qx 'CMAKE_BUILD_TYPE:STRING=Debug' "$build/CMakeCache.txt"; then
    refuse "asserts are only for debug builds" '__assert_fail' $objects
fi

others=$(echo "$objects" | grep -v '/src/base/')
refuse "memory comes from base/alloc.h" 'malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign' $others
refuse "files are opened through base/file/file.h" 'fopen|open|open64|openat|openat64|creat|rename|unlink|mkdir|fopen64' $others
refuse "libraries are opened through base/library.h" 'dlopen|dlsym|dlclose' $others

nm -A --defined-only -g $objects | awk '$NF !~ /^tuff_/ && $(NF-1) ~ /[A-Z]/' | grep -v ' [wWVu] ' |
    grep -v -e '__asan' -e '__odr_asan' -e '__ubsan' -e '__tsan' -e '__sancov' >"$work/strangers" || :
if [ -s "$work/strangers" ]; then
    sed "s|^$build/||" "$work/strangers"
    echo "external symbols must start with tuff__"
    failed=1
fi

# A shared library imports the same as its objects, and nothing of shaderc or the C++ runtime, which are in a separate
# module; it exports what include/ declares. The module exports its single table.
check_shared_library() {
    nm -D --undefined-only "$1" | awk '{ sub(/@.*/, "", $NF); print $NF }' >"$work/imported"
    stranger='_Z.*|__gxx_.*|_Unwind_.*|__cxa_(throw|rethrow|begin_catch|end_catch|guard_.*|pure_virtual)'
    # Debug builds keep their asserts.
    grep -qx 'CMAKE_BUILD_TYPE:STRING=Debug' "$build/CMakeCache.txt" || stranger="$stranger|__assert_fail"
    right=0
    if grep -xE "$prints|abort|exit|_exit|quick_exit|raise|signal|sigaction|shaderc_.*|$stranger" "$work/imported"; then
        echo "libtuff.so must not import the symbols above"
        right=1
    fi
    if readelf -d "$1" | grep NEEDED |
        grep -vE '\[(libjansson|libm|libc|libdl|libpthread|ld-linux.*|libasan|libubsan|libtsan)\.so'; then
        echo "libtuff.so must not need the libraries above"
        right=1
    fi
    nm -D --defined-only "$1" | awk '{ print $3 }' | grep -v '^$' | sort >"$work/exported"
    grep -rhoE '\btuff_[a-z0-9_]+\(' "$source_folder/include" | tr -d '(' | sort -u >"$work/declared"
    if grep -vxFf "$work/declared" "$work/exported"; then
        echo "the symbols above are exported but not declared in include/"
        right=1
    fi
    echo "libtuff.so imports $(wc -l <"$work/imported") symbols and exports $(wc -l <"$work/exported")"
    return $right
}

# A static build has the same objects, so a shared library can be linked from them. The code that calls shaderc is in
# the module there (cmake/Library.cmake).
library=$build/libtuff.so
linked=$(echo "$objects" | grep -v '/src/device/vulkan/shaderc\.c')
link() {
    ${CC:-cc} -shared -o "$@" -Wl,--exclude-libs,ALL -ljansson -lm -ldl -lpthread
}
if [ ! -f "$library" ]; then
    library=$work/libtuff.so
    link "$library" $linked
fi
check_shared_library "$library" || failed=1

# Proves that the check can fail: with one more function that prints and aborts.
echo 'int puts(const char *); void abort(void); void tuff_planted(void) { puts("no"); abort(); }' >"$work/planted.c"
${CC:-cc} -fPIC -c "$work/planted.c" -o "$work/planted.o"
link "$work/planted.so" $linked "$work/planted.o"
if check_shared_library "$work/planted.so" >"$work/printed" || ! grep -qx abort "$work/printed" ||
    ! grep -qx puts "$work/printed" || ! grep -qx tuff_planted "$work/printed"; then
    cat "$work/printed"
    echo "a function that prints and aborts was not found in a shared library"
    failed=1
fi
if [ -f "$build/libtuff_shaderc.so" ]; then
    exported=$(nm -D --defined-only "$build/libtuff_shaderc.so" | awk '{ print $3 }')
    if [ "$exported" != tuff__glsl_compiler ]; then
        echo "the GLSL compiler module must export only tuff__glsl_compiler, but exports: $exported"
        failed=1
    fi
fi
exit $failed
