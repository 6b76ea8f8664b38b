#!/usr/bin/env python3
"""Kills ranks of `dlpipe launch --elastic` at random moments, and compares the run with an undisturbed one of one process.

One run all along: it is launched with 8 ranks; whenever one of them was killed the launcher goes on with half as many, and
when the last one was killed the run is launched again with 8. A moment is drawn from the seconds after a launch: starting,
training, validating, in a checkpoint. A kill comes at the latest when its share of the run's steps is done, so that a fast
machine's run isn't over before the last one. What has to hold:

  - the launcher ends by itself, with exit code 0, or 1 where no rank is left, and says how the run goes on;
  - the run ends with the weights, the losses and the receipt of the undisturbed run of one process, bit for bit.

  elastic.py --program PROGRAM --count 3                           as many kills: the test
  elastic.py --program PROGRAM --count 20 --report FILE.md
"""

import argparse
import hashlib
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

import commit

RANKS = 8
HANGS_AFTER_S = 300
NOT_HERE = 77  # ctest: skipped


class Finding(Exception):
    """What should not be."""


class Runs:
    def __init__(self, program, root):
        self.program, self.root = program, root
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("DLPIPE_")}
        self.environment.update(DLPIPE_KERNELS="rules", XDG_CACHE_HOME=str(root / "cache"))

    def must(self, *words):
        done = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Finding(f"`{words[0]}` without a kill: exit code {done.returncode}: {done.stderr[-1000:]}")

    def train(self, out, epochs):
        return ["train", "--data", str(self.root / "data"), "--model", "lenet", "--batch", "32", "--grains", "8",
                "--epochs", str(epochs), "--threads", "1", "--lr", "0.02", "--augment", "pad_crop(32,4) hflip",
                "--checkpoint-every", "2steps", "--val-every", "1epoch", "--peer-timeout", "20", "--out", str(out)]

    def launch(self, words):
        log = open(self.root / "launch.log", "w+", encoding="utf-8")
        return log, subprocess.Popen([self.program, "launch", "--np", str(RANKS), "--elastic", "--", *words],
                                     env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)

    def ranks_of(self, launcher):
        """{process: rank} below the launcher, by the system's list."""
        parents, found = {}, {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                stat = (entry / "stat").read_text()
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            state, parent = stat.rsplit(")", 1)[1].split()[:2]
            parents[int(entry.name)] = int(parent)
            rank = [v for v in environment.split(b"\0") if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
            if rank and state != "Z":
                found[int(entry.name)] = int(rank[0].split(b"=")[1])

        def is_below(process):
            while process in parents and process != launcher:
                process = parents[process]
            return process == launcher
        return {process: rank for process, rank in found.items() if is_below(process)}


def digest_of_run(run):
    digest = hashlib.sha256()
    for name in ("metrics.jsonl", "receipt.json", "checkpoints/last/model.safetensors",
                 "checkpoints/last/optimizer.safetensors", "checkpoints/best/model.safetensors"):
        digest.update((run / name).read_bytes())
    return digest.hexdigest()


def steps_of(run):
    try:
        return sum(1 for line in (run / "metrics.jsonl").read_text().splitlines(True) if line.endswith("\n"))
    except OSError:
        return 0


def wait_until(runs, launcher, gone=None, seconds=0.0, is_late=lambda: False):
    """Until the time is over or it is late, none of the processes `gone` is left, or the launcher has ended; false: it has."""
    until = time.monotonic() + seconds
    hung = time.monotonic() + HANGS_AFTER_S
    while launcher.poll() is None:
        if gone is not None and not gone & runs.ranks_of(launcher.pid).keys():
            return True
        if gone is None and (time.monotonic() >= until or is_late()):
            return True
        if time.monotonic() > hung:
            raise Finding(f"the launcher has not noticed a kill for {HANGS_AFTER_S} s")
        time.sleep(0.005)
    return False


def kill_one(runs, launcher, rng, longest_s, last_step, kills, run):
    """Kills a rank of those that run, at a random moment, or when `last_step` is done; false: the launcher has ended."""
    ranks = {}
    while not ranks:  # mpirun starts them
        if not wait_until(runs, launcher, seconds=0.01):
            return False
        ranks = runs.ranks_of(launcher.pid)
    if not wait_until(runs, launcher, seconds=rng.uniform(0, longest_s), is_late=lambda: steps_of(run) >= last_step):
        return False
    ranks = runs.ranks_of(launcher.pid)
    if not ranks:
        return True
    process = rng.choice(sorted(ranks, key=ranks.get))
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return True
    kills.append({"ranks": len(ranks), "rank": ranks[process], "steps": steps_of(run)})
    return wait_until(runs, launcher, gone=set(ranks))  # mpirun ends the others


def disturbed_run(runs, count, seed, epochs, steps, longest_s):
    """The kills, and how often it was launched."""
    rng = random.Random(seed)
    run = runs.root / "killed"
    kills, launches = [], 0
    while True:
        launches += 1
        goes_on = (run / "config.toml").exists()
        log, launcher = runs.launch(["train", "--resume", str(run)] if goes_on else runs.train(run, epochs))
        with log:
            try:
                while len(kills) < count:
                    last_step = steps * (len(kills) + 1) * 9 // (count * 10)
                    if not kill_one(runs, launcher, rng, longest_s, last_step, kills, run):
                        break
                code = launcher.wait(HANGS_AFTER_S)
            except subprocess.TimeoutExpired:
                raise Finding(f"the launcher did not end in {HANGS_AFTER_S} s") from None
            finally:
                if launcher.poll() is None:
                    launcher.kill()
            log.seek(0)
            text = log.read()
        if code == 0:
            return run, kills, launches
        if code != 1 or "continue with: dlpipe launch" not in text:
            raise Finding(f"after kill {len(kills)} the launcher ended with {code}: {text[-1000:]}")
        if len(kills) >= count and launches > count + 1:
            raise Finding(f"nobody kills it any more, and it fails: {text[-1000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=3, help="ranks to kill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a folder for what a finding left")
    parser.add_argument("--report", help="a Markdown file for the figures")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    told = json.loads(subprocess.run([program, "info", "--json"], capture_output=True, text=True, check=True).stdout)
    if told["ranks"] == "built without MPI" or not shutil.which("mpirun"):
        print("elastic: not tried here: " + ("no mpirun" if told["ranks"] != "built without MPI" else told["ranks"]))
        return NOT_HERE
    with tempfile.TemporaryDirectory(prefix="dlpipe-elastic-") as name:
        runs = Runs(program, pathlib.Path(name))
        begin = time.monotonic()
        try:
            runs.must("synth", str(runs.root / "images"), "--per-class", "20", "--size", "32")
            runs.must("ingest", str(runs.root / "images"), str(runs.root / "data"), "--split", "0.8,0.2")
            epochs = 20 + 15 * arguments.count
            runs.must(*runs.train(runs.root / "one", epochs))
            expected = digest_of_run(runs.root / "one")
            steps = steps_of(runs.root / "one")
            run, kills, launches = disturbed_run(runs, arguments.count, arguments.seed, epochs, steps, longest_s=4)
            if len(kills) < arguments.count:
                raise Finding(f"the run was over after {len(kills)} kills")
            if digest_of_run(run) != expected:
                raise Finding("the run is another than that of one process")
        except Finding as finding:
            if arguments.keep:
                shutil.copytree(name, pathlib.Path(arguments.keep) / "elastic", symlinks=True, dirs_exist_ok=True)
            print(f"elastic: seed {arguments.seed}: {finding}".replace(name, "FOLDER"))
            return 1
        chain = json.loads((run / "receipt.json").read_text())["parameters_chain"]
        where = ", ".join(f"{k['rank']} of {k['ranks']} after step {k['steps']}" for k in kills)
        text = (f"# Ranks killed at random moments, and what became of the run\n\n"
                f"`tests/attack/elastic.py --program PROGRAM --count {arguments.count} --seed {arguments.seed}`, "
                f"{told['build']}, commit {commit.commit_of_this_tree()}.\n\n"
                f"{len(kills)} ranks of `dlpipe launch --np {RANKS} --elastic` were killed with SIGKILL; it was launched {launches} "
                f"{'time' if launches == 1 else 'times'}, {steps_of(run)} steps, {time.monotonic() - begin:.0f} s with the undisturbed run. Weights, optimizer, losses "
                f"and receipt are those of an undisturbed run of one process, bit for bit (parameters_chain {chain}).\n\n"
                f"Killed: rank {where}.\n")
    print(text)
    if arguments.report:
        pathlib.Path(arguments.report).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
