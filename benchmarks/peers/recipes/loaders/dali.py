# /// script
# dependencies = ["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"]
# ///
"""NVIDIA DALI's CPU backend: one pipeline per recipe, with a source in Python that reads files and draws the mosaics."""

import pathlib
import random
import sys

import numpy
import nvidia.dali
from nvidia.dali import fn, math, pipeline_def, types
from nvidia.dali.auto_aug import rand_augment

here = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(here), str(here.parent / "input")]
import loading  # noqa: E402
import work  # noqa: E402

MEAN, STD = ([255 * value for value in values] for values in (work.MEAN, work.STD))
SOLARIZED = [value if value < 128 else 255 - value for value in range(256)]
LINEAR, CUBIC, NEAREST = types.INTERP_LINEAR, types.INTERP_CUBIC, types.INTERP_NN


def around(middle, distance):
    return fn.random.uniform(range=(middle - distance, middle + distance)) if distance else middle


def jitter(image, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0):
    """Fused, in one order; contrast is about 128 where the others take the image's mean; hue turns in YIQ."""
    return fn.color_twist(
        image, brightness=around(1, brightness), contrast=around(1, contrast), saturation=around(1, saturation),
        hue=around(0, 360 * hue),
    )  # fmt: skip


def normalised(image, **mirror):
    return fn.crop_mirror_normalize(image, dtype=types.FLOAT, output_layout="HWC", mean=MEAN, std=STD, **mirror)


def mixed(image, alpha):
    partner = fn.permute_batch(image, indices=fn.batch_permutation())
    weight = fn.random.beta(alpha=alpha, beta=alpha)
    return image * weight + partner * (1 - weight)


def crop_of(encoded, filter):
    """RandomResizedCrop; the decoder decodes the crop alone."""
    crop = fn.decoders.image_random_crop(
        encoded, output_type=types.RGB, random_area=loading.SCALE, random_aspect_ratio=loading.RATIO
    )
    return fn.resize(crop, resize_x=224, resize_y=224, interp_type=filter, antialias=True)


def encoded_images(args):
    files = [sample.path for sample in args.images]
    labels = [sample.label for sample in args.images]
    return fn.readers.file(files=files, labels=labels, random_shuffle=True, initial_fill=min(1024, len(files)))


@pipeline_def(enable_conditionals=True)
def a2(args):
    encoded, label = encoded_images(args)
    image = crop_of(encoded, CUBIC)
    image = rand_augment.rand_augment(
        image, 2, work.MAGNITUDE, work.BINS, shape=(224, 224), fill_value=0, interp_type=NEAREST, max_translate_rel=150 / 331
    )
    return mixed(normalised(image, mirror=fn.random.coin_flip()), args.recipe.mixup), label


@pipeline_def(enable_conditionals=True)
def deit3(args):
    encoded, label = encoded_images(args)
    image = crop_of(encoded, CUBIC)
    choice = fn.random.choice(3)
    if choice == 0:
        image = fn.saturation(image, saturation=0.0)
    elif choice == 1:
        image = fn.lookup_table(image, keys=list(range(256)), values=SOLARIZED, dtype=types.UINT8)
    else:
        image = fn.gaussian_blur(image, sigma=fn.random.uniform(range=(0.1, 2.0)))
    image = jitter(image, 0.3, 0.3, 0.3)
    return mixed(normalised(image, mirror=fn.random.coin_flip()), args.recipe.mixup), label


def view(image):
    image = fn.random_resized_crop(
        image, size=224, random_area=loading.SCALE, random_aspect_ratio=loading.RATIO, interp_type=LINEAR, antialias=True
    )
    if fn.random.coin_flip(probability=0.8, dtype=types.BOOL):
        image = jitter(image, 0.8, 0.8, 0.8, 0.2)
    if fn.random.coin_flip(probability=0.2, dtype=types.BOOL):
        image = fn.saturation(image, saturation=0.0)
    if fn.random.coin_flip(probability=0.5, dtype=types.BOOL):
        image = fn.gaussian_blur(image, window_size=23, sigma=fn.random.uniform(range=(0.1, 2.0)))
    return normalised(image, mirror=fn.random.coin_flip())


@pipeline_def(enable_conditionals=True)
def simclr(args):
    encoded, label = encoded_images(args)
    image = fn.decoders.image(encoded, output_type=types.RGB)
    return view(image), view(image), label


def drawn_mosaic(args):
    """Of one sample: four files, their sizes on the canvas, where each is read, how much of it, where it goes, the matrix,
    whether it is mirrored, and the boxes as all that leaves them."""
    side = args.recipe.side
    plan = work.draw_mosaic(random.choices(args.images, k=4), side)
    boxes, kinds = plan.seen()
    boxes, mirror = numpy.array(boxes, numpy.float32).reshape(-1, 4), random.randrange(2)
    if mirror:
        boxes[:, [0, 2]] = side - boxes[:, [2, 0]]
    places = [numpy.array([[y, x]], numpy.int32) for part in plan.parts for x, y in (part.source, part.shape, part.target)]
    sizes = [numpy.array([part.height, part.width], numpy.float32) for part in plan.parts]
    files = [numpy.fromfile(part.image.path, numpy.uint8) for part in plan.parts]
    matrix = numpy.array(plan.matrix, numpy.float32)
    return (*files, *sizes, *places, matrix, numpy.int32(mirror), boxes, numpy.array(kinds, numpy.int64))


