#!/bin/sh
# The effect of tuff train's options about the optimizer on weights, moments and rates, recomputed from the files of a
# run. On the reference device. Usage: train_effects.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
enter "$1"
# train OPTIONS...: trains a small model, with a line for each step. plain OPTIONS...: with gradients only, at a
# constant rate.
train() {
    "$tuff" train --data text --device reference --layers 1 --heads 1 --width 8 --context 8 --batch 2 --sample 0 \
        --log-every 1 "$@"
}
plain() {
    train --schedule constant --warmup 0 --learning-rate 0.5 --clip 0 --weight-decay 0 "$@"
}

i=0
while [ $i -lt 40 ]; do
    echo "$i words of text that nobody reads but a model"
    i=$((i + 1))
done >text

# check PROGRAM FILES...: the Python lines succeed, with x the files: checkpoints as {name: numbers}, logs as lists of
# lines.
cat >reader.py <<'END'
import array, json, math, struct, sys

def tensors(data):
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    kinds = {"F32": "f", "I32": "i"}
    return {name: array.array(kinds[of["dtype"]], data[8 + size:][slice(*of["data_offsets"])])
            for name, of in header.items() if name != "__metadata__"}

def read(path):
    data = open(path, "rb").read()
    return [json.loads(line) for line in data.splitlines()] if path.endswith(".log") else tensors(data)

def close(a, b, bar=1e-6):
    return len(a) == len(b) and all(abs(p - q) <= bar * max(abs(p), abs(q), 1e-2) for p, q in zip(a, b))

def weights(of):
    return {name: values for name, values in of.items() if not name.startswith("optimizer.")}

def state(of, kind):
    return {name[len("optimizer." + kind + "."):]: values for name, values in of.items()
            if name.startswith("optimizer." + kind + ".")}

def norm(values):
    return math.sqrt(sum(value * value for value in values))

x = [read(path) for path in sys.argv[2:]]
exec(sys.argv[1])
END
check() {
    python3 reader.py "$@" || fail "wrong effect: $*"
}

# The first step of sgd has the gradient as its momentum: without Nesterov it goes r g, with it r (1 + 0.9) g.
expect 0 "done after step 1" plain --optimizer sgd --steps 1 --save sgd
expect 0 "done after step 1" plain --optimizer sgd --steps 1 --nesterov on --save nesterov
check '
g = state(x[0], "m")
assert g == state(x[1], "m") and len(g) > 10
for name in g:
    begin = [w + 0.5 * m for w, m in zip(x[0][name], g[name])]
    assert close(begin, [w + 0.5 * 1.9 * m for w, m in zip(x[1][name], g[name])])
    assert x[0][name] != x[1][name]
' sgd nesterov
expect 0 "stopped after step 1" plain --optimizer sgd --steps 3 --nesterov on --stop-after 1 --save half
expect 0 "done after step 3" plain --optimizer sgd --steps 3 --nesterov on --save whole
expect 0 "resuming after step 1" "$tuff" train --data text --device reference --sample 0 --resume half --save rest
cmp -s whole rest || fail "a run with --nesterov that is resumed ends with other bits"
expect 0 "--nesterov differs from the checkpoint" "$tuff" train --data text --device reference --sample 0 --resume half \
    --nesterov off
expect 2 "--nesterov on requires --momentum above 0" "$tuff" train --data text --device reference --sample 0 \
    --resume half --momentum 0
expect 0 "done after step 1" plain --optimizer sgd --steps 1 --nesterov off --save off
check 'assert x[0] == x[1]' sgd off

# The first step of adam: m = (1 - beta1) g, v = (1 - beta2) g^2, w -= r g / (|g| + epsilon).
expect 0 "done after step 1" plain --optimizer adam --steps 1 --beta1 0.5 --beta2 0.75 --epsilon 1e-2 --save adam
check '
g = state(x[0], "m")
for name in g:
    assert close(state(x[1], "m")[name], [0.5 * v for v in g[name]], 1e-5)
    assert close(state(x[1], "v")[name], [0.25 * v * v for v in g[name]], 1e-5)
    begin = [w + 0.5 * v for w, v in zip(x[0][name], g[name])]
    assert close(begin, [w + 0.5 * v / (abs(v) + 1e-2) for w, v in zip(x[1][name], g[name])], 1e-4)
' sgd adam
expect 0 "done after step 2" plain --steps 2 --save default
expect 0 "done after step 2" plain --steps 2 --beta1 0.9 --beta2 0.95 --epsilon 1e-8 --save explicit
check 'assert x[0] == x[1]' default explicit
expect 0 "done after step 2" plain --optimizer lion --steps 2 --save lion
expect 0 "done after step 2" plain --optimizer lion --steps 2 --beta1 0.9 --beta2 0.99 --save explicit
check 'assert x[0] == x[1]' lion explicit
expect 0 "done after step 2" plain --optimizer lion --steps 2 --beta2 0.5 --save other
check 'assert weights(x[0]) != weights(x[1])' lion other
for given in "adafactor --epsilon 1e-3" "muon --beta1 0.5" "muon --epsilon 1e-2"; do
    expect 0 "done after step 2" plain --steps 2 --optimizer ${given%% *} --save default
    expect 0 "done after step 2" plain --steps 2 --optimizer $given --save other
    check 'assert weights(x[0]) != weights(x[1])' default other
