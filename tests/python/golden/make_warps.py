"""Writes warps.golden and warps.png: images that torchvision 0.29 and Albumentations 2.0.8 make with nothing left to chance, for
test_convert_augment.py. It needs scripts/requirements-golden.txt.

A line of warps.golden is a JSON object: `call` is how a program writes the transform, `saved` what A.to_dict says of it (null of
torchvision's), `row` and `size` where in warps.png the result stands. The source is the first image."""

import json
import os

import albumentations as A
import numpy as np
import torch
import torchvision.transforms as T
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS = [
    "A.ShiftScaleRotate(shift_limit=0, scale_limit=0, rotate_limit=(30, 30), p=1)",
    "A.ShiftScaleRotate(shift_limit_x=(0.1, 0.1), shift_limit_y=(-0.2, -0.2), scale_limit=(0.3, 0.3), rotate_limit=(-20, -20), p=1)",
    "A.Affine(rotate=(30, 30), p=1)",
    "A.Affine(rotate=(30, 30), shear=(10, 10), p=1)",
    "A.Affine(rotate=(-30, -30), shear=(10, 10), p=1)",
    "A.Affine(rotate=(40, 40), shear={'x': (20, 20), 'y': (0, 0)}, translate_percent={'x': (0.1, 0.1), 'y': (-0.05, -0.05)}, p=1)",
    "A.Affine(shear={'x': (15, 15), 'y': (0, 0)}, p=1)",
    "A.Affine(shear={'x': (0, 0), 'y': (15, 15)}, p=1)",
    "A.Affine(rotate=(100, 100), scale={'x': (0.7, 0.7), 'y': (1.2, 1.2)}, p=1)",
    "A.Rotate(limit=(30, 30), p=1)",
    "T.RandomRotation((30, 30), 2)",
    "T.RandomRotation((30, 30), 0, fill=90)",
    "T.RandomAffine((30, 30), None, (1.2, 1.2), (10, 10, 5, 5), 2)",
    "T.Resize((40, 50), 1)",
    "T.Resize((40, 50), 3)",
    "T.Resize((40, 50), 4)",
    "T.RandomHorizontalFlip(1)",
    "T.Grayscale(3)",
    "T.Compose([T.ToTensor(), T.RandomSolarize(0.5, 1), T.Pad(3, fill=0.6), T.ToPILImage()])",
]  # fmt: skip


def source():
    """Marks at two sides and a soft ground: no turn and no mirror image is itself."""
    y, x = np.mgrid[:81, :101]
    image = np.stack([40 + x // 2, 60 + y // 2, 80 + (x + y) // 4], -1).astype(np.uint8)
    image[12:18, 44:56] = 160
    image[38:50, 80:92] = 255, 240, 20
    return image


def made(call, image):
    transform = eval(call)
    if call.startswith("A."):
        return transform(image=image)["image"]
    return np.asarray(transform(Image.fromarray(image)))


def main():
    torch.manual_seed(1)
    images, lines = [source()], []
    for call in CALLS:
        images.append(made(call, images[0]))
        saved = A.to_dict(A.Compose([eval(call)])) if call.startswith("A.") else None
        row = sum(one.shape[0] for one in images[:-1])
        lines.append(json.dumps({"call": call, "row": row, "size": images[-1].shape[:2], "saved": saved}))
    width = max(one.shape[1] for one in images)
    Image.fromarray(np.concatenate([np.pad(one, ((0, 0), (0, width - one.shape[1]), (0, 0))) for one in images])).save(
        os.path.join(HERE, "warps.png"), optimize=True)  # fmt: skip
    with open(os.path.join(HERE, "warps.golden"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


main()
