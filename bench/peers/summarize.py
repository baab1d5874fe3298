"""Prints the results of `tuff bench --json` with peers as one table: a row for each work and peer, with the ratio of
the peer's time to tuff's and its quartiles over the rounds. --short: a row for each work, against PyTorch's best
way."""

import argparse
import json
import statistics
import sys

UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "us"))
ASIDE = ("unfused", "written out", "a wait")  # tuff's own variants that are measured only for comparison


def time_text(seconds):
    scale, unit = next((u for u in UNITS if seconds >= u[0]), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}" if seconds / scale < 1000 else f"{seconds / scale:.0f} {unit}"


def rate_text(one):
    """Formats the rate in the unit of the limit that is nearer."""
    if one["of_flops_peak"] > one["of_copy_peak"]:
        return f"{one['gflops']:.0f} GFLOP/s ({one['of_flops_peak']:.2f})"
    return f"{one['gbytes']:.1f} GB/s ({one['of_copy_peak']:.2f})" if one["of_copy_peak"] > 0 else ""


def compare(ours, theirs):
    """Returns the median and quartiles of their time divided by ours, round by round, and the ratio of the least times,
    which a busy machine distorts least."""
    ratios = [b / a for a, b in zip(ours["samples"], theirs["samples"])]
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return dict(median=statistics.median(ratios), low=quartiles[0], high=quartiles[2],
                least=min(theirs["samples"]) / min(ours["samples"]))


def pairs(work):
    ours = [c for c in work["implementations"] if c["kind"] == "tuff" and not any(a in c["name"] for a in ASIDE)]
    others = [c for c in work["implementations"] if c["kind"] == "peer" or "unfused" in c["name"]]
    shown = [a for i, a in enumerate(ours) if i == 0 or work["suite"] == "matmul" or a["name"].endswith(", tuned")]
    return [(a, b) for a in shown for b in others]


def fastest_ratio(rows):
    """Returns the row of the fastest peer."""
    return min(rows, key=lambda row: row["ratio"]["median"])


def rows_of(result, short):
    for work in result["works"]:
        rows = [
            dict(suite=work["suite"], work=work["work"], tuff=a["name"], seconds=a["median"], rate=rate_text(a),
                 peer=b["name"], peer_seconds=b["median"], rounds=min(a["rounds"], b["rounds"]), ratio=compare(a, b))
            for a, b in pairs(work)
        ]
        if short:
            by_ours = {row["tuff"]: [r for r in rows if r["tuff"] == row["tuff"] and "PyTorch" in r["peer"]] for row in rows}
            rows = [fastest_ratio(each) for each in by_ours.values() if each]
        yield from rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=argparse.FileType("r"))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = json.load(options.file)
    rows = list(rows_of(result, options.short))
    if options.json:
        json.dump(dict(device=result["device"], rounds=result["rounds"], rows=rows), sys.stdout, indent=1)
        print()
        return
    print(f"{result['device']['driver']}; {result['rounds']} rounds; load before: {result['load']} on"
          f" {result['device']['compute_units']} units\n")
    print("| work | tuff | time | rate (of peak) | peer | time | ratio | quartiles | ratio of minima |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        ratio = row["ratio"]
        few = "" if row["rounds"] == result["rounds"] else f", {row['rounds']} rounds"
        print(
            f"| {row['suite']} {row['work']} | {row['tuff']} | {time_text(row['seconds'])} | {row['rate']} | {row['peer']} |"
            f" {time_text(row['peer_seconds'])} | {ratio['median']:.2f} | {ratio['low']:.2f} to {ratio['high']:.2f}{few} |"
            f" {ratio['least']:.2f} |"
        )


if __name__ == "__main__":
    main()
