# /// script
# dependencies = ["mosaicml-streaming==0.13.0", "torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.1.3"]
# [tool.dlpipe]
# venv = "mosaic"
# ///
"""MosaicML's StreamingDataset: the files in MDS shards (written at the set-up), Pillow and torchvision, one worker
process per thread."""

import importlib.metadata
import io
import pathlib
import sys

import numpy
import streaming
import torch
from PIL import Image
from torchvision_pillow import transform_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


def write(files, folder):
    with streaming.MDSWriter(out=str(folder), columns={"jpg": "bytes"}, exist_ok=True) as writer:
        for file in files:
            writer.write({"jpg": pathlib.Path(file).read_bytes()})


class Images(streaming.StreamingDataset):
    def __init__(self, folder, args):
        super().__init__(local=str(folder), shuffle=True, batch_size=args.batch)
        self.steps = transform_of(args.task, args.size)

    def __getitem__(self, index):
        with Image.open(io.BytesIO(super().__getitem__(index)["jpg"])) as image:
            return torch.from_numpy(numpy.array(self.steps(image.convert("RGB"))))


def make_batches(args):
    torch.set_num_threads(1)
    folder = loading.written_once(args, "mosaic", write)
    loader = torch.utils.data.DataLoader(
        Images(folder, args), batch_size=args.batch, num_workers=args.threads, drop_last=True, persistent_workers=True
    )
    while True:
        yield from loader


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about={
            "rrc": "its shards; full decode, Pillow bilinear; worker processes",
            "val": "its shards; full decode, Pillow bilinear; worker processes",
            "small": "its shards; Pillow; worker processes",
        },
        versions={"mosaicml-streaming": importlib.metadata.version("mosaicml-streaming"), "torch": torch.__version__},
    )
