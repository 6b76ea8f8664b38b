#!/usr/bin/env python3
"""Is a run the same whatever number of processes computes it?

    benchmarks/scaling/chains.py DLPIPE [--models lenet cifarnet] [--ranks 1 2 4 8] [--steps 200] [--batch 64]

Trains each model for some steps in 1, 2, 4 and 8 processes that mpirun starts, one thread each, and prints what each
receipt says: batches_chain covers what was in every batch, parameters_chain the bits of every weight at the end. Nothing
is timed, so it may run beside anything. Exit code 1 where two differ.
"""

import argparse
import pathlib
import sys
import tempfile

import launch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import contest  # noqa: E402
import machine  # noqa: E402

GRAINS = 8


def rows_of(model, receipts):
    """(rows of the table, whether all are the same run); `receipts` {ranks: receipt}."""
    first = next(iter(receipts.values()))
    keys = ("batches_chain", "parameters_chain")
    rows, all_same = [], True
    for ranks, receipt in receipts.items():
        same = all(receipt[key] == first[key] for key in keys)
        all_same = all_same and same
        rows.append([model, str(ranks), str(receipt["steps"]), *(receipt[key] for key in keys), "yes" if same else "NO"])
    return rows, all_same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlpipe")
    parser.add_argument("--models", nargs="+", default=["lenet", "cifarnet"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4, 8], help=f"powers of two up to {GRAINS}")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    rows, all_same = [], True
    with tempfile.TemporaryDirectory() as folder:
        data = launch.make_data(options.dlpipe, pathlib.Path(folder), 32)
        for model in options.models:
            receipts = {}
            for ranks in options.ranks:
                print(f"[scaling] {model}, {ranks} ranks", file=sys.stderr, flush=True)
                _, receipts[ranks] = launch.train(
                    options.dlpipe, data, model=model, size=32, batch=options.batch, steps=options.steps,
                    grains=GRAINS, ranks=ranks, threads=1,
                )  # fmt: skip
            build = receipts[options.ranks[0]]["build"]
            more, same = rows_of(model, receipts)
            rows += more
            all_same = all_same and same
    print(f"Machine: {machine.line(machine.describe())}")
    print(f"{build}; scripts at commit {contest.commit()}")
    print(f"Batches of {options.batch} in {GRAINS} grains, one thread per rank\n")
    heads = ["model", "ranks", "steps", "batches_chain", "parameters_chain", "as the first"]
    print("\n".join(contest.markdown(heads, rows)))
    print("\nthe same run on every number of ranks" if all_same else "\nDIFFERENT RUNS")
    return 0 if all_same else 1


if __name__ == "__main__":
    sys.exit(main())
