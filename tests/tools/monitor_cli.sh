#!/bin/sh
# What follows a training: its CSV, JSON Lines and event file tell the same numbers, as readers of their own find them; the page
# needs nothing else; the drawing of the loss; full disks; and none of it changes a bit of the weights. On the first device
# found that has kernels, else on the reference. Called: monitor_cli.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
begin "$1"
name="a <b>&text"
i=0
while [ $i -lt 60 ]; do
    echo "The licensed work is that which the licensee may copy, $i times."
    i=$((i + 1))
done >"$name"
device=$("$tuff" devices --json | sed -n 's/.*"selector": "\([^"]*\)".*/\1/p' | head -n 1)

train() {
    "$tuff" train --data "$name" --device "$device" --layers 1 --heads 2 --width 16 --context 16 --batch 2 --sample 0 "$@"
}

# Wrong paths are told before the training.
mkdir folder
expect 1 "--csv: the file cannot be written" train --csv folder
expect 1 "--tensorboard: the file cannot be written" train --tensorboard "$name/inside"
expect 1 "--report folder: this is a folder" train --report folder
expect 1 "--report" train --report nowhere/page.html
[ ! -c /dev/full ] || expect 1 "No space left on device" train --csv /dev/full
! grep -q "step 1/" out || fail "a full disk is told after a step: $(cat out)"

# The same bits with everything on.
expect 0 "done after step 12" train --steps 12 --save plain.safetensors
watched() {
    train --log-every 4 --log log --csv log.csv --tensorboard runs/one --report page.html --profile --force-plot \
        --log-norms on "$@"
}
LC_ALL=C.UTF-8 expect 0 "done after step 12" watched --steps 12 --save watched.safetensors
# The hash in a checkpoint is of all tensors; that norms are logged is among its settings.
tensors_of() {
    LC_ALL=C grep -ao '"tuff.hash": *"[0-9a-f]*"' "$1"
}
[ -n "$(tensors_of plain.safetensors)" ] && [ "$(tensors_of plain.safetensors)" = "$(tensors_of watched.safetensors)" ] ||
    fail "what follows a training changes its weights"
if [ "$device" = reference ]; then
    grep -q "no profile: " out || fail "the reference device has a profile: $(cat out)"
else
    grep -q "in kernels, median of 5: forward .* backward .* optimizer " out || fail "no phases: $(cat out)"
fi
[ "$(LC_ALL=C grep -ac '^ *[0-9][0-9.]* |' out)" -eq 6 ] || fail "three drawings of the loss have not six labels: $(cat out)"
LC_ALL=C grep -q "$(printf '\342\240')" out || fail "the drawing is not in braille: $(cat out)"
LC_ALL=C expect 0 "done after step 12" watched --steps 12
! LC_ALL=C grep -q "$(printf '\342\240')" out || fail "without UTF-8 the drawing is in braille: $(cat out)"
grep -q '|.*\*' out || fail "without UTF-8 there is no drawing: $(cat out)"

# Half a run and the rest: every step once.
rm -rf log log.csv runs
expect 0 "stopped after step 8" watched --steps 12 --stop-after 8 --save half.safetensors --save-every 4
expect 0 "done after step 12" "$tuff" train --data "$name" --device "$device" --resume half.safetensors.prev --sample 0 \
    --log-every 4 --log log --csv log.csv --tensorboard runs/one --report page.html
cat >readers.py <<'EOF'
import csv, json, os, struct, sys

def crc32c(data):
    rest = 0xffffffff
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82f63b78 if rest & 1 else 0)
    return rest ^ 0xffffffff

def masked(data):
    crc = crc32c(data)
    return (crc >> 15 | crc << 17) + 0xa282ead8 & 0xffffffff

def records(data):
    while data:
        length, crc = struct.unpack("<QI", data[:12])
        assert crc == masked(data[:8])
        body, end = data[12:12 + length], data[12 + length:16 + length]
        assert struct.unpack("<I", end)[0] == masked(body)
        yield body
        data = data[16 + length:]

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at

def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if kind == 1 else 4
            value, at = struct.unpack("<d" if kind == 1 else "<f", data[at:at + size])[0], at + size
        yield tag >> 3, value

def events(path):
    """Steps with their scalars, of files in order; a restart drops what it makes anew."""
    steps = {}
    for file in sorted(os.listdir(path)):
        for number, record in enumerate(records(open(os.path.join(path, file), "rb").read())):
            event = dict(fields(record))
            if number == 0:
                assert event[3] == b"brain.Event:2"
            elif 7 in event:
                assert dict(fields(event[7])) == {1: 1}
                steps = {step: scalars for step, scalars in steps.items() if step < event[2]}
            else:
                values = [dict(fields(value)) for kind, value in fields(event[5]) if kind == 1]
                steps[event[2]] = {value[1].decode(): value[2] for value in values}
    return steps

