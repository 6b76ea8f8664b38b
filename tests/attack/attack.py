"""What the attacks share: the program under limits, a verdict for each case, and a report."""

import argparse
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 120
# Beyond what the program takes for the same work on whole files.
MOST_MEMORY_MB = 700
ALLOWED_EXITS = (0, 1, 2, 3)


class Outcome:
    def __init__(self, exit_code, out, err, peak_mb, hung):
        self.exit_code, self.out, self.err, self.peak_mb, self.hung = exit_code, out, err, peak_mb, hung

    def failure(self, most_mb):
        """Why this end is none that any input may bring about; empty where it is fine."""
        if self.hung:
            return f"hung for {TIMEOUT_S} s"
        if self.exit_code < 0:
            return f"ended by {signal.Signals(-self.exit_code).name}"
        if self.exit_code not in ALLOWED_EXITS:
            return f"exit code {self.exit_code}"
        if "unexpected exception" in self.err or "[base]" in self.err:
            return f"an error of its own: {self.err.strip()[-200:]}"
        if self.exit_code != 0 and not self.err.strip():
            return "failed without a word"
        if re.search(r"^dlpipe: \[([a-z-]+)\] .*\[\1\] ", self.err, re.MULTILINE):
            return f"names the area twice: {self.err.strip()[-200:]}"
        if self.peak_mb > most_mb:
            return f"took {self.peak_mb} MB, more than {most_mb}"
        return ""


def run(program, *arguments):
    """Runs the program to its end and measures the memory that it had at most."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [program, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        deadline = time.monotonic() + TIMEOUT_S
        hung = False
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid != 0:
                break
            if time.monotonic() > deadline and not hung:
                hung = True
                process.kill()
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Outcome(process.returncode, out.read().decode(errors="replace"), err.read().decode(errors="replace"),
                       usage.ru_maxrss // 1024, hung)


class Attack:
    """Counts verdicts, keeps the files of failures, prints the report."""

    def __init__(self, what):
        parser = argparse.ArgumentParser(description=what)
        parser.add_argument("--program", required=True, help="the dlpipe to attack")
        parser.add_argument("--count", type=int, default=30, help="random cases of each kind")
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--keep", help="folder for what failed; default: nothing is kept")
        self.options = parser.parse_args()
        self.program = os.path.abspath(self.options.program)
        self.random = random.Random(self.options.seed)
        self.name = pathlib.Path(sys.argv[0]).stem
        self.verdicts = {}
        self.failures = []
        self.cases = 0
        self.runs = 0
        self.begin = time.monotonic()

    def run(self, *arguments):
        self.runs += 1
        return run(self.program, *arguments)

    def must(self, *arguments):
        """For what has no damage in it."""
        outcome = self.run(*arguments)
        if outcome.exit_code != 0:
            sys.exit(f"{self.name}: {' '.join(map(str, arguments))} failed: {outcome.err}")
        return outcome

    def count(self, kind, verdict):
        self.cases += 1
        self.verdicts.setdefault(kind, {}).setdefault(verdict, 0)
        self.verdicts[kind][verdict] += 1

    def fail(self, kind, case, why, path=None):
        self.count(kind, "FAILED")
        self.failures.append(f"{kind}: {case}: {why}")
        print(f"FAILED {kind}: {case}: {why}", file=sys.stderr, flush=True)
        if self.options.keep and path:
            to = pathlib.Path(self.options.keep) / f"{self.name}-{len(self.failures)}"
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(path, to, symlinks=True) if os.path.isdir(path) else shutil.copy(path, to)

    def finish(self):
        verdicts = sorted({v for row in self.verdicts.values() for v in row})
        print(f"{self.name}: seed {self.options.seed}, {self.options.count} random cases of each kind, "
              f"{self.cases} cases, {self.runs} runs of the program, {time.monotonic() - self.begin:.0f} s")
        width = max(len(kind) for kind in self.verdicts)
        print(" " * width + "".join(f"  {v}" for v in verdicts))
        for kind, row in self.verdicts.items():
            print(kind.ljust(width) + "".join(f"  {row.get(v, 0):{len(v)}}" for v in verdicts))
        print(f"failures: {len(self.failures)}")
        sys.exit(1 if self.failures else 0)
