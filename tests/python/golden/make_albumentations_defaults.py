"""Writes albumentations_defaults.golden: what transforms of Albumentations 2.0.8 save that are written without arguments, for
test_convert_augment.py. It needs scripts/requirements-golden.txt.

A line is a JSON object: `call` is how a program writes the transform, `saved` what A.to_dict says of it."""

import json
import os

import albumentations as A

CALLS = [
    "Affine()", "AutoContrast()", "BBoxSafeRandomCrop()", "Blur()", "CLAHE()", "CenterCrop(64, 48)", "ChannelDropout()",
    "ChannelShuffle()", "CoarseDropout()", "ColorJitter()", "D4()", "Downscale()", "ElasticTransform()", "Emboss()", "Equalize()",
    "Erasing()", "FancyPCA()", "GaussNoise()", "GaussianBlur()", "GridDistortion()", "HorizontalFlip()", "HueSaturationValue()",
    "ISONoise()", "ImageCompression()", "InvertImg()", "LongestMaxSize(64)", "MedianBlur()", "MotionBlur()", "Normalize()",
    "PadIfNeeded()", "Posterize()", "RandomBrightnessContrast()", "RandomCrop(64, 48)", "RandomGamma()",
    "RandomResizedCrop((64, 48))", "RandomRotate90()", "RandomSizedBBoxSafeCrop(64, 48)", "Resize(64, 48)", "Rotate()",
    "ShiftScaleRotate()", "SmallestMaxSize(64)", "Solarize()", "SquareSymmetry()", "ToGray()", "Transpose()", "UnsharpMask()",
    "VerticalFlip()",
]  # fmt: skip


def line_of(call):
    return json.dumps({"call": "A." + call, "saved": A.to_dict(A.Compose([eval("A." + call)]))})


path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "albumentations_defaults.golden")
with open(path, "w", encoding="utf-8") as file:
    file.writelines(line_of(call) + "\n" for call in CALLS)
