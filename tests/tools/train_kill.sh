#!/bin/sh
# A training that is killed at any moment resumes to the same bits: plain, and with everything on (16 bits and loss
# scaling, accumulation, averages, groups, clipping, a schedule), each with checkpoints after every second step, three
# of them kept, validations, threads that prepare batches, and monitor files. No name ever refers to a torn file, and
# the files contain every step once. TUFF_TRAIN_KILLS is the number of kills of a run with everything on. Usage:
# train_kill.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$(cd "$(dirname "$0")" && pwd)"
enter "$1"
kills=${TUFF_TRAIN_KILLS:-3}
make_text 200
begin_draws
draw_optimizer
rule=$optimizer

device=${TUFF_DEVICE:-$("$tuff" devices --json | sed -n 's/.*"selector": "\([^"]*\)".*/\1/p' | head -n 1)}
# train KIND OPTIONS...: must be called in a subshell, which becomes the tool, so that killing the subshell kills the
# tool.
train() {
    kind=$1
    shift
    set -- exec "$tuff" train --data text --device "$device" --layers 1 --heads 2 --width 16 --context 16 --batch 2 \
        --sample 0 --steps 120 --validate 0.2 --validate-every 7 --patience 30 --workers 2 --upload ahead "$@"
    if [ "$kind" = everything ]; then
        everything_on "$rule" "$@"
    else
        "$@"
    fi
}

# train_cut KIND OPTIONS...: a run that may be killed, resumed from the last checkpoint if there is one.
train_cut() {
    kind=$1
    shift
    [ ! -f cut ] || set -- "$@" --resume cut
    train "$kind" --save cut --save-every 2 --keep 3 --log-every 3 --log cut.log --csv cut.csv --tensorboard cut.runs "$@"
}

# Every named file is complete: loading checks the hash over all tensors.
check_files() {
    for file in cut cut.prev cut.best cut.step-*; do
        [ -f "$file" ] || continue
        draw 4
        [ $drawn -ne 0 ] || "$tuff" generate --checkpoint "$file" --device reference --tokens 1 >out 2>&1 ||
            fail "$1: $file after kill $killed: $(cat out)"
    done
}

# Everything that does not depend on time is the same in both logs, and in all files of the interrupted run; event files
# are read in order of creation.
cat >logs.py <<'END'
import csv, json, math
from event_files import events

timeless = ("step", "loss", "learning_rate", "gradient_norm", "validation_loss", "best_validation_loss")

def read(path):
    with open(path) as file:
        return [{name: value for name, value in json.loads(line).items()
                 if name in timeless and value is not None} for line in file]  # null: no number, as of a skipped step

whole, cut = read("whole.log"), read("cut.log")
assert whole == cut, ([pair for pair in zip(whole, cut) if pair[0] != pair[1]][:1], len(whole), len(cut))
rows = [{name: float(field) for name, field in row.items()
         if field and name in timeless and math.isfinite(float(field))}
        for row in csv.DictReader(open("cut.csv"))]
assert rows == cut, (rows, cut)
merged = {}
for line in cut:
    merged.setdefault(line["step"], {}).update((name, value) for name, value in line.items() if name != "step")
seen = events("cut.runs", key=lambda name: int(name.rsplit(".", 1)[1]))
assert sorted(seen) == sorted(merged), (sorted(seen), sorted(merged))
for step, scalars in merged.items():
    for name, value in scalars.items():
        assert abs(seen[step][name] - value) <= 1e-6 * abs(value), (step, name, seen[step], value)
END

check_end() {
    cmp -s whole cut || fail "$1: after $killed kills the final checkpoint differs"
    cmp -s whole.best cut.best || fail "$1: after $killed kills the best weights differ"
    [ "$(ls | grep -c '^cut\.step-[0-9]*$')" -eq 3 ] || fail "$1: expected three checkpoints, got $(ls)"
    python3 logs.py >out 2>&1 || fail "$1: after $killed kills the log files do not agree: $(cat out)"
}

milliseconds() {
    echo $(($(date +%s%N) / 1000000))
}

# kill_often KIND KILLS: each checkpoint that is saved has a line in the log. Kills occur anywhere in the remaining run;
# its kernels are compiled before.
kill_often() {
    rm -rf cut* whole*
    (train "$1" --stop-after 7) >out 2>&1 || fail "$1: the first steps: $(cat out)"
    begun=$(milliseconds)
    (train "$1" --save whole --save-every 2 --log-every 3 --log whole.log) >out 2>&1 || fail "$1: the uninterrupted run: $(cat out)"
    took=$(($(milliseconds) - begun))
    killed=0 ended=0
    while [ $killed -lt "$2" ] && [ $failures -eq 0 ]; do
        (train_cut "$1") >out 2>&1 &
        process=$!
        draw $took
        sleep "$(printf '%d.%03d' $((drawn / 1000)) $((drawn % 1000)))"
        if kill -KILL $process 2>/dev/null; then
            killed=$((killed + 1))
            wait $process 2>/dev/null
        elif wait $process; then
            # The run was completed: starts from the beginning.
            check_end "$1"
            ended=$((ended + 1))
            rm -rf cut*
        else
            fail "$1: resuming after kill $killed: $(cat out)"
        fi
        check_files "$1"
    done
    (train_cut "$1") >out 2>&1 || fail "$1: the last run: $(cat out)"
    check_end "$1"
    echo "$1 on $device: $killed kills; an uninterrupted run takes $took ms; $((ended + 1)) runs completed"
}

kill_often plain 2
kill_often everything "$kills"

[ $failures -eq 0 ] || echo "$failures checks failed, with $rule" >&2
[ $failures -eq 0 ]
