#!/bin/sh
# tuff profile: kernels sorted by time, whose times add up to those of the phases, as a table and as JSON, and a valid
# trace; of a GPT, on a device with kernels; and only as numbers, either of a Llama, or with another optimizer or another
# precision, as drawn; with all of them in a thorough run. Usage: profile_cli.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
begin "$1"
begin_draws
small="--layers 1 --heads 2 --width 16 --context 16 --batch 2"

expect 0 "usage: tuff profile" "$tuff" profile --help
expect 2 "--plan takes both|train|generate" "$tuff" profile --plan all
expect 2 "--runs takes a whole number" "$tuff" profile --runs 0
expect 2 "not a multiple of 3 heads" "$tuff" profile --width 32 --heads 3
expect 2 "--precision takes f32|f16|bf16" "$tuff" profile --precision f8
expect 2 "--optimizer takes adamw|" "$tuff" profile --optimizer best
expect 2 "cannot be combined with model options" "$tuff" profile step.graph --optimizer sgd
for ignored in "--optimizer sgd" --recompute; do
    expect 2 "${ignored% *} has no effect with --plan generate" "$tuff" profile $small --plan generate $ignored
done
expect 1 "runs nothing on a device" "$tuff" profile $small --device reference

quick_device
[ "$device" != reference ] || { echo "no device with kernels to time"; [ $failures -eq 0 ] && exit 77; exit 1; }

profile() {
    "$tuff" profile --device "$device" $small --runs 3 "$@"
}

expect 0 "optimizer" profile
for text in "train, median of 3 runs" "generate, median of 3 runs" "GFLOP/s" "backward" "of peak" "matmul"; do
    grep -qF "$text" out || fail "the table lacks \"$text\": $(cat out)"
done
expect 0 "generate, median of 3 runs" profile --plan generate
! grep -qE "^train|backward|optimizer" out || fail "--plan generate shows more: $(cat out)"

draw_of llama optimizer precision
variants=" $chosen "
forms=gpt
case $variants in *llama*) forms="gpt llama" ;; esac
for form in $forms; do
    json '[p["name"] for p in x["plans"]] == ["train", "generate"] and x["peak"]["bytes_per_second"] > 0' \
        profile --json --form $form
    python3 - <<'EOF' || fail "$form: the numbers of the profile do not agree: $(cat out)"
import json
for plan in json.load(open("out"))["plans"]:
    kernels = plan["kernels"]
    close = lambda a, b: abs(a - b) <= 2e-5 * max(abs(a), abs(b)) # what is printed has six digits
    assert close(sum(k["seconds"] for k in kernels), plan["seconds"])
    assert close(sum(plan["phases"].values()), plan["seconds"])
    for phase, seconds in plan["phases"].items():
        assert close(sum(k["seconds"] for k in kernels if k["phase"] == phase), seconds) or seconds == 0
    assert close(sum(k["share"] for k in kernels), 1)
    assert kernels == sorted(kernels, key=lambda k: -k["seconds"])
    assert sum(k["calls"] for k in kernels) <= plan["tasks"]
    assert all(k["ops"].split()[0] == k["kind"] for k in kernels)
    assert all(k["operations"] > 0 for k in kernels if k["kind"] in ("matmul", "attention", "row", "column")), kernels
    assert all(k["operations"] == 0 for k in kernels if k["kind"] in ("scatter", "copy", "convert")), kernels
    assert all(close(k["bytes"] / k["seconds"], k["bytes_per_second"]) or k["bytes"] == 0 for k in kernels)
    train = plan["name"] == "train"
    assert not train or any(k["operations"] > 0 for k in kernels if k["kind"] == "map"), kernels
    assert (plan["phases"]["backward"] > 0) == train and (plan["phases"]["optimizer"] > 0) == train
EOF
done

# Mixed precision moves fewer bytes; the weights are updated by the requested optimizer.
profile --plan train --json >f32 2>err || fail "$(cat err)"
draw_of sgd muon
case $variants in *optimizer*) optimizers=$chosen ;; *) optimizers= ;; esac
for optimizer in $optimizers; do
    profile --plan train --json --optimizer $optimizer >$optimizer 2>err || fail "$(cat err)"
done
draw_of f16 bf16
case $variants in *precision*) precisions=$chosen ;; *) precisions= ;; esac
for precision in $precisions; do
    profile --plan train --json --precision $precision >$precision 2>err || fail "$precision: $(cat err)"
done
python3 - $optimizers $precisions <<'EOF' || fail "--precision or --optimizer has no effect"
import json, sys
names = ["f32", *sys.argv[1:]]
plans = {name: json.load(open(name))["plans"][0]["kernels"] for name in names}
bytes_of = {name: sum(k["bytes"] for k in kernels) for name, kernels in plans.items()}
assert all(bytes_of[name] < bytes_of["f32"] for name in names if name in ("f16", "bf16")), bytes_of
updates = {name: [k for k in kernels if k["phase"] == "optimizer"] for name, kernels in plans.items()}
assert "sgd" not in names or sum(k["bytes"] for k in updates["sgd"]) < sum(k["bytes"] for k in updates["f32"]), updates
assert "muon" not in names or any(k["kind"] == "matmul" for k in updates["muon"]), updates
assert not any(k["kind"] == "matmul" for k in updates["f32"]), updates
EOF

expect 0 "train" profile --trace trace.json
python3 - <<'EOF' || fail "the trace is not valid: $(head -c 2000 trace.json)"
import json
events = json.load(open("trace.json"))["traceEvents"]
rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["train", "generate"]
assert 0 not in rows and sorted(rows.values()) == sorted(2 * ["tasks", "forward", "backward", "optimizer"])
spans = [e for e in events if e["ph"] == "X"]
assert all(e["dur"] > 0 and e["ts"] >= 0 for e in spans)
tasks = [e for e in spans if rows[e["tid"]] == "tasks"]
for one, other in zip(tasks, tasks[1:]): # to the clock's resolution
    assert one["ts"] + one["dur"] <= other["ts"] + 2, (one, other)
for task in tasks: # lies in a time of its phase
    assert any(rows[e["tid"]] == task["cat"] and e["pid"] == task["pid"] and e["ts"] <= task["ts"] + 0.002 and
               task["ts"] + task["dur"] <= e["ts"] + e["dur"] + 0.002 for e in spans), task
EOF
expect 1 "--trace" profile --trace "$work/nowhere/trace.json"
[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
