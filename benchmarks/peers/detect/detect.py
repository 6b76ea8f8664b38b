"""How long does each program take from image files to a mAP50 of 0.9, when it trains a detector from scratch?

    PYTHON detect.py --dlpipe DLPIPE --digits MNIST --reference VISION/references/detection --ultralytics PYTHON

The first PYTHON has torch, torchvision and pycocotools, and for --same-network the package dlpipe. MNIST is the folder of
its IDX files. A program without a path is left out. README.md says what the rows compare.
"""

import argparse
import collections.abc
import contextlib
import dataclasses
import datetime
import importlib.metadata
import io
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here.parent), str(here)]
import contest  # noqa: E402
import machine  # noqa: E402
import scenes  # noqa: E402

BATCH = 16
SEED = 1
# torchvision's settings for this model (references/detection/README.md): a rate of 0.15 for 8 times 24 images.
REFERENCE_LR = 0.15 * BATCH / (8 * 24)
REFERENCE_WEIGHT_DECAY = 4e-5
NETWORK = "ssdlite320_mobilenet_v3_large"
# The script, unchanged but for the number of classes, which it fixes at COCO's 91.
REFERENCE = """import sys
sys.path.insert(0, sys.argv.pop(1))
classes = int(sys.argv.pop(1))
import train
own = train.get_dataset
train.get_dataset = lambda *given, **named: (own(*given, **named)[0], classes)
train.main(train.get_args_parser().parse_args())
"""
# The `yolo` program; it would train with one thread less than the machine has cores.
YOLO = """import os, sys
threads = int(sys.argv.pop(1))
os.cpu_count = lambda: threads + 1
from ultralytics.cfg import entrypoint
entrypoint()
"""
CAPTURE = """import sys, torch, torchvision, dlpipe
torch.manual_seed(int(sys.argv[3]))
model = torchvision.models.get_model(sys.argv[4], weights=None, weights_backbone=None, num_classes=int(sys.argv[2]))
dlpipe.capture(model, (3, 320, 320), sys.argv[1])
"""


@dataclasses.dataclass
class Program:
    """`commands` run one after another under one clock. `result` finds the mAP50 of a validation in a line of their output,
    and `unit` is what it is divided by. A validation begins with a line that `validating` finds, or `result` has its
    `seconds`."""

    name: str
    about: str
    pixels: int
    commands: list[list[str]]
    result: re.Pattern
    unit: float = 1
    validating: re.Pattern | None = None
    parameters: re.Pattern | int | None = None
    saved: re.Pattern | None = None  # follows a validation's checkpoint; None: it is written before, or on SIGTERM
    finished: re.Pattern | None = None  # a line that says that it trained all epochs, before it validates once more
    terminate: bool = False  # SIGTERM makes it write a checkpoint
    env: dict = dataclasses.field(default_factory=dict)
    detections: collections.abc.Callable | None = None  # those of the last checkpoint, as COCO results
    comparison: bool = True  # of the time with dlpipe's


DLPIPE_PARAMETERS = re.compile(r"([\d,]+) parameters")
DLPIPE_RESULT = re.compile(
    r"^validation after epoch .* map50 (?P<map50>[\d.]+) %.* (?:(?P<minutes>\d+)m)?(?P<seconds>[\d.]+) ?s\)"
)
REFERENCE_VALIDATING = re.compile(r"^Test: +\[ *0/")
REFERENCE_RESULT = re.compile(r"Average Precision +\(AP\) @\[ IoU=0\.50 +\| area= +all \|.*\] = (?P<map50>-?[\d.]+)")
YOLO_PARAMETERS = re.compile(r"summary: .* ([\d,]+) parameters")
YOLO_VALIDATING = re.compile(r"^\s*\d+/\d+ +[\d.]+G .* 100%")  # the epoch's last step
YOLO_RESULT = re.compile(r"^\s+all +\d+ +\d+ +[\d.e-]+ +[\d.e-]+ +(?P<map50>[\d.e-]+) +[\d.e-]+\s*$")


