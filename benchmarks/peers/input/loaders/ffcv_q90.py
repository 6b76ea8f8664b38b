# /// script
# dependencies = [
#   "torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6", "numba==0.68.1",
#   "opencv-python-headless==5.0.0.93", "pytorch-pfn-extras==0.9.0", "terminaltables==3.1.10", "fastargs==1.2.0",
#   "assertpy==1.1", "tqdm==4.70.1", "psutil==7.2.2",
# ]
# [tool.dlpipe]
# venv = "torch"
# no-deps = ["ffcv==1.0.2"]
# apt = ["libopencv-imgproc-dev", "libturbojpeg0-dev", "pkg-config"]
# build-env = { PKG_CONFIG_PATH = "{here}/ffcv_build" }
# ///
"""FFCV on its own file (the writer is part of the set-up): every image re-encoded at quality 90 and full size; for the
task small, raw pixels."""

import importlib.metadata
import functools
import pathlib
import sys

import cv2
import numpy
import torch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.rgb_image import (
    CenterCropRGBImageDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip, RandomTranslate, ToTensor
from ffcv.writer import DatasetWriter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402

EPOCH_SAMPLES = {"rrc": 20_000, "val": 20_000, "small": 400_000}  # the files many times over: FFCV drains its queue at each epoch's end


class Images:
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return cv2.imread(self.files[index], cv2.IMREAD_COLOR_RGB), 0


def write(mode, files, path):
    fields = {"image": RGBImageField(write_mode=mode, jpeg_quality=90), "label": IntField()}
    writer = DatasetWriter(str(path), fields, num_workers=1)
    writer.from_indexed_dataset(Images(files))


def make_batches(args):
    mode = "raw" if args.task == "small" else "jpg"
    path = loading.written_once(args, f"ffcv_{mode}", functools.partial(write, mode))
    repeats = max(1, EPOCH_SAMPLES[args.task] // len(args.files))
    size = (args.size, args.size)
    steps = {
        "rrc": lambda: [RandomResizedCropRGBImageDecoder(size, loading.SCALE, loading.RATIO), RandomHorizontalFlip()],
        "val": lambda: [CenterCropRGBImageDecoder(size, args.size / loading.resized_side(args.size))],
        "small": lambda: [SimpleRGBImageDecoder(), RandomTranslate(loading.PADDING), RandomHorizontalFlip()],
    }[args.task]()
    loader = Loader(
        str(path),
        batch_size=args.batch,
        num_workers=args.threads,
        os_cache=True,
        order=OrderOption.RANDOM,
        drop_last=True,
        indices=numpy.tile(numpy.arange(len(args.files)), repeats),
        pipelines={"image": [*steps, ToTensor()], "label": None},
    )
    while True:
        for (batch,) in loader:
            yield batch


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about={
            "rrc": "its own q90 copy; full decode, area average; threads",
            "val": "its own q90 copy; full decode, area average; threads",
            "small": "its own copy of raw pixels; threads",
        },
        versions={"FFCV": importlib.metadata.version("ffcv"), "torch": torch.__version__},
    )
