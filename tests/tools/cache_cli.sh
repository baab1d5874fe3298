#!/bin/sh
# tuff cache: every verb on stores of devices that are not present, with --json too, and on bad input: damaged, foreign,
# read-only, full, invalid files. Needs no device, and no stored record may be lost. Usage: cache_cli.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
shipped=$(cd "$(dirname "$0")/../../share/tuff/tune" && pwd)
begin "$1"
rows=matmul_register.tile_rows

# holds TEXT...: the last output also contains these.
holds() {
    for text in "$@"; do
        grep -qF -e "$text" out || { fail "the output lacks \"$text\":"; cat out >&2; }
    done
}

# add KIND DEVICE DRIVER ROWS CANDIDATE...: prints the key's digits.
add() {
    "$make" "$@" >made || fail "cache_cli $*"
    cut -d ' ' -f 2 made
}

fresh() {
    chmod -R u+w cache share 2>/dev/null
    rm -rf cache share
    key=$(add win gfx1100 24.3 1024 "$rows=8")
    near=$(add win gfx1100 24.3 512 "$rows=6" 150 20 100)
    file=$(cut -d ' ' -f 1 made)
    add bad gfx1100 24.3 1024 "$rows=9" >/dev/null
    old=$(add win gfx1100 23.1 256 "$rows=5" 120 20 200)
    old_file=$(cut -d ' ' -f 1 made)
}

# Wrong usage.
expect 2 "usage: tuff cache VERB" "$tuff" cache
expect 0 "usage: tuff cache VERB" "$tuff" cache --help
expect 2 "unknown verb \"lsit\"" "$tuff" cache lsit
for verb in list show verify export import merge diff prune pin unpin retune explain; do
    expect 0 "usage: tuff cache $verb" "$tuff" cache $verb --help
    expect 2 "unknown option --nonsense" "$tuff" cache $verb --nonsense
