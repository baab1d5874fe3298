#!/bin/sh
# The command line: verbs, exit codes, messages, bad input, interruption, resumption. Training runs on a device with
# kernels, and on the reference. Usage: tool.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
enter "$1"

# The text to learn: a sentence repeated many times.
i=0
while [ $i -lt 60 ]; do
    echo "The licensed work is that which the licensee may copy, $i times."
    i=$((i + 1))
done >text

# Every verb has a help text; wrong usage exits with 2.
for verb in devices doctor verify train generate plan kernel bench cache; do
    expect 0 "usage: tuff $verb" "$tuff" $verb --help
    expect 2 "unknown option --nonsense" "$tuff" $verb --nonsense 1
done
expect 0 "Exit codes" "$tuff" --help
expect 0 "tuff 0." "$tuff" --version
expect 2 "usage: tuff VERB" "$tuff"
expect 2 "unknown verb" "$tuff" trian
expect 0 "usage: tuff tune VERB" "$tuff" tune --help
expect 2 "usage: tuff tune VERB" "$tuff" tune
expect 0 "usage: tuff tune warm" "$tuff" tune warm --help
expect 2 "--tune takes" "$tuff" tune warm --tune maybe
expect 2 "--list measures nothing" "$tuff" tune warm --list --tune quick
expect 2 "--deterministic measures nothing" "$tuff" tune warm --deterministic
for verb in train generate plan profile bench "tune warm"; do
    # shellcheck disable=SC2086
    "$tuff" $verb --help >out
    standard=cached
    [ "$verb" != "tune warm" ] || standard=normal
    tr -s ' \n' '  ' <out | grep -qF "10, 60 (120 with fewer than 8 cores), 600 seconds" || fail "$verb --help has no limits of modes"
    tr -s ' \n' '  ' <out | grep -qF "default \$TUFF_TUNE, else $standard" || fail "$verb --help has another default of --tune"
done
expect 2 "not a multiple of 3 heads" "$tuff" tune warm --width 32 --heads 3
expect 2 "--precision takes f32|f16|bf16" "$tuff" tune warm --precision f8
expect 2 "--tune-budget takes a number" "$tuff" tune warm --tune-budget 5m
expect 2 "--data FILE is required" "$tuff" train
expect 2 "--steps takes a whole number" "$tuff" train --data text --steps many
expect 2 "--steps takes a whole number" "$tuff" train --data text --steps 0
expect 2 "--steps needs a value" "$tuff" train --data text --steps
expect 2 "--fuse takes on|off" "$tuff" train --data text --fuse maybe
expect 2 "--learning-rate takes a number" "$tuff" train --data text --learning-rate nan
expect 2 "not a multiple of 3 heads" "$tuff" train --data text --width 32 --heads 3
expect 2 "--save-every needs --save" "$tuff" train --data text --save-every 3
expect 2 "--keep needs --save" "$tuff" train --data text --keep 3
expect 2 "--patience needs --validate" "$tuff" train --data text --patience 3
expect 2 "--validate-every needs --validate" "$tuff" train --data text --validate-every 3
expect 2 "--workers takes a whole number" "$tuff" train --data text --workers 0
expect 2 "--checkpoint FILE is required" "$tuff" generate
expect 2 "unknown op" "$tuff" verify nothing --device reference
expect 0 "reference" "$tuff" devices
expect 0 '"selector": "reference"' "$tuff" devices --json
expect 0 '"watchdog": "' "$tuff" devices --json
# What only an open device knows. The reference device has none of it; a cache of pipelines needs Vulkan and a folder.
(unset TUFF_CACHE_DIR; XDG_CACHE_HOME=$PWD/xdg "$tuff" devices --json >devices.json) || fail "devices --json failed"
TUFF_CACHE_DIR= "$tuff" devices --json >uncached.json || fail "devices --json failed without a cache"
python3 - devices.json uncached.json <<'END' || fail "devices --json does not say what devices have"
import json, sys
for name in sys.argv[1:]:
    for device in json.load(open(name)):
        found = [device[key] for key in ("upload_queue", "command_buffers", "pipeline_cache")]
        assert all(value is True or value is False for value in found), device
        assert found[2] == (device["selector"].startswith("vulkan") and name == "devices.json"), device
        assert device["selector"] != "reference" or found == [False] * 3, device
        assert not device["selector"].startswith("opencl") or found[0], device
        compiler = {"opencl": ("OpenCL C", "-cl-std=CL"), "vulkan": ("GLSL", "SPIR-V")}
        language, options = compiler.get(device["selector"].split(":")[0], ("", ""))
        assert device["language"] == language and device["build_options"].startswith(options), device
        assert options or device["build_options"] == "", device
