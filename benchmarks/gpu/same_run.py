"""The same training run on the host and on the device: the same batches, losses near each other, and on the device
the same bits every time: again, as one graph or kernel by kernel, stopped and resumed. Its checkpoint goes on on the
host."""

import shutil

import outputs
import programs

# (model, dtype, how far apart losses may be as a share: at the first step, on the mean over the run). The first step
# differs by the order of sums alone (f32) and by what bf16 keeps (8 bits). On the mean, AVX2 and AVX-512 on one host
# were 2e-4 apart in f32 and 5e-4 in bf16, and a learning rate 10 % too high 2e-3 (cifarnet, 32 steps).
CASES = [
    ("lenet", "f32", 2e-5, 1e-3),
    ("cifarnet", "f32", 2e-5, 1e-3),
    ("cifarnet", "bf16", 5e-3, 5e-3),
    ("cifarnet", "f16", 1e-3, 5e-3),
]
HOST_DTYPES = {"f16": "f32"}  # what the host takes for a dtype that it has not
QUICK_CASES = CASES[:2]
LARGE_IMAGES = ("350..500", 90)  # sizes, and how many per class, as end_to_end.py draws them


def run(context, part):
    data = context.images(part)
    if data is None:
        return
    for case in QUICK_CASES if context.quick else CASES:
        if part.left() < 10:
            part.not_checked(f"{case[0]} {case[1]}", "no time left")
            continue
        check_case(context, part, data, *case)
    check_processes(context, part, data)
    check_decoding(context, part)


def check_processes(context, part, data):
    """Two processes that share the first device: the bits of one that computes all grains."""
    name = "two processes, four grains"
    if shutil.which("mpirun") is None:
        return part.not_checked(name, "no mpirun")
    if part.left() < 10:
        return part.not_checked(name, "no time left")
    runs = Runs(context, part, data, "cifarnet", "f32")
    runs.options += ["--grains", 4]
    one = runs.train("grains", context.device, "auto")
    two = runs.train("processes", context.device, "auto", processes=2)
    return one and two and same_bits(context, part, name, one, two)


def check_decoding(context, part):
    """JPEGs decoded by the device and by the host: the same pixels, hence the same bits of a run."""
    name = "images decoded there and on the host"
    if context.device == "cpu":
        return part.not_checked(name, "is for a GPU")
    if part.left() < 10:
        return part.not_checked(name, "no time left")
    data = context.draw(part, "large", *LARGE_IMAGES)
    if data is None:
        return None
    runs = Runs(context, part, data, "cifarnet", "f32", "rrc(32) hflip")
    there, here = (runs.train(f"decode-{where}", context.device, "auto", where) for where in ("device", "host"))
    return there and here and same_bits(context, part, name, there, here)


def check_case(context, part, data, model, dtype, first_apart, mean_apart):
    name = f"{model} {dtype}"
    runs = Runs(context, part, data, model, dtype)
    host = runs.train("host", "cpu", "auto")
    device = runs.train("device", context.device, "auto")
    if not (host and device):
        return
    compare_with_host(part, name, host, device, first_apart, mean_apart)
    for title, graph in (("the same run again", "auto"), ("one graph per step", "on"), ("kernel by kernel", "off")):
        other = runs.train(graph if graph != "auto" else "again", context.device, graph)
        if other:
            same_bits(context, part, f"{name}, {title}", device, other)
    resumed = runs.resume_copy(device, "resumed", context.device)
    if resumed:
        same_bits(context, part, f"{name}, resumed on the device", device, resumed)
    moved = runs.resume_copy(device, "moved", "cpu")
    if moved:
        compare_with_host(part, f"{name}, checkpoint goes on on the host", host, moved, first_apart, mean_apart)


