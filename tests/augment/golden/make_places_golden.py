"""Writes places.golden: what torchvision's tv_tensors and Albumentations make of boxes and points.

    python make_places_golden.py        (needs scripts/requirements-golden.txt)

A case is four lines: the expression, everything that dlpipe would draw being fixed; the library, width and height, and the
values that the op is to have drawn where an expression can't fix them; boxes, each followed by what becomes of it; points
likewise. Boxes that leave nothing in the image are left out: the libraries keep or drop them by rules of their own.

dlpipe's coordinates are those of boxes in both libraries: (0, 0) is the corner of the first pixel. Points of both libraries are
indices of pixels where they are mirrored, so that half a pixel is taken off before and put back behind.
"""
import os

import albumentations
import numpy
import torch
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional

HERE = os.path.dirname(os.path.abspath(__file__))
BOXES = [[10, 20, 60, 50], [0, 0, 120, 90], [55.5, 10.25, 70.75, 81], [90, 70, 119, 89], [3, 60, 20, 62]]
POINTS = [[30.5, 20.5], [60, 45], [61.25, 50], [45, 33.5]]
LINES = []


def numbers(rows):
    return " ".join(f"{value:.6g}" for row in rows for value in row)


def pairs(before, after):
    return numbers([row for pair in zip(before, after) for row in pair])


def case(expression, library, size, boxes_after, points_after=None, values=()):
    width, height = size
    kept = [(a, b) for a, b in zip(BOXES, boxes_after) if b is not None and b[2] - b[0] > 1e-3 and b[3] - b[1] > 1e-3]
    LINES.append(expression)
    LINES.append(" ".join(map(str, (library, width, height, *values))))
    LINES.append(pairs(*zip(*kept)))
    LINES.append(pairs(POINTS, points_after) if points_after is not None else "")


def torchvision(expression, name, *args, points=True, shift=0.0, values=(), **kwargs):
    """torchvision.transforms.v2.functional.NAME of tv_tensors; points=False where its points follow another convention."""
    width, height = 120, 90
    function = getattr(functional, name)
    boxes = tv_tensors.BoundingBoxes(torch.tensor(BOXES, dtype=torch.float64), format="XYXY", canvas_size=(height, width))
    after = functional.clamp_bounding_boxes(function(boxes, *args, **kwargs)).tolist()
    moved = None
    if points:
        given = tv_tensors.KeyPoints(torch.tensor(POINTS, dtype=torch.float64) - shift, canvas_size=(height, width))
        moved = (function(given, *args, **kwargs) + shift).tolist()
    case(expression, "torchvision", (width, height), after, moved, values)


def albumentation(expression, transform, shift=0.0):
    width, height = 120, 90
    compose = albumentations.Compose(
        [transform], bbox_params=albumentations.BboxParams("pascal_voc", label_fields=["ids"], clip=True),
        keypoint_params=albumentations.KeypointParams("xy", remove_invisible=False))  # fmt: skip
    result = compose(image=numpy.zeros((height, width, 3), numpy.uint8), bboxes=numpy.array(BOXES, numpy.float64),
                     ids=list(range(len(BOXES))), keypoints=numpy.array(POINTS, numpy.float64) - shift)  # fmt: skip
    after = [None] * len(BOXES)
    for i, box in zip(result["ids"], result["bboxes"]):
        after[int(i)] = box
    case(expression, "albumentations", (width, height), after, result["keypoints"] + shift)


def main():
    torchvision("hflip(1)", "horizontal_flip", shift=0.5)
    torchvision("vflip(1)", "vertical_flip", shift=0.5)
    for height, width in ((45, 60), (180, 100), (91, 240)):
        torchvision(f"resize({height}x{width})", "resize", [height, width])
    torchvision("resize(64)", "resize", [64])
    torchvision("resize(64, side=longer)", "resize", None, max_size=64)
    torchvision("pad(7:3:11:5)", "pad", [7, 3, 11, 5])
    for height, width in ((60, 40), (100, 150), (31, 41)):
        torchvision(f"center_crop({height}x{width})", "center_crop", [height, width])
    for left, top in ((0, 0), (-5, 8), (13, -7)):
        torchvision("pad_crop(70x80, 10)", "crop", top, left, 70, 80, values=(left, top))
    for angle in (-90, -30, 12.5, 45, 180):
        torchvision(f"rotate({angle}..{angle})", "rotate", angle, points=False)
    for angle, x, y, scale, shear in ((20, 0, 0, 1, (0, 0)), (0, 12, -9, 1, (0, 0)), (-33, 6, 9, 0.7, (10, -5)), (0, 0, 0, 1.6, (0, 20))):
        ranges = f"angle={angle}..{angle},scale={scale},shear_x={shear[0]}..{shear[0]},shear_y={shear[1]}..{shear[1]}"
        shares = f"translate_x={x / 120}..{x / 120},translate_y={y / 90}..{y / 90}"
        torchvision(f"affine({ranges},{shares})", "affine", angle=angle, translate=[x, y], scale=scale, shear=list(shear), points=False)
    torchvision("shear(15..15,-10..-10)", "affine", angle=0, translate=[0, 0], scale=1, shear=[15, -10], points=False)
    torchvision("translate(30..30,-12..-12,pixels)", "affine", angle=0, translate=[30, -12], scale=1, shear=[0, 0], points=False)
    for corners in ((5, 7, 10, 0, 3, 9, 12, 4), (0, 0, 30, 20, 0, 0, 0, 0)):
        x0, y0, x1, y1, x2, y2, x3, y3 = corners
        start = [[0, 0], [119, 0], [119, 89], [0, 89]]
        end = [[x0, y0], [119 - x1, y1], [119 - x2, 89 - y2], [x3, 89 - y3]]
        torchvision("perspective(0.9,p=1)", "perspective", start, end, points=False, values=corners)
    albumentation("hflip(1)", albumentations.HorizontalFlip(p=1), shift=0.5)
    albumentation("vflip(1)", albumentations.VerticalFlip(p=1), shift=0.5)
    albumentation("transpose(1)", albumentations.Transpose(p=1), shift=0.5)
    albumentation("resize(50x70)", albumentations.Resize(50, 70))
    albumentation("resize(64, side=longer)", albumentations.LongestMaxSize(64))
    albumentation("center_crop(60x40)", albumentations.CenterCrop(60, 40))
    albumentation("pad_to(131x140)", albumentations.PadIfNeeded(131, 140))
    albumentation("pad(7:3:11:5)", albumentations.Pad([7, 3, 11, 5]))
    with open(os.path.join(HERE, "places.golden"), "w") as file:
        file.write("\n".join(LINES) + "\n")


if __name__ == "__main__":
    main()
