"""One run of `dlpipe train` in one or several processes, and what its ledger and receipt say of it. Standard library only.

As a program it prints one JSON line, as every contestant of benchmarks/peers does:

    launch.py DLPIPE --data DATA --model resnet18_cifar --size 32 --batch 64 --steps 8 --ranks 2 --threads 1
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

# What the ledger counts that is not training.
ASIDE = ("start", "validation", "checkpoint")


def run(words):
    """What the command printed; ends this program with the command's last lines where it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        sys.exit(f"{shlex.join(map(str, words))}\n{last}")
    return done.stdout


def make_data(dlpipe, folder, size, per_class=16):
    """A dataset of drawn images, a little larger than what the model sees."""
    run([dlpipe, "--quiet", "synth", folder / "images", "--per-class", per_class, "--size", size + size // 4])
    run([dlpipe, "--quiet", "ingest", folder / "images", folder / "data"])
    return folder / "data"


def local_ranks(ranks):
    """The command that starts ranks on this machine's cores, whichever they are: none for one process."""
    if ranks == 1:
        return []
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *as_root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]


def train(dlpipe, data, *, model, size, batch, steps, grains, ranks, threads, dtype="f32", launcher=None, more=()):
    """(ledger, receipt) of a run that does nothing but train, in `ranks` processes of `threads` threads each."""
    launcher = local_ranks(ranks) if launcher is None else launcher
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        run([
            *launcher, dlpipe, "--quiet", "train", "--data", data, "--out", out, "--model", model,
            "--augment", f"rrc({size})", "--batch", batch, "--grains", grains, "--threads", threads, "--dtype", dtype,
            "--max-steps", steps, "--epochs", 1_000_000, "--seed", 1, "--schedule", "constant", "--lr", 0.001,
            "--kernels", "rules", "--val-every", "never", "--checkpoint-every", "never", *more,
        ])  # fmt: skip
        return tuple(json.loads((out / file).read_text()) for file in ("ledger.json", "receipt.json"))


def step_seconds(ledger):
    """Mean over the steps, the first included: training without start, validation and checkpoints."""
    return sum(row["seconds"] for name, row in ledger["spans"].items() if name not in ASIDE) / ledger["steps"]


def spans_ms(ledger):
    """{span: milliseconds per step} of training."""
    return {
        name: 1e3 * row["seconds"] / ledger["steps"] for name, row in ledger["spans"].items() if name not in ASIDE
    }


def gradient_bytes(dlpipe, model, size):
    words = [dlpipe, "info", "--model", model, "--size", size, "--classes", 10, "--json"]
    return 4 * json.loads(run(words))["trainable_parameters"]


def summary(ledger, receipt, batch):
    seconds = step_seconds(ledger)
    result = {
        "samples_per_s": batch / seconds,
        "step_ms": 1e3 * seconds,
        "spans_ms": spans_ms(ledger),
        "batches_chain": receipt["batches_chain"],
        "parameters_chain": receipt["parameters_chain"],
    }
    sent = ledger.get("communication")
    if sent:
        result["bytes_sent_per_step"] = sent["bytes_sent"] / ledger["steps"]
        result["communication_ms"] = 1e3 * sent["busy_seconds"] / ledger["steps"]
        result["hidden_share"] = sent["hidden_share"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlpipe")
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="f32")
    for name in ("size", "batch", "steps", "ranks", "threads", "grains"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = vars(parser.parse_args())
    ledger, receipt = train(options.pop("dlpipe"), options.pop("data"), **options)
    print(json.dumps(summary(ledger, receipt, options["batch"])))


if __name__ == "__main__":
    main()