class Runs:
    """Runs of one config below one folder; what fails is a failed check and None."""

    def __init__(self, context, part, data, model, dtype, augment="pad_crop(32,4) hflip"):
        self.context, self.part = context, part
        self.name = f"{model} {dtype}"
        self.folder = context.out / "runs" / f"{model}-{dtype}"
        self.dtype = dtype
        self.options = [
            "--data", data, "--model", model, "--augment", augment, "--batch", 64,
            "--epochs", 1, "--lr", 0.02, "--seed", 3, "--kernels", "rules", "--checkpoint-every", "3steps",
            "--keep", 100, "--val-every", "1epoch",
        ]  # fmt: skip

    def train(self, name, device, graph, decode="auto", processes=1):
        out = self.folder / name
        place = [*self._place(device), "--graph", graph, "--decode", decode]
        return self._finish(out, [*self.options, *place, "--out", out], processes)

    def resume_copy(self, source, name, device):
        """A copy of `source` as if it had been stopped half-way, resumed."""
        copy = self.folder / name
        shutil.copytree(source, copy, symlinks=True)
        cut_to_half(copy)
        return self._finish(copy, ["--resume", copy, *self._place(device)])

    def _place(self, device):
        on_host = HOST_DTYPES.get(self.dtype, self.dtype)
        return ["--device", device, "--dtype", on_host if device == "cpu" else self.dtype]

    def _finish(self, out, options, processes=1):
        command = self.context.programs.dlpipe("train", *options)
        if processes > 1:  # one visible device: they share it
            launch = self.context.programs.dlpipe("launch", "--np", processes, "--", "train", *options)
            command = ["env", "CUDA_VISIBLE_DEVICES=0", *launch]
        log = self.context.out / f"{self.folder.name}-{out.name}.log"
        outcome = programs.run(command, self.part.left(), log)
        if outcome.code is None:
            self.part.not_checked(f"{self.name}: {out.name}", outcome.why())
        elif not outcome.ok:
            self.part.check(f"{self.name}: {out.name}", False, outcome.why())
        return out if outcome.ok else None


def cut_to_half(run):
    """Takes away what the second half of a run left: later checkpoints and what is written at the end."""
    steps = sorted((run / "checkpoints").glob("step-*"))
    for path in steps[(len(steps) + 1) // 2 :]:
        shutil.rmtree(path)
    for name in ("checkpoints/last", "checkpoints/best", "receipt.json", "ledger.json"):
        (run / name).unlink(missing_ok=True)


def compare_with_host(part, name, host, other, first_apart, mean_apart):
    receipts = [outputs.json.loads((run / "receipt.json").read_text()) for run in (host, other)]
    chains = [receipt["batches_chain"] for receipt in receipts]
    part.check(f"{name}: batches", chains[0] == chains[1], f"batches_chain {chains[0]} and {chains[1]}")
    losses = [outputs.losses((run / "metrics.jsonl").read_text()) for run in (host, other)]
    apart = outputs.loss_difference(*losses)
    if apart is None or apart["steps"] < len(losses[0]):
        return part.check(f"{name}: losses", False, f"{len(losses[0])} and {len(losses[1])} steps")
    text = (
        f"{apart['steps']} steps; apart by {apart['first_step']:.1e} at the first (at most {first_apart:g}), "
        f"{apart['mean']:.1e} on the mean (at most {mean_apart:g}), {apart['largest']:.1e} at most"
    )
    near = apart["first_step"] <= first_apart and apart["mean"] <= mean_apart
    return part.check(f"{name}: losses", near, text, losses=apart)


def same_bits(context, part, name, first, second):
    outcome = programs.run(context.programs.dlpipe("diff", first, second, "--json"), part.left())
    found = outputs.last_json(outcome.stdout)
    if not found:
        return part.check(name, False, outcome.why())
    same = found["same_batches"] and found["same_weights"] and found["first_different_step"] < 0
    step = found["first_different_step"]
    text = "bit for bit" if same else f"not the same bits{f', from step {step} on' if step >= 0 else ''}"
    return part.check(name, same, text, difference=found["receipt"])
