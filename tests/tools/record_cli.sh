#!/bin/sh
# tuff-recorder record on every device with kernels: files contain what was requested, can be extended, and belong to
# one device. Usage: record_cli.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
begin "$1"
small="--points 5 --samples 3 --seconds 30"

expect 2 "needs --out" "$recorder" record --device reference
expect 2 "--samples takes" "$recorder" record --out made --samples 1
expect 0 "--with FOLDER" "$recorder" record --help
echo >file
expect 1 "is not a folder" "$recorder" record --device reference --out file
expect 2 "no task name contains 'nothing'" "$recorder" record --device reference --out made --only nothing
expect 1 "has no kernels to tune" "$recorder" record --device reference --out made --only map-64x384

previous=
for device in $("$tuff" devices | sed -n 's/^\(opencl:[0-9][0-9]*\|vulkan:[0-9][0-9]*\) .*/\1/p'); do
    folder=$(echo "$device" | tr : -)
    task=map-64x384-gelu-add file=$folder/map-64x384-gelu-add.jsonl
    expect 0 "$task" "$recorder" record --device "$device" --out "$folder" --only map-64x384 $small
    grep -q "\"name\":\"$task\"" "$file" || fail "$device: no name in the header"
    grep -q '"t":"point","c":"",.*"ns":\[[0-9]*,[0-9]*,[0-9]*\]' "$file" || fail "$device: the default does not have three times"
    [ "$(wc -l <"$file")" -ge 3 ] && [ "$(wc -l <"$file")" -le 6 ] || fail "$device: $(wc -l <"$file") lines"
    cp "$file" before
    expect 0 "$task" "$recorder" record --device "$device" --out "$folder" --only map-64x384 $small --points 8
    [ "$(wc -l <"$file")" -ge "$(wc -l <before)" ] || fail "$device: points were lost"
    if [ -n "$previous" ]; then
        expect 1 "was recorded on another device" "$recorder" record --device "$device" --out "$previous" --only map-64x384 $small
        expect 0 "$task" "$recorder" record --device "$device" --out "$folder" --only map-64x384 $small --with "$previous"
    fi
    previous=$folder
done
echo "{}" >bad.jsonl
mkdir -p other && mv bad.jsonl other/
expect 2 "missing operand: the folder" "$recorder" replay
expect 1 "no recordings in empty" sh -c 'mkdir -p empty; "$0" replay empty' "$recorder"
[ -z "$previous" ] || expect 0 "worst after 256" "$recorder" replay "$previous" --runs 2
[ -z "$previous" ] || expect 0 "portfolio of the other devices" "$recorder" portfolio "$previous" --out made.def
[ -z "$previous" ] || expect 1 "the first line is not a header" \
    "$recorder" record --device "$device" --out third --only map-64x384 $small --with other

[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
