# /// script
# dependencies = ["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"]
# ///
"""NVIDIA DALI's CPU backend: the random crop fused with the decoder, antialiased bilinear resize."""

import pathlib
import sys

import nvidia.dali
from nvidia.dali import fn, pipeline_def, types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


@pipeline_def
def rrc(files, size):
    encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=min(1024, len(files)))
    crop = fn.decoders.image_random_crop(
        encoded, device="cpu", output_type=types.RGB, random_area=loading.SCALE, random_aspect_ratio=loading.RATIO
    )
    small = fn.resize(crop, device="cpu", resize_x=size, resize_y=size, interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.flip(small, device="cpu", horizontal=fn.random.coin_flip())


@pipeline_def
def val(files, size):
    encoded, _ = fn.readers.file(files=files)
    image = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
    side = loading.resized_side(size)
    small = fn.resize(image, device="cpu", resize_shorter=side, interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.crop(small, device="cpu", crop=(size, size))


@pipeline_def
def small(files, size):
    encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=min(1024, len(files)))
    image = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
    places = [float(place) for place in range(-loading.PADDING, loading.PADDING + 1)]
    crop = fn.slice(
        image,
        start=fn.cast(fn.random.uniform(values=places, shape=2), dtype=types.INT32),
        shape=(size, size),
        axes=(0, 1),
        out_of_bounds_policy="pad",
        fill_values=0,
    )
    return fn.flip(crop, device="cpu", horizontal=fn.random.coin_flip())


def make_batches(args):
    pipe = {"rrc": rrc, "val": val, "small": small}[args.task](
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
        about={
            "rrc": "decodes the crop only, antialiased bilinear; threads",
            "val": "full decode, antialiased bilinear; threads",
            "small": "threads",
        },
        versions={"DALI": nvidia.dali.__version__},
    )
