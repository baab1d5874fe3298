#!/bin/sh
# A case of a golden file that is not computed is reported, and fails unless skips are allowed; a case of another turn
# does not count. Usage: golden_skips.sh BUILD
set -u
. "$(dirname "$0")/../tools/script_checks"
enter "$1"
golden=$1/tests/golden
data=${TUFF_TEST_DATA:-$(dirname "$0")/../data}/golden

# Two cases of the file, the second one with an op that does not exist.
python3 - "$data/ops.safetensors" two.safetensors <<'END' || fail "no file of two cases"
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
cases = [(name, json.loads(text)) for name, text in header["__metadata__"].items() if text.startswith("{")]
cases = [(name, case) for name, case in cases if case.get("op") in ("abs", "add")][:2]
assert len(cases) == 2
cases[1][1]["op"] = "no_such_op"
header["__metadata__"] = {name: json.dumps(case) for name, case in cases}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
END
expect 1 "skipped: no_such_op" "$golden" two.safetensors --device reference
grep -q "1 skipped" out || fail "the skip is not counted: $(cat out)"
expect 0 "1 skipped" "$golden" two.safetensors --device reference --allow-skips
expect 0 "0 skipped" "$golden" two.safetensors --device reference --turn 0/2
expect 1 "1 skipped" "$golden" two.safetensors --device reference --turn 1/2
expect 1 "1 skipped" "$golden" "$data/optimizers.safetensors" --device reference
[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
