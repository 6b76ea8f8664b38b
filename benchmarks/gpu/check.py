"""Proves the GPU side on this machine: tests, training, an accuracy, speed, waiting for data, tables. One report.

scripts/gpu_check finds the programs and calls this. Standard library only, Python 3.9 or newer; PyTorch is asked for
where speed is compared, and its absence is said.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent / "peers")]
import machine  # noqa: E402

import accuracy  # noqa: E402
import device_tests  # noqa: E402
import end_to_end  # noqa: E402
import ops  # noqa: E402
import outputs  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import same_run  # noqa: E402
import speed  # noqa: E402
import tables  # noqa: E402

# name: (seconds, what it does, what it asks). A part may use what those before it left, and speed has use for it all.
PARTS = {
    "tests": (60, device_tests.run_tests, "do the tests of a real device pass?"),
    "training": (60, same_run.run, "is a run on the device the host's run, and the same bits every time?"),
    "accuracy": (20, accuracy.run, "does the device learn what the host learns?"),
    "end-to-end": (30, end_to_end.run, "from LMDB to trained steps: does the device wait for data?"),
    "speed": (190, speed.run, "how fast is a training step beside PyTorch's?"),
    "ops": (30, ops.run, "how near does each op come to what the device can do, and what is cuDNN worth?"),
    "tables": (25, tables.run, "how fast are copies, and each model beside the host?"),
    "sanitizer": (45, device_tests.run_sanitizer, "do the kernels touch only what is theirs?"),
}


@dataclasses.dataclass
class Context:
    """What every part gets: where things are, and how much is asked."""

    root: pathlib.Path  # recipes/ and benchmarks/ are below
    out: pathlib.Path
    programs: programs.Programs
    device: str
    quick: bool
    cores: int
    torch_python: str
    drawn: dict = dataclasses.field(default_factory=dict)

    def images(self, part):
        """Ten classes of drawn images of 32 x 32, a split; None where that failed, which `part` then says."""
        return self.draw(part, "small", "32", 60 if self.quick else 300, "--split", "0.7,0.3")

    def draw(self, part, name, size, per_class, *ingest_options):
        """Draws and ingests a data set once."""
        if name not in self.drawn:
            images, data = self.out / f"images-{name}", self.out / f"data-{name}"
            for command in (
                ("synth", images, "--size", size, "--per-class", per_class),
                ("ingest", images, data, *ingest_options),
            ):
                log = self.out / f"{command[0]}-{name}.log"
                outcome = programs.run(self.programs.dlpipe(*command), part.left(), log)
                if not outcome.ok:
                    part.check(f"dlpipe {command[0]}", False, outcome.why())
                    return None
            self.drawn[name] = data
        return self.drawn[name]


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/gpu_check", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="a bundle's folder, or a build's")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="report.txt, report.json and all logs")
    parser.add_argument("--seconds", type=float, default=460, help="for everything (default 460)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
                        help=f"only these of: {', '.join(PARTS)}")  # fmt: skip
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="a Python that has PyTorch")
    parser.add_argument("--device", default="cuda", help="cuda (default); cpu tries the script itself, without a GPU")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script itself")
    parser.add_argument("--keep", action="store_true", help="keep drawn data and runs")
    return parser.parse_args()


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "report.txt").open("w") as text:

        def say(line):
            print(line, flush=True)
            print(line, file=text, flush=True)

        return check(args, say)


def check(args, say):
    started = time.monotonic()
    root = here.parents[1]
    record = {"date": f"{datetime.datetime.now(datetime.timezone.utc):%F %H:%M} UTC", "commit": commit(root)}
    record |= {"device": args.device, "quick": args.quick, "machine": machine.describe(), "gpus": find_gpus()}
    say(f"gpu_check, {record['date']}, commit {record['commit']}")
    say(f"machine: {machine.line(record['machine'])}")
    for gpu in record["gpus"]:
        say("GPU: " + ", ".join(f"{key} {value}" for key, value in gpu.items()))
    parts = []
    if args.device != "cpu" and not record["gpus"]:
        result, line = "fail", "no GPU: nvidia-smi finds none; nothing was checked"
    else:
        parts, build = run_parts(args, root, say)
        record["build"] = build
        result, line = report.verdict(parts)
        say("")
        for row in report.summary_table(parts):
            say(row)
    seconds = time.monotonic() - started
    say(f"{line}; {seconds:.0f} s; details in {args.out}" if parts else line)
    record |= {"parts": parts, "result": result, "verdict": line, "seconds": round(seconds, 1)}
    report.write(args.out / "report.json", record)
    return report.EXIT_CODES[result]


def run_parts(args, root, say):
    """The parts' records, and what the program says of itself."""
    context = Context(root, args.out.resolve(), programs.Programs(args.programs, args.torch), args.device, args.quick,
                      len(os.sched_getaffinity(0)), args.torch)  # fmt: skip
    clear(context.out)
    info = programs.run(context.programs.dlpipe("info"), 60)
    for row in (info.stdout + info.stderr).strip().splitlines():
        say(f"  {row}")
    build = outputs.last_json(programs.run(context.programs.dlpipe("info", "--json"), 60).stdout)
    records, started = [], time.monotonic()
    for name, end in ends({name: row[0] for name, row in PARTS.items()}, args.parts, args.seconds).items():
        _, work, question = PARTS[name]
        part = report.Part(name, question, started + end, say)
        say(f"\n{name}: {question}")
        run_part(context, part, work)
        records.append(part.record())
        say(f"  {part.seconds():.0f} s")
    if not args.keep:
        clear(context.out)
    return records, build


def ends(budgets, chosen, seconds):
    """{part: seconds from the start until it has to end}: every part its share of `seconds`, and what is left over."""
    scale, end, found = seconds / sum(budgets.values()), 0.0, {}
    for name, budget in budgets.items():
        if name in chosen:
            end += scale * budget
            found[name] = end
    return found


def run_part(context, part, work):
    """A part that fails in a way it did not foresee is a failed check, and the next goes on."""
    try:
        work(context, part)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the report is written
        part.note(traceback.format_exc().strip().replace("\n", "\n  "))
        part.check("the part itself", False, f"{type(problem).__name__}: {problem}")
    if not part.checks:
        part.not_checked(part.name, "it said nothing")


def clear(out):
    """Data and runs of this script: hundreds of MB that nobody asks for afterwards."""
    for folder in [out / "runs", *out.glob("images-*"), *out.glob("data-*")]:
        shutil.rmtree(folder, ignore_errors=True)


def find_gpus():
    try:
        said = programs.run(["nvidia-smi", f"--query-gpu={','.join(outputs.GPU_FIELDS)}", "--format=csv,noheader"], 30)
    except OSError:
        return []
    return outputs.gpus(said.stdout) if said.ok else []


def commit(root):
    """Of the checkout; of a bundle, the one that it was made at."""
    if (root / "commit").is_file():
        return (root / "commit").read_text().strip()
    try:
        run = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True)
    except OSError:
        return "unknown"
    return run.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
