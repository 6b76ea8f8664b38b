"""What every loader of the recipes shares: the recipes' numbers, the command line, the clock and the check.

    python loaders/NAME.py RECIPE --images FILE --threads T --seconds S      times batches, prints one JSON line
    python loaders/NAME.py RECIPE --images FILE --threads T --check N        prints statistics of N images

A loader hands `main` a function that makes an endless iterator of batches. A batch is a dict of arrays (NumPy's or
PyTorch's), of the recipe's fields:

    image   [N, side, side, 3], float32 normalised by MEAN and STD, or uint8
    second  of simclr: the other view of each image, like image
    boxes   float32 [rows, 4], x_min y_min x_max y_max in pixels, of all images below each other; kinds int64 [rows];
            rows int64 [N]: how many of each image
    mask    uint8 [N, side, side]

Standard library only, but for what `check` needs.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here.parent), str(here.parent / "input")]
import measure  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of pixels in 0..1
IMAGES_PER_MOSAIC = 4
FILL = 114  # YOLO's grey
UNKNOWN = 255  # of a mask, where the image shows nothing
SIZES = (260, 390, 520, 650, 780, 910, 1040)  # DeepLab's scales, 0.5 to 2 in steps of 0.25, of 520
MAGNITUDE, BINS = 21, 31  # RandAugment's 7 of 10 on torchvision's scale of 0..30
SMALLEST = 1  # pixels of a side of a box that is kept: the least that torchvision's SanitizeBoundingBoxes takes
CENTER, SHIFT, SCALE = (0.25, 0.75), 0.05, (0.5, 1.5)  # of the mosaic: shares of its canvas, and a factor


@dataclasses.dataclass(frozen=True)
class Recipe:
    title: str
    side: int
    batch: int  # images; a batch of simclr has two views of each
    dtype: str
    fields: tuple[str, ...] = ("image",)
    mixup: float = 0.0

    @property
    def samples(self):
        """Training samples of a batch."""
        return self.batch * (2 if "second" in self.fields else 1)


RECIPES = {
    "a2": Recipe("ResNet strikes back, A2: RandAugment and mixup", 224, 64, "float32", mixup=0.1),
    "deit3": Recipe("DeiT III: 3-Augment and mixup", 224, 64, "float32", mixup=0.8),
    "simclr": Recipe("SimCLR: two views of each image", 224, 32, "float32", ("image", "second")),
    "mosaic": Recipe("YOLO: mosaic of four images with their boxes", 640, 8, "uint8", ("image", "boxes")),
    "segmentation": Recipe("DeepLab: random scale and crop, image and mask", 480, 16, "float32", ("image", "mask")),
}


@dataclasses.dataclass
class Image:
    path: str
    label: int
    width: int
    height: int
    boxes: list
    kinds: list[int]
    mask: str


def arguments(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--images", type=pathlib.Path, required=True, help="the list that annotate.py wrote")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--check", type=int, metavar="N", help="statistics of N images in place of the time")
    parser.add_argument("--data", help="for dlpipe: the same images, ingested")
    args = parser.parse_args(argv)
    args.recipe = RECIPES[args.name]
    lines = args.images.read_text().splitlines()
    args.images = [Image(**json.loads(line)) for line in lines]
    return args


def main(make_batches, about, versions):
    """`about` is a sentence, or one for each recipe."""
    args = arguments()
    recipe = args.recipe
    batches = make_batches(args)
    refuse_other_batches(recipe, next(batches))
    told = {"about": about if isinstance(about, str) else about[args.name], "versions": versions}
    if args.check:
        measure.report(samples_per_s=0, statistics=statistics(recipe, batches, args.check), **told)
    else:
        result = measure.timed(lambda: next(batches), recipe.samples, args.seconds, warm_up_steps=2, min_steps=3)
        measure.report(**result, **told, threads=args.threads)


def refuse_other_batches(recipe, batch):
    wanted = {name: ((recipe.batch, recipe.side, recipe.side, 3), recipe.dtype) for name in ("image", "second")}
    wanted["mask"] = ((recipe.batch, recipe.side, recipe.side), "uint8")
    for field in recipe.fields:
        if field == "boxes":
            rows = int(sum(batch["rows"]))
            shapes = [(batch["boxes"], (rows, 4), "float32"), (batch["kinds"], (rows,), "int64")]
        else:
            shapes = [(batch[field], *wanted[field])]
        for array, shape, dtype in shapes:
            if tuple(array.shape) != shape or str(array.dtype).removeprefix("torch.") != dtype:
                raise SystemExit(f"[peers] {field} is {array.dtype} {tuple(array.shape)}, not {dtype} {shape}")
            if not (array.flags.c_contiguous if hasattr(array, "flags") else array.is_contiguous()):
                raise SystemExit(f"[peers] {field} does not lie in its own order in memory")


def statistics(recipe, batches, samples):
    """Means over at least `samples` images (after the first batch) of what a recipe's ops decide: brightness, contrast and detail of the images,
    places and sizes of the boxes, shares of the classes of the mask, and how both lie on the pixels."""
    import numpy

    sums, taken = {}, 0
    while taken < samples:
        batch = {name: numpy.asarray(array) for name, array in next(batches).items()}
        for name, value in of_batch(recipe, batch, numpy).items():
            sums.setdefault(name, []).append(value)
        taken += recipe.samples * (IMAGES_PER_MOSAIC if "boxes" in recipe.fields else 1)
    return {name: float(numpy.mean(values)) for name, values in sums.items()}


def of_batch(recipe, batch, numpy):
    pixels = numpy.concatenate([batch[name] for name in ("image", "second") if name in batch])
    if recipe.dtype == "uint8":
        pixels = (pixels / numpy.float32(255) - numpy.float32(MEAN)) / numpy.float32(STD)
    found = {f"mean {name}": pixels[..., c].mean() for c, name in enumerate(("red", "green", "blue"))}
    found["deviation"] = pixels.std(axis=(1, 2)).mean()
    found["detail"] = numpy.abs(numpy.diff(pixels, axis=2)).mean()
    found["colour"] = (pixels.max(axis=3) - pixels.min(axis=3)).mean()
    grey = pixels.mean(axis=3)
    if "boxes" in recipe.fields:
        boxes, side = batch["boxes"], recipe.side
        found["boxes per image"] = len(boxes) / recipe.batch
        found["box width"], found["box height"] = (boxes[:, 2:] - boxes[:, :2]).mean(axis=0) / side
        found["box x"], found["box y"] = (boxes[:, 2:] + boxes[:, :2]).mean(axis=0) / 2 / side
        found["outside"] = float((boxes < 0).any() or (boxes > side).any())
        found["mean kind"] = batch["kinds"].mean()
        images = numpy.repeat(numpy.arange(recipe.batch), batch["rows"])
        inside = []
        for image, (left, top, right, bottom) in zip(images, boxes.round().astype(int)):
            if right - left > 8 and bottom - top > 8:
                inside.append(grey[image, top:bottom, left:right].mean() - grey[image].mean())
        found["brighter in boxes"] = numpy.mean(inside)
    if "mask" in recipe.fields:
        mask = batch["mask"]
        known = mask != UNKNOWN
        found["unknown"] = 1 - known.mean()
        found["mean class"] = mask[known].mean()
        pairs = [numpy.corrcoef(mask[i][known[i]], grey[i][known[i]])[0, 1] for i in range(len(mask))]
        found["mask follows brightness"] = numpy.nanmean(pairs)
    return found


# Of statistics over 512 images: several times what two runs of the same loader differ by, so that nobody differs by chance.
TOLERANCE = {
    "mean red": 0.15, "mean green": 0.15, "mean blue": 0.15, "deviation": 0.08, "detail": 0.03, "colour": 0.08,
    "boxes per image": 1.5, "box width": 0.02, "box height": 0.02, "box x": 0.02, "box y": 0.02, "outside": 0.0,
    "mean kind": 0.3, "brighter in boxes": 0.08, "unknown": 0.03, "mean class": 0.1, "mask follows brightness": 0.06,
}  # fmt: skip


def differences(reference, other, tolerance=TOLERANCE):
    """A text for each statistic that is further from the reference's than it may be."""
    return [
        f"{name} is {other[name]:.3f}, not {value:.3f}" if name in other else f"{name} is missing"
        for name, value in reference.items()
        if name not in other or abs(other[name] - value) > tolerance[name]
    ]