class Log:
    """What a program's output says: `events`, one (seconds since the start, mAP50, seconds of the validation) per epoch."""

    def __init__(self, program):
        self.program, self.events, self.parameters = program, [], None
        self.validation_began = None

    def read(self, line, now):
        """True if the line is a validation's result."""
        line = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line)
        program = self.program
        if self.parameters is None and isinstance(program.parameters, re.Pattern):
            found = program.parameters.search(line)
            self.parameters = int(found[1].replace(",", "")) if found else None
        if program.validating and self.validation_began is None and program.validating.search(line):
            self.validation_began = now
        found = program.result.search(line)
        if not found:
            return False
        groups, took = found.groupdict(), None
        if groups.get("seconds"):
            took = 60 * int(groups.get("minutes") or 0) + float(groups["seconds"])
        elif self.validation_began is not None:
            took = now - self.validation_began
        self.validation_began = None
        self.events.append((now, max(float(groups["map50"]) / program.unit, 0), took))
        return True


def run(program, target, cap, cores, log_file):
    """Runs the program until a validation reaches `target`, or for `cap` seconds: what is known of the run."""
    log, spent, start, load = Log(program), 0.0, time.monotonic(), machine.busy_seconds()
    environment = {**os.environ, **{name: str(len(cores)) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}}
    environment |= {"PYTHONUNBUFFERED": "1", **program.env}
    with log_file.open("w") as sink:
        for command in program.commands:
            status, ended, used = watch(command, program, log, target, start, cap, cores, environment, sink)
            spent += used
            if ended or status != 0:
                break
    elapsed = time.monotonic() - start
    result = {
        "seconds": next((now for now, map50, _ in log.events if map50 >= target), None),
        "elapsed": elapsed,
        "events": log.events,
        "parameters": log.parameters or (program.parameters if isinstance(program.parameters, int) else None),
        "other_load": max(0.0, machine.busy_seconds() - load - spent) / elapsed,
    }
    if status != 0 and not ended:
        lines = [line[9:].strip() for line in log_file.read_text().splitlines() if line[9:].strip()]
        result["error"] = f"exit status {status}: {lines[-1][:200] if lines else 'no message'}"
    return result


def watch(command, program, log, target, start, cap, cores, environment, sink):
    """Reads one command's output, and ends it at the target or the cap: (exit status, was it ended, its CPU seconds)."""
    children, used, ended = contest.children_seconds(), 0.0, threading.Event()
    options = {"text": True, "errors": "replace", "env": environment, "start_new_session": True}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        **options,
    ) as process:

        def end():
            nonlocal used
            if not ended.is_set():
                ended.set()
                used = session_seconds(process.pid)
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    os.killpg(process.pid, signal.SIGTERM if program.terminate else signal.SIGKILL)

        timer = threading.Timer(max(start + cap - time.monotonic(), 0), end)
        timer.start()
        try:
            for line in process.stdout:
                now = time.monotonic() - start
                sink.write(f"{now:8.2f} {line}")
                if ended.is_set():
                    continue
                is_result = log.read(line, now)
                if is_result:
                    say(f"{program.name}: {now:.1f} s, mAP50 {log.events[-1][1]:.3f}")
                reached = any(map50 >= target for _, map50, _ in log.events)
                is_saved = reached and (program.saved is None or (not is_result and program.saved.search(line)))
                if is_saved or (program.finished and program.finished.search(line)):
                    end()
            status = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return status, ended.is_set(), max(used, contest.children_seconds() - children)


def session_seconds(session):
    """CPU seconds of the session's processes and of those children that they have waited for."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rsplit(")", 1)[1].split()
            ticks += sum(map(int, fields[11:15])) if int(fields[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def dlpipe_detections(executable, run_folder, data, classes, threads):
    """Boxes of dlpipe's best checkpoint on the validation images, as COCO results."""
    file = run_folder.with_name(run_folder.name + "_predictions.jsonl")
    options = flags(ckpt=run_folder, split="val", threads=threads, predictions=file)
    checked([executable, "eval", data, *options])
    found = []
    for line in file.read_text().splitlines():
        sample = json.loads(line)
        image = scenes.image_id(pathlib.Path(sample["path"]).name)
        for one in sample["boxes"]:
            left, upper, right, lower = one["box"]
            box = [left, upper, right - left, lower - upper]
            category = classes.index(one["class"]) + 1
            found.append({"image_id": image, "category_id": category, "bbox": box, "score": one["score"]})
    return found


