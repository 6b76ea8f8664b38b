#!/usr/bin/env python3
"""captured_steps.py [--only PATTERN] [--rounds N] [--seconds S] [--compile] [--dtype f32|bf16]: how fast is a training step of networks that
dlpipe.capture reads, in dlpipe and in PyTorch (bf16: under autocast), on all of this process's cores?

A step is forward, loss, backward and SGD without momentum on one batch of random images in memory. PyTorch trains the same
module in channels_last, eagerly and with --compile through torch.compile; gradients are freed between steps. Detectors get
three boxes per image. Each network has a process of its own. In each round every side runs for S seconds or one step, in
turn, after an untimed step at the start. Rates are medians of the rounds, ratios medians of the rounds' ratios with the
smallest and the largest. PYTHONPATH must lead to the package dlpipe.
"""
import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

CLASSES = 21
# Name: loss, size, batch.
NETWORKS = {
    "torchvision/fcn_resnet50": ("pixels", 256, 4),
    "torchvision/deeplabv3_resnet50": ("pixels", 256, 4),
    "torchvision/lraspp_mobilenet_v3_large": ("pixels", 256, 8),
    "torchvision/fcos_resnet50_fpn": ("boxes", 320, 4),
    "torchvision/retinanet_resnet50_fpn": ("boxes", 320, 4),
    "torchvision/ssdlite320_mobilenet_v3_large": ("boxes", 320, 8),
    "torchvision/mobilenet_v3_large": ("class", 224, 16),
    "torchvision/efficientnet_b0": ("class", 224, 16),
    "torchvision/convnext_tiny": ("class", 224, 8),
    "timm/vit_small_patch16_224": ("class", 224, 8),
}
LR = 1e-4


def network(name, loss, size):
    library, name = name.split("/")
    if library == "timm":
        import timm

        return timm.create_model(name, num_classes=CLASSES)
    import torchvision

    options = {"weights_backbone": None} if loss != "class" else {}
    model = torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **options)
    if loss == "boxes":
        model.transform.min_size, model.transform.max_size = (size,), size
    return model


class Steps:
    """A step of each side, on the same images."""

    def __init__(self, name, dtype):
        import dlpipe
        import torch
        from dlpipe import _dlpipe

        self.loss, size, self.batch = NETWORKS[name]
        torch.manual_seed(1)
        self.model = network(name, self.loss, size)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "m.dlm")
            dlpipe.capture(self.model, (3, size, size), file)
            self.captured = _dlpipe.CapturedModel(os.fsencode(file), dtype)
        images = torch.rand(self.batch, 3, size, size)
        self.images = images.to(memory_format=torch.channels_last)
        self.array = images.numpy()
        count = self.batch * size * size if self.loss == "pixels" else 3 * self.batch if self.loss == "boxes" else self.batch
        self.labels = torch.randint(1, CLASSES, (count,))
        corner = torch.rand(count, 2) * size / 2 if self.loss == "boxes" else None
        self.boxes = None if corner is None else torch.cat([corner, corner + size / 8 + torch.rand(count, 2) * size / 4], 1)
        self.module = self.model.train().to(memory_format=torch.channels_last)
        self.autocast = torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16")
        self.optimizer = torch.optim.SGD(self.model.parameters(), LR)

    def pytorch(self):
        with self.autocast:
            loss = self.loss_of_pytorch()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def loss_of_pytorch(self):
        import torch

        if self.loss == "boxes":
            targets = [{"boxes": b, "labels": n} for b, n in zip(self.boxes.split(3), self.labels.split(3))]
            return sum(self.module(list(self.images), targets).values())
        answer = self.module(self.images)
        answer = answer["out"].permute(0, 2, 3, 1).reshape(-1, CLASSES) if self.loss == "pixels" else answer
        return torch.nn.functional.cross_entropy(answer, self.labels)

    def dlpipe(self):
        if self.loss != "boxes":
            return self.captured.step(self.array, self.labels.numpy(), LR)
        offsets = [3 * i for i in range(self.batch + 1)]
        import numpy

        return self.captured.step_boxes(self.array, self.boxes.numpy(), self.labels.numpy(), numpy.array(offsets), LR)


def rate(step, batch, seconds):
    begin, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - begin < seconds:
        step()
        count += 1
    return batch * count / (time.perf_counter() - begin)


def measure(given):
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    steps = Steps(given.one, given.dtype)
    eager = steps.module
    sides = {"dlpipe": (steps.dlpipe, eager), "eager": (steps.pytorch, eager)}
    if given.compile:
        sides["compile"] = (steps.pytorch, torch.compile(eager))
    rates, failed = {side: [] for side in sides}, {}
    for turn in range(given.rounds + 1):  # the first is not counted
        for side, (step, steps.module) in sides.items():
            if side in failed:
                continue
            try:
                rates[side].append(rate(step, steps.batch, given.seconds if turn else 0))
            except Exception as error:
                failed[side] = f"{type(error).__name__}: {str(error).splitlines()[0]}"[:80]
    print(json.dumps({"rates": {side: own[1:] for side, own in rates.items() if side not in failed}, "failed": failed}))


def row(name, result):
    loss, size, batch = NETWORKS[name]
    rates, ours = result["rates"], result["rates"].get("dlpipe")
    cells = [name, str(size), str(batch), f"{statistics.median(ours):.2f}" if ours else result["failed"].get("dlpipe", "")]
    for side in ("eager", "compile"):
        if side in rates and ours:
            ratios = [own / other for own, other in zip(ours, rates[side])]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            cells += [f"{statistics.median(rates[side]):.2f}", spread]
        elif side in result["failed"]:
            cells += [result["failed"][side], ""]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return measure(given)
    import timm
    import torch
    import torchvision

    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, timm {timm.__version__}; {given.rounds} rounds of {given.seconds:g} s\n")
    names = ["network", "size", "batch", "dlpipe, img/s", "eager", "dlpipe / eager"]
    names += ["torch.compile", "dlpipe / torch.compile"] if given.compile else []
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for name in (one for one in NETWORKS if fnmatch.fnmatch(one, given.only)):
        done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--one", name], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"| {name} | failed: {done.stderr.strip().splitlines()[-1][:100]} |", flush=True)
            continue
        print(row(name, json.loads(done.stdout.strip().splitlines()[-1])), flush=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
