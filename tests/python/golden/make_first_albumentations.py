"""Writes first_albumentations.golden: what transforms of Albumentations 1.3.1 save, and the ranges in which they draw, for
test_convert_augment.py. It needs a Python of its own: pip install albumentations==1.3.1 'numpy<2' 'opencv-python-headless<4.11'.

A line is a JSON object: `saved` is what A.to_dict says, `op` is dlpipe's op, `arguments` the least and the largest value that
was drawn for each of its arguments, in dlpipe's units (null: not compared)."""

import json
import math
import os
import random

import albumentations as A
import numpy as np

SIDE = 100
IMAGE = np.full((SIDE, SIDE, 3), 128, np.uint8)
DRAWS = 4000


def params(transform):
    drawn = transform.get_params()
    if transform.targets_as_params:
        drawn = {**drawn, **transform.get_params_dependent_on_targets({"image": IMAGE})}
    return drawn


def holes(value):
    return lambda drawn: [value(*hole) for hole in drawn["holes"]]


def ends(limits):
    return [min(limits), max(limits)]


# transform, op, and of each argument the values of a draw; None: not compared
CASES = [
    (A.GaussNoise(var_limit=(10, 50), mean=12, always_apply=True), "gaussian_noise",
     [lambda d: [d["gauss"].std() / 255], lambda d: [d["gauss"].mean() / 255]]),
    (A.GaussNoise(var_limit=40, always_apply=True), "gaussian_noise", [lambda d: [d["gauss"].std() / 255]]),
    (A.Solarize(threshold=(60, 200), always_apply=True), "solarize", [lambda d: [d["threshold"]]]),
    (A.Posterize(num_bits=(2, 6), always_apply=True), "posterize", [lambda d: [d["num_bits"]]]),
    (A.RandomGamma(gamma_limit=(60, 140), always_apply=True), "gamma", [lambda d: [d["gamma"]]]),
    (A.ImageCompression(quality_lower=40, quality_upper=90, always_apply=True), "jpeg", [lambda d: [d["quality"]]]),
    (A.Downscale(scale_min=0.3, scale_max=0.6, always_apply=True), "downscale", [lambda d: [d["scale"]]]),
    (A.Rotate(limit=30, always_apply=True), "rotate", [lambda d: [d["angle"]]]),
    (A.ShiftScaleRotate(shift_limit=0.1, scale_limit=0.3, rotate_limit=20, always_apply=True), "affine",
     [lambda d: [d["angle"]], lambda d: [d["dx"]], lambda d: [d["dy"]], lambda d: [d["scale"]]]),
    (A.HueSaturationValue(hue_shift_limit=18, sat_shift_limit=51, val_shift_limit=25.5, always_apply=True), "hue",
     [lambda d: [d["hue_shift"] / 180]]),
    (A.CoarseDropout(max_holes=6, min_holes=2, max_height=20, min_height=10, max_width=30, min_width=5, always_apply=True),
     "coarse_dropout", [lambda d: [len(d["holes"])], holes(lambda x1, y1, x2, y2: (y2 - y1) / SIDE),
                        holes(lambda x1, y1, x2, y2: (x2 - x1) / SIDE)]),
    (A.CoarseDropout(max_holes=6, max_height=20, max_width=30, always_apply=True), "coarse_dropout",
     [lambda d: [len(d["holes"])], holes(lambda x1, y1, x2, y2: (y2 - y1) / SIDE),
      holes(lambda x1, y1, x2, y2: (x2 - x1) / SIDE)]),
]  # fmt: skip


def line_of(transform, op, of_draw):
    values = [[] for _ in of_draw]
    for _ in range(DRAWS):
        if op == "gaussian_noise":
            drawn = transform.get_params_dependent_on_targets({"image": IMAGE})
        else:
            drawn = params(transform)
        for found, take in zip(values, of_draw):
            if take is not None:
                found += map(float, take(drawn))
    arguments = [[round(end, 5) for end in ends(found)] if found else None for found in values]
    assert all(math.isfinite(end) for one in arguments if one for end in one)
    return json.dumps({"op": op, "arguments": arguments, "saved": A.to_dict(A.Compose([A.Resize(SIDE, SIDE), transform]))})


random.seed(1)
np.random.seed(1)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "first_albumentations.golden")
with open(path, "w", encoding="utf-8") as file:
    file.writelines(line_of(*case) + "\n" for case in CASES)
