"""examples/python, each run as its reader runs it. Those of a framework run where it is installed."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import dlpipe

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """Datasets train, 640 samples, and val, 96, of four classes that a few steps tell apart: their images are red, green, blue or grey."""
    folder = tmp_path_factory.mktemp("examples") / "data"
    random = np.random.default_rng(1)
    mean = np.array([[200, 60, 60], [60, 200, 60], [60, 60, 200], [110, 110, 110]])
    with dlpipe.Writer(folder, classes=["red", "green", "blue", "grey"]) as writer:
        for i in range(736):
            image = np.clip(mean[i % 4] + random.normal(0, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
            writer.write(image=image, label=i % 4, path=str(i), split="train" if i < 640 else "val")
    return folder


def run_example(name, data, *needs):
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    done = subprocess.run([sys.executable, EXAMPLES / name, data], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(text):
    return [float(loss) for loss in re.findall(r"loss ([0-9.]+)", text)]


def test_resume(colours):
    assert re.fullmatch(r"the same 17 batches follow, bit for bit\n", run_example("resume.py", colours))


def test_pytorch_loop(colours):
    text = run_example("pytorch_loop.py", colours, "torch")
    assert losses(text)[-1] < 0.5  # 1.386 is chance
    assert float(re.findall(r"top1 ([0-9.]+)%", text)[-1]) > 90


def test_jax_loop(colours):
    assert losses(run_example("jax_loop.py", colours / "train", "jax"))[-1] < 0.5


def test_torch_compile(colours):
    assert losses(run_example("torch_compile.py", colours / "train", "torch"))[-1] < 0.5


def test_lightning_fit(colours):
    text = run_example("lightning_fit.py", colours, "torch", "lightning")
    assert float(re.findall(r"top1 ([0-9.]+)%", text)[-1]) > 90


def test_detection_batches(tmp_path):
    fields = {"image": "image", "boxes": "boxes", "box_labels": "labels:boxes"}
    with dlpipe.Writer(tmp_path / "boxes", fields=fields) as writer:
        for i in range(24):
            writer.write(image=np.full((64, 96, 3), i, np.uint8), boxes=[[8, 8, 60, 50]] * (i % 3), box_labels=[1] * (i % 3))
    text = run_example("detection_batches.py", tmp_path / "boxes", "torch")
    assert re.fullmatch(r"the last batch: 8 images of \(3, 128, 128\), \d+ boxes\n", text)


def test_every_example_is_run():
    source = pathlib.Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in source, example.name