END
expect 0 "result: no errors" "$tuff" doctor --device reference --seconds 1
expect 1 "quantum" "$tuff" doctor --device quantum:7
expect 2 "--seconds takes a number" "$tuff" doctor --seconds soon
expect 0 "0 failures" "$tuff" verify neg --device reference
expect 0 '"op": "neg"' "$tuff" verify neg --device reference --json
expect 0 "3 cases" "$tuff" verify softmax --device reference
expect 0 "softmax_outer" "$tuff" verify softm --device reference
expect 2 "similar: softmax" "$tuff" verify sofmax --device reference
expect 2 "similar: layer_norm, " "$tuff" verify norm --device reference
expect 0 "3 programs and 1 further checks" "$tuff" verify --programs 3 --device reference
expect 0 "]" "$tuff" verify --programs 2 --device reference --json
expect 0 "1 programs and" "$tuff" verify --program "seed=3 form=transformer width=10 mask=lengths" --device reference
for ignored in exp nothing "--fuse on" "--fuse off" "--family register" "--matmul own"; do
    expect 2 "${ignored% *} has no effect with --programs" "$tuff" verify $ignored --programs 1 --device reference
    expect 2 "${ignored% *} has no effect with --program" "$tuff" verify --program "seed=3" $ignored --device reference
done
for ignored in "--programs 1" "--seed 4"; do
    expect 2 "${ignored% *} has no effect with --program" "$tuff" verify --program "seed=3" $ignored --device reference
done
expect 2 'invalid word "width=11"' "$tuff" verify --program "seed=3 width=11" --device reference

# Bad input.
: >empty
echo short >short
mkdir folder
expect 1 "empty" "$tuff" train --data empty
expect 1 "a window of the context" "$tuff" train --data short
expect 1 "missing" "$tuff" train --data text --validate missing
expect 1 "file is empty" "$tuff" train --data text --validate empty
expect 1 "to train on" "$tuff" train --data text --validate 0.99
expect 1 "missing" "$tuff" train --data missing
expect 1 "folder" "$tuff" train --data folder
expect 1 "quantum" "$tuff" train --data text --device quantum:7
expect 1 "folder nowhere does not exist" "$tuff" train --data text --save nowhere/checkpoint
expect 1 "is a folder" "$tuff" train --data text --save folder
expect 1 "missing" "$tuff" train --data text --resume missing
expect 1 "missing" "$tuff" generate --checkpoint missing
expect 1 "cannot" "$tuff" generate --checkpoint text
expect 1 "cannot write the log" "$tuff" train --data text --device reference --log folder --width 8 --context 8 --layers 1

# train_on DEVICE OPTIONS...: trains a small model.
train_on() {
    device=$1
    shift
    "$tuff" train --data text --device "$device" --layers 1 --heads 2 --width 16 --context 16 --batch 2 --sample 0 "$@"
}

losses() {
    sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$1"
}

# same_curve NAME NAME: the losses of two runs are equal up to rounding, and decrease.
same_curve() {
    paste "$1" "$2" | awk '
        { apart = $1 - $2; if (apart < 0) apart = -apart; if (apart > 1e-4 * $1) far++; if (NR == 1) first = $1; last = $1 }
        END { exit far > 0 || NR < 3 || last >= first }' || fail "the losses of $1 and $2 differ: $(paste "$1" "$2")"
}

# sample_by_manifest DEVICE: with a manifest of its own choices, generate gives the same text as with seed 1 before; an
# empty manifest is refused, and one that cannot be written is reported.
sample_by_manifest() {
    device=$1
    sample() {
        "$tuff" generate --checkpoint whole.safetensors --device "$device" --prompt "The" --tokens 40 --temperature 1 \
            --seed 1 "$@"
    }
    rm -f sampled
    sample --save-manifest sampled >sample-3 || fail "$device: generate --save-manifest"
    grep -q '"by":"lock"' sampled || fail "$device: the manifest of generate: $(cat sampled)"
    sample --lock-manifest sampled --deterministic >sample-4 || fail "$device: generate --lock-manifest"
    cmp -s first sample-3 && cmp -s first sample-4 || fail "$device: generate with --lock-manifest gives another text"
    : >empty
    expect 1 "the manifest has no entry for the key" sample --lock-manifest empty
    mkdir -p folder
    expect 1 "--save-manifest: " sample --save-manifest folder
    grep -q The out && fail "$device: generate printed a text, although its manifest could not be written"
}

