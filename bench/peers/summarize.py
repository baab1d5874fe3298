"""Prints what bench/compare-training measured: a folder of tuff-N.jsonl (logs of `tuff train`) and pytorch-N.json."""

import argparse
import json
import pathlib
import statistics

SKIP = 10  # steps at the start that both leave out


def tuff_speed(path, tokens):
    """Tokens per second between step SKIP and the last step of a log."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    rows = [row for row in rows if "step" in row and row["step"] >= SKIP]
    first, last = rows[0], rows[-1]
    return tokens * (last["step"] - first["step"]) / (last["seconds"] - first["seconds"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    for name, default in dict(layers=4, heads=4, width=128, context=128, batch=8).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    tokens = options.batch * options.context
    ours = [tuff_speed(path, tokens) for path in sorted(options.folder.glob("tuff-*.jsonl"))]
    rows = [json.loads(path.read_text()) for path in sorted(options.folder.glob("pytorch-*.json"))]
    theirs = [row["tokens_per_second"] for row in rows]
    for name, speeds in (("tuff", ours), (rows[0]["framework"], theirs)):
        each = ", ".join(f"{speed:.0f}" for speed in speeds)
        print(f"{name}: median {statistics.median(speeds):.0f} tokens/s of {each}")
    print(f"ratio {statistics.median(ours) / statistics.median(theirs):.3f}")


if __name__ == "__main__":
    main()
