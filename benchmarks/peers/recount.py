#!/usr/bin/env python3
"""The ratios of recorded contests, counted the same way on both sides.

    benchmarks/peers/recount.py benchmarks/results/FILE.md.json...

Before 2026-11-28 a contest divided dlpipe's median step or window by the other program's mean. The records keep every round, so
this divides like by like: samples by all seconds where both sides recorded them, else median step by median step. A contest that
recorded neither on one side is listed as "not comparable".
"""

import json
import pathlib
import statistics
import sys


def quotients(ours, theirs):
    """(what was divided, the ratio of each round), or None where the two sides recorded nothing in common."""
    rounds = [(a, b) for a, b in zip(ours, theirs) if "error" not in a and "error" not in b]
    runs = [run for pair in rounds for run in pair]
    if not rounds:
        return None
    if all("samples" in run and "seconds" in run for run in runs):
        return "all seconds", [a["samples"] / a["seconds"] / (b["samples"] / b["seconds"]) for a, b in rounds]
    if all("step_ms" in run for run in runs):
        return "median steps", [b["step_ms"] / a["step_ms"] for a, b in rounds]
    return None


def lines_of(path):
    record = json.loads(path.read_text())
    yield f"## {path.name.removesuffix('.md.json')}"
    yield ""
    yield "| case | dlpipe | peer | ratio (min-max) | rounds | of |"
    yield "|---|---|---|---|---|---|"
    for case, by_name in record["results"].items():
        for ours in (name for name in by_name if name.split()[0] == "dlpipe"):
            for peer in (name for name in by_name if name.split()[0] != "dlpipe"):
                found = quotients(by_name[ours], by_name[peer])
                if found is None:
                    yield f"| {case} | {ours} | {peer} | not comparable | | |"
                    continue
                what, values = found
                spread = f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
                yield f"| {case} | {ours} | {peer} | {spread} | {len(values)} | {what} |"
    yield ""


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        print("\n".join(lines_of(pathlib.Path(name))))