def yolo_detections(command, run_folder, options, env):
    """Boxes of Ultralytics' last checkpoint on the validation images, as COCO results."""
    name = f"{run_folder.name}_val"
    weights = run_folder / "weights" / "last.pt"
    checked([*command, "detect", "val", f"model={weights}", *options, "save_json=True", f"name={name}"], env)
    return json.loads((run_folder.with_name(name) / "predictions.json").read_text())


def checked(command, env=None):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env={**os.environ, **(env or {})}
    )
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()] or ["no message"]
        raise SystemExit(f"[detect] {command[0]} failed: {lines[-1].strip()[:300]}")
    return done.stdout


def judged(program, result, annotations):
    """pycocotools' mAP50 of the checkpoint's boxes; None if they cannot be had."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    if not program.detections:
        return result["events"][-1][1]  # the program itself calls pycocotools
    try:
        detections = program.detections()
    except SystemExit as problem:  # the other rows are worth their time
        say(str(problem))
        return None
    if not detections:
        return 0.0
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(annotations))
        judge = COCOeval(truth, truth.loadRes(detections), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[1])


def flags(**values):
    """A command line's options: --name value."""
    return [part for name, value in values.items() for part in ("--" + name.replace("_", "-"), value)]


def dlpipe_program(args, folder, classes, network, **about):
    """`network`: the commands that make it, the value of --model, and its options."""
    commands, model, options = network
    data, out = folder / f"{model.stem}_data", folder / f"{model.stem}_run"
    options = (
        flags(batch=BATCH, epochs=args.epochs, threads=args.threads, seed=SEED, data=data, model=model, out=out)
        + options
    )
    return Program(
        commands=[
            [args.dlpipe, "ingest", folder / "coco", data],
            *commands,
            [args.dlpipe, "train", "--task", "detect", *options],
        ],
        result=DLPIPE_RESULT,
        unit=100,
        parameters=DLPIPE_PARAMETERS,
        terminate=True,
        env={"XDG_CACHE_HOME": str(folder / "cache" / model.stem)},  # it chooses its kernels anew, as on a new machine
        detections=lambda: dlpipe_detections(args.dlpipe, out, data, classes, args.threads),
        **about,
    )


def own_program(args, folder, classes, side):
    network = [], pathlib.Path("detector_small"), []
    return dlpipe_program(args, folder, classes, network, name=contest.REFERENCE, about="detector_small", pixels=side)


def same_network_program(args, folder, classes):
    model = folder / "same_network.dlm"
    optimizer = flags(optimizer="sgd", momentum=0.9, lr=REFERENCE_LR, weight_decay=REFERENCE_WEIGHT_DECAY)
    network = (
        [[sys.executable, "-c", CAPTURE, model, len(classes) + 1, SEED, NETWORK]],
        model,
        optimizer + flags(schedule="cosine", warmup=1),
    )
    about = {"name": "dlpipe, same network", "about": f"torchvision's {NETWORK}, captured", "pixels": 320}
    return dlpipe_program(args, folder, classes, network, comparison=False, **about)


def reference_program(args, folder, classes):
    import torchvision

    network = torchvision.models.get_model(NETWORK, weights=None, weights_backbone=None, num_classes=len(classes) + 1)
    options = flags(
        data_path=folder / "coco", dataset="coco", model=NETWORK, device="cpu", output_dir=folder / "reference"
    )
    options += flags(batch_size=BATCH, epochs=args.epochs, workers=args.threads, lr=REFERENCE_LR)
    options += flags(weight_decay=REFERENCE_WEIGHT_DECAY, lr_scheduler="cosineannealinglr", data_augmentation="ssdlite")
    return Program(
        name="torchvision",
        about=NETWORK,
        pixels=320,
        commands=[[sys.executable, "-c", REFERENCE, args.reference.resolve(), len(classes) + 1, *options]],
        result=REFERENCE_RESULT,
        validating=REFERENCE_VALIDATING,
        parameters=sum(one.numel() for one in network.parameters()),
    )


