# /// script
# dependencies = ["spdl==0.8.0", "numpy==2.4.6"]
# [tool.dlpipe]
# apt = ["libavcodec-dev", "libavformat-dev", "libavfilter-dev", "libavdevice-dev"]
# ///
"""SPDL: threads without the GIL over FFmpeg's decoder and its filters (crop, bilinear scale, flip)."""

import importlib.metadata
import pathlib
import random
import sys

import spdl.io
from spdl.pipeline import PipelineBuilder

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


def filters(args, width, height):
    size = args.size
    flip = ["hflip"] if random.random() < 0.5 else []
    if args.task == "rrc":
        top, left, h, w = loading.random_crop(height, width)
        steps = [f"crop={w}:{h}:{left}:{top}:exact=1", f"scale={size}:{size}:flags=bilinear", *flip]
    elif args.task == "val":
        side = loading.resized_side(size)
        w, h = (side, round(height * side / width)) if width < height else (round(width * side / height), side)
        steps = [f"scale={w}:{h}:flags=bilinear", f"crop={size}:{size}"]
    else:
        pad = loading.PADDING
        left, top = random.randint(0, 2 * pad), random.randint(0, 2 * pad)
        steps = ["format=rgb24", f"pad={width + 2 * pad}:{height + 2 * pad}:{pad}:{pad}", f"crop={size}:{size}:{left}:{top}", *flip]
    return ",".join([*steps, "format=rgb24"])


def make_batches(args):
    def decode(file):
        packets = spdl.io.demux_image(file)
        return spdl.io.decode_packets(packets, filter_desc=filters(args, packets.codec.width, packets.codec.height))

    def forever():
        while True:
            yield from random.sample(args.files, len(args.files))

    def join(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    pipeline = (
        PipelineBuilder()
        .add_source(forever())
        .pipe(decode, concurrency=args.threads)
        .aggregate(args.batch)
        .pipe(join)
        .add_sink(2)
        .build(num_threads=args.threads)
    )
    with pipeline.auto_stop():
        yield from pipeline


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about={
            "rrc": "full decode, FFmpeg's bilinear scaler; threads",
            "val": "full decode, FFmpeg's bilinear scaler; threads",
            "small": "FFmpeg; threads",
        },
        versions={"SPDL": importlib.metadata.version("spdl")},
    )
