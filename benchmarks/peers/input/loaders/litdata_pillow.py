# /// script
# dependencies = ["litdata==0.2.76", "torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""LitData: the files in its chunks (written at the set-up), Pillow and torchvision, one worker process per thread."""

import importlib.metadata
import io
import pathlib
import sys

import litdata
import numpy
import torch
from litdata.streaming.writer import BinaryWriter
from PIL import Image
from torchvision_pillow import transform_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


def write(files, folder):
    folder.mkdir(exist_ok=True)
    writer = BinaryWriter(str(folder), chunk_bytes="64MB")
    for number, file in enumerate(files):
        writer[number] = {"jpg": pathlib.Path(file).read_bytes()}
    writer.done()
    writer.merge()


class Images(litdata.StreamingDataset):
    def __init__(self, folder, task, size):
        super().__init__(str(folder), shuffle=True)
        self.steps = transform_of(task, size)

    def __getitem__(self, index):
        with Image.open(io.BytesIO(super().__getitem__(index)["jpg"])) as image:
            return torch.from_numpy(numpy.array(self.steps(image.convert("RGB"))))


def make_batches(args):
    torch.set_num_threads(1)
    folder = loading.written_once(args, "litdata", write)
    loader = litdata.StreamingDataLoader(
        Images(folder, args.task, args.size), batch_size=args.batch, num_workers=args.threads, drop_last=True
    )
    while True:
        yield from loader


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about={
            "rrc": "its chunks; full decode, Pillow bilinear; worker processes",
            "val": "its chunks; full decode, Pillow bilinear; worker processes",
            "small": "its chunks; Pillow; worker processes",
        },
        versions={"LitData": importlib.metadata.version("litdata"), "torch": torch.__version__},
    )
