"""What read_sources.py ingests and compares: a case, and images for it."""

import io

import numpy as np
from PIL import Image



class Case:
    """`arguments` for dlpipe ingest; `samples`: path -> (class, encoded image or pixels, {field: bytes}); `damage`: the
    files to cut short."""

    def __init__(self, arguments, samples, damage=(), stdin=None, splits=("",)):
        self.arguments, self.samples, self.damage = arguments, samples, damage
        self.stdin, self.splits = stdin, splits


def make_image(number, format="JPEG", mode="RGB", size=(20, 16)):
    rng = np.random.default_rng(number)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, shape, np.uint8), mode).save(out, format)
    return out.getvalue()


def floats(numbers):
    return np.array(numbers, "<f4").tobytes()
