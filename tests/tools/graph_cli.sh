#!/bin/sh
# Graph files with the tool: tuff train and tuff plan write the graph of a step, and every verb that takes a file gives
# the same plan, keys and kernels for it as for the model. On a drawn device, and on the reference. Usage: graph_cli.sh
# BUILD
set -u
. "$(dirname "$0")/script_checks"
begin "$1"
shape="--layers 1 --heads 1 --width 8 --context 8 --batch 2"
yes "The licensed work is that which the licensee may copy." | head -n 20 >text

# Wrong usage, and invalid files.
expect 0 "usage: tuff plan [FILE] [OPTIONS]" "$tuff" plan --help
expect 0 "FILE is a graph that" "$tuff" profile --help
echo "no graph" >none.graph
for verb in plan profile kernel bench verify; do
    expect 1 "none.graph: not a graph file" "$tuff" $verb none.graph --device reference
    expect 1 "cannot open nowhere.graph" "$tuff" $verb nowhere.graph --device reference
done
expect 2 "none.graph is a graph file: it cannot be combined" "$tuff" plan none.graph --layers 2
expect 2 "none.graph is a graph file: it cannot be combined" "$tuff" profile none.graph --recompute
expect 2 "--plan selects a plan of a model" "$tuff" profile none.graph --plan train
expect 2 "unexpected argument" "$tuff" kernel none.graph matmul row
expect 2 "--out writes all" "$tuff" kernel none.graph --out kernels
expect 2 "expected at most one graph file" "$tuff" bench none.graph other.graph
expect 2 "none.graph is a graph file: it cannot be combined" "$tuff" verify none.graph --programs 2
expect 2 "--steps needs a graph file" "$tuff" verify exp --steps 2
expect 2 "--data needs a graph file" "$tuff" verify --data text
expect 2 "the suite graph needs a graph file" "$tuff" bench graph
expect 2 "--save-graph saves the graph of a model" "$tuff" plan none.graph --save-graph other.graph
expect 1 "nowhere/step.graph" "$tuff" plan $shape --device reference --summary --save-graph nowhere/step.graph

# Without a device with kernels files are written and read all the same, and a damaged one is detected.
expect 0 "there is no plan to show" "$tuff" plan $shape --device reference --summary --save-graph reference.graph
expect 0 "results of train after 1 step: 0 failed" "$tuff" verify reference.graph --device reference
no_plan() {
    expect 1 "tuff plan: reference runs no kernels: there is no plan to show" "$tuff" plan --device reference "$@"
    [ "$(wc -l <out)" -eq 1 ] || fail "the message has more than one line: $(cat out)"
}
no_plan reference.graph --summary
no_plan $shape
for option in --json --profile "--tune quick" "--as amd" "--save-manifest none" "--lock-manifest none"; do
    no_plan $shape --save-graph none $option
done
[ ! -e none ] || fail "a refused command has written a file"
head -c 2000 reference.graph >part.graph
expect 1 "part.graph: the graph file is damaged or truncated" "$tuff" plan part.graph --device reference
expect 0 "stopped after step 1" "$tuff" train --data text $shape --accumulate 2 --stop-after 1 --sample 0 --device reference \
    --save-graph half.graph
expect 0 "results of train after 1 step: 0 failed" "$tuff" verify half.graph --device reference
expect 0 "results of update after 1 step: 0 failed" "$tuff" verify half.graph.update --device reference

