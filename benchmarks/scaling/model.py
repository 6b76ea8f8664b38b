#!/usr/bin/env python3
"""Does a model of a step (step_model.py), fitted to some settings, say how long others take? Then: what it says of machines
that are not here.

    benchmarks/scaling/model.py DLPIPE [--steps 6] [--out FILE]      # measures, fits, compares, projects
    benchmarks/scaling/model.py --from FILE.json                     # fits and projects again from what was measured

Ranks in network namespaces of a limited rate and delay (namespaces.py), 14 settings: the model's five numbers are fitted to
eight of them, the other six it has never seen. Then projections, which nobody has measured. Linux, root; a few minutes on two
cores.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

import launch
import namespaces
import step_model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import contest  # noqa: E402
import machine  # noqa: E402

# (ranks, samples per rank, bucket in MB, Mbit/s, ms)
FITTED = [
    (2, 8, 25, 1000, 0.2), (2, 16, 25, 1000, 0.2), (2, 32, 4, 1000, 0.2), (2, 16, 1, 1000, 0.2),
    (2, 16, 4, 500, 0.2), (4, 8, 25, 1000, 0.2), (4, 16, 1, 1000, 0.2), (4, 8, 4, 500, 1.0),
]  # fmt: skip
PREDICTED = [
    (2, 32, 25, 1000, 0.2), (2, 8, 4, 1000, 0.2), (2, 16, 25, 250, 0.2), (2, 24, 2, 500, 1.0),
    (4, 16, 4, 1000, 0.2), (4, 8, 25, 500, 0.2),
]  # fmt: skip
TARGET = 0.10  # of a measured step
# What is fitted, and where the search begins.
START = {"forward_s_per_sample": 0.01, "beside_s": 0.05, "own_alpha_s": 2e-4, "wire_factor": 1.1, "core_s_per_byte": 1e-9}


def layers_of(dlpipe, name, size):
    """[(bytes of parameters, flops)] of a model's layers, first to last."""
    words = [dlpipe, "info", "--model", name, "--size", size, "--classes", 10, "--json"]
    return [(4 * layer["parameters"], layer["flops"]) for layer in json.loads(launch.run(words))["layers"]]


def machine_of(values, setting, backward_over_forward):
    """The model's machine at a setting: the network's part of alpha and beta is known, the rest is fitted."""
    _, _, _, mbit_s, delay_ms = setting
    return step_model.Machine(
        forward_s_per_sample=values["forward_s_per_sample"],
        backward_s_per_sample=values["forward_s_per_sample"] * backward_over_forward,
        beside_s=values["beside_s"],
        alpha_s=values["own_alpha_s"] + delay_ms / 1e3,
        beta_s_per_byte=values["wire_factor"] * 8 / (mbit_s * 1e6),
        core_s_per_byte=values["core_s_per_byte"],
    )


def predict(values, setting, record):
    ranks, samples, bucket_mb, _, _ = setting
    buckets = step_model.bucket_up(record["layers"], bucket_mb * 1e6)
    each = max(1.0, ranks / record["cores"])
    return step_model.step(machine_of(values, setting, record["backward_over_forward"]), ranks, samples, buckets, each)


def minimum(cost, start):
    """A point {name: positive value} near `start` with a small cost: one value at a time, in ever smaller factors."""
    point, best, factor = dict(start), cost(start), 2.0
    while factor > 1.0005:
        moved = False
        for name, way in itertools.product(point, (factor, 1 / factor)):
            tried = {**point, name: point[name] * way}
            if (found := cost(tried)) < best:
                point, best, moved = tried, found, True
        if not moved:
            factor = math.sqrt(factor)
    return point


def fitted(record):
    """The model's numbers: least squares of the logarithms of predicted over measured steps, over FITTED alone."""

    def cost(values):
        return sum(
            math.log(predict(values, setting, record)["step_s"] / median_of(record, setting, "step_s")) ** 2
            for setting in FITTED
        )

    return minimum(cost, START)


