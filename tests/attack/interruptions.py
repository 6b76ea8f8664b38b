#!/usr/bin/env python3
"""Ends dlpipe at bad moments and lets system calls fail, and looks at what is left.

Every round works in a fresh folder: a command is killed (at the n-th call that changes files, or at a random moment),
or one of its system calls fails (ENOSPC, EIO, EINTR, short, EMFILE, ENOMEM; fault_preload.cpp does so). Then the same
work is asked for again without a fault, as a user would. What has to hold:

  - the program ends by itself, with exit code 0 or, and then with a line "dlpipe: [...] ...", 1; never by another
    signal than the one that was sent, never without an end;
  - a success is a real one: what it made is what an undisturbed command makes, byte for byte;
  - the second command goes on or begins again, and what it makes is the same, byte for byte;
  - of a run: once there is a checkpoint there always is one, and the best one that it names.

A round is described by its scenario, what was done, and n, all from one seed: --only N runs a single one again.

  interruptions.py --program PROGRAM                                 some rounds of each kind: the test
  interruptions.py --program PROGRAM --count 1000 --jobs 4 --report FILE.md
"""

import argparse
import collections
import concurrent.futures
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
import formats

FAULTS = ("EIO", "ENOSPC", "EINTR", "short", "EMFILE", "ENOMEM")
ENOUGH = 20  # rounds for all kinds to be among them
HANGS_AFTER_S = 300  # a round takes a second; this is for machines that are very busy


class Finding(Exception):
    """What should not be."""