# Draws an API and takes its last device; the default seed is the time.
seed=${TUFF_TEST_SEED:-$(date +%s)}
device=$("$tuff" devices --json | python3 -c '
import json, sys
last = {d["selector"].split(":")[0]: d["selector"] for d in json.load(sys.stdin) if d["selector"] != "reference"}
found = sorted(last.values())
print(found[int(sys.argv[1]) % len(found)] if found else "")' "$seed")
[ -n "$device" ] || { echo "no device here has kernels"; [ $failures -eq 0 ]; exit; }
echo "TUFF_TEST_SEED=$seed draws $device"

# Both must use the same schedule, because it is in the graph.
expect 0 "stopped after step 1" "$tuff" train --data text $shape --steps 1000 --learning-rate 1e-3 --stop-after 1 --sample 0 \
    --device "$device" --save-graph step.graph
"$tuff" plan $shape --device "$device" --json --save-graph built.graph >built || fail "no plan of the model"
cmp step.graph built.graph || fail "the graphs of tuff train and tuff plan differ"
"$tuff" plan step.graph --device "$device" --json >loaded || fail "no plan of the file"
python3 - <<'EOF' || fail "the plan of the file is another: $(diff built loaded)"
import json
built, loaded = json.load(open("built")), json.load(open("loaded"))
assert list(loaded) == ["train"] and loaded["train"]["hash"]
for plan in built["train"], loaded["train"]:
    plan["tuning"].pop("nanoseconds")
assert built["train"] == loaded["train"]
EOF
json '[p["name"] for p in x["plans"]] == ["train"] and all(s > 0 for s in x["plans"][0]["phases"].values())' \
    "$tuff" profile step.graph --device "$device" --runs 1 --json
json 'len(x) > 10 and all(r["wrong"] == 0 for r in x) and max(r["largest"] for r in x if r["kind"] == "output") > 1' \
    "$tuff" verify step.graph --device "$device" --json
json 'x["works"][0]["suite"] == "graph" and x["works"][0]["work"] == "step.graph" and len(x["works"]) == 1' \
    "$tuff" bench step.graph --device "$device" --quick --rounds 1 --json
"$tuff" kernel step.graph --device "$device" >kernels || fail "no kernels"
[ "$(wc -l <kernels)" -gt 10 ] || fail "few kernels: $(cat kernels)"
expect 0 "a matmul task of: " "$tuff" kernel step.graph matmul --device "$device"
expect 1 'no kernel "nonsense"' "$tuff" kernel step.graph nonsense --device "$device"

# A graph contains its options; those of the command line take precedence.
"$tuff" plan $shape --fuse off --device "$device" --summary --save-graph single.graph >/dev/null || fail "no plan without fusion"
json 'x["train"]["dispatches"] == x["train"]["dispatches_unfused"]' "$tuff" plan single.graph --device "$device" --json
if [ "${TUFF_SUITE:-}" = thorough ]; then
    "$tuff" plan $shape --precision bf16 --device "$device" --summary --save-graph narrow.graph >/dev/null || fail "no narrow plan"
    json 'x["train"]["narrow_matmuls"] > 0' "$tuff" plan narrow.graph --device "$device" --json
    json 'x["train"]["narrow_matmuls"] == 0' "$tuff" plan narrow.graph --precision f32 --device "$device" --json
fi

if "$tuff" tune --help >/dev/null 2>&1; then
    "$tuff" tune warm $shape --list --device "$device" --json >built
    "$tuff" tune warm step.graph --list --device "$device" --json >loaded
    python3 - <<'EOF' || fail "the keys of the file are others: $(diff built loaded)"
import json
built, loaded = json.load(open("built")), json.load(open("loaded"))
assert list(loaded) == ["train"] and len(loaded["train"]) > 10 and built["train"] == loaded["train"]
EOF
    expect 0 "measured" "$tuff" tune warm step.graph --tune quick --tune-budget 2 --device "$device"
    json '[s["name"] for s in x["environments"][0]["steps"]] == ["train"] and x["environments"][0]["steps"][0]["known"] > 0' \
        "$tuff" tune report step.graph --device "$device" --json
    expect 0 "wrong 0  gone 0" "$tuff" cache verify --rerun 1 step.graph --device "$device"
    expect 2 "--rerun takes at most one FILE and no --retry" "$tuff" cache verify --rerun 1 step.graph other.graph
    expect 2 "--graph needs --now" "$tuff" cache retune --all --graph step.graph
    TUFF_TUNE_BUDGET_MS=300 expect 0 "dropped" "$tuff" cache retune --all --now --graph step.graph --device "$device"
fi
[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
