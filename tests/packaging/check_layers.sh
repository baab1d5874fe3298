#!/bin/sh
# tools/check-layers detects what it should: an include and a call to a higher layer, a cycle of four files, a folder
# without a row and one with too many files, planted in a copy of the sources, each fail and are named.
set -eu
source_folder=${TUFF_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tools"
cp "$source_folder/tools/check-layers" "$work/tools"
objects=$work/objects/tuff_objects.dir/src

# fresh: restores the sources, and removes all objects.
fresh() {
    rm -rf "$work/src" "$work/objects"
    cp -R "$source_folder/src" "$work/src"
}

# compile FILE TEXT: compiles TEXT to the object of src/FILE.
compile() {
    mkdir -p "$(dirname "$objects/$1")"
    : >>"$work/src/$1"
    echo "$2" | ${CC:-cc} -x c -c -o "$objects/$1.o" -
}

# expect CODE TEXT: the checker exits with CODE, and its output contains TEXT.
expect() {
    options=
    [ ! -d "$work/objects" ] || options="--objects $work/objects"
    code=0
    "$work/tools/check-layers" $options >"$work/out" || code=$?
    if [ "$code" != "$1" ] || ! grep -qF -e "$2" "$work/out"; then
        cat "$work/out"
        echo "check-layers exited with $code; expected $1 and \"$2\""
        exit 1
    fi
}

fresh
expect 0 '0 failures'

echo '#include "graph/graph.h"' >>"$work/src/base/hash.c"
expect 1 '"graph/graph.h": this folder may use only base'

fresh
echo '#include "device/vulkan/state.h"' >>"$work/src/device/opencl/api.c"
expect 1 '"device/vulkan/state.h": this folder may use only base, base/file, device/driver.h, device/opencl'

fresh
compile base/hash.c 'void tuff__above(void); void tuff__below(void) { tuff__above(); }'
compile graph/graph.c 'void tuff__below(void); void tuff__above(void) { tuff__below(); }'
expect 1 'src/base/hash.c calls tuff__above of src/graph/graph.c, which is not in a lower layer'
expect 1 '1 failures'

fresh
for file in 1:2 2:3 3:1; do
    compile "graph/${file%:*}.c" "void tuff__${file#*:}(void); void tuff__${file%:*}(void) { tuff__${file#*:}(); }"
done
expect 0 '0 failures'
compile graph/3.c 'void tuff__4(void); void tuff__3(void) { tuff__4(); }'
compile graph/4.c 'void tuff__1(void); void tuff__4(void) { tuff__1(); }'
expect 1 'src/graph/4.c -> graph/1.c: tuff__1'
expect 1 'src/graph/1.c and 3 other files call each other in a cycle: the limit is 3 files'

fresh
mkdir "$work/src/misc"
echo 'int tuff__misc;' >"$work/src/misc/misc.c"
expect 1 'src/misc: no row'

fresh
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    : >"$work/src/ops/many_$i.c"
done
expect 1 'files, the limit is 25'