def yolo_program(args, folder, side):
    config = folder / "ultralytics"
    (config / "Ultralytics").mkdir(parents=True, exist_ok=True)
    (config / "Ultralytics" / "Arial.ttf").touch()  # it would download a font, also where it draws no plots
    env = {"YOLO_OFFLINE": "1", "YOLO_AUTOINSTALL": "0", "YOLO_CONFIG_DIR": str(config)}
    command = [args.ultralytics, "-c", YOLO, args.threads]
    options = [f"data={folder / 'yolo' / 'data.yaml'}", f"imgsz={side}", f"batch={BATCH}", f"workers={args.threads}"]
    options += ["device=cpu", "plots=False", f"project={folder}", "exist_ok=True"]
    checked([*command, "settings", "sync=False"], env)
    training = [f"model={args.yolo}.yaml", "pretrained=False", f"epochs={args.epochs}", f"seed={SEED}", "name=yolo"]
    return Program(
        name="Ultralytics",
        about=args.yolo,
        pixels=side,
        commands=[[*command, "detect", "train", *training, *options]],
        result=YOLO_RESULT,
        validating=YOLO_VALIDATING,
        parameters=YOLO_PARAMETERS,
        saved=re.compile(r"^\s*Epoch +GPU_mem"),
        finished=re.compile(r"^\d+ epochs completed"),
        env=env,
        detections=lambda: yolo_detections(command, folder / "yolo", options, env),
    )


def programs_of(args, folder, classes, side, first):
    yolo_side = -(-side // 32) * 32
    wanted = [("dlpipe", lambda: own_program(args, folder, classes, side))]
    if args.reference:
        wanted.append(("torchvision", lambda: reference_program(args, folder, classes)))
    if args.ultralytics:
        wanted.append(("ultralytics", lambda: yolo_program(args, folder, yolo_side)))
    if args.same_network and first:
        wanted.append(("same_network", lambda: same_network_program(args, folder, classes)))
    return [make() for name, make in wanted if not args.only or name in args.only]


def row(data, program, result, ours, cap):
    """A line of the table. `ours`: dlpipe's seconds to the target, or None."""
    events = result["events"]
    reached, best = result["seconds"], max((one[1] for one in events), default=None)
    steps = [later[0] - earlier[0] for earlier, later in zip(events, events[1:])]
    took = [one[2] for one in events if one[2] is not None]
    ratio = ""
    if ours and "error" not in result and program.comparison and program.name != contest.REFERENCE:
        ratio = f"{reached / ours:.1f} x" if reached else f">= {min(result['elapsed'], cap) / ours:.1f} x"
    until = f"{reached:.0f} s" if reached else result.get("error") or f"not in {min(result['elapsed'], cap):.0f} s"
    return [
        data,
        program.name,
        program.about,
        str(program.pixels),
        f"{result['parameters'] / 1e6:.2f} M" if result["parameters"] else "-",
        until,
        ratio,
        str(len(events)),
        f"{best:.3f}" if best is not None else "-",
        "-" if result.get("judged") is None else f"{result['judged']:.3f}",
        f"{statistics.median(steps):.1f}" if steps else f"<= {events[0][0]:.1f}" if events else "-",
        f"{statistics.median(took):.1f}" if took else "-",
    ]


HEADS = ["data", "program", "network", "image", "parameters", "time to {target:g}", "dlpipe is faster by", "epochs"]
HEADS += ["best mAP50", "mAP50 by pycocotools", "s/epoch", "validation, s"]


def versions(args):
    found = {name: importlib.metadata.version(name) for name in ("torch", "torchvision", "pycocotools")}
    if args.ultralytics:
        question = "import importlib.metadata as m; print(m.version('ultralytics'), m.version('torch'))"
        found["ultralytics"], found["torch of ultralytics"] = checked([args.ultralytics, "-c", question]).split()
    return found


def say(text):
    print(f"[detect] {text}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dlpipe", type=pathlib.Path, required=True, help="the program")
    parser.add_argument(
        "--digits", type=pathlib.Path, help="MNIST's IDX files; without it, there are no canvases of digits"
    )
    parser.add_argument("--reference", type=pathlib.Path, help="references/detection of a checkout of torchvision")
    parser.add_argument("--ultralytics", type=pathlib.Path, help="a Python that has the package ultralytics")
    parser.add_argument("--yolo", default="yolo11n", help="Ultralytics' network")
    parser.add_argument(
        "--same-network", action="store_true", help="dlpipe also trains torchvision's network, on the first data set"
    )
    parser.add_argument("--data", nargs="+", choices=("drawn", "digits"), default=["drawn", "digits"])
    parser.add_argument("--only", nargs="+", choices=("dlpipe", "torchvision", "ultralytics", "same_network"))
    parser.add_argument("--scenes", type=int, default=1200, help="per data set; a tenth is for validation")
    parser.add_argument("--epochs", type=int, default=30, help="of every program's schedule")
    parser.add_argument("--target", type=float, default=0.9, help="the mAP50")
    parser.add_argument("--cap", type=float, default=200, help="seconds after which a run ends")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path, help="keep data and runs in this new folder")
    parser.add_argument(
        "--out", type=pathlib.Path, help="write the table here, and every validation to FILE.json beside it"
    )
    return parser.parse_args()