# go_through DEVICE: training, stopping, resuming, sampling.
go_through() {
    device=$1
    rm -f ./*.safetensors* log*
    expect 0 "done after step 12" train_on "$device" --steps 12 --save whole.safetensors --log log --log-every 4
    [ "$(wc -l <log)" -eq 3 ] || fail "$device: --log-every 4 of 12 steps wrote $(wc -l <log) lines"
    grep -q '^{"step": 12, "loss": [0-9.]*, "tokens_per_second": [0-9.e+]*, "seconds": [0-9.e-]*, .*}$' log ||
        fail "$device: the log says $(tail -n 1 log)"

    losses log >"curve-$device"

    # A run stopped half way and resumed gives the same bits, although its logs and saves differ.
    expect 0 "stopped after step 5" train_on "$device" --steps 12 --stop-after 5 --save half.safetensors --save-every 2
    [ -f half.safetensors.prev ] || fail "$device: --save-every keeps no previous checkpoint"
    expect 0 "resuming after step 5" "$tuff" train --data text --device "$device" --resume half.safetensors \
        --save rest.safetensors --sample 0
    cmp -s whole.safetensors rest.safetensors || fail "$device: the resumed run ends with other bits"
    expect 0 "done after step 12" train_on "$device" --steps 12 --save seed.safetensors --seed 2
    cmp -s whole.safetensors seed.safetensors && fail "$device: another seed trains the same weights"

    # A sample is the same for the same seed, and starts with the prompt.
    for seed in 1 1 2; do
        "$tuff" generate --checkpoint whole.safetensors --device "$device" --prompt "The" --tokens 40 --temperature 1 \
            --seed $seed >"sample-$seed" || fail "$device: generate --seed $seed"
        [ $seed = 2 ] || { [ -f first ] && { cmp -s first sample-1 || fail "$device: the same seed gives another text"; }; }
        [ -f first ] || cp sample-1 first
    done
    cmp -s sample-1 sample-2 && fail "$device: another seed gives the same text"
    [ "$(head -c 3 sample-1)" = The ] || fail "$device: the sample does not start with its prompt"
    [ "$(wc -c <sample-1)" -eq 44 ] || fail "$device: a prompt of 3 bytes and 40 tokens give $(wc -c <sample-1) bytes"
    [ "$device" = reference ] || sample_by_manifest "$device"
    rm -f first

    # Checkpoints that do not match.
    expect 1 "the checkpoint's model has" train_on "$device" --resume whole.safetensors --width 32
    head -c 5000 whole.safetensors >cut.safetensors
    expect 1 "cut.safetensors" train_on "$device" --resume cut.safetensors
    expect 1 "cut.safetensors" "$tuff" generate --checkpoint cut.safetensors --device "$device"

    # Tuning in the background, which the reference device lacks.
    said="tuned in the background"
    [ "$device" != reference ] || said="done after step 12"
    expect 0 "$said" train_on "$device" --steps 12 --tune-background
    expect 0 "" "$tuff" generate --checkpoint whole.safetensors --device "$device" --tokens 4 --tune-background
    expect 1 "background tuning needs the mode" train_on "$device" --steps 12 --tune off --tune-background
    expect 1 "background tuning needs the mode" train_on "$device" --steps 12 --deterministic --tune-background

    # A full disk, simulated by a limit on file sizes: the old checkpoint stays.
    cp half.safetensors full.safetensors
    (
        trap '' XFSZ
        ulimit -f 8
        "$tuff" train --data text --device "$device" --resume half.safetensors --save full.safetensors --sample 0 >full.out 2>&1
    )
    [ $? -eq 1 ] || fail "$device: a full disk is not reported"
    grep -q "is unchanged" full.out || fail "$device: on a full disk its message is $(cat full.out)"
    cmp -s half.safetensors full.safetensors || fail "$device: a full disk cost the old checkpoint"
    [ -z "$(ls | grep tmp)" ] || fail "$device: a full disk left $(ls)"
}

# load_and_validate DEVICE: the number of threads changes no bit; the device can draw the windows; validation on
# held-out text with its best weights, early stopping, and checkpoints that are kept. All of it resumes to the same
# bits.
load_and_validate() {
    device=$1
    rm -f ./*.safetensors* log*
    expect 0 "done after step 12" train_on "$device" --steps 12 --save whole.safetensors
    expect 0 "done after step 12" train_on "$device" --steps 12 --save threads.safetensors --workers 5
    cmp -s whole.safetensors threads.safetensors || fail "$device: five threads give other bits than one"
    expect 0 "done after step 12" train_on "$device" --steps 12 --save resident.safetensors --resident
    cmp -s whole.safetensors resident.safetensors && fail "$device: --resident changes nothing"
    expect 0 "stopped after step 5" train_on "$device" --steps 12 --resident --stop-after 5 --save half.safetensors
    expect 0 "done after step 12" "$tuff" train --data text --device "$device" --resume half.safetensors \
        --save rest.safetensors --sample 0
    cmp -s resident.safetensors rest.safetensors || fail "$device: a resumed --resident run ends with other bits"

    validate="--steps 12 --validate 0.2 --validate-every 2 --patience 9 --save-every 3 --keep 2"
    expect 0 "best validation loss" train_on "$device" $validate --save whole.safetensors --log log
    grep -q '^{"step": 4, "validation_loss": [0-9.]*, "best_validation_loss": [0-9.]*}$' log ||
        fail "$device: the log has no validation: $(cat log)"
    [ "$(echo whole.safetensors*)" = \
        "whole.safetensors whole.safetensors.best whole.safetensors.prev whole.safetensors.step-10 whole.safetensors.step-12" ] ||
        fail "$device: unexpected checkpoints: $(echo whole.safetensors*)"
    expect 0 "stopped after step 5" train_on "$device" $validate --stop-after 5 --save half.safetensors
    expect 0 "resuming after step 5" "$tuff" train --data text --device "$device" --resume half.safetensors \
        --save half.safetensors --sample 0
    cmp -s whole.safetensors half.safetensors || fail "$device: a resumed run with validation ends with other bits"
    cmp -s whole.safetensors.best half.safetensors.best || fail "$device: its best weights differ"
    rm half.safetensors.best
    cp whole.safetensors.step-10 half.safetensors
    expect 0 "done after step 12" "$tuff" train --data text --device "$device" --resume half.safetensors --sample 0 \
        --save half.safetensors

    # Learning increases the loss of this text.
    printf '~^~^|~^~^|' >strange
    early="--steps 60 --learning-rate 0.1 --validate strange --validate-every 3 --patience 2 --save early.safetensors"
    expect 0 "no improvement in 2 validations: stopping early" train_on "$device" $early
    grep -q "^stopped after step" out || fail "$device: the message of the early stop is $(cat out)"
    step=$(sed -n 's/^best validation loss .* after step \([0-9]*\);.*/\1/p' out)
    expect 0 "after step $step;" "$tuff" train --data text --device "$device" --resume early.safetensors --sample 0
    expect 0 "" "$tuff" generate --checkpoint early.safetensors.best --device "$device" --tokens 4
    rm early.safetensors.best
    expect 0 "early.safetensors.best does not contain the best weights" "$tuff" train --data text --device "$device" --resume early.safetensors --sample 0
}

