# /// script
# dependencies = ["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"]
# ///
"""NVIDIA DALI's CPU backend: random crop fused with the decoder, antialiased bilinear resize."""

import pathlib
import sys

import nvidia.dali
from nvidia.dali import fn, pipeline_def, types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


@pipeline_def
def pictures(files, size):
    encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=min(1024, len(files)))
    crop = fn.decoders.image_random_crop(
        encoded, device="cpu", output_type=types.RGB, random_area=loading.SCALE, random_aspect_ratio=loading.RATIO
    )
    small = fn.resize(crop, device="cpu", resize_x=size, resize_y=size, interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.flip(small, device="cpu", horizontal=fn.random.coin_flip())


def make_batches(args):
    pipe = pictures(
        args.files, args.size, batch_size=args.batch, num_threads=args.threads, device_id=None, prefetch_queue_depth=2
    )
    pipe.build()
    while True:
        (batch,) = pipe.run()
        yield batch.as_array()


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about="decodes the crop only, antialiased bilinear; threads",
        versions={"DALI": nvidia.dali.__version__},
    )