def prepare(args, data, folder):
    """(names of the classes, side of the images) of a data set written to `folder`."""
    folder.mkdir(parents=True)
    if data == "digits":
        split, classes = scenes.digit_scenes(scenes.read_digits(args.digits), args.scenes, SEED)
    else:
        drawn = folder / "drawn"
        checked([args.dlpipe, "synth", drawn, "--task", "detect", "--size", 96, "--per-class", args.scenes // 10])
        split, classes = scenes.coco_scenes(drawn / "annotations.json", drawn / "images", SEED)
    scenes.write(split, classes, folder)
    return classes, max(split["train"][0][2:4])


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cores = sorted(os.sched_getaffinity(0))[: args.threads]
    if len(cores) < args.threads:
        raise SystemExit(f"[detect] --threads {args.threads}, and this process may use {len(cores)} cores")
    sets = [one for one in args.data if one != "digits" or args.digits]
    about, work = machine.describe(), args.work or pathlib.Path(tempfile.mkdtemp(prefix="detect_"))
    rows, record = [], {}
    try:
        for data in sets:
            folder = (work / data).resolve()
            classes, side = prepare(args, data, folder)
            ours = None
            for program in programs_of(args, folder, classes, side, data == sets[0]):
                program.commands = [[str(part) for part in command] for command in program.commands]
                result = run(program, args.target, args.cap, cores, folder / f"{program.name}.log".replace(" ", "_"))
                if program.name == contest.REFERENCE:
                    ours = result["seconds"]
                if result["events"]:
                    result["judged"] = judged(program, result, folder / "coco/annotations/instances_val2017.json")
                rows.append(row(data, program, result, ours, args.cap))
                record[f"{data} {program.name}"] = result
    finally:
        if not args.work:
            shutil.rmtree(work, ignore_errors=True)
    loads = [one["other_load"] for one in record.values()]
    heads = [head.format(target=args.target) for head in HEADS]
    lines = [
        f"# From image files to a mAP50 of {args.target:g}, {datetime.date.today()}: detectors trained from scratch",
        "",
        f"Machine: {machine.line(about)}",
        f"{args.scenes} images for each data set, a tenth for validation; {args.threads} threads, batches of {BATCH}, schedules of "
        f"{args.epochs} epochs, one seed; a run ends at {args.target:g} or after {args.cap:g} s. Times include ingest, start and "
        "validations.",
        f"Other programs kept {statistics.median(loads):.2f} cores busy (median; at most {max(loads):.2f}).",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in sorted(versions(args).items())),
        "",
        *contest.markdown(heads, rows),
    ]
    contest.publish(lines, {"machine": about, "settings": contest.settings(args), "results": record}, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
