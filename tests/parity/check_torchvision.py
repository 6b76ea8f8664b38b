#!/usr/bin/env python3
"""Holds `dlpipe predict` and `dlpipe eval` of bare weights to torchvision on real image files.

    check_torchvision.py DLPIPE IMAGES [--model resnet18] [--count 20]

IMAGES is a folder of CLASS/FILE.jpg. Weights are drawn, with running statistics of these very images, so that no
download is needed; they go to dlpipe as torch.save writes them under torch.nn.DataParallel, by way of the command that
dlpipe answers to such a file. Not run by the tests: needs torch, torchvision, Pillow and safetensors. The small
twin of it that needs none of them is predict_test.cpp.
"""
import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import torchvision
from PIL import Image


def run(*words, expect=0):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != expect:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr}")
    return done


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def take_images(source, target, count):
    """The first `count` images, one class after the other in turn; answers the classes in order."""
    classes = sorted(p for p in source.iterdir() if p.is_dir())
    turns = [sorted(c.iterdir()) for c in classes]
    taken = 0
    for turn in range(max(map(len, turns))):
        for folder, files in zip(classes, turns):
            if turn < len(files) and taken < count:
                to = target / folder.name
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(files[turn], to)
                taken += 1
    return sorted(p.name for p in target.iterdir())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dlpipe", type=pathlib.Path)
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of logarithms of probabilities")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        classes = take_images(arguments.images, work / "images", arguments.count)
        files = sorted((work / "images").glob("*/*"))
        t = torchvision.transforms
        prepare = t.Compose([t.Resize(256), t.CenterCrop(224), t.ToTensor(),
                             t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
        x = torch.stack([prepare(Image.open(f).convert("RGB")) for f in files])
        model = getattr(torchvision.models, arguments.model)(num_classes=len(classes))
        with torch.no_grad():
            model.train()(x)  # running statistics
            wanted = torch.log_softmax(model.eval()(x).double(), 1)
        torch.save({"state_dict": {"module." + k: v for k, v in model.state_dict().items()}}, work / "weights.pth")

        refused = run(arguments.dlpipe, "info", work / "weights.pth", expect=1)
        command = refused.stderr[refused.stderr.index("python3 -c"):].replace("python3", sys.executable, 1)
        subprocess.run(command, shell=True, check=True)
        weights = work / "weights.safetensors"
        model_flags = ["--ckpt", weights, "--model", arguments.model]

        differences = []
        run(arguments.dlpipe, "ingest", work / "images", work / "data")
        predicted = run(arguments.dlpipe, "predict", *model_flags, "--classes", work / "data", "--json", "--top",
                        len(classes), *files)
        for row, line in zip(wanted, lines_of(predicted.stdout), strict=True):
            for one in line["top"]:
                differences.append(math.log(one["probability"]) - row[classes.index(one["class"])].item())
        worst = torch.tensor(differences).abs().max().item()  # NaN where one is
        print(f"predict: {len(files)} images, log probabilities differ by at most {worst:.1e}")

        labels = [classes.index(f.parent.name) for f in files]
        loss = -sum(wanted[i, label].item() for i, label in enumerate(labels)) / len(files)
        top1 = sum(int(wanted[i].argmax()) == label for i, label in enumerate(labels)) / len(files)
        evaluated = run(arguments.dlpipe, "eval", *model_flags, work / "data", "--json")
        report = json.loads(evaluated.stdout)
        got = report["metrics"]["top1"]
        print(f"eval: loss {report['loss']:.6f}, torchvision {loss:.6f}; top1 {got}, torchvision {top1}")
        is_near = worst <= arguments.tolerance and abs(report["loss"] - loss) <= arguments.tolerance
        if not is_near or got != top1:
            sys.exit("dlpipe and torchvision differ")


if __name__ == "__main__":
    main()
