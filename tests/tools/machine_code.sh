#!/bin/sh
# The gate of machine code, tools/check-loops, notices worse code. It needs no compiler: see machine_code.py. Usage:
# machine_code.sh BUILD_FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || exit 77
PYTHONDONTWRITEBYTECODE=1 exec python3 "$here/machine_code.py" "${TUFF_SOURCE:-$(cd "$here/../.." && pwd)}"
