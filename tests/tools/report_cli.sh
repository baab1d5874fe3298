#!/bin/sh
# tuff tune report: a self-contained page about stores of devices that are not present and a model on the first device
# with kernels; its texts are escaped, and --json gives the same data. Usage: report_cli.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
begin "$1"
rows=matmul_register.tile_rows

# holds FILE TEXT...
holds() {
    file=$1
    shift
    for text in "$@"; do
        grep -qF -e "$text" "$file" || fail "$file lacks \"$text\""
    done
}

expect 0 "There are no results yet" "$tuff" tune report
expect 2 "--out cannot be combined with --json" "$tuff" tune report --json --out page.html
expect 2 "not a multiple of 3 heads" "$tuff" tune report --width 32 --heads 3
"$make" win 'Radeon <b>RX</b> "7" & co' 24.3 1024 "$rows=8;matmul_register.local_size=4" 100 >/dev/null || fail "cannot make the store"
"$make" win 'Radeon <b>RX</b> "7" & co' 24.3 512 "" 400 >/dev/null
"$make" win 'Radeon <b>RX</b> "7" & co' 24.3 2048 "$rows=6" 200 20 3 old >/dev/null
"$make" bad 'Radeon <b>RX</b> "7" & co' 24.3 1024 "<script>alert('x')</script>" >/dev/null
"$make" pin 'Radeon <b>RX</b> "7" & co' 24.3 1024 "$rows=2" >/dev/null
"$make" win 'Arc' 1 1024 "$rows=3" 100 >/dev/null
"$tuff" tune report --out page.html || fail "tune report --out fails"
holds page.html '<!DOCTYPE html>' 'prefers-color-scheme:dark' 'width=device-width' '<svg' '4.00×' 'crash in first-run' \
    'Radeon &lt;b&gt;RX&lt;/b&gt; &quot;7&quot; &amp; co' '&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;' 'pinned to' \
    'with outdated kernel texts' '12 candidates, median 300'
for strange in '<script' '<b>RX' 'http' 'src=' '@import' 'url('; do
    ! grep -qiF "$strange" page.html || fail "the page contains $strange"
done
[ "$(grep -o '<article' page.html | wc -l)" -eq "$(grep -o '</article>' page.html | wc -l)" ] || fail "<article> and </article> do not match"
[ "$(grep -o '<article' page.html | wc -l)" -eq 4 ] || fail "the page does not have 4 keys"
python3 - <<'EOF' || fail "the tags of the page do not match"
import html.parser, sys
class check(html.parser.HTMLParser):
    stack = []
    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br"):
            self.stack.append(tag)
    def handle_startendtag(self, tag, attributes):
        pass
    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            sys.exit("wrong end: " + tag)
reader = check()
reader.feed(open("page.html", encoding="utf-8").read())
sys.exit(0 if not reader.stack else str(reader.stack))
EOF
expect 0 "<svg" "$tuff" tune report --device Arc
! grep -q Radeon out || fail "--device lists other devices"
json 'len(x["environments"]) == 2 and not x["model"]' "$tuff" tune report --json
json '[k["dims"] for e in x["environments"] if "Radeon" in e["device"] for k in e["keys"]] == ["1024x768x768", "2048x768x768", "512x768x768"]' "$tuff" tune report --json
json '[k for e in x["environments"] if "Radeon" in e["device"] for k in e["keys"]][0]["spread"] == [90000, 200000, 300000, 500000, 2000000]' "$tuff" tune report --json
json 'x["environments"][0]["device"] == "Arc" and x["environments"][0]["keys"][0]["timed"] == 12' "$tuff" tune report --json --device Arc
expect 1 'no store matches --device "Ark"' "$tuff" tune report --device Ark --out typo.html
[ -e typo.html ] && fail "a report on no store writes its page"
expect 1 "--out" "$tuff" tune report --out "$work/nowhere/page.html"

first=$("$tuff" devices --json | python3 -c '
import json, sys
found = [d["selector"] for d in json.load(sys.stdin) if d["selector"] != "reference"]
print(found[0] if found else "")')
if [ -n "$first" ]; then
    small="--layers 1 --heads 1 --width 16 --context 8 --batch 1"
    "$tuff" tune warm --device "$first" $small --tune quick --tune-budget 2 >/dev/null 2>&1 || fail "nothing is tuned"
    json 'x["model"] and len(x["environments"]) == 1 and [s["name"] for s in x["environments"][0]["steps"]] == ["train", "generate"]' \
        "$tuff" tune report --device "$first" $small --json
    json 'any(k["known"] for k in x["environments"][0]["keys"]) and all(sum(k["calls"]) > 0 for k in x["environments"][0]["keys"])' \
        "$tuff" tune report --device "$first" $small --json
    expect 0 "kernels of train" "$tuff" tune report --device "$first" $small
fi
[ $failures -eq 0 ] || echo "$failures checks failed" >&2
[ $failures -eq 0 ]
