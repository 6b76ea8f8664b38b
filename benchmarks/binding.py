#!/usr/bin/env python3
"""binding.py [--batches N] [--batch N] [--as numpy torch jax]: microseconds that Python and the binding take for each batch
of dlpipe.Loader, beside the decoding. Every batch is ready before it is asked for (the consumer is busy in between), so that
what is timed is the call, the arrays made over its memory, their unpacking, and giving the batch back. "After other work" the
caches have forgotten the code; of batches taken one right after the other they have not. Medians and the 90th percentile; the
last column is the CPU time of the consumer's thread. Needs dlpipe; PyTorch and JAX where they are asked for."""
import argparse
import importlib
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import dlpipe

IN_A_ROW = 8


def program(*arguments):
    """`dlpipe ...`"""
    subprocess.run([sys.executable, "-m", "dlpipe", *map(str, arguments)], check=True, capture_output=True)


def costs(loader, batches, busy_s, in_a_row):
    """Seconds by the clock and of the thread's CPU time, for each batch; of several in a row, those behind the first."""
    iterator = iter(loader)
    for _ in range(20):
        next(iterator)
    wall, cpu = [], []
    while len(wall) < batches:
        ready = time.perf_counter() + busy_s * in_a_row
        while time.perf_counter() < ready:
            pass
        for turn in range(in_a_row):
            begin, cpu_begin = time.perf_counter(), time.thread_time()
            images, labels = next(iterator)
            del images, labels
            cpu_end, end = time.thread_time(), time.perf_counter()
            if turn > 0 or in_a_row == 1:
                cpu.append(cpu_end - cpu_begin)
                wall.append(end - begin)
    return wall, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--busy", type=float, default=3, help="milliseconds between batches: longer than making one takes")
    parser.add_argument("--as", dest="frameworks", nargs="+", default=["numpy"], choices=["numpy", "torch", "jax"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program("synth", folder / "jpegs", "--per-class", 100, "--size", "32", "--seed", 1)
        program("ingest", folder / "jpegs", folder / "data")
        print(f"dlpipe {dlpipe.__version__}, Python {sys.version.split()[0]}; batches of {args.batch} images 32 x 32, "
              f"{args.batches} of them\n")  # fmt: skip
        print("| as | taken | median, us | 90 % below, us | CPU of the consumer, us |\n|---|---|---|---|---|")
        for name in args.frameworks:
            importlib.import_module(name)
            for in_a_row, taken in ((1, f"after {args.busy:g} ms of other work"), (IN_A_ROW, "one right after the other")):
                with dlpipe.Loader(
                    folder / "data", batch=args.batch, epochs=-1, seed=1, as_=name, slots=IN_A_ROW + 2
                ) as loader:  # fmt: skip
                    wall, cpu = costs(loader, args.batches, args.busy / 1e3, in_a_row)
                wall = [1e6 * one for one in wall]
                print(f"| {name} | {taken} | {statistics.median(wall):.1f} | {statistics.quantiles(wall, n=10)[8]:.1f} | "
                      f"{1e6 * statistics.median(cpu):.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
