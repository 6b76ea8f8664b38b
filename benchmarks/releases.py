#!/usr/bin/env python3
"""releases.py RELEASE [--rounds N] [--seconds S] [--cases NAME ...]: what does another Debian release's compiler and oneDNN
make of a training step? Runs `dlpipe bench train` of build/release and of the chroot that scripts/test_release left, in
turn, one thread each, and prints CPU milliseconds per step, medians over rounds, and the median of the rounds' ratios. CPU
time, because other programs on the machine move it less than they move rates. As root (the chroot)."""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = {
    "resnet18@32 f32": "--model resnet18_cifar --batch 32",
    "resnet18@32 bf16": "--model resnet18_cifar --batch 32 --dtype bf16",
    "resnet50@224 f32": "--model resnet50 --batch 8",
    "resnet50@224 bf16": "--model resnet50 --batch 8 --dtype bf16",
    "vgg16@64 f32": "--model vgg16 --size 64 --batch 8",
    "gpt_char f32": "--model gpt_char --batch 4",
    "gpt_char bf16": "--model gpt_char --batch 4 --dtype bf16",
    "vit_s@32 f32": "--model vit_small_cifar --batch 16",
}


def bench(release, case, seconds, kernels):
    command = f"build/release/bin/dlpipe bench train {CASES[case]} --threads 1 --seconds {seconds} --kernels {kernels} --json"
    if release:
        command = [ROOT / "scripts/test_release", release, "--run", command]
    else:
        command = command.split()
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return 1000 * json.loads(answer.strip().splitlines()[-1])["cpu_seconds_per_step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--kernels", default="rules", choices=["rules", "measured"])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    args = parser.parse_args()
    print(f"one thread, {args.rounds} rounds in turn, {args.seconds:g} s each, --kernels {args.kernels}\n")
    print(f"| training step | here, CPU ms | {args.release}, CPU ms | {args.release} / here | least and most |")
    print("|---|---|---|---|---|")
    for case in args.cases:
        here, there = [], []
        for _ in range(args.rounds):
            here.append(bench(None, case, args.seconds, args.kernels))
            there.append(bench(args.release, case, args.seconds, args.kernels))
        ratios = sorted(b / a for a, b in zip(here, there))
        print(f"| {case} | {statistics.median(here):.1f} | {statistics.median(there):.1f} | "
              f"{statistics.median(ratios):.2f} | {ratios[0]:.2f}, {ratios[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
