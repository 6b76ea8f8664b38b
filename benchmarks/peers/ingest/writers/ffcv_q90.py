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
# build-env = { PKG_CONFIG_PATH = "{here}/../../input/loaders/ffcv_build" }
# ///
"""FFCV's DatasetWriter: every image decoded by OpenCV and encoded again at quality 90."""

import importlib.metadata
import pathlib
import sys

import cv2
import torch  # noqa: F401  FFCV's writer needs it
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import writing  # noqa: E402


class Images:
    def __init__(self, files, labels):
        self.files = files
        self.labels = labels

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return cv2.imread(str(self.files[index]), cv2.IMREAD_COLOR_RGB), self.labels[index]


def write(args):
    cv2.setNumThreads(0)
    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()}
    writer = DatasetWriter(str(args.out), fields, num_workers=args.threads)
    writer.from_indexed_dataset(Images(args.files, args.labels))


if __name__ == "__main__":
    writing.main(
        write,
        about="decodes and encodes at quality 90; worker processes",
        versions={"FFCV": importlib.metadata.version("ffcv")},
    )
