# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# tasks = ["a2", "deit3", "simclr"]
# ///
"""The same transforms v2 on Pillow images, blurred by Pillow as DeiT III's own code and most of SimCLR's do it. Of mosaics and
masks, on which it is slow as well, torchvision_tensor says enough."""

import pathlib
import random
import sys

import numpy
import PIL
import torch
import torchvision
from PIL import Image, ImageFilter
from torchvision.transforms import v2

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent)]
import torchvision_tensor  # noqa: E402
import work  # noqa: E402


def decode(path):
    with Image.open(path) as image:
        return image.convert("RGB")


def pixels(image):
    return torch.from_numpy(numpy.array(image))


def blur(sigma_range, size=None):
    return v2.Lambda(lambda image: image.filter(ImageFilter.GaussianBlur(random.uniform(*sigma_range))), Image.Image)


def make_batches(args):
    return torchvision_tensor.make_batches(args, decode, pixels, blur)


if __name__ == "__main__":
    work.main(
        make_batches,
        about="full decode, transforms v2 on Pillow images; worker processes",
        versions={"torch": torch.__version__, "torchvision": torchvision.__version__, "Pillow": PIL.__version__},
    )