@dataclasses.dataclass
class Part:
    """One image of a mosaic: its size once its longer side is `side`, and which part of it lies where on the canvas."""

    image: Image
    width: int
    height: int
    source: tuple[int, int]  # x, y
    target: tuple[int, int]
    shape: tuple[int, int]  # width, height


@dataclasses.dataclass
class Mosaic:
    """`parts` on a canvas of twice `side`, then a factor and a shift about its middle, of which the middle is seen:
    out = factor * canvas + (shift_x, shift_y)."""

    side: int
    parts: list[Part]
    factor: float
    shift: tuple[float, float]

    @property
    def matrix(self):
        return [[self.factor, 0.0, self.shift[0]], [0.0, self.factor, self.shift[1]]]

    def on_canvas(self):
        """(boxes cut off where their part ends, their kinds), on the canvas."""
        kept, kinds = [], []
        for part in self.parts:
            x, y = part.target[0] - part.source[0], part.target[1] - part.source[1]
            across, down = part.width / part.image.width, part.height / part.image.height
            left, top = part.target
            right, bottom = left + part.shape[0], top + part.shape[1]
            for (x0, y0, x1, y1), kind in zip(part.image.boxes, part.image.kinds):
                box = (max(left, x0 * across + x), max(top, y0 * down + y), min(right, x1 * across + x), min(bottom, y1 * down + y))
                if box[0] < box[2] and box[1] < box[3]:
                    kept.append(box)
                    kinds.append(kind)
        return kept, kinds

    def seen(self):
        """(boxes, kinds) of the result, cut off at its border, without those of which nearly nothing is left."""
        kept, kinds = [], []
        for box, kind in zip(*self.on_canvas()):
            moved = [min(max(self.factor * at + self.shift[i % 2], 0.0), float(self.side)) for i, at in enumerate(box)]
            if moved[2] - moved[0] >= SMALLEST and moved[3] - moved[1] >= SMALLEST:
                kept.append(moved)
                kinds.append(kind)
        return kept, kinds


def draw_mosaic(images, side, rng=random):
    """Four images around a drawn point, the first upper left, then upper right, lower left, lower right."""
    x, y = (round(2 * side * rng.uniform(*CENTER)) for _ in range(2))
    parts = []
    for i, image in enumerate(images):
        scale = side / max(image.width, image.height)
        width, height = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        shown_x, shown_y = min(width, x if i % 2 == 0 else 2 * side - x), min(height, y if i < 2 else 2 * side - y)
        source = (width - shown_x if i % 2 == 0 else 0, height - shown_y if i < 2 else 0)
        target = (x - shown_x if i % 2 == 0 else x, y - shown_y if i < 2 else y)
        parts.append(Part(image, width, height, source, target, (shown_x, shown_y)))
    factor = rng.uniform(*SCALE)
    shift = [side / 2 - factor * side + 2 * side * rng.uniform(-SHIFT, SHIFT) for _ in range(2)]
    return Mosaic(side, parts, factor, (shift[0], shift[1]))
