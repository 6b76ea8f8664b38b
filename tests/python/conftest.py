"""Datasets for the tests: drawn images, ingested by the package's own program. Nothing but the package is needed."""

import os
import signal
import subprocess
import sys

import pytest

try:  # without the thread that tqdm keeps for slow bars, of other libraries too: tests count threads
    import tqdm

    tqdm.tqdm.monitor_interval = 0
except ImportError:
    pass

# What a script starts with & ignores Ctrl-C, and so would the programs that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: Under AddressSanitizer freed memory stays, and terabytes of addresses are taken: memory can't be measured or limited.
measures_memory = pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer changes the memory")


def run_program(*arguments):
    """`python -m dlpipe ...`; its output."""
    done = subprocess.run([sys.executable, "-m", "dlpipe", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def side_by_side(*iterables):
    """zip, of what has to end together and not be empty."""
    count = 0
    for together in zip(*iterables, strict=True):
        count += 1
        yield together
        del together  # a batch that is held takes a slot
    assert count > 0, "nothing to compare"


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """400 images of 10 classes, 32 to 56 pixels wide."""
    folder = tmp_path_factory.mktemp("images") / "jpegs"
    run_program("synth", folder, "--per-class", 40, "--size", "32..56", "--seed", 5)
    return folder


@pytest.fixture(scope="session")
def splits(images, tmp_path_factory):
    """A folder of two datasets: train, 320 samples, and val, 80."""
    folder = tmp_path_factory.mktemp("datasets") / "data"
    run_program("ingest", images, folder, "--split", "0.8,0.2")
    return folder


@pytest.fixture(scope="session")
def train(splits):
    """The dataset of 320 samples."""
    return splits / "train"
