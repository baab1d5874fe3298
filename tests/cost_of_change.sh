#!/bin/sh
# The cost of adding a thing to tuff, counted as the files that name one of its kind in code (comments do not count).
# Each row below names an existing thing that nothing else builds on, and the number of files that may name it. A change
# that spreads one of them over more files fails here, and the files are printed. docs/contributing.md explains what to
# write in each.
set -eu
cd "${TUFF_SOURCE:-$(dirname "$0")/..}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

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

check_all() {
    wrong=0
    # math.k, the functions that kernel languages lack, does not count for an op whose kernel text calls none of them.
    check "elementwise op (erfc): row, prototype" 2 "(tuff_|OP_)?(erfc|ERFC)" \
        $(find src include -type f ! -name math.k) || wrong=$((wrong + 1))
    check "  and, where kernels lack the function, its section" 1 "ERFC" $(find src -name math.k) || wrong=$((wrong + 1))
    check "structural op (cumsum): row, prototype, builder, reference" 4 "(tuff_|OP_|tuff__evaluate_)?(cumsum|CUMSUM)" \
        src include || wrong=$((wrong + 1))
    check "composite op (layer_norm): prototype, function, test" 3 "(tuff_)?layer_norm" \
        src include $(find tools tests -name suite_composites.c) || wrong=$((wrong + 1))
    check "optimizer (adamw): enumerator, rule" 2 "TUFF_ADAMW|adamw|update_adamw" src include || wrong=$((wrong + 1))
    check "kernel family (subgroup): rows, text, lowering" 3 "FAMILY\\(SUBGROUP|(TUNABLE_)?matmul_subgroup(_[a-z_]*)?" \
        $(find src include -type f ! -name 'portfolio*.def') || wrong=$((wrong + 1))
    check "  that programs may ask for: an enumerator" 4 \
        "TUFF_FAMILY_SUBGROUP|FAMILY\\(SUBGROUP|(TUNABLE_)?matmul_subgroup(_[a-z_]*)?" \
        $(find src include -type f ! -name 'portfolio*.def') || wrong=$((wrong + 1))
    check "  whose tiles fusion needs to know (matmul_dot): schedule" 4 "(TUNABLE_)?matmul_dot(_[a-z_]*)?" \
        $(find src include -type f ! -name 'portfolio*.def') || wrong=$((wrong + 1))
    check "driver (opencl) outside of its folder: row" 1 "tuff__driver_opencl|DRIVER\\(opencl" \
        $(find src include -type f ! -path 'src/device/opencl/*') || wrong=$((wrong + 1))
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
cp -r src include "$scratch"
mkdir -p "$scratch/tools" "$scratch/tests"
cp $(find tools tests -name suite_composites.c) "$scratch/tools"
echo 'static bool is_scan(op_code op) { return op == OP_CUMSUM; }' >"$scratch/src/compile/planted.c"
cd "$scratch"
if check_all >"$scratch/failed"; then
    echo "a fifth file that names cumsum was not counted"
    exit 1
fi
grep -q '5 of 4:.*planted.c' "$scratch/failed"
