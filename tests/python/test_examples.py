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


def run_example(name, data, *needs):
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    done = subprocess.run([sys.executable, EXAMPLES / name, data], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(text):
    return [float(loss) for loss in re.findall(r"loss ([0-9.]+)", text)]


def test_resume(splits):
    assert re.fullmatch(r"the same 7 batches follow, bit for bit\n", run_example("resume.py", splits))


def test_pytorch_loop(splits):
    text = run_example("pytorch_loop.py", splits, "torch")
    assert losses(text)[-1] < losses(text)[0]
    assert float(re.findall(r"top1 ([0-9.]+)%", text)[-1]) > 30  # of ten classes


def test_jax_loop(splits):
    found = losses(run_example("jax_loop.py", splits / "train", "jax"))
    assert found[-1] < found[0]


def test_torch_compile(splits):
    found = losses(run_example("torch_compile.py", splits / "train", "torch"))
    assert found[-1] < found[0]


def test_lightning_fit(splits):
    text = run_example("lightning_fit.py", splits, "torch", "lightning")
    assert float(re.findall(r"top1 ([0-9.]+)%", text)[-1]) > 20


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
