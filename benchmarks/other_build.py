#!/usr/bin/env python3
"""What does another build of dlpipe make of the same work?

    other_build.py OTHER [--data DATASET] [--rounds N] [--seconds S] [--cases NAME ...]

OTHER is the name of a Debian release, whose program is that of the chroot that scripts/test_release left (as root), or the
path of a dlpipe program, of an older commit for example. It and build/release run in turn; one thread. Training steps
(`dlpipe bench train`) are told in CPU milliseconds, because other programs on the machine move these less than they move
rates. With --data, a dataset of images that both can read, batches of crops (`dlpipe bench pipeline`) are told in
microseconds per image. Medians over rounds, and the median of the rounds' ratios.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "build/release/bin/dlpipe"
STEPS = {
    "resnet18@32 f32": "--model resnet18_cifar --batch 32",
    "resnet18@32 bf16": "--model resnet18_cifar --batch 32 --dtype bf16",
    "resnet50@224 f32": "--model resnet50 --batch 8",
    "resnet50@224 bf16": "--model resnet50 --batch 8 --dtype bf16",
    "vgg16@64 f32": "--model vgg16 --size 64 --batch 8",
    "gpt_char f32": "--model gpt_char --batch 4",
    "gpt_char bf16": "--model gpt_char --batch 4 --dtype bf16",
    "vit_s@32 f32": "--model vit_small_cifar --batch 16",
}
CROPS = {"rrc(224) hflip": ["--augment", "rrc(224) hflip", "--batch", "64"]}


def answer(other, arguments):
    """What the program prints as JSON; `other` None: build/release's."""
    if other and "/" not in other:
        command = [ROOT / "scripts/test_release", other, "--run", "build/release/bin/dlpipe " + " ".join(arguments)]
    else:
        command = [other or HERE, *arguments]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if said.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{said.stderr or said.stdout}")
    return json.loads(said.stdout.strip().splitlines()[-1])


def measure(other, case, args):
    timing = ["--threads", "1", "--seconds", f"{args.seconds:g}", "--json"]
    if case in STEPS:
        steps = ["bench", "train", *STEPS[case].split(), "--kernels", args.kernels, *timing]
        return 1e3 * answer(other, steps)["cpu_seconds_per_step"]
    return 1e6 / answer(other, ["bench", "pipeline", "--data", args.data, *CROPS[case], *timing])["samples_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other")
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--kernels", default="rules", choices=["rules", "measured"])
    parser.add_argument("--cases", nargs="*", choices=[*STEPS, *CROPS])
    args = parser.parse_args()
    if args.data and "/" not in args.other:
        parser.error("--data is for a program's path: a chroot doesn't see it")
    cases = args.cases or [*STEPS, *(CROPS if args.data else [])]
    print(f"one thread, {args.rounds} rounds in turn, {args.seconds:g} s each, --kernels {args.kernels}\n")
    print("| the work | here | other | other / here | least and most |")
    print("|---|---|---|---|---|")
    for case in cases:
        here, there = [], []
        for _ in range(args.rounds):
            here.append(measure(None, case, args))
            there.append(measure(args.other, case, args))
        ratios = sorted(b / a for a, b in zip(here, there))
        unit = "CPU ms per step" if case in STEPS else "us per image"
        print(f"| {case}, {unit} | {statistics.median(here):.1f} | {statistics.median(there):.1f} | "
              f"{statistics.median(ratios):.2f} | {ratios[0]:.2f}, {ratios[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