# interrupt DEVICE: Ctrl-C saves the last complete step, and resuming gives the same bits.
interrupt() {
    device=$1
    rm -f log ./*.safetensors*
    "$tuff" train --data text --device "$device" --layers 1 --heads 2 --width 16 --context 16 --batch 2 --sample 0 \
        --steps 100000 --save stopped.safetensors --log log --log-every 1 >out 2>&1 &
    process=$!
    waited=0
    while [ "$(cat log 2>/dev/null | wc -l)" -lt 3 ] && [ $waited -lt 600 ]; do
        sleep 0.1
        waited=$((waited + 1))
    done
    kill -INT $process
    wait $process
    code=$?
    [ $code -eq 0 ] || { fail "$device: after Ctrl-C it exits with $code:"; cat out >&2; }
    grep -q "stopped after step" out || fail "$device: after Ctrl-C it does not say where it stopped"
    step=$(sed -n 's/.*stopped after step \([0-9]*\).*/\1/p' out)
    expect 0 "stopped after step $step" train_on "$device" --steps 100000 --stop-after "$step" --save again.safetensors
    cmp -s stopped.safetensors again.safetensors || fail "$device: Ctrl-C saved other bits than --stop-after $step"
}

quick_device
first=$device
for device in $first reference; do
    go_through "$device"
    # What follows hardly depends on the device.
    if [ "$device" = "$first" ] || [ "${TUFF_SUITE:-}" = thorough ]; then
        load_and_validate "$device"
        interrupt "$device"
    fi
    [ "$first" = reference ] && break
