"""The Python examples of README.md and of the tutorial run as they are printed."""

import pathlib
import re
import subprocess
import sys

import pytest
from conftest import run_program

SOURCE = pathlib.Path(__file__).parents[2]


def example(document, containing):
    """The first ```python block of a document with these words."""
    blocks = re.findall(r"```python\n(.*?)```", (SOURCE / document).read_text(), re.S)
    return next(block for block in blocks if containing in block)


def run(code, folder):
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(images, tmp_path_factory):
    """Where a reader is: beside `images`."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("reader")
    (folder / "images").symlink_to(images)
    return folder


def test_readmes_ten_lines(folder):
    printed = run(example("README.md", "dlpipe.ingest"), folder)
    assert printed.startswith("torch.Size([64, 224, 224, 3]) torch.uint8 tensor([")
    assert "4,000" in printed


def test_the_tutorials_loop(folder):
    if not (folder / "data").exists():
        run_program("ingest", folder / "images", folder / "data", "--split", "0.8,0.2")
    printed = run(example("docs/tutorial.md", "for epoch in range(10)"), folder)
    assert re.findall(r"^epoch (\d): .* right$", printed, re.M) == [str(i) for i in range(10)]
