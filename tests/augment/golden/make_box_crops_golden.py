"""Writes box_crops.golden: which crops torchvision's RandomIoUCrop and Albumentations' BBoxSafeRandomCrop take, given the
random numbers that dlpipe draws.

    python make_box_crops_golden.py        (needs albumentations and torchvision's files, but not torch)

A case is three lines: the expression; seed, position, width and height; the boxes. A fourth has the crop (x, y, width, height)
or nothing where the image stays as it is, and a fifth which boxes are kept.

Of torchvision the method make_params itself is run; what it takes of torch is given to it in NumPy, in the same precision.
"""
import ast
import importlib.util
import os
import textwrap

import albumentations
import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 32) - 1


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ key[0], p1 & MASK, (p0 >> 32) ^ counter[3] ^ key[1], p0 & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return counter


class Stream:
    """base/rng.h's RandomStream of the chain's first op in epoch 0, behind the number that `p` takes."""

    def __init__(self, seed, position):
        self.key = philox([seed & MASK, seed >> 32, 0, 0], [0x243F6A88, 0x85A308D3])[:2]
        self.position, self.block, self.words = position, 0, []
        self.random()

    def word(self):
        if not self.words:
            self.words = philox([self.position, 0, 0, self.block], self.key)
            self.block += 1
        return self.words.pop(0)

    def uniform(self):
        return numpy.float32((self.word() >> 8) * 2.0**-24)

    def random(self):
        high = self.word()
        return (((high << 32) | self.word()) >> 11) * 2.0**-53

    def below(self, n):
        product = self.word() * n
        while (product & MASK) < (2**32 - n) % n:
            product = self.word() * n
        return product >> 32

    def randint(self, low, high):
        return low + self.below(high - low + 1)


class Boxes(numpy.ndarray):
    format = "XYXY"

    def as_subclass(self, kind):
        return self


class Torch:
    Tensor = numpy.ndarray

    def __init__(self, stream):
        self.stream = stream

    def randint(self, low, high, size):
        return low + self.stream.below(high - low)

    def rand(self, count):
        return numpy.array([self.stream.uniform() for _ in range(count)], dtype=numpy.float32)

    def tensor(self, rows, dtype, device):
        return numpy.array(rows, dtype=dtype)


class Functional:
    @staticmethod
    def convert_bounding_box_format(boxes, old, new):
        return boxes.view(numpy.ndarray)


class TvTensors:
    class BoundingBoxFormat:
        XYXY = "XYXY"


def box_iou(boxes, crops):
    crop = crops[0]
    low, high = numpy.maximum(boxes[:, :2], crop[:2]), numpy.minimum(boxes[:, 2:], crop[2:])
    both = numpy.prod(numpy.clip(high - low, 0, None), axis=1)
    area = numpy.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return both / (area + (crop[2] - crop[0]) * (crop[3] - crop[1]) - both)


def make_params_of_torchvision():
    if "TORCHVISION" in os.environ:
        folder = os.environ["TORCHVISION"]
    else:
        folder = os.path.dirname(importlib.util.find_spec("torchvision").origin)
    with open(os.path.join(folder, "transforms/v2/_geometry.py")) as file:
        source = file.read()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == "RandomIoUCrop":
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "make_params":
                    return textwrap.dedent(ast.get_source_segment(source, method, padded=True))
    raise SystemExit("torchvision has no RandomIoUCrop")


MAKE_PARAMS = make_params_of_torchvision()
DEFAULT_OPTIONS = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]


def ssd_crop(stream, boxes, width, height, scale=(0.3, 1.0), ratio=(0.5, 2.0), options=DEFAULT_OPTIONS, trials=40):
    given = numpy.array(boxes, dtype=numpy.float64).reshape(-1, 4).view(Boxes)
    names = {
        "Any": object, "torch": Torch(stream), "F": Functional, "tv_tensors": TvTensors, "box_iou": box_iou,
        "query_size": lambda inputs: (height, width), "get_bounding_boxes": lambda inputs: given,
    }  # fmt: skip
    exec(MAKE_PARAMS, names)

    class Crop:
        min_scale, max_scale = scale
        min_aspect_ratio, max_aspect_ratio = ratio

    Crop.options, Crop.trials = options, trials
    params = names["make_params"](Crop, [])
    if not params:
        return None, [1] * len(boxes)
    crop = [params[name] for name in ("left", "top", "width", "height")]
    return crop, [int(kept) for kept in params["is_within_crop_area"]]


def safe_crop(stream, boxes, width, height, erosion=0.0):
    op = albumentations.BBoxSafeRandomCrop(erosion_rate=erosion)
    op.py_random = stream
    share = numpy.array(boxes, dtype=numpy.float32).reshape(-1, 4) / numpy.array([width, height] * 2, numpy.float32)
    data = {"bboxes": share}
    left, top, right, bottom = op.get_params_dependent_on_data({"shape": (height, width, 3)}, data)["crop_coords"]
    crop = [left, top, right - left, bottom - top]
    seen = [box[2] > left and box[3] > top and box[0] < right and box[1] < bottom for box in boxes]
    return crop, [int(kept) for kept in seen]


def main():
    numbers = numpy.random.default_rng(3)
    lines = []

    def cases(expression, function, times, least=0, **parameters):
        for position in range(times):
            width, height = (int(n) for n in numbers.integers(40, 700, 2))
            corners = numbers.random((int(numbers.integers(least, 5)), 2, 2)) * [width, height]
            boxes = numpy.concatenate([corners.min(1), corners.max(1)], axis=1).astype(numpy.float32).tolist()
            seed = int(numbers.integers(0, 1 << 40))
            crop, kept = function(Stream(seed, position), boxes, width, height, **parameters)
            lines.append(expression)
            lines.append(f"{seed} {position} {width} {height}")
            lines.append(" ".join(repr(value) for box in boxes for value in box))
            lines.append(" ".join(str(value) for value in crop or []))
            lines.append(" ".join(map(str, kept)))

    cases("ssd_crop", ssd_crop, 60, least=1)
    cases("ssd_crop(0.5..0.9,0.7..1.5,overlaps=0.3:0.7:1,trials=5)", ssd_crop, 30, least=1, scale=(0.5, 0.9),
          ratio=(0.7, 1.5), options=[0.3, 0.7, 1.0], trials=5)  # fmt: skip
    cases("safe_crop", safe_crop, 40)
    cases("safe_crop(0.3)", safe_crop, 40, erosion=0.3)
    with open(os.path.join(HERE, "box_crops.golden"), "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
