#!/usr/bin/env python3
"""Sends signals to trainings at random moments: each one has to end by itself and leave a checkpoint that can be read.

oneDNN's f32 products put their stack pointer into the heap while they run. A handler that the system calls there overwrites
the heap, and the program ends by "corrupted size vs. prev_size". A round draws a model, a type of numbers, a signal and a moment.
The signals come in bursts, so that many meet a kernel. With --python FOLDER (the one that holds the package dlpipe) every other
round is `dlpipe.train` under the Python that runs this, whose handlers are Python's, and which has a timer of the user's running.

  signals.py --program PROGRAM --count 4                                        four rounds: the test
  signals.py --program PROGRAM --count 200 --python build/python/python
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HANGS_AFTER_S = 300
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # nohup and & have some ignored, and so would children
STOPPED = 3  # exit code: stopped by a signal, after saving
PYTHON_PROGRAM = """
import signal, sys
alarms = 0
def on_alarm(number, frame):
    global alarms
    alarms += 1
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
import dlpipe
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
try:
    dlpipe.train(sys.argv[1], **options)
except dlpipe.CancelledError:
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.exit(3 if alarms > 0 else "no alarm came")
"""

# Name, dataset, what it needs beside, and whether its products have long sums.
MODELS = (
    ("gpt_char_tiny", "text", {"batch": "16", "optimizer": "adamw", "lr": "0.003"}),
    ("vit_small_cifar", "images", {"batch": "4", "optimizer": "adamw", "lr": "0.001"}),
    ("mlp", "images", {"batch": "32", "lr": "0.01"}),
    ("lenet", "images", {"batch": "32", "lr": "0.01"}),
    ("cifarnet", "images", {"batch": "8", "lr": "0.01"}),
    ("resnet18_cifar", "images", {"batch": "4", "lr": "0.01"}),
)


class Finding(Exception):
    """What should not be."""


class Signals:
    def __init__(self, options, root):
        self.program, self.package, self.root = os.path.abspath(options.program), options.python, root
        self.random = random.Random(options.seed)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("DLPIPE_")}
        self.environment.update(DLPIPE_KERNELS="rules", XDG_CACHE_HOME=str(root / "cache"))
        if self.package:
            self.environment["PYTHONPATH"] = os.path.abspath(self.package)

    def must(self, *words):
        done = subprocess.run([self.program, *map(str, words)], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Finding(f"`{' '.join(map(str, words))}`: exit code {done.returncode}: {done.stderr[-1000:]}")
        return done.stdout

    def make_data(self):
        self.must("synth", self.root / "drawn", "--per-class", "40", "--size", "32")
        self.must("ingest", self.root / "drawn", self.root / "images")
        (self.root / "text.txt").write_text("".join(self.random.choice("abcdefgh ,\n") for _ in range(40000)))
        self.must("ingest", self.root / "text.txt", self.root / "text", "--length", "64")

    def draw(self, number):
        """The first rounds are those that once failed most."""
        name, data, more = MODELS[number // 2 % 2 if number < 4 else self.random.randrange(len(MODELS))]
        return {
            "way": "python" if self.package and number % 2 == 1 else "program",
            "model": name,
            "data": str(self.root / data),
            "options": {"dtype": "f32" if number < 4 else self.random.choice(("f32", "f32", "bf16")), "model": name, **more},
            "signal": self.random.choice(STOPPING),
            "after": self.random.randrange(1, 6),
            "wait_s": self.random.random() * 0.1,
            "burst": [self.random.random() * 0.004 for _ in range(30)],
        }

    def start(self, case, run, log):
        options = {**case["options"], "epochs": "100000", "checkpoint-every": "never", "val-every": "never",
                   "augment": "hflip" if case["data"].endswith("images") else None, "threads": "2", "out": str(run)}  # fmt: skip
        options = {name: value for name, value in options.items() if value is not None}
        if case["way"] == "python":
            case["signal"] = signal.SIGINT  # of the others Python ends at once, as of any program without a handler
            words = [sys.executable, "-c", PYTHON_PROGRAM, case["data"]]
            words += [word for name, value in options.items() for word in (name.replace("-", "_"), value)]
        else:
            words = [self.program, "train", "--data", case["data"]]
            words += [word for name, value in options.items() for word in ("--" + name, value)]
        return subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in STOPPING])  # fmt: skip

    @staticmethod
    def steps(run):
        try:
            return (run / "metrics.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def round(self, case, run):
        log = open(self.root / "log", "w+", encoding="utf-8")
        process = self.start(case, run, log)
        try:
            deadline = time.monotonic() + HANGS_AFTER_S
            while self.steps(run) < case["after"] and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(case["wait_s"])
            if process.poll() is None:
                process.send_signal(case["signal"])
            for pause_s in case["burst"]:  # of HUP any number is one; Python's timer sends its own
                time.sleep(pause_s)
                if case["way"] == "program" and process.poll() is None:
                    process.send_signal(signal.SIGHUP)
            try:
                exit_code = process.wait(timeout=HANGS_AFTER_S)
            except subprocess.TimeoutExpired:
                exit_code = "none: it hangs"
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        if exit_code != STOPPED:
            raise Finding(f"exit code {exit_code}: {log.read()[-600:]}")
        state = json.loads((run / "checkpoints/last/state.json").read_text())
        if state["trainer"]["step"] < case["after"]:
            raise Finding(f"the checkpoint is of step {state['trainer']['step']}, and step {case['after']} was done")
        self.must("info", run / "checkpoints/last")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=4, help="rounds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", help="folder with the package dlpipe: every other round in Python")
    parser.add_argument("--keep", help="folder for runs that failed; default: nothing is kept")
    options = parser.parse_args()
    root = pathlib.Path(tempfile.mkdtemp(prefix="dlpipe-signals-"))
    failures, done = [], {}
    try:
        signals = Signals(options, root)
        signals.make_data()
        for number in range(options.count):
            case = signals.draw(number)
            run = root / f"run{number}"
            kind = f"{case['way']} {case['model']} {case['options']['dtype']}"
            count = done.setdefault(kind, [0, 0])
            count[0] += 1
            try:
                signals.round(case, run)
                count[1] += 1
            except (Finding, OSError, ValueError, KeyError) as finding:
                failures.append(f"round {number}, {kind}, {signal.Signals(case['signal']).name}: {finding}")
                print("FAILED", failures[-1], file=sys.stderr, flush=True)
                if options.keep and run.exists():
                    shutil.copytree(run, pathlib.Path(options.keep) / f"signals-{number}", symlinks=True)
            shutil.rmtree(run, ignore_errors=True)
    except Finding as finding:
        sys.exit(f"signals: {finding}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for kind, (rounds, saved) in sorted(done.items()):
        print(f"{kind}: {saved} checkpoints of {rounds} runs")
    print(f"signals: seed {options.seed}, {options.count} runs, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
