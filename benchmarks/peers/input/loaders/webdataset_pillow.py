# /// script
# dependencies = ["webdataset==1.0.2", "torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""WebDataset: the files in tar shards (written at the set-up), Pillow and torchvision, one worker process per thread."""

import importlib.metadata
import pathlib
import sys

import numpy
import torch
import webdataset
from torchvision_pillow import transform_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402

SHARDS = 8


def write(files, folder):
    folder.mkdir(exist_ok=True)
    for shard in range(SHARDS):
        with webdataset.TarWriter(str(folder / f"{shard}.tar")) as tar:
            for number in range(shard, len(files), SHARDS):
                tar.write({"__key__": f"{number:08}", "jpg": pathlib.Path(files[number]).read_bytes()})


def make_batches(args):
    torch.set_num_threads(1)
    folder = loading.written_once(args, "webdataset", write)
    transform = transform_of(args.task, args.size)
    shards = [str(path) for path in sorted(folder.glob("*.tar"))]
    images = webdataset.WebDataset(shards, resampled=True, shardshuffle=False).shuffle(200).decode("pil")
    images = images.to_tuple("jpg").map(lambda row: torch.from_numpy(numpy.array(transform(row[0].convert("RGB")))))
    return iter(
        torch.utils.data.DataLoader(
            images, batch_size=args.batch, num_workers=args.threads, collate_fn=torch.stack
        )
    )


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about={
            "rrc": "tar shards; full decode, Pillow bilinear; worker processes",
            "val": "tar shards; full decode, Pillow bilinear; worker processes",
            "small": "tar shards; Pillow; worker processes",
        },
        versions={"webdataset": importlib.metadata.version("webdataset"), "torch": torch.__version__},
    )