def label(setting):
    return " ".join(f"{value:g}" for value in setting)


def measure(args):
    """{cores, layers, backward_over_forward, measured: {setting: [what each round gave]}, ...}."""
    measured, forward, backward = {}, 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        data = launch.make_data(args.dlpipe, pathlib.Path(folder), args.size)
        settings = [*FITTED, *PREDICTED]
        for turn, setting in itertools.product(range(args.rounds), settings):
            print(f"[scaling] round {turn + 1} of {args.rounds}: {label(setting)}", file=sys.stderr, flush=True)
            ledger = measure_once(args, data, setting)
            spans = launch.spans_ms(ledger)
            if setting in FITTED:
                forward += spans["forward"]
                backward += spans["backward"]
            measured.setdefault(label(setting), []).append({
                "step_s": launch.step_seconds(ledger),
                "hidden_share": ledger["communication"]["hidden_share"],
                "spans_ms": spans,
            })  # fmt: skip
    return {
        "model": args.model,
        "size": args.size,
        "steps": args.steps,
        "rounds": args.rounds,
        "cores": len(os.sched_getaffinity(0)),
        "machine": machine.describe(),
        "layers": layers_of(args.dlpipe, args.model, args.size),
        "resnet50": layers_of(args.dlpipe, "resnet50", 224),
        "backward_over_forward": backward / forward,
        "measured": measured,
    }


def measure_once(args, data, setting):
    """The ledger of a run at this setting."""
    ranks, samples, bucket_mb, mbit_s, delay_ms = setting
    with namespaces.Nodes(ranks, f"{mbit_s}mbit", delay_ms) as nodes:
        ledger, _ = launch.train(
            args.dlpipe, data, model=args.model, size=args.size, batch=samples * ranks, steps=args.steps,
            grains=ranks, ranks=ranks, threads=1, launcher=nodes.launcher(ranks), more=["--bucket-mb", bucket_mb],
        )  # fmt: skip
    return ledger


def median_of(record, setting, key):
    """Over rounds."""
    return statistics.median(run[key] for run in record["measured"][label(setting)])


def compared(record, values):
    """(lines of the table, errors of the settings the model was not fitted to)."""
    rows, errors = [], []
    for setting in [*FITTED, *PREDICTED]:
        said, step_s = predict(values, setting, record), median_of(record, setting, "step_s")
        error = said["step_s"] / step_s - 1
        if setting in PREDICTED:
            errors.append(error)
        rows.append([
            "fitted" if setting in FITTED else "NOT fitted", *(f"{value:g}" for value in setting),
            f"{1e3 * step_s:.0f}", f"{1e3 * said['step_s']:.0f}", f"{100 * error:+.1f} %",
            f"{100 * median_of(record, setting, 'hidden_share'):.0f} %", f"{100 * said['hidden_share']:.0f} %",
        ])  # fmt: skip
    heads = ["", "ranks", "samples per rank", "bucket, MB", "Mbit/s", "delay, ms", "measured, ms", "model, ms", "error",
             "hidden, measured", "hidden, model"]  # fmt: skip
    return contest.markdown(heads, rows), errors


# Machines that were not measured: (what, ranks, samples per rank, samples/s of one, alpha in s, bytes/s of its network).
# Rates of GPUs and networks are assumptions, chosen as round numbers of the data sheets' order.
GPU_RATE = 2500.0
ELSEWHERE = [
    ("8 x H200, NVLink", 8, 64, GPU_RATE, 10e-6, 400e9),
    ("8 x H200, NVLink", 8, 256, GPU_RATE, 10e-6, 400e9),
    ("64 machines of one H200, 400 Gbit/s", 64, 64, GPU_RATE, 20e-6, 50e9),
    ("64 machines of one H200, 100 Gbit/s", 64, 64, GPU_RATE, 20e-6, 12.5e9),
    ("64 machines of one H200, 10 Gbit/s", 64, 256, GPU_RATE, 50e-6, 1.25e9),
]