done
expect 0 "no stores" "$tuff" cache list
expect 0 "no stores" "$tuff" cache verify
# The records shipped with tuff are complete, of today's kernel texts (tools/ship-records ensures that), and named as a
# first start looks for them: as the store of their environment.
for file in "$shipped"/*.jsonl; do
    expect 0 "damaged 0" "$tuff" cache verify "$file"
    expect 0 "rejected 0" "$tuff" cache import "$file"
    expect 0 "would drop 0 of" "$tuff" cache prune --kernels stale --dry-run
    [ -f "cache/tune/v1/$(basename "$file")" ] || fail "$file is of the store $(ls cache/tune/v1)"
    rm -rf cache
done
# All were measured with one driver each: CPUs that differ in the width of vectors are different devices.
for file in "$shipped"/*.jsonl; do
    "$tuff" cache import "$file" >out || fail "import $file: $(cat out)"
done
expect 0 "would drop 0 of" "$tuff" cache prune --driver old --dry-run
grep "would drop [1-9]" out && fail "--driver old drops results of another CPU"
rm -rf cache
expect 2 "expected a KEY, or --op" "$tuff" cache show
expect 2 "selected in only one way" "$tuff" cache show 12 --op matmul
expect 2 "hexadecimal digits" "$tuff" cache show matmul
expect 1 "no key begins with 12" "$tuff" cache show 12
expect 2 "expected a FILE" "$tuff" cache export
expect 2 "expected a FILE" "$tuff" cache import
expect 2 "--out FILE" "$tuff" cache merge a
expect 2 "expected two files" "$tuff" cache diff a
expect 2 "--older takes an age" "$tuff" cache prune --older soon
expect 2 "--driver takes old" "$tuff" cache prune --driver new
expect 2 "expected a KEY and a CANDIDATE" "$tuff" cache pin 12
expect 2 "--manifest and --anon cannot be combined" "$tuff" cache export --manifest --anon f
expect 2 "unknown device opencl:999" "$tuff" cache list --device opencl:999
expect 2 "not a valid op key" "$tuff" cache explain "matmul | nothing"

# Listing.
fresh
expect 0 "drv AMD-APP 24.3  2 win  1 bad  0 pin  shards 0" "$tuff" cache list
holds "drv AMD-APP 23.1  1 win" "matmul                   2 keys  3.33x" "dev opencl-gfx1100-"
json 'len(x) == 2 and {s["win"] for s in x} == {1, 2} and x[0]["families"][0]["family"] == "matmul"' \
    "$tuff" cache list --json
json 'len(x) == 1 and x[0]["driver"] == "AMD-APP 23.1"' "$tuff" cache list --json --device 23.1
json 'len(x) == 2' "$tuff" cache list --json --device OPENCL-GFX
json 'len(x) == 2' "$tuff" cache list --json --device opencl:gfx1100
expect 1 'tuff cache list: no store matches --device "vulkan:gfx1100"' "$tuff" cache list --json --device vulkan:gfx1100
expect 0 "win  $rows=8" "$tuff" cache show "$(echo "$key" | cut -c 1-8)"
holds "0.090/0.100/0.110 ms, 20 samples; default 0.400 ms: 4.00x; live" "next $rows=3" "bad  $rows=9: crash in first-run" \
    "now  T1 same: measured here, 20 samples" "env  opencl; device gfx1100; "
expect 0 "512x768x768" "$tuff" cache show --op 'matmul *'
holds "256x768x768" "1024x768x768"
expect 0 "512x768x768" "$tuff" cache show --op 512x
expect 1 "no key's text matches" "$tuff" cache show --op attention
json 'len(x) == 1 and x[0]["stores"][0]["tier"] == "same" and len(x[0]["stores"][0]["records"]) == 2' \
    "$tuff" cache show "$key" --json

# Every tier, for devices that are not present.
expect 0 "T1 same         HIT  measured here" "$tuff" cache explain "$key" --device 24.3
expect 0 "T2 other driver HIT  measured under another driver" "$tuff" cache explain "$key" --device 23.1
holds "T0 override     miss no pin" "T1 same         miss no winner for this key" "runs with $rows=8"
unknown="matmul 0000000000000001 | f32 | NN | 700x768x768 | a16 | fast"
expect 0 "T3 nearest      HIT  measured for matmul 0000000000000001 | f32 | NN | 512x768x768" \
    "$tuff" cache explain "$unknown" --device 24.3
expect 0 "T5 portfolio    SEED" "$tuff" cache explain "matmul 0000000000000002 | f32 | NN | 700x768x768 | a16 | fast"
json 'x["environments"][0]["tiers"][-1]["tier"] == 2 and x["environments"][0]["candidate"] == "matmul_register.tile_rows=8"' \
    "$tuff" cache explain "$key" --json --device 23.1
expect 1 'no device and no store matches --device "rtx"' "$tuff" cache explain "$key" --device rtx
# A CPU with vectors of another width gets seeds, not the winners.
for lanes in 8 16; do
    "$make" op "opencl; device AMD EPYC; class cpu; units 2; lanes $lanes; platform Fiction; driver Fiction 1" \
        "matmul 0000000000000001 | f32 | NN | $lanes${lanes}0x768x768 | a16 | fast" "$rows=$lanes" >/dev/null || fail "cache_cli op"
done
expect 0 "T2 other driver miss" "$tuff" cache explain "${unknown%%700x*}880x768x768 | a16 | fast" \
    --device "lanes 16; platform Fiction"
holds "T3 nearest      miss" "T4 seed         SEED" "seed $rows=8"
rm cache/tune/v1/*-amd-epyc-*
add win gfx1100 25.0 1024 "$rows=2" 90 20 0 othertexts >/dev/null
expect 0 "measured with other kernel texts (othertexts; current" "$tuff" cache explain "$key" --device 25.0

# Pins.
fresh
expect 2 "unknown tunable 'matmul_register.height'" "$tuff" cache pin "$key" matmul_register.height=8
expect 2 "is outside the range 1 to 32" "$tuff" cache pin "$key" "$rows=4000"
expect 2 "expected kernel.name=value, got" "$tuff" cache pin "$key" nonsense
expect 1 "it was rejected there, crash in first-run" "$tuff" cache pin "$key" "$rows=9"
expect 0 "$rows=4" "$tuff" cache pin "$key" "$rows=4;matmul_register.local_size=2"
expect 0 "T0 override     HIT  pinned by user" "$tuff" cache explain "$key" --device 24.3
holds "runs with matmul_register.local_size=2;$rows=4"
expect 0 "pinned by user" "$tuff" cache explain "$key" --device 23.1
expect 0 "default" "$tuff" cache pin "$key" default
expect 0 "runs with default" "$tuff" cache explain "$key" --device 24.3
expect 0 "unpinned 1" "$tuff" cache unpin "$key"
expect 0 "T1 same         HIT" "$tuff" cache explain "$key" --device 24.3
json 'x == {"pinned": 1}' "$tuff" cache pin "$key" "$rows=4" --json
json 'x == {"unpinned": 1}' "$tuff" cache unpin "$key" --json

# Measuring again: local winners are dropped, a shipped one is hidden.
fresh
expect 0 "dropped 1" "$tuff" cache retune "$key"
expect 0 "bad  $rows=9" "$tuff" cache show "$key"
expect 0 "T1 same         miss no winner" "$tuff" cache explain "$key" --device 24.3
expect 0 "dropped 1" "$tuff" cache retune --op 512x
expect 0 "dropped 1" "$tuff" cache retune --all
expect 0 "0 win  1 bad" "$tuff" cache list --device 24.3
# Nothing is dropped if nothing can be measured: no such device, no such graph.
fresh
for device in quantum:7 reference; do
    expect 2 "tuff cache retune: " env TUFF_DEVICE=$device "$tuff" cache retune --all --now --graph nowhere
    grep -q dropped out && fail "retune --now drops winners before it fails: $(cat out)"
done
expect 0 "2 win" "$tuff" cache list --device 24.3
fresh
mkdir -p share/tune && mv "$file" share/tune/
expect 0 "shipped" "$tuff" cache list --device 24.3
expect 0 "T1 same         HIT  shipped with tuff" "$tuff" cache explain "$key" --device 24.3
expect 0 "dropped 1" "$tuff" cache retune "$key" --device 24.3
expect 0 "T1 same         miss the winner is only a seed" "$tuff" cache explain "$key" --device 24.3
expect 0 "$rows=4" "$tuff" cache pin "$near" "$rows=4"
expect 0 "pinned by user" "$tuff" cache explain "$near" --device 24.3

# A manifest has the candidates that keys run with: the runner-up of a rejected winner, and nothing of other kernels.
fresh
add bad gfx1100 24.3 1024 "$rows=8" >/dev/null
add win gfx1100 24.3 2048 "$rows=2" 90 20 0 othertexts >/dev/null
expect 0 "exported 0 win, 0 bad, 3 pin of 2 environments to lock" "$tuff" cache export --manifest lock
holds "left out 1 keys"
for one in 3 5 6; do
    grep -q "\"c\":\"$rows=$one\"" lock || fail "$rows=$one is not in the manifest: $(cat lock)"
done
json 'x["pin"] == 3 and x["left_out"] == 1' "$tuff" cache export --manifest lock --json

# Export and import.
fresh
expect 0 "exported 3 win, 1 bad, 0 pin of 2 environments to all" "$tuff" cache export all
expect 0 "skipped 4 (local newer)" "$tuff" cache import all
expect 0 "exported 2 win" "$tuff" cache export one --device 24.3
rm -rf cache
expect 0 "imported 0, skipped 0 (local newer), seeds 0 (driver differs), other devices 4" "$tuff" cache import all
expect 0 "drv AMD-APP 24.3  2 win  1 bad" "$tuff" cache list
expect 0 "ok 4" "$tuff" cache verify
rm -rf cache
add win gfx1100 24.3 64 "$rows=8" >/dev/null
expect 0 "imported 3, skipped 0 (local newer), seeds 1 (driver differs), rejected 0 (crc)" "$tuff" cache import all
expect 0 "3 win  1 bad" "$tuff" cache list
rm -rf cache
json 'x["seeds"] == 0 and x["other_devices"] == 3' "$tuff" cache import all --as-seed --json
expect 0 "only a seed" "$tuff" cache explain "$key" --device 24.3
rm -rf cache
expect 0 "other devices 3" "$tuff" cache import all --device 24.3
expect 0 "drv AMD-APP 24.3" "$tuff" cache list
grep -q 23.1 out && fail "import --device takes others too"
fresh
"$tuff" cache pin "$key" "$rows=4" >out || fail "pin"
expect 0 "exported 0 win, 0 bad, 3 pin of 2 environments to lock" "$tuff" cache export --manifest lock
[ "$(grep -c '"by":"lock"' lock)" -eq 3 ] && grep -q '"c":"matmul_register.tile_rows=4"' lock || fail "the manifest: $(cat lock)"
expect 0 "ok 5" "$tuff" cache verify lock
expect 0 "exported 3 win, 1 bad, 0 pin" "$tuff" cache export --anon anonymous
expect 0 "ok 6" "$tuff" cache verify anonymous
expect 2 "--device selects stores" "$tuff" cache verify anonymous --device nowhere
python3 -c "
import json, sys
times = [json.loads(line[9:]).get('ts', 0) for line in open('anonymous')]
sys.exit(any(time % 86400 for time in times) or not any(times))" || fail "--anon keeps times of day"
"$tuff" cache export - >stream && cmp -s stream all && fail "an export has no pin"
expect 2 "No such file" "$tuff" cache export nowhere/file
expect 2 "No such file" "$tuff" cache import nowhere
mkfifo fifo
mkdir folder
for strange in fifo folder; do
    expect 2 "not a regular file" "$tuff" cache import $strange
    expect 2 "$strange" "$tuff" cache export $strange
    expect 2 "not a regular file" "$tuff" cache verify $strange
    expect 2 "not a regular file" "$tuff" cache diff all $strange
done

# A --device that matches nothing is a mistake: nothing is written, and the exit code says so.
fresh
expect 0 "exported 3 win" "$tuff" cache export all
cp all good
for verb in list show verify export import merge diff prune pin unpin retune; do
    from=store operands=
    case $verb in
    show | unpin | retune) operands=$key ;;
    pin) operands="$key $rows=4" ;;
    export) operands=good ;;
    import) operands=all from="environment of the file" ;;
    diff) operands="all good" from="environment of the files" ;;
    merge) operands="all all --out good" from="environment of the files" ;;
    esac
    # shellcheck disable=SC2086
    expect 1 "tuff cache $verb: no $from matches --device \"vulkna\"" "$tuff" cache $verb $operands --device vulkna
    cmp -s all good || { fail "cache $verb without a match writes its file" && cp all good; }
done
expect 0 "skipped 4" "$tuff" cache import all --device amd-app
expect 0 "conflicts 0" "$tuff" cache merge all all --out good --device gfx1100
expect 0 "same 1" "$tuff" cache diff all good --device 23.1

# Two files compared: a later measurement, more samples, a key in one of them only.
fresh
"$tuff" cache export a --device 24.3 >out
add win gfx1100 24.3 512 "$rows=7" 140 >/dev/null
add win gfx1100 24.3 1024 "$rows=8" 50 >/dev/null
add win gfx1100 24.3 2048 "$rows=8" >/dev/null
"$tuff" cache export b --device 24.3 >out
expect 0 "same 2, other winner 0, other time 0, only in A 0, only in B 0" "$tuff" cache diff a a
expect 1 "same 0, other winner 1, other time 1, only in A 0, only in B 1" "$tuff" cache diff a b
holds "other winner $(echo "$near" | cut -c 1-12)" "A $rows=6 0.150 ms" "B $rows=7 0.140 ms"
json 'x["other_winner"] == 1 and len(x["differences"]) == 3' "$tuff" cache diff a b --json
expect 0 "merged 3 win into c: conflicts 1, damaged lines left out 0" "$tuff" cache merge a b --out c
holds "kept $rows=7 0.140 ms (n 20" "left $rows=6 0.150 ms (n 20"
expect 0 "same 3" "$tuff" cache diff b c
expect 0 "conflicts 1" "$tuff" cache merge b a --out d
expect 0 "same 3" "$tuff" cache diff c d
json 'x["conflicts"][0]["kept"]["candidate"] == "matmul_register.tile_rows=7"' "$tuff" cache merge a b --out c --json
expect 2 "No such file" "$tuff" cache merge a nowhere --out e
[ -e e ] && fail "a merge that failed wrote its file"
# Lines that cannot be compared are not passed over, and garbage is not the same as garbage.
(cat a && printf 'torn\n') >torn
expect 1 "left out: 1 damaged lines, 0 from a later version" "$tuff" cache diff a torn
holds "same 2, other winner 0, other time 0, only in A 0, only in B 0"
python3 -c "
import zlib
line = '{\"t\":\"later\"}'
print('%08x %s' % (zlib.crc32(line.encode()), line))" >later
json 'x["same"] == 0 and x["damaged"] == 1 and x["later_version"] == 1' "$tuff" cache diff torn later --json --device gfx
echo garbage >garbage
expect 1 "left out: 2 damaged lines" "$tuff" cache diff garbage garbage
expect 1 "left out: 0 damaged lines, 2 from a later version" "$tuff" cache diff later later
fresh
"$tuff" cache export new --device 24.3 >out
"$tuff" cache export old --device 23.1 >out
expect 1 "only in A 2, only in B 1" "$tuff" cache diff new old

# Pruning.
fresh
"$tuff" cache pin "$old" "$rows=4" >out
expect 0 "would drop 1 of 3" "$tuff" cache prune --older 90d --dry-run
holds "would drop 1 of 2"
expect 0 "2 win" "$tuff" cache list
json 'sorted(s["dropped"] for s in x) == [1, 1]' "$tuff" cache prune --older 90d --json
expect 0 "1 win  1 bad" "$tuff" cache list --device 24.3
expect 0 "0 win  0 bad  1 pin" "$tuff" cache list --device 23.1
fresh
expect 0 "dropped 1 of 1 records" "$tuff" cache prune --driver old
expect 0 "2 win  1 bad" "$tuff" cache list --device 24.3
add win gfx1100 24.3 2048 "$rows=8" 90 20 0 othertexts >/dev/null
expect 0 "1 with other kernel texts" "$tuff" cache list --device 24.3
expect 0 "dropped 1 of 4 records" "$tuff" cache prune --kernels stale
expect 0 "dropped 0 of 3 records" "$tuff" cache prune --max 16M
"$tuff" cache prune --max 1200 >out || fail "prune --max"
[ "$(cat cache/tune/v1/*.jsonl | wc -c)" -le 1200 ] || fail "prune --max 1200 leaves $(cat cache/tune/v1/*.jsonl | wc -c)"
[ "$("$tuff" cache list --json | grep -c '"win": 0')" -lt 2 ] || fail "prune --max 1200 drops the newest too"

# Damage: each damaged line is reported, loses only itself, and is removed by the next prune.
fresh
cp "$file" whole
python3 -c "
data = bytearray(open('whole', 'rb').read())
lines = data.split(b'\n')
lines[1][60] ^= 1
open('$file', 'wb').write(b'\n'.join(lines) + b'torn')"
expect 1 "$file:2: damaged" "$tuff" cache verify
holds ":5: damaged" "ok 3  damaged 2"
expect 1 "2 damaged lines" "$tuff" cache list
expect 1 "rejected 2 (crc)" "$tuff" cache import "$file"
expect 0 "dropped 0 of" "$tuff" cache prune
expect 0 "damaged 0" "$tuff" cache verify
fresh
python3 -c "
import zlib
lines = ['{\"t\":\"later\",\"x\":[1]}', '{\"t\":\"win\",\"k\":\"00\"}']
with open('$file', 'a') as out:
    for line in lines:
        out.write('%08x %s\n' % (zlib.crc32(line.encode()), line))"
expect 1 ":5: from a later version" "$tuff" cache verify
holds ":6: malformed"
expect 0 "dropped" "$tuff" cache prune
grep -q '"t":"later"' "$file" || fail "prune loses lines of later versions"
add win gfx1100 24.3 3000 "no_such.tunable=3" >/dev/null
expect 1 "cannot be used: candidate: unknown tunable 'no_such.tunable'" "$tuff" cache verify
add win gfx1100 24.3 1024 "$rows=9" >/dev/null
expect 1 "a winner that was rejected: crash" "$tuff" cache verify
expect 0 "a runner-up, because the winner cannot be used: crash in first-run" "$tuff" cache explain "$key" --device 24.3
expect 1 "may be tried again: 1" "$tuff" cache verify --retry
expect 0 "T1 same         HIT  measured here" "$tuff" cache explain "$key" --device 24.3

# Every so many bytes one is flipped, and the file is truncated there: the result is a status, never a crash.
fresh
cp "$file" whole
size=$(wc -c <whole)
at=0
while [ $at -lt "$size" ]; do
    python3 -c "
data = bytearray(open('whole', 'rb').read())
open('cut', 'wb').write(data[:$at])
data[$at] ^= 0x15
open('flipped', 'wb').write(data)"
    for damaged in cut flipped; do
        rm -rf cache
        "$tuff" cache import $damaged >out 2>&1
        [ $? -le 1 ] || { fail "import of a file $damaged at $at"; cat out >&2; }
        "$tuff" cache verify >out 2>&1 || { fail "what was imported of a file $damaged at $at"; cat out >&2; }
    done
    at=$((at + 211))
done

# Files and folders that cannot be used: one line each, and nothing is changed.
fresh
mv "$file" aside
ln -s "$work/aside" "$file"
cp aside target
mkdir -p share/tune && cp aside "share/tune/$(basename "$file")"
expect 1 "symbolic links" "$tuff" cache list
expect 1 "exported 1 win" "$tuff" cache export less
expect 2 "symbolic links" "$tuff" cache pin "$key" "$rows=4"
cmp -s aside target || fail "a file behind a link was changed"
rm -r "$file" share && mkfifo "$file"
expect 1 "not a regular file" "$tuff" cache list
expect 2 "not a regular file" "$tuff" cache verify
rm "$file" && mkdir "$file"
expect 1 "not a regular file" "$tuff" cache list
expect 2 "not a regular file" "$tuff" cache prune
rmdir "$file"
cp aside "$file" && chmod 666 "$file"
expect 1 "users other than this one" "$tuff" cache list
expect 2 "users other than this one" "$tuff" cache retune --all
cmp -s aside "$file" || fail "a file that others may write was changed"
chmod 600 "$file"
rm -f "$file.lock" && mkdir "$file.lock"
expect 2 "$file.lock" "$tuff" cache pin "$key" "$rows=4"
expect 2 "$file.lock" "$tuff" cache retune "$key"
cmp -s aside "$file" || fail "a store without its lock was changed"
rmdir "$file.lock"
expect 0 "2 win" "$tuff" cache list
chmod 777 cache/tune/v1
expect 2 "users other than this one could write to" "$tuff" cache list
chmod 700 cache/tune/v1
mv cache/tune/v1 cache/tune/real && ln -s real cache/tune/v1
expect 2 "is not a folder" "$tuff" cache list
rm cache/tune/v1 && mv cache/tune/real cache/tune/v1
chmod 777 cache
expect 2 "users other than this one could write to" "$tuff" cache list
chmod 700 cache
expect 2 "HOME is not an absolute path; set TUFF_CACHE_DIR" env -u TUFF_CACHE_DIR -u XDG_CACHE_HOME -u HOME "$tuff" cache list
expect 2 "TUFF_CACHE_DIR is empty" env TUFF_CACHE_DIR= "$tuff" cache list
: >plain
expect 2 "plain" env TUFF_CACHE_DIR="$work/plain" "$tuff" cache list
if [ "$(id -u)" -eq 0 ]; then
    chown 65534 "$file"
    expect 1 "users other than this one" "$tuff" cache list
    chown 0 "$file"
else
    chmod 500 cache/tune/v1
    expect 2 "Permission denied" "$tuff" cache pin "$key" "$rows=4"
    expect 0 "2 win" "$tuff" cache list
    chmod 700 cache/tune/v1
fi

# Eight at once into an empty cache: everything is stored, and no line is damaged.
for i in 1 2 3 4 5 6 7 8; do
    rm -rf cache
    add win gfx1100 24.3 ${i}00 "$rows=$i" >/dev/null
    "$tuff" cache export "file$i" >out || fail "export"
done
rm -rf cache
for i in 1 2 3 4 5 6 7 8; do
    "$tuff" cache import "file$i" >"import$i" 2>&1 &
done
wait
expect 0 "8 win" "$tuff" cache list
expect 0 "damaged 0" "$tuff" cache verify
fresh

# A full disk, simulated by a limit on file sizes: the old content stays.
for verb in "pin $key $rows=4" "retune $near" "prune --older 90d" "export full"; do
    cp "$file" before
    (
        trap '' XFSZ
        ulimit -f 1
        # shellcheck disable=SC2086
        "$tuff" cache $verb >full.out 2>&1
    )
    code=$?
    [ $code -eq 2 ] || [ "$(wc -c <before)" -lt 1024 ] || fail "cache $verb on a full disk exits with $code: $(cat full.out)"
    head -c "$(wc -c <before)" "$file" | cmp -s before - || fail "cache $verb on a full disk cost the store"
done
expect 0 "2 win" "$tuff" cache list
[ -z "$(ls cache/tune/v1 . | grep tmp-)" ] || fail "a full disk left $(ls cache/tune/v1 .)"

[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
