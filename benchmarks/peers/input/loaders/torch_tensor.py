# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# tasks = ["small"]
# ///
"""All images decoded beforehand into one uint8 tensor, batches made by whole-tensor operations: what fast CIFAR scripts
do. Only where every image has the batch's size."""

import pathlib
import sys

import numpy
import torch
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


def pixels(file):
    with Image.open(file) as image:
        return numpy.array(image.convert("RGB"))


def make_batches(args):
    torch.set_num_threads(args.threads)
    around = loading.PADDING
    images = torch.from_numpy(numpy.stack([pixels(file) for file in args.files]))
    padded = torch.nn.functional.pad(images.permute(0, 3, 1, 2), [around] * 4).permute(0, 2, 3, 1).contiguous()
    steps = torch.arange(args.size)
    while True:
        for chosen in torch.randperm(len(padded)).split(args.batch):
            if len(chosen) < args.batch:
                continue
            top, left = torch.randint(0, 2 * around + 1, (2, args.batch, 1))
            flipped = torch.rand(args.batch, 1) < 0.5
            columns = left + torch.where(flipped, args.size - 1 - steps, steps)
            yield padded[chosen[:, None, None], (top + steps)[:, :, None], columns[:, None, :]]


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about="all pixels decoded beforehand, in memory; whole-tensor operations",
        versions={"torch": torch.__version__},
    )