def projected(record, values):
    """Lines of a table: ResNet-50 at 224 on GPUs of an assumed rate, and this machine's model on 64 machines like it."""
    rows, ratio = [], record["backward_over_forward"]

    def add(what, name, ranks, samples, buckets, there):
        one = step_model.step(there, 1, samples, buckets)["step_s"]
        many = step_model.step(there, ranks, samples, buckets)
        rows.append([
            what, name, str(ranks), str(samples), f"{1e3 * one:.1f}", f"{1e3 * many['step_s']:.1f}",
            f"{ranks * samples / many['step_s']:.0f}", f"{100 * one / many['step_s']:.0f} %", f"{100 * many['hidden_share']:.0f} %",
        ])  # fmt: skip

    buckets = step_model.bucket_up(record["resnet50"], 25e6)
    for what, ranks, samples, rate, alpha_s, bytes_per_s in ELSEWHERE:
        forward = 1 / rate / (1 + ratio)
        there = step_model.Machine(forward, ratio * forward, 0.0, alpha_s, 1 / bytes_per_s, 0.0)
        add(what, "resnet50 at 224", ranks, samples, buckets, there)
    buckets = step_model.bucket_up(record["layers"], 4e6)
    for gbit_s, samples in ((1, 64), (10, 16), (10, 64), (25, 16)):
        there = machine_of(values, (0, 0, 0, 1000 * gbit_s, 0.05), ratio)
        name = f"{record['model']} at {record['size']}"
        add(f"64 machines, a core each as here, {gbit_s} Gbit/s", name, 64, samples, buckets, there)
    heads = ["PROJECTION, not measured", "model", "ranks", "samples per rank", "step of one, ms", "step, ms", "samples/s",
             "of linear", "hidden"]  # fmt: skip
    return contest.markdown(heads, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlpipe", nargs="?")
    parser.add_argument("--model", default="resnet18_cifar")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1, help="each setting so often, in turn; medians count")
    parser.add_argument("--from", dest="source", type=pathlib.Path, help="a FILE.json of an earlier run: measures nothing")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables here, and what was measured to FILE.json beside it")
    args = parser.parse_args()
    if (args.dlpipe is None) == (args.source is None):
        parser.error("give DLPIPE or --from FILE.json")
    try:
        record = json.loads(args.source.read_text()) if args.source else measure(args)
    except namespaces.Impossible as reason:
        sys.exit(f"[scaling] not to be done on this machine: {reason}")
    values = fitted(record)
    table, errors = compared(record, values)
    worst = max(abs(error) for error in errors)
    contest.publish([
        "# A model of a step, fitted to eight settings, beside six others",
        "",
        f"Machine: {machine.line(record['machine'])}",
        f"{record['model']} at {record['size']}, {record['steps']} steps per setting, {record['rounds']} round(s), one thread per rank on {record['cores']} "
        f"cores; backward over forward, measured: {record['backward_over_forward']:.2f}.",
        "Fitted: " + ", ".join(f"{name} {value:.3g}" for name, value in values.items()) + ".",
        "",
        *table,
        "",
        f"Largest error at a setting it was not fitted to: {100 * worst:.1f} % (target {100 * TARGET:.0f} %"
        f"{', met' if worst <= TARGET else ', MISSED'}); {sum(abs(e) <= TARGET for e in errors)} of {len(errors)} within it.",
        "",
        "## Projections",
        "",
        f"Nobody has measured these. Assumed: a GPU computes {GPU_RATE:.0f} images per second by itself, networks give what the "
        "table of model.py says, and nothing else is in the way. They answer what communication alone would cost.",
        "",
        *projected(record, values),
    ], record, args.out)  # fmt: skip


if __name__ == "__main__":
    main()
