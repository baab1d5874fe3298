#!/bin/sh
# tuff bench: suites run in their quick form, JSON and Markdown are consistent, a peer takes part, and wrong usage is
# reported. Speed is not tested. Runs on the reference, and on one device with kernels with a few drawn suites, or with
# all in a thorough run. Usage: bench.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
enter "$1"
begin_draws

expect 2 "unknown suite" "$tuff" bench matmull
expect 2 "--rounds takes a whole number" "$tuff" bench --rounds 0
expect 2 "both write to standard output" "$tuff" bench --json --markdown -
expect 1 "--only matches no benchmark" "$tuff" bench matmul --quick --device reference --only nothing
expect 1 "cannot write nowhere/table" "$tuff" bench matmul --quick --device reference --markdown nowhere/table
expect 1 "quantum" "$tuff" bench --device quantum:7
expect 1 "the program exited" "$tuff" bench matmul --quick --device reference --peer true
expect 1 "it is tired" "$tuff" bench matmul --quick --device reference --peer "echo error: it is tired; cat >/dev/null"

# Times must be positive and in order, and ratios those of the samples relative to the first contestant.
cat >check.py <<'END'
import json, statistics, sys
result = json.load(open(sys.argv[1]))
wanted, peer = set(sys.argv[3].split(",")), sys.argv[4:]
assert {work["suite"] for work in result["works"]} == wanted, {work["suite"] for work in result["works"]}
for work in result["works"]:
    first = work["implementations"][0]
    assert first["kind"] == "tuff" and first["ratio"] == 1
    for one in work["implementations"]:
        samples = one["samples"]
        assert len(samples) == one["rounds"] == int(sys.argv[2]) and all(s > 0 for s in samples), one
        assert abs(one["median"] / statistics.median(samples) - 1) < 1e-3, one
        assert abs(one["minimum"] / min(samples) - 1) < 1e-3, one
        ratio = statistics.median(a / b for a, b in zip(samples, first["samples"]))
        assert abs(one["ratio"] / ratio - 1) < 1e-2, (one, ratio)
        for amount, rate in (("operations", "gflops"), ("bytes", "gbytes")):
            if one["kind"] != "peak" and work[amount] > 0:
                assert abs(work[amount] / one["median"] * 1e-9 / one[rate] - 1) < 1e-2, (one, work)
    assert set(peer) <= {one["name"] for one in work["implementations"]}
END

# A peer that has two implementations of everything.
cat >peer.sh <<'END'
while read -r word rest; do
    case $word in
    hello) echo hello ;;
    work) echo "names slow|slower" ;;
    run) echo "${rest%% *}.5 0.25" ;;
    *) echo done ;;
    esac
done
END

# go_through DEVICE SUITES: text, JSON and Markdown of all suites together.
go_through() {
    device=$1 suites=$2
    "$tuff" bench $suites --quick --rounds 3 --device "$device" --json --markdown table.md >json 2>error ||
        fail "$device: tuff bench exits with $?: $(cat error)"
    python3 check.py json 3 "$(echo "$suites" | tr ' ' ,)" || fail "$device: its JSON is inconsistent"
    for suite in $suites; do
        grep -q "^## $suite\$" table.md || fail "$device: the Markdown lacks $suite"
    done
    [ "$(grep '^|' table.md | sed 's/[^|]//g' | sort -u | wc -l)" -eq 1 ] || fail "$device: the table's rows differ in width"
    expect 0 "of peak" "$tuff" bench matmul --quick --rounds 1 --device "$device" --only "A^T"
    expect 0 "unfused" "$tuff" bench launch norms --quick --rounds 1 --device "$device" --skip "wait"
    grep -q "a wait after each" out && fail "$device: --skip does not skip the named cases"
    "$tuff" bench matmul --quick --rounds 2 --device "$device" --json --peer "sh peer.sh" >json ||
        fail "$device: with a peer it exits with $?"
    python3 check.py json 2 matmul slow slower || fail "$device: the peer's figures are not in the JSON"
}

# Files as CLBlast's tuners leave them: of two files about a kernel the faster one counts, and its parameters are
# printed.
tuned() {
    device=$1
    mkdir -p tuned empty
    name='"precision": "32", "best_kernel": "Xgemm", "best_time"'
    echo "{$name: \"1.5\", \"best_parameters\": \"GEMMK=nonsense\"}" >tuned/clblast_a.json
    expect 1 "no such folder" "$tuff" bench matmul --quick --device "$device" --clblast-tuned nowhere
    expect 1 "no results" "$tuff" bench matmul --quick --device "$device" --clblast-tuned empty
    echo "{" >empty/clblast_b.json
    expect 1 "clblast_b.json" "$tuff" bench matmul --quick --device "$device" --clblast-tuned empty
    expect 1 "the parameters of Xgemm" "$tuff" bench matmul --quick --device "$device" --clblast-tuned tuned
}

quick_device opencl # with which CLBlast takes part
chosen_device=$device
go_through reference "norms launch"
draw_of attention gpt
suites="matmul $chosen"
draw_of norms elementwise optimizer
[ "$chosen_device" = reference ] || go_through "$chosen_device" "$suites $chosen launch"

small="--layers 1 --heads 1 --width 16 --context 8 --batch 1"
"$tuff" plan --summary --matmul clblast $small --device "$chosen_device" >/dev/null 2>&1 && tuned "$chosen_device"

[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
