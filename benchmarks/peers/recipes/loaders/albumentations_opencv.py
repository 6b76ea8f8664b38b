# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "albumentations==2.0.8", "opencv-python-headless==5.0.0.93", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""Albumentations on arrays that OpenCV decoded, in a DataLoader with one worker process per thread."""

import functools
import math
import os
import pathlib
import sys

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # it would ask the network for a newer version
import albumentations as A  # noqa: E402
import cv2  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import torch_batches  # noqa: E402
import work  # noqa: E402

SMOOTH = numpy.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], numpy.float32) / 13  # Pillow's, of its sharpness
SAME = numpy.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], numpy.float32)


def decode(path, flag=cv2.IMREAD_COLOR_RGB):
    return cv2.imdecode(numpy.fromfile(path, numpy.uint8), flag)


def signed(build, value):
    """Plus or minus `value`, equally often."""
    return A.OneOf([build(value), build(-value)], p=1)


def jitter(brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0, p=1.0):
    around = [(1 - distance, 1 + distance) for distance in (brightness, contrast, saturation)]
    return A.ColorJitter(*around, (-hue, hue), p=p)


def fixed(name, factor):
    factors = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1), name: (factor, factor)}
    return A.ColorJitter(**factors, hue=(0, 0), p=1)


def filtered(image, kernel, **_):
    return cv2.filter2D(image, -1, kernel)


def sharpness(factor):
    """Albumentations' Sharpen is another op; this is Pillow's, but for the border."""
    return A.Lambda(image=functools.partial(filtered, kernel=factor * SAME + (1 - factor) * SMOOTH), p=1)


def randaugment(side):
    """Albumentations has none: two of torchvision's fourteen ops, as torchvision's formulas give them at this magnitude."""
    share = work.MAGNITUDE / (work.BINS - 1)
    affine = lambda **what: A.Affine(**what, interpolation=cv2.INTER_NEAREST, p=1)  # noqa: E731
    shear, shift, color = math.degrees(math.atan(0.3 * share)), int(150 / 331 * side * share), 0.9 * share
    ops = [
        A.NoOp(p=1),
        signed(lambda v: affine(shear={"x": (v, v), "y": (0, 0)}), shear),
        signed(lambda v: affine(shear={"x": (0, 0), "y": (v, v)}), shear),
        signed(lambda v: affine(translate_px={"x": (v, v), "y": (0, 0)}), shift),
        signed(lambda v: affine(translate_px={"x": (0, 0), "y": (v, v)}), shift),
        signed(lambda v: A.Rotate((v, v), interpolation=cv2.INTER_NEAREST, border_mode=cv2.BORDER_CONSTANT, p=1), 30 * share),
        signed(lambda v: fixed("brightness", 1 + v), color),
        signed(lambda v: fixed("saturation", 1 + v), color),
        signed(lambda v: fixed("contrast", 1 + v), color),
        signed(lambda v: sharpness(1 + v), color),
        A.Posterize(8 - round(work.MAGNITUDE / ((work.BINS - 1) / 4)), p=1),
        A.Solarize((1 - share, 1 - share), p=1),
        A.AutoContrast(p=1),
        A.Equalize(p=1),
    ]
    return [A.OneOf(ops, p=1), A.OneOf(ops, p=1)]


def crop(filter):
    return A.RandomResizedCrop((224, 224), interpolation=filter, area_for_downscale="image")


class Classification:
    def __init__(self, name):
        steps = {
            "a2": lambda: [crop(cv2.INTER_CUBIC), A.HorizontalFlip(), *randaugment(224)],
            "deit3": lambda: [
                crop(cv2.INTER_CUBIC),
                A.HorizontalFlip(),
                A.OneOf([A.ToGray(p=1), A.Solarize((128 / 255, 128 / 255), p=1), A.GaussianBlur(0, (0.1, 2.0), p=1)], p=1),
                jitter(0.3, 0.3, 0.3),
            ],
            "simclr": lambda: [
                crop(cv2.INTER_LINEAR),
                A.HorizontalFlip(),
                jitter(0.8, 0.8, 0.8, 0.2, p=0.8),
                A.ToGray(p=0.2),
                A.GaussianBlur((23, 23), (0.1, 2.0), p=0.5),
            ],
        }[name]
        self.transform = A.Compose(steps())
        self.views = 2 if name == "simclr" else 1

    def __call__(self, sample, others):
        image = decode(sample.path)
        views = [torch.from_numpy(numpy.ascontiguousarray(self.transform(image=image)["image"])) for _ in range(self.views)]
        return {"image": torch.stack(views) if self.views > 1 else views[0]}


