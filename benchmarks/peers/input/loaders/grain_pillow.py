# /// script
# dependencies = ["grain==0.2.18", "torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""Grain, the loader of JAX's users: Pillow and torchvision's transforms, one worker process per thread."""

import importlib.metadata
import pathlib
import sys

import grain
import numpy
import torch
from PIL import Image
from torchvision_pillow import transform_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


class Decode(grain.transforms.Map):
    def __init__(self, task, size):
        self.transform = transform_of(task, size)

    def map(self, file):
        with Image.open(file) as image:
            return numpy.array(self.transform(image.convert("RGB")))


def make_batches(args):
    torch.set_num_threads(1)
    images = grain.MapDataset.source(args.files).seed(1).shuffle().repeat().map(Decode(args.task, args.size))
    batches = images.batch(args.batch).to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2))
    return iter(batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=args.threads, per_worker_buffer_size=2)))


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about={
            "rrc": "full decode, Pillow bilinear; worker processes",
            "val": "full decode, Pillow bilinear; worker processes",
            "small": "Pillow; worker processes",
        },
        versions={"Grain": importlib.metadata.version("grain"), "torch": torch.__version__},
    )