done

# The same seed gives the same losses on every device, fused or not.
if [ "$first" != reference ]; then
    same_curve "curve-$first" curve-reference
    expect 0 "done after step 12" train_on "$first" --steps 12 --log unfused --log-every 4 --fuse off
    losses unfused >curve-unfused
    same_curve curve-unfused curve-reference
fi

# The content of plans and kernels, if there is a device with kernels.
if [ "$first" != reference ]; then
    small="--layers 1 --heads 2 --width 16 --context 16 --batch 2"
    expect 0 "dispatches" "$tuff" plan --device "$first" $small
    # A description needs no memory: the weights and moments of this model take 28 GiB.
    case $first in
    opencl*)
        expect 0 "plan hash" "$tuff" plan --device "$first" --layers 3 --heads 64 --width 8192 --context 64 --batch 1 --summary --save-graph large
        grep '^plan hash' out | head -1 >hashes
        expect 0 "plan hash" "$tuff" plan --device "$first" large --summary
        grep '^plan hash' out | cmp -s - hashes || fail "a large model's graph has another plan: $(cat out)"
        ;;
    esac
    # Winners that one run of the tuner finds are known to the next, even if its budget ends before all keys are
    # measured; in a thorough run the next ones continue until nothing is left to measure.
    enough='[1-9][0-9]* known, ' budget=2s
    [ "${TUFF_SUITE:-}" != thorough ] || enough='[1-9][0-9]* known, 0 measured, ' budget=8s
    tiny="--layers 1 --heads 1 --width 16 --context 8 --batch 1"
    mkdir -m 700 "$work/tuned" "$work/none"
    find_programs "${TUFF_CACHE_DIR:-nowhere}" -exec cp -t "$work/tuned" {} + -exec cp -t "$work/none" {} +
    for attempt in 1 2 3 4 5 6 7 8 9 10 11 12; do
        TUFF_CACHE_DIR=$work/tuned "$tuff" tune warm --device "$first" $tiny --tune quick --tune-budget $budget >out 2>&1 ||
            fail "tune warm: $(cat out)"
        grep -q "^train: [1-9][0-9]* keys, $enough" out && break
    done
    grep -q "^train: [1-9][0-9]* keys, $enough" out || fail "the cache is not used: $(cat out)"
    expect 0 "win" env TUFF_CACHE_DIR="$work/tuned" "$tuff" cache list
    # Lists what would run, without measuring.
    expect 0 "train " env TUFF_CACHE_DIR="$work/tuned" "$tuff" tune warm --device "$first" $tiny --list
    grep -q '^train  *[1-9][0-9]*x  same  *[a-z]* .* | .*: ' out || fail "no key of a training step is listed: $(cat out)"
    env TUFF_CACHE_DIR="$work/tuned" "$tuff" tune warm --device "$first" $tiny --list --json >out ||
        fail "tune warm --list --json fails"
    python3 -c 'import json
