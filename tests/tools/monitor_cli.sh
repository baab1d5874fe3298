#!/bin/sh
# Monitoring a training: its CSV, JSON Lines and event files contain the same numbers, as separate readers show; the
# page is self-contained; the plot of the loss; full disks. None of this changes a bit of the weights. On a device with
# kernels, else on the reference. Usage: monitor_cli.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
tools=$(cd "$(dirname "$0")" && pwd)
begin "$1"
name="a <b>&text"
i=0
while [ $i -lt 60 ]; do
    echo "The licensed work is that which the licensee may copy, $i times."
    i=$((i + 1))
done >"$name"
quick_device

train() {
    "$tuff" train --data "$name" --device "$device" --layers 1 --heads 2 --width 16 --context 16 --batch 2 --sample 0 "$@"
}

# Wrong paths are reported before the training.
mkdir folder
expect 1 "--csv: cannot write the file" train --csv folder
expect 1 "--tensorboard: cannot write the file" train --tensorboard "$name/inside"
expect 1 "--report folder: is a folder" train --report folder
expect 1 "--report nowhere/page.html: folder nowhere does not exist" train --report nowhere/page.html
[ ! -c /dev/full ] || expect 1 "No space left on device" train --csv /dev/full
! grep -q "step 1/" out || fail "a full disk is reported only after a step: $(cat out)"

# The same bits with everything on.
expect 0 "done after step 12" train --steps 12 --save plain.safetensors
watched() {
    train --log-every 4 --log log --csv log.csv --tensorboard runs/one --report page.html --profile --force-plot \
        --log-norms on "$@"
}
LC_ALL=C.UTF-8 expect 0 "done after step 12" watched --steps 12 --save watched.safetensors
# The hash in a checkpoint covers all tensors; other metadata differ, because --log-norms is a setting.
tensors_of() {
    LC_ALL=C grep -ao '"tuff.hash": *"[0-9a-f]*"' "$1"
}
[ -n "$(tensors_of plain.safetensors)" ] && [ "$(tensors_of plain.safetensors)" = "$(tensors_of watched.safetensors)" ] ||
    fail "the checkpoint changes after the end of training"
if [ "$device" = reference ]; then
    grep -q "no profile: " out || fail "the reference device has a profile: $(cat out)"
else
    grep -q "in kernels, median of 5: forward .* backward .* optimizer " out || fail "no phases: $(cat out)"
fi
[ "$(LC_ALL=C grep -ac '^ *[0-9][0-9.]* |' out)" -eq 6 ] || fail "three plots of the loss do not have six labels: $(cat out)"
LC_ALL=C grep -q "$(printf '\342\240')" out || fail "the plot does not use braille: $(cat out)"
LC_ALL=C expect 0 "done after step 12" watched --steps 12
! LC_ALL=C grep -q "$(printf '\342\240')" out || fail "the plot uses braille without UTF-8: $(cat out)"
grep -q '|.*\*' out || fail "there is no plot without UTF-8: $(cat out)"

# A resumed run: every step occurs once.
rm -rf log log.csv runs
expect 0 "stopped after step 8" watched --steps 12 --stop-after 8 --save half.safetensors --save-every 4
expect 0 "done after step 12" "$tuff" train --data "$name" --device "$device" --resume half.safetensors.prev --sample 0 \
    --log-every 4 --log log --csv log.csv --tensorboard runs/one --report page.html
cat >readers.py <<'EOF'
import csv, json, sys
from event_files import events

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
# Only the first half was run with --profile.
phases = [[line.get(phase + "_seconds", 0) for phase in ("forward", "backward", "optimizer")] for line in lines]
assert "reference" in sys.argv or (min(phases[0]) > 0 and max(phases[1] + phases[2]) == 0), phases
assert not any(row["loss_scale"] for row in rows), rows
EOF
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$tools" python3 readers.py "$device" || fail "the files do not agree: $(cat log log.csv)"

# A step of several batches, with a loss scale and a validation: the batches run one plan, and the update another.
long() {
    train --steps 6 --accumulate 3 --loss-scale auto --validate 0.2 --validate-every 3 --patience 9 --optimizer sgd \
        --momentum 0.5 --schedule linear --clip-value 0.25 --group 'wte,wpe:rate=0.5' --ema 0.99 --save-every 100 "$@"
}
expect 0 "done after step 6" long --save plain-long.safetensors
expect 0 "done after step 6" long --save long.safetensors --log-every 2 --csv long.csv --profile --report long.html
cmp -s plain-long.safetensors long.safetensors || fail "a profile changes the weights of accumulated steps"
for text in '>validation loss<' '<circle' 'Loss scale' 'best validation loss' '<dt>optimizer</dt><dd>sgd<' \
    '<dt>momentum</dt><dd>0.5<' '<dd>linear, 1 steps of warm-up, to 0.1 of the peak rate<' '<dt>precision</dt><dd>f32<' \
    '<dt>loss scale</dt><dd>auto<' 'at most 1, then each element at most 0.25<' '<dd>wte,wpe:rate=0.5<' \
    '<dd>3 batches per step<' '<dd>decay 0.99 per step<' '<dd>0.2, every 3 steps, stops after 9 without improvement<'; do
    grep -qF -e "$text" long.html || fail "the page of accumulated steps lacks \"$text\""