@pipeline_def
def mosaic(args):
    side = args.recipe.side
    given = fn.external_source(lambda _: drawn_mosaic(args), num_outputs=24, batch=False)
    files, sizes, places, (matrix, mirror, boxes, kinds) = given[:4], given[4:8], given[8:20], given[20:]
    images = fn.decoders.image(list(files), output_type=types.RGB)
    small = [fn.resize(p, size=size, interp_type=LINEAR, antialias=True) for p, size in zip(images, sizes)]
    read, shape, target = (fn.cat(*places[i::3], axis=0) for i in range(3))
    # What isn't pasted on is black: the fill is laid on as a fifth image, first.
    ground = types.Constant(numpy.full((2 * side, 2 * side, 3), work.FILL, numpy.uint8), device="cpu", layout="HWC")
    zero, whole = (types.Constant(numpy.array([[n, n]], numpy.int32), device="cpu") for n in (0, 2 * side))
    canvas = fn.multi_paste(
        ground, *small, in_anchors=fn.cat(zero, read, axis=0), shapes=fn.cat(whole, shape, axis=0),
        out_anchors=fn.cat(zero, target, axis=0), output_size=(2 * side, 2 * side),
    )  # fmt: skip
    seen = fn.warp_affine(
        canvas, matrix=matrix, size=(side, side), fill_value=work.FILL, interp_type=LINEAR, inverse_map=False
    )
    image = fn.flip(jitter(seen, 0.4, 0, 0.7, 0.015), horizontal=mirror)
    return image, boxes, kinds


def read_pair(args):
    sample = random.choice(args.images)
    return numpy.fromfile(sample.path, numpy.uint8), numpy.fromfile(sample.mask, numpy.uint8)


@pipeline_def(enable_conditionals=True)
def segmentation(args):
    side = args.recipe.side
    sample, outlines = fn.external_source(lambda _: read_pair(args), num_outputs=2, batch=False)
    image = fn.decoders.image(sample, output_type=types.RGB)
    mask = fn.decoders.image(outlines, output_type=types.GRAY)
    size = fn.random.uniform(values=[float(size) for size in work.SIZES])
    shorter = fn.cast(math.min(image.shape()[0], image.shape()[1]), dtype=types.FLOAT)
    shape = math.floor(fn.cast(image.shape()[:2], dtype=types.FLOAT) * size / shorter + 0.5)
    room = math.max(fn.cast(shape, dtype=types.INT32), side)  # framed to at least a side, the image in the middle
    framed = -((room - fn.cast(shape, dtype=types.INT32)) // 2)
    free = fn.cast(room - side + 1, dtype=types.FLOAT) * fn.random.uniform(range=(0.0, 1.0), shape=2)
    start = framed + math.min(fn.cast(free, dtype=types.INT32), room - side)
    seen = {"start": start, "shape": (side, side), "axes": (0, 1), "out_of_bounds_policy": "pad"}
    mirror = fn.random.coin_flip()
    image = fn.slice(fn.resize(image, size=shape, interp_type=LINEAR, antialias=True), fill_values=0, **seen)
    mask = fn.slice(fn.resize(mask, size=shape, interp_type=NEAREST), fill_values=work.UNKNOWN, **seen)
    if fn.random.coin_flip(dtype=types.BOOL):
        image = jitter(image, 0.5, 0.5, 0.5, 0.05)
    return normalised(image, mirror=mirror), fn.flip(mask, horizontal=mirror)


PIPELINES = {"a2": a2, "deit3": deit3, "simclr": simclr, "mosaic": mosaic, "segmentation": segmentation}


def make_batches(args):
    options = {"batch_size": args.recipe.batch, "num_threads": args.threads, "device_id": None, "prefetch_queue_depth": 2}
    pipe = PIPELINES[args.name](args, **options)
    pipe.build()
    while True:
        outputs = pipe.run()
        batch = {"image": outputs[0].as_array()}
        if args.name == "simclr":
            batch["second"] = outputs[1].as_array()
        elif args.name == "mosaic":
            rows = [numpy.asarray(outputs[1].at(i)) for i in range(args.recipe.batch)]
            batch |= {"boxes": numpy.concatenate(rows), "rows": numpy.array([len(boxes) for boxes in rows])}
            batch["kinds"] = numpy.concatenate([numpy.asarray(outputs[2].at(i)) for i in range(args.recipe.batch)])
        elif args.name == "segmentation":
            batch["mask"] = outputs[1].as_array()[..., 0]
        yield batch


if __name__ == "__main__":
    crops = "decodes the crop alone; threads"
    work.main(
        make_batches,
        about={"a2": crops, "deit3": crops, "simclr": "full decode; threads", "mosaic": "full decode; threads",
               "segmentation": "full decode; threads"},
        versions={"DALI": nvidia.dali.__version__},
    )  # fmt: skip
