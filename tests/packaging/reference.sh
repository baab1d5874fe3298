#!/bin/sh
# Doxygen builds the reference of the public headers without warnings: every declaration has a comment. Usage:
# reference.sh BUILD_FOLDER
set -eu
build=$1
source_folder=${TUFF_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
[ -z "${TUFF_TEST_SANITIZE:-}" ] || exit 77
[ -f "$build/docs/Doxyfile" ] || exit 77
cd "$source_folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    cat "$build/docs/Doxyfile"
    echo "OUTPUT_DIRECTORY = $work"
} >"$work/Doxyfile"
doxygen "$work/Doxyfile"

# Proves that a declaration without a comment fails.
mkdir "$work/bad"
printf '/* A header. */\n\nint tuff_nameless(int x);\n' >"$work/bad/bad.h"
{
    cat "$work/Doxyfile"
    echo "INPUT = $work/bad"
} >"$work/Doxyfile.bad"
if doxygen "$work/Doxyfile.bad" >"$work/log" 2>&1 || ! grep -q tuff_nameless "$work/log"; then
    cat "$work/log"
    echo "a function without a comment did not cause an error"
    exit 1
fi
echo "the reference has $(ls "$work/html" | grep -c '\.html$') pages"
