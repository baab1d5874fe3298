#!/bin/sh
# tuff train --form llama: a resumed run ends with the bits of an uninterrupted one, tuff generate accepts a checkpoint,
# and the model cannot change on resumption. On a device with kernels, else on the reference. Usage: llama_cli.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
begin "$1"
i=0
while [ $i -lt 60 ]; do
    echo "The licensed work is that which the licensee may copy, $i times."
    i=$((i + 1))
done >text
quick_device

train() {
    "$tuff" train --data text --device "$device" --sample 0 "$@"
}
llama() {
    train --form llama --layers 2 --heads 4 --key-value-heads 2 --width 24 --hidden 20 --context 16 --batch 2 "$@"
}

expect 2 "--form takes gpt|llama" train --form bert
expect 2 "the heads must be a multiple" llama --key-value-heads 3
expect 0 "Llama of 2 layers, 4 heads, width 24" llama --steps 12 --save whole.safetensors --log log --log-every 4
python3 - <<'EOF' || fail "the loss does not fall: $(cat log)"
import json
losses = [json.loads(line)["loss"] for line in open("log")]
assert len(losses) == 3 and losses[0] > losses[1] > losses[2], losses
EOF
expect 0 "stopped after step 5" llama --steps 12 --stop-after 5 --save half.safetensors
expect 0 "done after step 12" train --resume half.safetensors --save rest.safetensors
cmp -s whole.safetensors rest.safetensors || fail "the resumed run ends with other bits"
expect 0 "done after step 12" train --form llama --key-value-heads 2 --hidden 20 --resume half.safetensors
expect 1 "the checkpoint's model is a llama" train --form gpt --resume half.safetensors
expect 1 "--key-value-heads 4: the checkpoint's model has 2" train --key-value-heads 4 --resume half.safetensors
expect 1 "--hidden 64: the checkpoint's model has 20" train --hidden 64 --resume half.safetensors
expect 0 "The" "$tuff" generate --checkpoint whole.safetensors --device "$device" --prompt The --tokens 20
cp out once
expect 0 "The" "$tuff" generate --checkpoint rest.safetensors --device "$device" --prompt The --tokens 20
cmp -s once out || fail "equal checkpoints generate different texts"
# Settings that only a Llama has get defaults; a GPT has none of them.
expect 0 "done after step 1" train --form llama --layers 1 --heads 2 --width 16 --context 8 --batch 1 --steps 1 --save small.safetensors
head -c 4000 small.safetensors | grep -q 'key_value_heads.*2.*hidden.*64' || fail "the checkpoint does not describe the model"
expect 0 "GPT of 1 layers" train --layers 1 --heads 2 --width 16 --context 8 --batch 1 --steps 1 --save gpt.safetensors
expect 1 "the checkpoint's model is a gpt" train --form llama --resume gpt.safetensors
[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