class Attack:
    def __init__(self, program, preload, root):
        self.program = program
        self.preload = preload
        self.root = root
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("DLPIPE_")}
        self.environment.update(DLPIPE_KERNELS="rules", XDG_CACHE_HOME=str(root / "cache"))

    def run(self, words, fault=None, at=None, kill_after_s=None, plain=False, count=None):
        """Runs `dlpipe WORDS` to its end: (exit code, or minus the signal; stderr; seconds)."""
        environment = dict(self.environment)
        if fault or plain:
            environment.update(LD_PRELOAD=self.preload, DLPIPE_FAULT=fault or "none")
        if at:
            environment["DLPIPE_FAULT_AT"] = str(at)
        if plain:
            environment["DLPIPE_FAULT_PLAIN"] = "1"
        if count:
            environment["DLPIPE_FAULT_COUNT"] = str(count)
        begin = time.monotonic()
        with tempfile.TemporaryFile() as err:
            process = subprocess.Popen([self.program, *words], env=environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=err)
            try:
                process.wait(kill_after_s if kill_after_s is not None else HANGS_AFTER_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                if kill_after_s is None:
                    raise Finding(f"{' '.join(words[:1])} did not end in {HANGS_AFTER_S} s") from None
            err.seek(0)
            text = err.read().decode(errors="replace")
        return process.returncode, text, time.monotonic() - begin

    def must(self, words):
        code, err, seconds = self.run(words)
        if code != 0:
            raise Finding(f"`{' '.join(words)}` without a fault: exit code {code}: {err[-1000:]}")
        return seconds


def digest_of_tree(root, leave_out=()):
    """The names and bytes of all files below `root`."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.name in leave_out or not path.is_file():
            continue
        digest.update(f"{name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Synth:
    name = "synth"
    plain = False  # whether renameat2 knows no flags

    def __init__(self, attack):
        self.attack = attack

    def prepare(self, folder):
        pass

    def words(self, folder):
        return ["synth", str(folder / "out"), "--per-class", "3", "--size", "16", "--jobs", "1"]

    def again(self, folder):
        # DST exists only whole, and then the command refuses it.
        if not (folder / "out").exists():
            self.attack.must(self.words(folder))

    def check(self, folder):
        pass

    def result(self, folder):
        return digest_of_tree(folder / "out", {".dlpipe-partial"})


class Export(Synth):
    name = "export"

    def words(self, folder):
        return ["export", str(self.attack.root / "data"), str(folder / "out")]  # several splits


class Ingest(Synth):
    name = "ingest"

    def words(self, folder):
        return ["ingest", str(self.attack.root / "images"), str(folder / "out"), "--split", "0.7,0.3", "--jobs", "1"]

    def again(self, folder):
        self.attack.must(self.words(folder))

    def result(self, folder):
        return digest_of_tree(folder / "out", {".dlpipe-partial", "provenance.json", "lock.mdb"})


class IngestOf(Ingest):
    """The same from what other programs write."""

    def __init__(self, attack, form):
        super().__init__(attack)
        self.name = "ingest of " + form
        self.source, _, files = formats.sources()[form]
        self.images = attack.root / "sources" / form
        formats.write(self.images, files)

    def words(self, folder):
        return ["ingest", str(self.images / self.source), str(folder / "out"), "--jobs", "1"]


class IngestLinks(Ingest):
    name = "ingest --store link"

    def words(self, folder):
        return [*super().words(folder), "--store", "link"]


class IngestPart(Ingest):
    name = "ingest --part"

    def words(self, folder):
        return ["ingest", str(self.attack.root / "images"), str(folder / "out"), "--part", "1/2", "--jobs", "1"]


class Join(Ingest):
    name = "join"

    def words(self, folder):
        return ["join", str(folder / "out"), *(str(self.attack.root / "parts" / part) for part in "12")]

    def again(self, folder):
        Synth.again(self, folder)


class Train(Synth):
    name = "train"

    def words(self, folder):
        return ["train", "--data", str(self.attack.root / "data"), "--model", "mlp", "--batch", "8", "--epochs", "3",
                "--threads", "1", "--lr", "0.05", "--checkpoint-every", "3steps", "--val-every", "1epoch", "--keep", "1", "--out",
                str(folder / "run")]

    def again(self, folder):
        run = folder / "run"
        self.attack.must(["train", "--resume", str(run), "--threads", "2"] if (run / "config.toml").exists()
                         else self.words(folder))

    def check(self, folder):
        """Once a checkpoint stands there is one, and the best that the last one names is there too."""
        checkpoints = folder / "run/checkpoints"
        whole = {}
        for path in checkpoints.glob("step-*"):
            if not path.name.endswith((".partial", ".corrupt")):
                whole[int(path.name[5:14])] = path
        metrics = folder / "run/metrics.jsonl"
        steps = 0
        if metrics.exists():
            steps = max([json.loads(line)["step"] for line in metrics.read_text().splitlines(True)
                         if line.endswith("\n")], default=0)
        if not whole:
            if steps > 4:
                raise Finding(f"no checkpoint after {steps} steps with --checkpoint-every 3steps")
            return
        state = json.loads((whole[max(whole)] / "state.json").read_text())
        best = state["trainer"]["best_step"]
        if best >= 0 and best not in whole:
            raise Finding(f"the best checkpoint, of step {best}, is lost: {sorted(whole)}")

    def result(self, folder):
        run = folder / "run"
        digest = hashlib.sha256()
        for name in ("metrics.jsonl", "receipt.json", "checkpoints/last/model.safetensors",
                     "checkpoints/last/optimizer.safetensors", "checkpoints/best/model.safetensors"):
            digest.update((run / name).read_bytes())
        return digest.hexdigest()


class Resume(Train):
    """A run that was stopped in the middle, and goes on."""
    name = "resume"

    def prepare(self, folder):
        shutil.copytree(self.attack.root / "stopped", folder / "run", symlinks=True)

    def words(self, folder):
        return ["train", "--resume", str(folder / "run"), "--threads", "1"]


class PlainResume(Resume):
    """The same where the file system can't exchange two names."""
    name = "resume without exchange"
    plain = True


def prepare_shared(attack):
    attack.must(["synth", str(attack.root / "images"), "--per-class", "6", "--size", "16", "--jobs", "1"])
    attack.must(["ingest", str(attack.root / "images"), str(attack.root / "data"), "--split", "0.7,0.3"])
    for part in "12":
        attack.must(["ingest", str(attack.root / "images"), str(attack.root / "parts" / part), "--part", part + "/2"])
    train = Train(attack)
    stopped = attack.root / "shared"
    stopped.mkdir()
    # Killed in the middle of the checkpoints, so that a resumed run has some of each kind before it.
    count = attack.root / "count"
    attack.run(train.words(stopped), "none", count=count)
    calls = int(count.read_text())
    shutil.rmtree(stopped / "run")
    attack.run(train.words(stopped), "kill", at=calls // 2)
    if not list((stopped / "run/checkpoints").glob("step-*")):
        raise Finding("the run to be resumed has no checkpoint yet")
    (stopped / "run").rename(attack.root / "stopped")


def measure(attack, scenario):
    """What an undisturbed command makes, how long it takes, and how many calls of each kind it does."""
    counts = {}
    results = set()
    seconds = 0
    for fault in ("kill",) + FAULTS:
        with tempfile.TemporaryDirectory(dir=attack.root) as name:
            folder = pathlib.Path(name)
            scenario.prepare(folder)
            count = folder / "count"
            code, err, seconds = attack.run(scenario.words(folder), fault, plain=scenario.plain, count=count)
            if code != 0:
                raise Finding(f"{scenario.name} without a fault: {err[-1000:]}")
            counts[fault] = int(count.read_text())
            results.add(scenario.result(folder))
    if len(results) != 1:
        raise Finding(f"{scenario.name} without a fault has several results")
    return results.pop(), seconds, counts


def play(attack, scenario, expected, kind, at, kill_after_s, keep):
    """One round in a folder of its own, of which `keep` becomes a copy where it ends in a finding."""
    with tempfile.TemporaryDirectory(dir=attack.root) as name:
        folder = pathlib.Path(name)
        try:
            return play_in(folder, attack, scenario, expected, kind, at, kill_after_s)
        except Finding:
            if keep:
                shutil.copytree(folder, keep, symlinks=True, dirs_exist_ok=True)
            raise


def play_in(folder, attack, scenario, expected, kind, at, kill_after_s):
    """One round; answers what became of the disturbed command."""
    scenario.prepare(folder)
    fault = None if kind == "moment" else kind
    code, err, _ = attack.run(scenario.words(folder), fault, at, kill_after_s, scenario.plain)
    if code == -signal.SIGKILL and kind in ("kill", "moment"):
        outcome = "killed"
    elif code == 0:
        outcome = "went on"
        if scenario.result(folder) != expected:
            raise Finding("it reports success, and the result is another")
    elif code == 1 and "dlpipe: " in err:
        outcome = "said so and ended"
    else:
        raise Finding(f"exit code {code}: {err[-1000:]}")
    scenario.check(folder)
    scenario.again(folder)
    if scenario.result(folder) != expected:
        raise Finding(f"after '{outcome}' ({err.strip()[-300:]}) the same work gives another result")
    return outcome


def plan_rounds(scenarios, measured, kills, faults, seed):
    """Some of every kind however few rounds there are, and in the end each scenario with each kind."""
    rng = random.Random(seed)
    rounds = []
    for i in range(kills):
        turn, number = divmod(i, len(scenarios))
        scenario = scenarios[number]
        _, seconds, counts = measured[scenario.name]
        if (turn + number) % 4 == 3:
            rounds.append((scenario, "moment", None, rng.uniform(0, seconds)))
        else:
            rounds.append((scenario, "kill", rng.randint(1, counts["kill"]), None))
    for i in range(faults):
        turn, number = divmod(i, len(scenarios))
        scenario = scenarios[number]
        kind = FAULTS[(turn + number) % len(FAULTS)]
        counts = measured[scenario.name][2]
        if counts[kind] > 0:
            rounds.append((scenario, kind, rng.randint(1, counts[kind]), None))
    return rounds


def report_text(outcomes, measured, findings, arguments, version):
    def cell(row):
        return ", ".join(f"{name} {count}" for name, count in sorted(row.items())) or "none"

    lines = ["# Kills and failing system calls, and what was left", "",
             f"`tests/attack/interruptions.py --program PROGRAM --count {arguments.count} --seed {arguments.seed}`, "
             f"{version}, commit {commit.commit_of_this_tree()}. Every round: the command is disturbed once, the same work is asked for again, and all bytes are compared with "
             "those of an undisturbed command.", ""]
    kills = sum(sum(row.values()) for (_, kind), row in outcomes.items() if kind in ("kill", "moment"))
    faults = sum(sum(row.values()) for (_, kind), row in outcomes.items() if kind not in ("kill", "moment"))
    lines += [f"{kills} rounds with a kill, {faults} with a failing call; {len(findings)} findings.", "",
              "| command | what was done | calls to choose from | what the command did |", "|---|---|---|---|"]
    for (scenario, kind), row in sorted(outcomes.items()):
        calls = measured[scenario][2].get(kind, "")
        what = {"kill": "SIGKILL at a call that changes files", "moment": "SIGKILL at a random moment"}.get(kind, kind)
        lines.append(f"| {scenario} | {what} | {calls} | {cell(row)} |")
    if findings:
        lines += ["", "Findings:", ""] + [f"- {text}" for text in findings]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--preload", help="default: where the build of --program has it")
    parser.add_argument("--count", type=int, default=20, help="rounds with a kill, and nearly twice as many with a failing call")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a folder for what a finding left")
    parser.add_argument("--jobs", type=int, default=1, help="rounds at a time")
    parser.add_argument("--only", type=int, help="the round of this number alone")
    parser.add_argument("--report", help="a Markdown file for the figures")
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    arguments.preload = os.path.abspath(
        arguments.preload or pathlib.Path(arguments.program).parent / "../tests/attack/libattack_fault_preload.so")
    for file in (arguments.program, arguments.preload):
        if not os.path.isfile(file):
            parser.error(f"there is no {file}; build dlpipe and attack_fault_preload")
    findings = []
    outcomes = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory(prefix="dlpipe-attack-") as name:
        attack = Attack(arguments.program, arguments.preload, pathlib.Path(name))
        version = subprocess.run([arguments.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        prepare_shared(attack)
        scenarios = [kind(attack) for kind in (Ingest, Train, Export, Resume, Synth, PlainResume, IngestLinks, IngestPart, Join)]
        scenarios += [IngestOf(attack, form) for form in formats.sources()]
        measured = {scenario.name: measure(attack, scenario) for scenario in scenarios}
        rounds = plan_rounds(scenarios, measured, arguments.count, arguments.count * 9 // 5, arguments.seed)
        missing = {"kill", "moment", *FAULTS} - {kind for _, kind, _, _ in rounds}
        if missing and arguments.count >= ENOUGH:
            sys.exit(f"interruptions: no round of {', '.join(sorted(missing))}")

        def play_round(number):
            scenario, kind, at, kill_after_s = rounds[number]
            try:
                keep = pathlib.Path(arguments.keep) / f"interruptions-{number}" if arguments.keep else None
                return number, play(attack, scenario, measured[scenario.name][0], kind, at, kill_after_s, keep), ""
            except (Finding, OSError, ValueError) as finding:
                text = f"round {number}: {scenario.name}, {kind} at {at or kill_after_s}: {finding}"
                return number, "FINDING", text.replace(name, "FOLDER")

        numbers = range(len(rounds)) if arguments.only is None else [arguments.only]
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for number, outcome, finding in pool.map(play_round, numbers):
                outcomes[(rounds[number][0].name, rounds[number][1])][outcome] += 1
                if finding:
                    findings.append(finding)
                    print(finding, flush=True)
                if number % 50 == 49:
                    print(f"{number + 1} of {len(rounds)} rounds, {len(findings)} findings", flush=True)
        text = report_text(outcomes, measured, findings, arguments, version)
    if arguments.report:
        pathlib.Path(arguments.report).write_text(text)
    print(text)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