listed = json.load(open("out"))
assert all(key["calls"] > 0 and key["origin"] for plan in ("train", "generate") for key in listed[plan]), listed
assert any(key["origin"] == "same" for key in listed["train"]), listed' || fail "the list of keys: $(cat out)"
    expect 0 "default" env TUFF_CACHE_DIR="$work/none" "$tuff" tune warm --device "$first" $tiny --list
    # Mixed precision has keys of its own.
    grep "^train" out >keys-f32
    expect 0 "default" env TUFF_CACHE_DIR="$work/none" "$tuff" tune warm --device "$first" $tiny --list --precision f16
    grep "^train" out | cmp -s - keys-f32 && fail "--precision f16 lists the keys of f32: $(cat out)"
    # A mode that measures nothing is obeyed, wherever it comes from.
    expect 0 "TUFF_TUNE is off: nothing is measured" env TUFF_TUNE=off TUFF_CACHE_DIR="$work/tuned" \
        "$tuff" tune warm --device "$first" $tiny --tune-budget 1
    grep -q '^train: 0 keys, 0 known, 0 measured' out || fail "tune warm ignores TUFF_TUNE=off: $(cat out)"
    expect 0 "--tune is cached: nothing is measured" env TUFF_TUNE=quick TUFF_CACHE_DIR="$work/none" \
        "$tuff" tune warm --device "$first" $tiny --tune cached --tune-budget 1
    grep -q '^train: [1-9][0-9]* keys, 0 known, 0 measured' out || fail "tune warm ignores --tune cached: $(cat out)"
    expect 0 "default" env TUFF_TUNE=quick TUFF_CACHE_DIR="$work/none" "$tuff" tune warm --device "$first" $tiny --list
    [ -z "$(find "$work/none" -name '*.jsonl')" ] || fail "listing writes: $(find "$work/none")"
    # A plan runs with the candidates of a manifest; another model's manifest is refused.
    expect 0 "plan hash" "$tuff" plan --device "$first" $small --summary --save-manifest manifest
    grep '^plan hash' out >hashes
    expect 0 "plan hash" env TUFF_CACHE_DIR="$work/tuned" "$tuff" plan --device "$first" $small --summary --lock-manifest manifest
    grep '^plan hash' out | cmp -s - hashes || fail "one manifest gives two plan hashes: $(cat out)"
    expect 1 "the manifest has no entry for the key" "$tuff" plan --device "$first" $tiny --lock-manifest manifest
    expect 1 "--save-manifest: " "$tuff" plan --device "$first" $tiny --save-manifest folder
    expect 0 "done after step 3" train_on "$first" --steps 3 --save-manifest trained
    expect 0 "done after step 3" train_on "$first" --steps 3 --lock-manifest trained --deterministic
    env TUFF_CACHE_DIR="$work/tuned" "$tuff" plan --device "$first" $tiny --summary --json >out ||
        fail "plan --json fails"
    python3 -c 'import json
tuning = json.load(open("out"))["train"]["tuning"]
hits, misses = tuning["hits"], sum(tuning["misses"].values())
assert tuning["keys"] == sum(hits.values()) == hits["same"] + misses and hits["same"] > 0, tuning' || fail "counts of tuning: $(cat out)"
    expect 0 '"dispatches_unfused"' "$tuff" plan --device "$first" $small --json
    expect 0 "matmul" "$tuff" kernel --device "$first"
    expect 0 "kernel" "$tuff" kernel matmul --device "$first"
    expect 0 "cumsum" "$tuff" kernel cumsum --device "$first"
    expect 0 "rms" "$tuff" kernel rms_norm --device "$first"
    expect 1 "no kernel" "$tuff" kernel nothing --device "$first"

    # Every kernel as a file, each text once, and the list names each file; as GPUs of two vendors get them.
    for vendor in nvidia intel; do
        expect 0 "row_local" "$tuff" kernel --out $vendor --as $vendor --device "$first"
        [ "$(ls $vendor | wc -l)" -eq "$(wc -l <out)" ] ||
            fail "kernel --out lists $(wc -l <out) of $(ls $vendor | wc -l) files"
        [ -z "$(cksum $vendor/* | cut -d ' ' -f 1,2 | sort | uniq -d)" ] || fail "kernel --out writes a text twice"
        for name in attention_local attention_backward_local matmul_local column_local map scan scatter_sum; do
            grep -q "$name(\|void main()" "$vendor/$(ls $vendor | grep "^tuff_$name-" | head -n 1)" ||
                fail "kernel --out does not write $name"
        done
    done
    ! grep -q '#define KEYS 64' nvidia/tuff_attention_local-* || fail "kernel --as nvidia has panels that do not fit"
    grep -q '#define KEYS 64' intel/tuff_attention_local-* || fail "kernel --as intel keeps few sums"
    expect 1 "text" "$tuff" kernel --out text --device "$first"
fi

[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
