#!/bin/sh
# The options of tuff train about the optimizer, with precision and validation: each trains, a resumed run takes all of
# them from the checkpoint and ends with the same bits, and meaningless ones are refused before any work. On the
# reference device and on one driver. Usage: train_options.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
enter "$1"
train() {
    device=$1
    shift
    "$tuff" train --data text --device "$device" --layers 1 --heads 1 --width 8 --context 8 --batch 2 --sample 0 "$@"
}

i=0
while [ $i -lt 40 ]; do
    echo "$i words of text that nobody reads but a model"
    i=$((i + 1))
done >text

for wrong in "--loss-scale much" "--loss-scale -1" "--group *.bias" "--group *.bias:slow" "--group *.bias:rate=" \
    "--group :frozen" "--group *.bias:" "--group *.bias:," "--group *.bias:rate=1;wte:frozen"; do
    set -f
    expect 2 "invalid value" train reference --steps 2 $wrong
    set +f
done
expect 2 "expected auto, off, or a number above 0" train reference --steps 2 --loss-scale much
expect 2 "settings are rate=FACTOR, decay=R, clip=NORM, frozen" train reference --steps 2 --group '*.bias'
set --
while [ $# -lt 32 ]; do
    set -- "$@" --group 'wte:rate=1'
done
expect 2 "16 given, at most 15" train reference --steps 2 "$@"
expect 2 "adamw|sgd|adam|lion|adafactor|muon" train reference --steps 2 --optimizer newton
expect 2 "--momentum must be above 0" train reference --steps 2 --optimizer muon --momentum 0
expect 1 "no name matches the pattern \"nobody\"" train reference --steps 2 --group nobody:frozen
expect 1 "5 steps of warm-up must be fewer than the 4 in total" train reference --steps 4 --warmup 5
expect 0 "done after step 4" train reference --steps 4 --schedule constant --warmup 5
expect 1 "are 2147483648 batches, more than 2147483647" train reference --steps 16777216 --accumulate 128

# Only matrices decay: a group without any accepts no decay but 0.
expect 2 "invalid value" train reference --steps 2 --group ""
expect 2 "--group *.bias,*.gain: decay=0.5 has no effect" train reference --steps 2 --group '*.bias,*.gain:decay=0.5'
expect 2 "--group wte,*.bias: decay=0.5 has no effect" train reference --steps 2 --group 'w*:rate=0.5' \
    --group 'wte,*.bias:decay=0.5'
expect 0 "done after step 2" train reference --steps 2 --group '*.bias:decay=0' --group 'wte,*.gain:decay=0.5'
expect 0 "decay=R (of matrices)" "$tuff" train --help

# Options that would have no effect are refused.
for optimizer in adamw adam lion adafactor; do
    expect 2 "--momentum requires --optimizer sgd or muon" train reference --steps 2 --optimizer $optimizer --momentum 0.9
done
expect 0 "done after step 2" train reference --steps 2 --optimizer sgd --momentum 0
for optimizer in adamw adam lion adafactor muon; do
    expect 2 "--nesterov requires --optimizer sgd" train reference --steps 2 --optimizer $optimizer --nesterov on
done
expect 2 "--nesterov on requires --momentum above 0" train reference --steps 2 --optimizer sgd --momentum 0 --nesterov on
expect 2 "--nesterov takes off|on" train reference --steps 2 --optimizer sgd --nesterov yes
for optimizer in sgd adafactor; do
    expect 2 "--beta1 requires" train reference --steps 2 --optimizer $optimizer --beta1 0.8
    expect 2 "--beta2 requires" train reference --steps 2 --optimizer $optimizer --beta2 0.8
done
for optimizer in sgd lion; do
    expect 2 "--epsilon requires" train reference --steps 2 --optimizer $optimizer --epsilon 1e-6
done
for option in --beta1 --beta2; do
    for wrong in 0 1 -0.5 nan much; do
        expect 2 "$option takes a number from 1e-06 to 0.999999" train reference --steps 2 $option $wrong
    done
done
for wrong in 0 -1 inf 1e-40 2; do
    expect 2 "--epsilon takes a number from 1e-37 to 1" train reference --steps 2 --epsilon $wrong
done
expect 2 "--epoch-steps takes a whole number" train reference --steps 4 --epoch-steps -1
expect 2 "--epoch-steps must be less than --steps" train reference --steps 4 --epoch-steps 4
expect 1 "2 epochs of warm-up must be fewer than the 2 in total" train reference --steps 4 --epoch-steps 2 --warmup 2
expect 2 "--update-top takes a whole number" train reference --steps 2 --update-top -1
expect 2 "--update-top 99: the model has only 16 parameters" train reference --steps 2 --update-top 99
expect 2 "--log-norms takes off|on" train reference --steps 2 --log-norms 1
expect 2 "--log-norms needs --log, --csv or --tensorboard" train reference --steps 2 --log-norms on

# A file of learning rates.
printf '0.1\n0.2\n' >rates
expect 2 "--rates and --schedule cannot be combined" train reference --steps 2 --rates rates --schedule cosine
for option in "--final-rate 0.1" "--warmup 1" "--learning-rate 0.1"; do
    expect 2 "${option% *} has no effect with --rates" train reference --steps 2 --rates rates $option
done
expect 2 "--rates is empty" train reference --steps 2 --rates ""
expect 2 "--rates: path too long" train reference --steps 2 --rates "$(printf '%600s' x)"
expect 1 "--rates: cannot open gone" train reference --steps 2 --rates gone
expect 1 "--rates: cannot read ." train reference --steps 2 --rates .
: >bad
expect 1 "--rates: bad: file is empty" train reference --steps 2 --rates bad
for line in fast -0.1 101 nan inf "0.1 0.2" "" "0.1,"; do
    printf '0.1\n%s\n0.2\n' "$line" >bad
    expect 1 "--rates: bad:2: invalid learning rate \"$line\": expected one from 0 to 100 per line" train reference --steps 2 \
        --rates bad
    [ "$(grep -c . out)" -eq 1 ] || fail "the error message has more than one line: $(cat out)"
done
printf '0.1\r\n0\r\n' >windows
expect 0 "done after step 2" train reference --steps 2 --rates windows

expect 2 "elementwise requires --optimizer muon" train reference --steps 2 --group wte:elementwise
expect 2 "--final-rate has no effect with --schedule constant" train reference --steps 2 --schedule constant --final-rate 0.5
expect 2 "--key-value-heads requires --form llama" train reference --steps 2 --key-value-heads 1
expect 2 "--hidden requires --form llama" train reference --steps 2 --hidden 32 --form gpt
expect 2 "--workers has no effect with --resident" train reference --steps 2 --workers 2 --resident
expect 2 "--upload has no effect with --resident" train reference --steps 2 --resident --upload auto
: >existing
ln existing linked
expect 2 "--log and --csv are the same file" train reference --steps 2 --log same --csv same
expect 2 "--csv and --tensorboard are the same file" train reference --steps 2 --csv same --tensorboard same
expect 2 "--log and --csv are the same file" train reference --steps 2 --log existing --csv ./linked
expect 0 "done after step 2" train reference --steps 2 --log /dev/null --csv /dev/null

# A run overwrites neither what it reads nor its own outputs, whatever names the files have. It may replace the
# checkpoint that it resumes from.
collide() {
    names=$1 path=$2
    shift 2
    expect 2 "$names are the same file, $path" train reference --steps 2 "$@"
}
# collide_resumed: the checkpoint, not the command line, names the files that are read.
collide_resumed() {
    names=$1
    shift
    expect 2 "$names are the same file" "$tuff" train --data text --device reference --resume begun --sample 0 "$@"
}
for name in held m.prev m.best m.update; do
    cp text $name
done
cp text kept
ln text hard
ln -s text soft
for option in --log --csv --tensorboard --report --save --save-graph --save-manifest; do
    collide "--data and $option" ./text --data held $option ./text
    collide "--validate and $option" held --validate held $option held
done
collide "--rates and --csv" rates --rates rates --csv rates
collide "--data and --log" soft --log soft
collide "--data and --report" hard --report hard
collide "--data and FILE.prev of --save" m.prev --data m.prev --save m
collide "--validate and FILE.best of --save" m.best --validate m.best --save m
collide "--data and FILE.update of --save-graph" m.update --data m.update --save-graph m --accumulate 2
collide "--log and --save" new --log ./new --save new
collide "--csv and FILE.prev of --save" new.prev --csv "$work/new.prev" --save new
collide "--report and --save-graph" new --report new --save-graph new
collide "--lock-manifest and --save-manifest" new --lock-manifest new --save-manifest new
expect 0 "stopped after step 1" train reference --steps 4 --stop-after 1 --validate held --rates rates --save begun
cp begun copy
mv copy begun.best # no link any more
collide_resumed "--resume and --log" --log begun
collide_resumed "FILE.best of --resume and --log" --log begun.best
collide_resumed "--validate and --report" --report held
collide_resumed "--rates and --csv" --csv rates
for name in text held m.prev m.best m.update; do
    cmp -s kept $name || fail "$name was overwritten"
done
for from in begun begun.prev begun.best; do
    expect 0 "saved to begun" "$tuff" train --data text --device reference --resume $from --save begun --stop-after 2 \
        --sample 0
done
expect 0 "done after step 2" train reference --steps 2 --validate 0.2 --log 0.2 --data text --save-graph m

expect 2 "--memory-budget has no effect on reference" train reference --steps 2 --memory-budget 100M

# Of one_cycle a warm-up of 0 is not none, and the help says so.
expect 0 "0: none (one_cycle: 30 % of all" "$tuff" train --help

# Held-out data: a number is a fraction, and a file with such a name needs a folder in front.
for wrong in 1.5 0 10%; do
    expect 1 "expected a fraction between 0 and 1, such as 0.1; for a file of that name, give ./$wrong" train reference --steps 2 \
        --validate $wrong
done
expect 2 "--validate is empty" train reference --steps 2 --validate ""
cp text 1.5
expect 0 "best validation loss" train reference --steps 2 --validate ./1.5

for optimizer in adamw sgd adam lion adafactor muon; do
    expect 0 "done after step 3" train reference --steps 3 --optimizer $optimizer --weight-decay 0.01
done
expect 0 "loss scale is 1024" train reference --steps 3 --loss-scale 1024 --save plain.safetensors
expect 1 "has no averages" "$tuff" generate --checkpoint plain.safetensors --average --device reference
expect 0 "loss scale is 65536" train reference --steps 3 --loss-scale auto --schedule linear

# everything DEVICE: the same bits, whether uninterrupted or stopped and resumed.
everything() {
    device=$1
    set -- --steps 6 --optimizer muon --accumulate 2 --ema 0.9 --loss-scale auto --schedule one_cycle --warmup 2 \
        --final-rate 0.05 --clip 0.5 --clip-value 0.05 --weight-decay 0.05 --group '*.bias,*.gain:rate=0.5,decay=0' \
        --group 'wte,wpe:elementwise,clip=1,decay=0.01' --precision f16 --validate 0.2 --validate-every 2 --beta1 0.8 \
        --beta2 0.9 --epsilon 1e-6 --epoch-steps 2 --update-top 9 --log-norms on --log norms.log
    expect 0 "done after step 6" train "$device" "$@" --save whole.safetensors
    expect 0 "stopped after step 2" train "$device" "$@" --stop-after 2 --save half.safetensors
    expect 0 "resuming after step 2" "$tuff" train --data text --device "$device" --resume half.safetensors \
        --save rest.safetensors --sample 0
    cmp -s whole.safetensors rest.safetensors || fail "$device: the resumed run ends with other bits"
    expect 0 "I" "$tuff" generate --checkpoint whole.safetensors --average --prompt I --tokens 4 --device "$device"
    expect 0 "--ema differs from the checkpoint" "$tuff" train --data text --device "$device" --resume half.safetensors \
        --sample 0 --ema 0.5
    for changed in "--beta1 0.7" "--beta2 0.7" "--epsilon 1e-5" "--epoch-steps 0" "--update-top 3"; do
        expect 0 "${changed% *} differs from the checkpoint" "$tuff" train --data text --device "$device" \
            --resume half.safetensors --sample 0 --stop-after 3 $changed
    done
    expect 0 "--precision bf16 instead of the checkpoint's f16" "$tuff" train --data text --device "$device" \
        --resume half.safetensors --sample 0 --precision bf16
    expect 2 "--momentum must be above 0" "$tuff" train --data text --device "$device" --resume half.safetensors --momentum 0
    expect 1 "has the state of optimizer muon, not of adam" "$tuff" train --data text --device "$device" \
        --resume half.safetensors --sample 0 --optimizer adam
}
everything reference
quick_device
[ "$device" = reference ] || everything "$device"
[ "$failures" -eq 0 ]