rows = list(csv.DictReader(open("log.csv")))
lines = [json.loads(line) for line in open("log")]
steps = events("runs/one")
assert [int(row["step"]) for row in rows] == [line["step"] for line in lines] == sorted(steps) == [4, 8, 12], (rows, lines)
for row, line in zip(rows, lines):
    scalars = steps[line["step"]]
    assert {name for name, field in row.items() if field} == set(line) == {"step", *scalars} # a validation has fields, too
    for name, value in scalars.items():
        assert float(row[name]) == line[name] and abs(value - line[name]) <= 1e-7 * abs(line[name]), (name, row, line)
    assert line["memory_peak"] > 0 or "reference" in sys.argv
    norms = [value for name, value in line.items() if name.startswith("gradient_norm/")]
    assert len(norms) == 16 and abs(sum(norm * norm for norm in norms) ** 0.5 / line["gradient_norm"] - 1) < 1e-5, line
EOF
python3 readers.py "$device" || fail "the files do not agree: $(cat log log.csv)"

# The page.
for text in '<!DOCTYPE html>' 'prefers-color-scheme:dark' 'width=device-width' 'Training of a GPT' 'loss at the end' \
    'learning rate' 'Norm of the gradients' 'Tokens a second' 'Device memory' 'Time of a step' 'a &lt;b&gt;&amp;text'; do
    grep -qF -e "$text" page.html || fail "the page lacks \"$text\""
done
[ "$device" = reference ] || grep -q '<td class="left">optimizer</td>' page.html || fail "the page has no kernels"
for strange in '<script' 'http' 'src=' '@import' 'url(' 'nan' '<b>&text'; do
    ! grep -qF "$strange" page.html || fail "the page holds $strange"
done
python3 - <<'EOF' || fail "the tags of the page do not match"
import html.parser, sys
class check(html.parser.HTMLParser):
    stack = []
    charts = 0
    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br"):
            self.stack.append(tag)
        if tag == "figure":
            self.charts += 1
    def handle_startendtag(self, tag, attributes):
        pass
    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            sys.exit("wrong end: " + tag)
reader = check()
reader.feed(open("page.html", encoding="utf-8").read())
sys.exit(0 if not reader.stack and reader.charts == 4 else str((reader.stack, reader.charts)))
EOF
"$tuff" train --data "$name" --device reference --layers 1 --heads 1 --width 8 --context 8 --batch 1 --steps 1 --sample 0 \
    --report page.html >/dev/null 2>&1 || fail "no page on the reference device"
grep -q "Not measured" page.html || fail "the reference device has times of kernels"

# Where the loss is scaled, all three files and the page have the scale and the skipped steps.
expect 0 "done after step 4" train --steps 4 --loss-scale 1024 --log-every 4 --log scaled --csv scaled.csv \
    --tensorboard runs/scaled --report scaled.html --save scaled.safetensors
sed -e '/^rows =/,$d' readers.py >scaled.py
cat >>scaled.py <<'EOF'
row, = csv.DictReader(open("scaled.csv"))
(step, scalars), = events("runs/scaled").items()
line = json.loads(open("scaled").read())
assert step == line["step"] == 4 and {name for name, field in row.items() if field} == {"step", *scalars} == set(line)
for of in (row, line, scalars):
    assert float(of["loss_scale"]) == 1024 and float(of["skipped_steps"]) == 0, of
EOF
python3 scaled.py || fail "loss scaling is not in the files: $(cat scaled scaled.csv)"
grep -qF "Loss scale" scaled.html || fail "the page lacks the loss scale"
expect 1 "scaled.csv" "$tuff" train --data "$name" --device "$device" --resume scaled.safetensors --steps 6 --sample 0 \
    --loss-scale off --csv scaled.csv

# A file that takes no more after a while, played by a pipe whose reader leaves: said once, the training goes on, and its exit
# code tells. (That a full disk tears no record is tested beside the monitors.)
mkfifo pipe
head -n 4 pipe >lines &
trap '' PIPE
train --steps 40 --log-every 1 --csv pipe --save kept.safetensors >full.out 2>&1
[ $? -eq 1 ] || fail "a full file is not reported: $(cat full.out)"
trap - PIPE
grep -q "done after step 40.*saved to" full.out || fail "a full file ended the training: $(cat full.out)"
[ "$(grep -c 'is missing, and the training goes on' full.out)" -eq 1 ] || fail "a full file is said: $(cat full.out)"
[ -f kept.safetensors ] || fail "a full file costs the checkpoint"

# On a terminal the drawing is drawn over.
python3 - "$tuff" train --data "$name" --device "$device" --layers 1 --heads 2 --width 16 --context 16 --batch 2 --sample 0 \
    --steps 12 --log-every 4 --plot >terminal.out <<'EOF' || fail "the training fails on a terminal: $(cat terminal.out)"
import os, pty, sys
os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])) if hasattr(os, "waitstatus_to_exitcode") else pty.spawn(sys.argv[1:]) >> 8)
EOF
[ "$(LC_ALL=C grep -c "$(printf '\r\033\\[[0-9]*A\033\\[J')" terminal.out)" -eq 2 ] ||
    fail "the drawing is not drawn over twice: $(cat -v terminal.out)"
expect 0 "done after step 12" train --steps 12 --log-every 4 --plot
! grep -q "|" out || fail "--plot draws where there is no terminal: $(cat out)"

[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
