#!/bin/sh
# The cost of adding a thing to tuff, counted as the files that name one of its kind in code (comments do not count).
# Each row below names an existing thing that nothing else builds on, and the number of files that may name it. A change
# that spreads one of them over more files fails here, and the files are printed. docs/contributing.md explains what to
# write in each. Nor may code compare the names of drivers: what differs between them is in their tables.
set -eu
cd "${TUFF_SOURCE:-$(dirname "$0")/..}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Programs that use the library as an application does, and so name what they use: benchmarks, the models of the verbs,
# the kernels for vendors' compilers, and the cases and programs by which ops are verified.
users='^tools/(bench|model|vendors|verify)/'

# Prints the files of the library and the tool that make up what it can do.
sources() {
    find src include tools -type f | grep -vE "$users"
}

# Prints the files below the folders $2... whose name is a word that matches $1, or that contain one outside comments.
places() {
    pattern=$1
    shift
    find "$@" -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.k' -o -name '*.cl' -o -name '*.glsl' \) | sort |
        xargs awk -v pattern="(^|[^A-Za-z0-9_])($pattern)([^A-Za-z0-9_]|\$)" '
        function add(file) { if (!(file in seen)) print file; seen[file] = 1 }
        FNR == 1 {
            comment = 0
            name = FILENAME
            sub(/.*\//, "", name)
            sub(/\..*/, "", name)
            if (name ~ pattern)
                add(FILENAME)
        }
        {
            line = $0
            code = ""
            while (line != "") {
                if (comment) {
                    end = index(line, "*/")
                    comment = end == 0
                    line = end ? substr(line, end + 2) : ""
                } else {
                    start = index(line, "/*")
                    code = code (start ? substr(line, 1, start - 1) " " : line)
                    comment = start > 0
                    line = start ? substr(line, start + 2) : ""
                }
            }
            if (FILENAME ~ /\.(k|cl|glsl)$/ && code !~ /^\/\/@/)
                sub(/\/\/.*/, "", code)
            if (code ~ pattern)
                add(FILENAME)
        }'
}

# check KIND GOAL PATTERN FOLDER...: prints the places; fails if there are more than GOAL, or none.
check() {
    kind=$1 goal=$2
    shift 2
    places "$@" >"$scratch/places"
    count=$(wc -l <"$scratch/places")
    printf '%-58s %d of %d: %s\n' "$kind" "$count" "$goal" "$(tr '\n' ' ' <"$scratch/places")"
    [ "$count" -ge 1 ] && [ "$count" -le "$goal" ]
}

# Fails if code outside the drivers compares a text with a driver's name, or lists the names in a table of its own.
# Exceptions: list.c knows that AMD's drivers count compute units differently, predict.c which figures were measured
# with which API.
check_driver_names() {
    driver='(opencl|vulkan)[^"]*"'
    if find src include tools -name '*.[ch]' | grep -v -e '^src/device/\(opencl\|vulkan\)/' -e '^src/device/list\.c$' \
        -e '^tools/doctor/predict\.c$' |
        xargs grep -niE "(str(n|case|ncase)?cmp|strstr)\([^;]*\"$driver|\{ *\"$driver *[,}]"; then
        echo "the lines above ask for drivers by name: use a column of drivers.def, the driver's table or its target"
        return 1
    fi
}

check_all() {
    wrong=0
    # math.k, the functions that kernel languages lack, does not count for an op whose kernel text calls none of them.
    check "elementwise op (erfc): row, prototype" 2 "(tuff_|OP_)?(erfc|ERFC)" \
        $(sources | grep -v '/math\.k$') || wrong=$((wrong + 1))
    check "  and, where kernels lack the function, its section" 1 "ERFC" $(find src -name math.k) || wrong=$((wrong + 1))
    check "structural op (cumsum): row, prototype, builder, reference" 4 "(tuff_|OP_|tuff__evaluate_)?(cumsum|CUMSUM)" \
        $(sources) || wrong=$((wrong + 1))
    check "composite op (layer_norm): prototype, function, test" 3 "(tuff_)?layer_norm" \
        $(sources) $(find tools tests -name suite_composites.c) || wrong=$((wrong + 1))
    check "optimizer (adamw): enumerator, rule" 2 "TUFF_ADAMW|adamw|update_adamw" \
        $(sources | grep -v '^tools/train/') || wrong=$((wrong + 1))
    check "  and its option of tuff train: name, use" 2 "TUFF_ADAMW|adamw" $(find tools/train -type f) ||
        wrong=$((wrong + 1))
    check "kernel family (subgroup): rows, text, lowering" 3 "FAMILY\\(SUBGROUP|(TUNABLE_)?matmul_subgroup(_[a-z_]*)?" \
        $(sources | grep -v '/portfolio[a-z_]*\.def$') || wrong=$((wrong + 1))
    check "  that programs may ask for: an enumerator" 4 \
        "TUFF_FAMILY_SUBGROUP|FAMILY\\(SUBGROUP|(TUNABLE_)?matmul_subgroup(_[a-z_]*)?" \
        $(sources | grep -v '/portfolio[a-z_]*\.def$') || wrong=$((wrong + 1))
    check "  whose tiles fusion needs to know (matmul_dot): schedule" 4 "(TUNABLE_)?matmul_dot(_[a-z_]*)?" \
        $(sources | grep -v '/portfolio[a-z_]*\.def$') || wrong=$((wrong + 1))
    check "driver (opencl) outside of its folder: row" 1 "tuff__driver_opencl|DRIVER\\(opencl" \
        $(sources | grep -v '^src/device/opencl/') || wrong=$((wrong + 1))
    check_driver_names || wrong=$((wrong + 1))
    return "$wrong"
}

check_all || {
    echo "$? kinds of change take more places than allowed"
    exit 1
}

# An invented elementwise op: with its row and its prototype, every file that reads the table still compiles.
mkdir -p "$scratch/src/ops" "$scratch/include/tuff"
cp src/ops/*.h "$scratch/src/ops"
row='ELEMENTWISE(SOFTSIGN, softsign, 1, FLOATS, x \/ (ABS(x) + 1.0f), 0, x \/ (1 + fabs(x)), P((1 - fabs(f)) * (1 - fabs(f))), '
row=$row'G(tuff_mul(g, tuff_abs(f))), DIVISION, ALL, 4, 0, -10, 10)'
sed "s/^ELEMENTWISE(ADD,/$row\\n&/" src/ops/ops.def >"$scratch/src/ops/ops.def"
sed 's/^TUFF_API tuff_tensor \*tuff_erfc.*/&\nTUFF_API tuff_tensor *tuff_softsign(tuff_tensor *x);/' include/tuff/ops.h \
    >"$scratch/include/tuff/ops.h"
grep -q SOFTSIGN "$scratch/src/ops/ops.def" && grep -q softsign "$scratch/include/tuff/ops.h"
readers=$(grep -rlE '#include "ops/(ops\.def|evaluate\.h)"' src --include='*.c')
for file in $readers; do
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$scratch/src" -I"$scratch/include" -Isrc -Iinclude "$file"
done
echo "a new row compiles in $(echo "$readers" | wc -w) files"

# Proves that the count can fail: one more file that names an op is one too many.
cp -r src include tools "$scratch"
mkdir "$scratch/tests"
echo 'static bool is_scan(op_code op) { return op == OP_CUMSUM; }' >"$scratch/src/compile/planted.c"
cd "$scratch"
if check_all >"$scratch/failed"; then
    echo "a fifth file that names cumsum was not counted"
    exit 1
fi
grep -q '5 of 4:.*planted.c' "$scratch/failed"
mv "$scratch/src/compile/planted.c" "$scratch/tools/planted.c"
if check_all >"$scratch/failed"; then
    echo "a fifth file, in tools, that names cumsum was not counted"
    exit 1
fi
grep -q '5 of 4:.*tools/planted.c' "$scratch/failed"
for line in 'static bool is_glsl(const char *name) { return strcmp(name, "vulkan") == 0; }' \
    'static const char *const apis[] = {"opencl", "vulkan"};'; do
    echo "$line" >"$scratch/tools/planted.c"
    if check_all >"$scratch/failed"; then
        echo "this line was accepted: $line"
        exit 1
    fi
    grep -q '^tools/planted.c:1:' "$scratch/failed"
done
rm "$scratch/tools/planted.c"
check_all >"$scratch/failed" || { cat "$scratch/failed"; exit 1; }
