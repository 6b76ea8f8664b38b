#!/usr/bin/env python3
"""What do two ranks of one core give beside one process of two cores, and beside PyTorch's DDP in the same two ranks?

    benchmarks/scaling/processes.py DLPIPE [--cases resnet18_cifar:32:64 resnet18:224:16] [--dtypes f32] [--rounds 3]

A case is MODEL:SIZE:BATCH, the batch that of a step of all ranks together. In interleaved rounds: one process on all cores
(--grains 1), the same run with as many grains as there are ranks, the ranks with as many cores each over mpirun, and
DistributedDataParallel over gloo with the same model. Ratios are taken within a round and are medians over rounds. The peer
needs PyTorch: --torch PYTHON says whose; without it, the environment of benchmarks/peers/train is used (made on the first
run); --no-peer leaves it out.
"""

import argparse
import datetime
import os
import pathlib
import sys
import tempfile

import launch

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent / "peers"))
import contest  # noqa: E402
import environment  # noqa: E402
import machine  # noqa: E402

ALONE, GRAINS, RANKS, DDP = "one process", "one process, grains", "ranks", "PyTorch DDP, gloo"


def parsed(case):
    model, size, batch = case.split(":")
    return {"model": model, "size": int(size), "batch": int(batch)}


def same_weights(by_name):
    """Whether one process and ranks of the same grains ended with the same bits, in every round; None if one failed."""
    chains = [run.get("parameters_chain") for name in (GRAINS, RANKS) for run in by_name.get(name, [])]
    return None if not chains or None in chains else len(set(chains)) == 1


def rows(cases, results, contestants):
    """Markdown: a row per case and contestant; rates, and how many times the rate of one process and of the peer."""
    heads = ["network", "size", "batch", "dtype", "what", "samples/s", "x one process", "x DDP", "hidden", "weights"]
    body = []
    for case in cases:
        by_name = results[contest.key(case)]
        for name in contestants:
            beside = [contest.ratio(by_name[name], by_name.get(other, [])) for other in (ALONE, DDP)]
            hidden = [run["hidden_share"] for run in by_name[name] if "hidden_share" in run]
            same = same_weights(by_name) if name == RANKS else None
            body.append([
                case["model"], str(case["size"]), str(case["batch"]), case["dtype"], name,
                contest.rate_cell(by_name[name]),
                *("-" if times is None else f"{times:.3f}" for times in beside),
                f"{100 * sum(hidden) / len(hidden):.0f} %" if hidden else "",
                "" if same is None else ("same bits" if same else "DIFFERENT"),
            ])  # fmt: skip
    return contest.markdown(heads, body)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlpipe")
    parser.add_argument("--cases", nargs="+", type=parsed, default=["resnet18_cifar:32:64", "resnet18:224:16"])
    parser.add_argument("--dtypes", nargs="+", choices=["f32", "bf16"], help="default: f32, and bf16 with AVX-512's bf16")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch", type=pathlib.Path, metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--timeout", type=float, default=600, help="seconds until a run counts as failed")
    parser.add_argument("--out", type=pathlib.Path, help="write the table here, and every round to FILE.json beside it")
    args = parser.parse_args()
    args.cases = [parsed(case) if isinstance(case, str) else case for case in args.cases]
    return args


def make_contestants(args, data, cores):
    """Contestants, and why the peer is left out, if it is."""

    def ours(ranks, grains):
        def command(case):
            words = ["--data", data[case["size"]], "--steps", args.steps, "--ranks", ranks, "--grains", grains,
                     "--threads", cores // ranks]  # fmt: skip
            words += [word for key in ("model", "size", "batch", "dtype") for word in (f"--{key}", case[key])]
            return [sys.executable, str(here / "launch.py"), args.dlpipe, *map(str, words)]

        return command

    each = cores // args.ranks
    contestants = [
        contest.Contestant(ALONE, f"{cores} threads, --grains 1", ours(1, 1)),
        contest.Contestant(GRAINS, f"{cores} threads, --grains {args.ranks}", ours(1, args.ranks)),
        contest.Contestant(RANKS, f"{args.ranks} x {each} thread(s), --grains {args.ranks}", ours(args.ranks, args.ranks)),
    ]
    if args.no_peer:
        return contestants, ["PyTorch: not asked for"]
    try:
        peer = environment.read_peer(here.parent / "peers" / "train" / "trainers" / "pytorch_eager.py")
        python = args.torch or environment.prepare(peer, environment.default_root())
    except environment.Unavailable as reason:
        return contestants, [f"PyTorch: {reason}"]

    def peers(case):
        words = [word for key in ("model", "size", "batch", "dtype") for word in (f"--{key}", str(case[key]))]
        more = ["--ranks", str(args.ranks), "--threads", str(each), "--steps", str(args.steps)]
        return [str(python), str(here / "ddp.py"), *words, *more]

    contestants.append(contest.Contestant(DDP, f"{args.ranks} x {each} thread(s)", peers))
    return contestants, []


def main():
    args = arguments()
    about, cores = machine.describe(), len(os.sched_getaffinity(0))
    if cores < args.ranks:
        sys.exit(f"[scaling] {args.ranks} ranks need as many cores; this process may use {cores}")
    dtypes = args.dtypes or ["f32"] + (["bf16"] if "avx512_bf16" in about["isa"] else [])
    cases = [{**case, "dtype": dtype} for case in args.cases for dtype in dtypes]
    with tempfile.TemporaryDirectory() as folder:
        data = {}
        for size in {case["size"] for case in cases}:
            (pathlib.Path(folder) / str(size)).mkdir()
            data[size] = launch.make_data(args.dlpipe, pathlib.Path(folder) / str(size), size)
        contestants, left_out = make_contestants(args, data, cores)
        results = contest.play(contestants, cases, args.rounds, args.timeout)
    versions = {}
    for by_name in results.values():
        for runs in by_name.values():
            for run in runs:
                versions.update(run.get("versions", {}))
    median_load, most_load = contest.other_load(results)
    lines = [
        f"# Ranks beside one process, {datetime.date.today()}",
        "",
        f"Machine: {machine.line(about)}",
        f"{args.rounds} interleaved round(s) of {args.steps} steps; samples/s as median (min-max) over rounds; ratios are medians "
        "over rounds. dlpipe's steps are all of a run's, the first included, from images; PyTorch's come after two untimed "
        "ones, on one cached batch.",
        f"Other programs kept {median_load:.2f} cores busy (median; at most {most_load:.2f}).",
        *[f"{name} {version}" for name, version in versions.items()],
        "",
        *[f"- {one.name}: {one.about}" for one in contestants],
        "",
        *rows(cases, results, [one.name for one in contestants]),
        "",
        *[f"Left out: {reason}" for reason in left_out],
        *[f"Failed: {reason}" for reason in contest.failures(results)],
    ]
    record = {"machine": about, "settings": contest.settings(args), "left_out": left_out, "results": results}
    contest.publish(lines, record, args.out)
    return 1 if any(contest.failures(results)) or any(same_weights(r) is False for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
