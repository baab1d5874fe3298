#!/bin/sh
# The same training run twice ends with the same bits, with everything on: ten steps on the driver that the seed draws;
# with TUFF_SUITE=thorough a thousand steps on every device found. Usage: train_twice.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
enter "$1"
make_text 200
begin_draws
draw_optimizer
rule=$optimizer
steps=10
[ "${TUFF_SUITE:-}" != thorough ] || steps=1000

train() {
    selector=$1
    shift
    everything_on "$rule" "$tuff" train --data text --device "$selector" --layers 1 --heads 2 --width 16 --context 16 \
        --batch 2 --sample 0 --steps $steps --validate 0.2 --validate-every $((steps / 3)) --workers 2 --upload ahead "$@"
}

# twice DEVICE: compares the last checkpoint, the best weights and the checkpoint before.
twice() {
    rm -f first* second*
    for name in first second; do
        expect 0 "after step $steps" train "$1" --save $name --save-every $((steps / 2 + 1)) --log-every $((steps / 5)) \
            --log $name.log
        sed 's/"\(tokens_per_second\|seconds\|average_tokens_per_second\|loader_wait_seconds\)": [^,}]*//g' $name.log >$name.lines
    done
    for end in '' .best .prev .lines; do
        cmp -s first$end second$end || fail "$1, $rule: first$end and second$end differ"
    done
    grep -q '"loss"' first.lines || fail "$1: the log has no losses: $(cat first.lines)"
}

"$tuff" devices --json | sed -n 's/.*"selector": "\([^"]*\)".*/\1/p' >devices
count=$(grep -vc '^reference$' devices)
if [ $steps -eq 10 ] && [ "$count" -gt 0 ]; then
    draw "$count"
    grep -v '^reference$' devices | sed -n "$((drawn + 1))p" >drawn
    mv drawn devices
fi
while read -r device <&3; do
    twice "$device"
    echo "$device, $rule: $steps steps twice"
done 3<devices

[ $failures -eq 0 ]
