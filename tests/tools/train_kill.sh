#!/bin/sh
# A training that is killed at any moment goes on to the same bits: with checkpoints after every second step, three of them
# kept, validations, and threads that prepare batches. No name ever holds a torn file. TUFF_TRAIN_KILLS says how often it is
# killed. Called: train_kill.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
enter "$1"
kills=${TUFF_TRAIN_KILLS:-6}

i=0
while [ $i -lt 200 ]; do
    echo "Step $i of a text that is cut off here and there, and then goes on with $((i * i))."
    i=$((i + 1))
done >text

device=$("$tuff" devices --json | sed -n 's/.*"selector": "\([^"]*\)".*/\1/p' | head -n 1)
# To be called in a subshell, which becomes the tool: killing it kills that.
train() {
    exec "$tuff" train --data text --device "$device" --layers 1 --heads 2 --width 16 --context 16 --batch 2 --sample 0 \
        --steps 240 --validate 0.2 --validate-every 7 --patience 30 --workers 2 "$@"
}

# Seeds of the shell's numbers, so that a failure can be repeated.
seed=${TUFF_TEST_SEED:-$$}
echo "TUFF_TEST_SEED=$seed"
# draw MOST: a number below it.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

(train --save whole) >out 2>&1 || fail "the uninterrupted run: $(cat out)"

killed=0
while [ $killed -lt "$kills" ]; do
    resume=
    [ ! -f cut ] || resume="--resume cut"
    (train --save cut --save-every 2 --keep 3 $resume) >out 2>&1 &
    process=$!
    draw 1500
    sleep "$(printf '%d.%03d' $((drawn / 1000)) $((drawn % 1000)))"
    if kill -KILL $process 2>/dev/null; then
        killed=$((killed + 1))
        wait $process 2>/dev/null
    elif wait $process; then
        # It came to its end: from the beginning again.
        cmp -s whole cut || fail "the run that was killed $killed times ends with other bits"
        rm -f cut*
    else
        fail "going on after kill $killed: $(cat out)"
        break
    fi
    # Whatever has a name is whole: the hash over all tensors is checked when it is loaded.
    for file in cut cut.prev cut.best cut.step-*; do
        [ -f "$file" ] || continue
        draw 4
        [ $drawn -ne 0 ] || "$tuff" generate --checkpoint "$file" --device reference --tokens 1 >out 2>&1 ||
            fail "$file after kill $killed: $(cat out)"
    done
done
resume=
[ ! -f cut ] || resume="--resume cut"
(train --save cut --save-every 2 --keep 3 $resume) >out 2>&1 || fail "the last run: $(cat out)"
cmp -s whole cut || fail "after $killed kills the run ends with other bits"
cmp -s whole.best cut.best || fail "after $killed kills the best weights are others"
[ "$(ls | grep -c '^cut\.step-[0-9]*$')" -eq 3 ] || fail "of three checkpoints there are $(ls)"

[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
