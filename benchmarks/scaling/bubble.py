#!/usr/bin/env python3
"""How long do the stages of a pipeline wait, beside (p-1)/(m+p-1)?

    benchmarks/scaling/bubble.py DLPIPE [--model vit_small_cifar] [--stages 2] [--grains 1 2 4 8 16] [--out FILE]

Trains one model in p processes of one thread each (--pipeline-parallel p), with m grains of the same size per step, and in one
process of p threads with the same grains. Runs are interleaved in rounds. Two measures, medians over rounds:

- waited: the share of a step that the first stage waits for others, by its ledger. The time that bytes take is in it.
- lost: how much shorter the step of the one process is, as a share of the other's. Stages of unequal work are in it, and what
  threads of one process lose is taken off.

1F1B leaves each stage (p-1)/(m+p-1) of a step without work, where stages take equally long.
"""

import argparse
import datetime
import os
import pathlib
import statistics
import sys
import tempfile

import launch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import contest  # noqa: E402
import machine  # noqa: E402


def bubble(stages, grains):
    return (stages - 1) / (grains + stages - 1)


def shares(alone, piped):
    """(waited, lost) of one round; `alone` and `piped` are ledgers of one process and of the first stage."""
    step = launch.step_seconds(piped)
    waited = piped["spans"].get("collective", {"seconds": 0.0})["seconds"] / piped["steps"]
    return waited / step, 1 - launch.step_seconds(alone) / step


def row_of(stages, grains, rounds):
    waited, lost = zip(*(shares(alone, piped) for alone, piped in rounds))
    steps = [1e3 * launch.step_seconds(piped) for _, piped in rounds]
    percent = [f"{100 * value:.1f} %" for value in (bubble(stages, grains), statistics.median(waited), statistics.median(lost))]
    return [str(grains), f"{statistics.median(steps):.0f}", *percent]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlpipe", type=pathlib.Path)
    parser.add_argument("--model", default="vit_small_cifar")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--grains", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--samples", type=int, default=2, help="of a grain")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    if cores < options.stages:
        sys.exit(f"[scaling] {options.stages} stages need as many cores; this process may use {cores}")
    ledgers = {grains: [] for grains in options.grains}
    with tempfile.TemporaryDirectory() as folder:
        data = launch.make_data(options.dlpipe, pathlib.Path(folder), options.size)
        for turn in range(options.rounds):
            for grains in options.grains:
                print(f"[scaling] round {turn + 1}, {grains} grains", file=sys.stderr, flush=True)
                common = {
                    "model": options.model, "size": options.size, "batch": grains * options.samples,
                    "steps": options.steps, "grains": grains,
                }  # fmt: skip
                alone, receipt = launch.train(options.dlpipe, data, ranks=1, threads=options.stages, **common)
                split = ["--pipeline-parallel", options.stages]
                piped, _ = launch.train(options.dlpipe, data, ranks=options.stages, threads=1, more=split, **common)
                ledgers[grains].append((alone, piped))
    about = machine.describe()
    heads = ["grains m", "step, ms", "(p-1)/(m+p-1)", "waited", "lost"]
    lines = [
        f"# The bubble of {options.stages} stages, {datetime.date.today()}",
        "",
        f"Machine: {machine.line(about)}",
        f"{receipt['build']}; scripts at commit {contest.commit()}",
        f"{options.model} at {options.size}, grains of {options.samples} samples, {options.steps} steps, medians of "
        f"{options.rounds} interleaved rounds.",
        "",
        *contest.markdown(heads, [row_of(options.stages, grains, rounds) for grains, rounds in ledgers.items()]),
    ]
    record = {"machine": about, "settings": contest.settings(options), "ledgers": ledgers}
    contest.publish(lines, record, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