done

# With epochs of 3 steps the rates are those of a run with as many steps as there are epochs, for every schedule.
for schedule in cosine constant linear one_cycle; do
    expect 0 "done after step 4" train --steps 4 --schedule $schedule --warmup 2 --log steps.log
    expect 0 "done after step 11" train --steps 11 --schedule $schedule --warmup 2 --epoch-steps 3 --log epochs.log
    check '
rates = [line["learning_rate"] for line in x[0]]
assert len(set(rates)) >= 2 and len(x[1]) == 11, rates
assert [line["learning_rate"] for line in x[1]] == [rates[step // 3] for step in range(11)]
' steps.log epochs.log
done

expect 0 "done after step 4" train --steps 4 --epoch-steps 2 --log few.log
check '
rates = [line["learning_rate"] for line in x[0]]
assert rates[0] == rates[1] > rates[2] == rates[3] and close([0.003, 0.0003 + 0.0027 / 2], [rates[0], rates[2]]), rates
' few.log

# Rates from a file, one per step, the last of which stays; equal rates are a constant schedule.
printf '0.5\n0.25\n 1e-2 \n0.125' >rates
expect 0 "done after step 6" train --steps 6 --rates rates --log file.log
check 'assert close([line["learning_rate"] for line in x[0]], [0.5, 0.25, 1e-2, 0.125, 0.125, 0.125])' file.log
expect 0 "done after step 6" train --steps 6 --rates rates --epoch-steps 2 --log file.log
check 'assert close([line["learning_rate"] for line in x[0]], [0.5, 0.5, 0.25, 0.25, 1e-2, 1e-2])' file.log
echo 0.5 >same
expect 0 "done after step 3" plain --optimizer sgd --steps 3 --save constant
expect 0 "done after step 3" train --clip 0 --weight-decay 0 --optimizer sgd --steps 3 --rates same --save file
check 'assert weights(x[0]) == weights(x[1])' constant file
expect 0 "done after step 6" train --steps 6 --accumulate 2 --rates rates --save whole
expect 0 "stopped after step 2" train --steps 6 --accumulate 2 --rates rates --stop-after 2 --save half
expect 0 "resuming after step 2" "$tuff" train --data text --device reference --sample 0 --resume half --save rest
cmp -s whole rest || fail "a run with --rates that is resumed ends with other bits"
printf '\n0.0625\n' >>rates
expect 0 "rates: learning rates differ from the checkpoint" "$tuff" train --data text --device reference \
    --sample 0 --resume half
expect 0 "--schedule differs from the checkpoint" "$tuff" train --data text --device reference --sample 0 --resume half \
    --schedule cosine --log gone.log --log-every 1
check 'assert len({line["learning_rate"] for line in x[0]}) == 4' gone.log
expect 0 "--rates differs from the checkpoint" "$tuff" train --data text --device reference --sample 0 --resume constant \
    --steps 4 --rates rates --log came.log --log-every 1
check 'assert close([line["learning_rate"] for line in x[0]], [0.125])' came.log

# Only the parameters with the largest gradients are updated, as much as without --update-top, and only these have
# momentum.
for top in 1 3; do
    expect 0 "done after step 1" plain --optimizer sgd --steps 1 --update-top $top --save top
    check '
g, top = state(x[0], "m"), state(x[1], "m")
chosen = sorted(g, key=lambda name: -norm(g[name]))[:'$top']
for name in g:
    begin = [w + 0.5 * m for w, m in zip(x[0][name], g[name])]
    assert close(x[1][name], x[0][name] if name in chosen else begin), name
    assert top[name] == g[name] if name in chosen else not any(top[name]), name
' sgd top
done
expect 0 "done after step 1" plain --optimizer sgd --steps 1 --update-top 3 --group 'wte,wpe:frozen' --save top
check '
g, top = state(x[0], "m"), state(x[1], "m")
chosen = sorted((name for name in g if name not in ("wte", "wpe")), key=lambda name: -norm(g[name]))[:3]
assert sorted(name for name in top if any(top[name])) == sorted(chosen), top.keys()
' sgd top
expect 1 "--update-top 15: only 14 parameters are trained" plain --steps 1 --update-top 15 --group 'wte,wpe:frozen'
parameters=$(python3 reader.py 'print(len(weights(x[0])))' sgd)
expect 0 "done after step 2" plain --optimizer sgd --steps 2 --update-top "$parameters" --save all
expect 0 "done after step 2" plain --optimizer sgd --steps 2 --save none
check 'assert all(close(x[0][name], x[1][name]) for name in weights(x[0]))' none all

# Norms in the log are those of the gradients, per parameter or group, and change no bit.
expect 0 "done after step 1" plain --optimizer sgd --steps 1 --log-norms on --log norms.log --save logged
check '
g, line = state(x[0], "m"), x[1][0]
names = {key.split("/", 1)[1] for key in line if key.startswith("gradient_norm/")}
assert weights(x[0]) == weights(x[2]) and names == set(g), names
assert all(abs(line["gradient_norm/" + name] - norm(g[name])) <= 1e-5 * norm(g[name]) + 1e-9 for name in g)
' sgd norms.log logged
for norms in on off; do
    expect 0 "done after step 2" train --steps 2 --group '*.bias,*.gain:rate=0.5' --group wte:decay=0 --log-norms $norms \
        --clip 0.1 --log $norms.log --save grouped-$norms
done
check '
keys = [{key for key in line[0] if "/" in key} for line in x[:2]]
assert keys[0] == {"gradient_norm/" + name for name in ("others", "*.bias,*.gain", "wte")} and not keys[1], keys
assert weights(x[2]) == weights(x[3])
for line in x[0]:
    assert abs(norm(line[key] for key in keys[0]) - line["gradient_norm"]) <= 1e-5 * line["gradient_norm"]
' on.log off.log grouped-on grouped-off
expect 0 "resuming after step 2" "$tuff" train --data text --device reference --sample 0 --resume grouped-on --steps 3 \
    --log more.log --log-every 1
check 'assert x[0][0]["gradient_norm/wte"] > 0' more.log

# f16 scales the loss by default; scale and skipped steps are in the log. A scale that overflows skips the step.
expect 0 "0 steps skipped, the loss scale is 65536" train --steps 2 --precision f16 --log scaled.log --save scaled
check 'assert [(line["loss_scale"], line["skipped_steps"]) for line in x[0]] == [(65536, 0)] * 2' scaled.log
expect 0 "done after step 2" train --steps 2 --precision f16 --loss-scale off --log off.log
! grep -q "loss scale" out || fail "--loss-scale off scales: $(cat out)"
check 'assert not any("loss_scale" in line for line in x[0])' off.log
for precision in f32 bf16; do
    expect 0 "done after step 2" train --steps 2 --precision $precision
    ! grep -q "loss scale" out || fail "$precision scales: $(cat out)"
done
expect 0 "the checkpoint's loss scale and its count of skipped steps are dropped" "$tuff" train --data text \
    --device reference --sample 0 --resume scaled --steps 3 --loss-scale off --save unscaled
[ "$(grep -c dropped out)" -eq 1 ] && ! grep -q "loss scale is" out || fail "--loss-scale off: $(cat out)"
check 'assert "optimizer.loss_scale" in x[0] and not "optimizer.loss_scale" in x[1]' scaled unscaled
expect 1 "--loss-scale auto: the checkpoint has no loss scale" "$tuff" train --data text --device reference --sample 0 \
    --resume default --steps 3 --loss-scale auto
expect 0 "small gradients become 0 with --precision f16" "$tuff" train --data text --device reference --sample 0 \
    --resume constant --steps 4 --precision f16

# Validations use the averages: nearly the initial weights if these hardly change, and the current weights if they
# follow.
for decay in 0 1e-9 0.999999; do
    expect 0 "best validation loss" train --steps 6 --validate 0.2 --validate-every 1 --ema $decay --log $decay.log --save ema-$decay
done
check '
losses = [[line["validation_loss"] for line in log if "validation_loss" in line] for log in x[:3]]
assert all(len(list_) == 6 for list_ in losses) and losses[0][5] < losses[0][0] - 1e-3, losses
assert close(losses[0], losses[1]) and close(losses[2], [losses[2][0]] * 6, 1e-4), losses
assert weights(x[3]) == weights(x[4]) == weights(x[5])
' 0.log 1e-9.log 0.999999.log ema-0 ema-1e-9 ema-0.999999

# So do the best weights, through a checkpoint too, and the sample. The rates ruin the weights after step 4.
printf '0.01\n0.01\n0.01\n0.01\n20\n' >ruin
averaged() {
    train --steps 8 --rates ruin --ema 0.5 --validate 0.2 --validate-every 2 --sample 40 "$@"
}
averaged --save whole >whole.text 2>err || fail "with --ema: $(cat err)"
grep -q "after step 4; the sample uses these weights, averaged (--ema)" err || fail "with --ema: $(cat err)"
averaged --stop-after 6 --save half >half.text 2>err || fail "with --ema: $(cat err)"
"$tuff" train --data text --device reference --resume half --sample 40 >rest.text 2>err || fail "with --ema: $(cat err)"
"$tuff" generate --checkpoint half.best --average --device reference --tokens 40 >best.text
"$tuff" generate --checkpoint half.best --device reference --tokens 40 >plain.text
for text in half rest best; do
    cmp -s whole.text $text.text || fail "$text.text is not a sample of the averaged weights: $(cat whole.text $text.text)"
done
! cmp -s whole.text plain.text || fail "the sample does not use the averaged weights"
expect 0 "best validation loss" "$tuff" train --data text --device reference --resume half --sample 0 --ema 0
grep -q "after step 8; the sample uses these weights\$" out || fail "a loss of averaged weights is compared with one of plain weights: $(cat out)"
expect 0 "the sample uses the averaged weights (--ema)" train --steps 2 --ema 0.9 --sample 4

[ "$failures" -eq 0 ]