class Mosaic:
    """As Ultralytics writes it: four images on one canvas, warped by OpenCV into what is seen of it. Albumentations' own
    Mosaic cuts out a window of a regular grid, which is another op; jitter and flip are Albumentations'."""

    def __init__(self, side):
        self.side = side
        boxes = A.BboxParams("pascal_voc", label_fields=["kinds"])
        self.transform = A.Compose([jitter(0.4, 0, 0.7, 0.015), A.HorizontalFlip()], bbox_params=boxes)

    def __call__(self, sample, others):
        plan = work.draw_mosaic([sample, *others], self.side)
        canvas = numpy.full((2 * self.side, 2 * self.side, 3), work.FILL, numpy.uint8)
        for part in plan.parts:
            whole = decode(part.image.path)
            shrinks = part.width < whole.shape[1]
            small = cv2.resize(whole, (part.width, part.height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
            (x, y), (to_x, to_y), (width, height) = part.source, part.target, part.shape
            canvas[to_y : to_y + height, to_x : to_x + width] = small[y : y + height, x : x + width]
        matrix = numpy.array(plan.matrix)
        matrix[:, 2] += (plan.factor - 1) / 2  # (0, 0) is the upper left corner of the first pixel, for OpenCV its middle
        seen = cv2.warpAffine(canvas, matrix, (self.side, self.side), flags=cv2.INTER_LINEAR, borderValue=[work.FILL] * 3)
        boxes, kinds = plan.seen()
        made = self.transform(image=seen, bboxes=boxes, kinds=kinds)
        return {
            "image": torch.from_numpy(numpy.ascontiguousarray(made["image"])),
            "boxes": torch.from_numpy(numpy.asarray(made["bboxes"], numpy.float32).reshape(-1, 4)),
            "kinds": torch.tensor([int(kind) for kind in made["kinds"]], dtype=torch.int64),
        }


class Segmentation:
    def __init__(self, side):
        self.transform = A.Compose(
            [
                A.SmallestMaxSize(list(work.SIZES), area_for_downscale="image"),
                A.PadIfNeeded(side, side, fill=0, fill_mask=work.UNKNOWN),
                A.RandomCrop(side, side),
                A.HorizontalFlip(),
                jitter(0.5, 0.5, 0.5, 0.05, p=0.5),
            ]
        )

    def __call__(self, sample, others):
        made = self.transform(image=decode(sample.path), mask=decode(sample.mask, cv2.IMREAD_GRAYSCALE))
        return {name: torch.from_numpy(numpy.ascontiguousarray(made[name])) for name in ("image", "mask")}


class InEachWorker:
    """Made when a worker asks for its first sample: Albumentations' random numbers are seeded there, else all had the same."""

    def __init__(self, build):
        self.build, self.made = build, None

    def __call__(self, sample, others):
        if self.made is None:
            cv2.setNumThreads(0)
            self.made = self.build()
        return self.made(sample, others)


def make_batches(args):
    cv2.setNumThreads(0)
    build = {"mosaic": lambda: Mosaic(args.recipe.side), "segmentation": lambda: Segmentation(args.recipe.side)}
    return torch_batches.batches_of(args, InEachWorker(build.get(args.name, lambda: Classification(args.name))))


if __name__ == "__main__":
    work.main(
        make_batches,
        about="full decode by OpenCV; worker processes",
        versions={"Albumentations": A.__version__, "OpenCV": cv2.__version__, "torch": torch.__version__},
    )
