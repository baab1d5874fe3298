#!/bin/sh
# The documents are correct: their C and C++ compiles, their commands run, everything that they name exists. First the
# checker has to find every fault of a made-up document. Usage: documents.sh BUILD_FOLDER
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
source_folder=${TUFF_SOURCE:-$(cd "$here/../.." && pwd)}
[ -z "${TUFF_TEST_SANITIZE:-}" ] || exit 77
exec python3 "$here/documents.py" "$source_folder" "$build"
