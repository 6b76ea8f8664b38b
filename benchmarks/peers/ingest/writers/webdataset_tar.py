# /// script
# dependencies = ["webdataset==1.0.2", "torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""WebDataset's TarWriter: the files as they are, in one tar per thread."""

import concurrent.futures
import importlib.metadata
import pathlib
import sys

import webdataset

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import writing  # noqa: E402


def shard(number, args):
    with webdataset.TarWriter(str(args.out / f"{number}.tar")) as tar:
        for index in range(number, len(args.files), args.threads):
            image = args.files[index].read_bytes()
            tar.write({"__key__": f"{index:08}", "jpg": image, "cls": args.labels[index]})


def write(args):
    args.out.mkdir()
    with concurrent.futures.ProcessPoolExecutor(args.threads) as pool:
        list(pool.map(shard, range(args.threads), [args] * args.threads))


if __name__ == "__main__":
    writing.main(
        write,
        about="the files in tar shards; checks nothing; worker processes",
        versions={"webdataset": importlib.metadata.version("webdataset")},
    )