done
if [ "$device" != reference ]; then
    grep -q "in kernels, median of 5: forward .* backward .* optimizer " out || fail "no phases of accumulated steps: $(cat out)"
    python3 - <<'EOF' || fail "the times of accumulated steps: $(cat long.csv)"
import csv, re
# Saving the best weights writes a line of its own, for a step that could not be known to need one.
rows = [row for row in csv.DictReader(open("long.csv")) if row["loss"] and row["step"] != "3"]
assert [int(row["step"]) for row in rows] == [2, 4, 6]
assert all(float(row[phase + "_seconds"]) > 0 for row in rows for phase in ("forward", "backward", "optimizer"))
assert all(float(row["loss_scale"]) > 0 and float(row["skipped_steps"]) >= 0 for row in rows)
calls = {}
for number, phase in re.findall(r'<td>(\d+)</td><td class="left">(\w+)</td>', open("long.html").read()):
    calls.setdefault(phase, []).append(int(number))
# The page lists the 40 kernels that take the longest; those of the optimizer need not be among them.
assert {"forward", "backward"} <= set(calls) <= {"forward", "backward", "optimizer"}, calls
assert all(number % 3 == 0 for number in calls["forward"]), calls
assert any(number % 3 != 0 for number in calls.get("optimizer", [1])), calls
EOF
fi

# A run of a single step is profiled after its end: its weights and its sample are those of the step.
train --steps 1 --save plain-one.safetensors --sample 8 >plain-one.out 2>out || fail "one step: $(cat out)"
train --steps 1 --save one.safetensors --sample 8 --profile --report one.html >one.out 2>out || fail "one step: $(cat out)"
cmp -s plain-one.safetensors one.safetensors || fail "the profile of one step changes its weights"
cmp -s plain-one.out one.out || fail "the profile of one step changes its sample: $(cat one.out plain-one.out)"
if [ "$device" != reference ]; then
    grep -q "in kernels, median of 5 after the end: forward " out || fail "one step has no phases: $(cat out)"
    grep -q "after the end of the run" one.html || fail "the page of one step has no kernels"
fi

# The page.
for text in '<!DOCTYPE html>' 'prefers-color-scheme:dark' 'width=device-width' 'Training of a GPT' 'final loss' \
    'learning rate' 'Gradient norm' 'Tokens per second' 'Device memory' 'Step time' 'a &lt;b&gt;&amp;text'; do
    grep -qF -e "$text" page.html || fail "the page lacks \"$text\""
done
[ "$device" = reference ] || grep -q '<td class="left">optimizer</td>' page.html || fail "the page has no kernels"
for strange in '<script' 'http' 'src=' '@import' 'url(' 'nan' '<b>&text'; do
    ! grep -qF "$strange" page.html || fail "the page contains $strange"
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

# With loss scaling all three files and the page contain the scale and the skipped steps.
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
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$tools" python3 scaled.py || fail "loss scaling is not in the files: $(cat scaled scaled.csv)"
grep -qF "Loss scale" scaled.html || fail "the page lacks the loss scale"
expect 0 "the checkpoint's loss scale and its count of skipped steps are dropped" "$tuff" train --data "$name" \
    --device "$device" --resume scaled.safetensors --steps 6 --sample 0 --loss-scale off --csv scaled.csv

# A file that stops accepting data, simulated by a pipe whose reader exits: this is reported once, the training
# continues, and the exit code shows it. (The monitors' own tests check that a full disk tears no record.)
mkfifo pipe
head -n 4 pipe >lines &
trap '' PIPE
train --steps 40 --log-every 1 --csv pipe --save kept.safetensors >full.out 2>&1
[ $? -eq 1 ] || fail "a full file is not reported: $(cat full.out)"
trap - PIPE
grep -q "done after step 40.*saved to" full.out || fail "a full file ended the training: $(cat full.out)"
[ "$(grep -c 'cannot log step [0-9]*, training continues' full.out)" -eq 1 ] || fail "a full file is not reported exactly once: $(cat full.out)"
[ -f kept.safetensors ] || fail "a full log file costs the checkpoint"

# On a terminal the plot is redrawn in place.
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
