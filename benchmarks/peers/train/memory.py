#!/usr/bin/env python3
"""Peak memory and rate of one training step's variants, dlpipe beside PyTorch: whole processes, one after another.

    benchmarks/peers/train/memory.py --dlpipe build/release/bin/dlpipe [--model resnet50 --batch 16 --size 224]

Memory is the largest resident set of the process (wait4), programs and libraries included. PyTorch's row is what a user
gets with the same optimizer in eager mode; variants that PyTorch has not are compared with its plain step of the same
optimizer's family.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
import environment  # noqa: E402
import machine  # noqa: E402

# (what, dlpipe's options, PyTorch's options)
VARIANTS = [
    ("sgd", [], ["--optimizer", "sgd"]),
    ("sgd, activations recomputed", ["--checkpoint-activations", "layer?.*"], ["--optimizer", "sgd"]),
    ("sgd, bf16", ["--dtype", "bf16"], ["--optimizer", "sgd", "--dtype", "bf16"]),
    ("sgd, 4 accumulated batches", ["--accumulate", "4"], ["--optimizer", "sgd", "--accumulate", "4"]),
    ("adamw", ["--optimizer", "adamw"], ["--optimizer", "adamw"]),
    ("8-bit adam", ["--optimizer", "adam8bit"], ["--optimizer", "adamw"]),
    ("adafactor", ["--optimizer", "adafactor"], ["--optimizer", "adafactor"]),
]


def run(command):
    """(what it printed, largest resident set in bytes) of a program that succeeds."""
    reading, writing = os.pipe()
    child = subprocess.Popen(command, stdout=writing, stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as output:
        text = output.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"[memory] {' '.join(map(str, command))} ended with {child.returncode}")
    return json.loads(text.strip().splitlines()[-1]), usage.ru_maxrss * 1024


def with_last(options):
    """Later options replace earlier ones of the same name."""
    merged = dict(zip(options[::2], options[1::2]))
    return [word for pair in merged.items() for word in pair]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dlpipe", type=pathlib.Path, required=True)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", default="16")
    parser.add_argument("--size", default="224")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--seconds", default="4")
    parser.add_argument("--root", type=pathlib.Path, default=environment.default_root(), help="environments")
    args = parser.parse_args()
    trainer = here / "trainers" / "pytorch_eager.py"
    python = environment.prepare(environment.read_peer(trainer), args.root)
    common = ["--model", args.model, "--batch", args.batch, "--size", args.size, "--threads", args.threads,
              "--seconds", args.seconds]  # fmt: skip
    print(f"{machine.line(machine.describe())}\n{args.model}, {args.size} x {args.size}, batch {args.batch}, {args.threads} threads\n")
    print("| step | dlpipe MB | PyTorch MB | ratio | dlpipe img/s | PyTorch img/s |\n|---|---|---|---|---|---|")
    seen = {}
    for what, ours, theirs in VARIANTS:
        mine, my_bytes = run([str(args.dlpipe), "bench", "train", "--json", "--warmup", "3",
                              *with_last([*common, *ours])])  # fmt: skip
        key = tuple(theirs)
        if key not in seen:
            seen[key] = run([str(python), str(trainer),
                             *with_last([*common, "--dtype", "f32", *theirs])])  # fmt: skip
        peer, peer_bytes = seen[key]
        print(f"| {what} | {my_bytes / 1e6:,.0f} | {peer_bytes / 1e6:,.0f} | {my_bytes / peer_bytes:.2f} "
              f"| {mine['samples_per_s']:.1f} | {peer['samples_per_s']:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
