"""Writes resize.golden: what Pillow makes of images that the tests can make too.

    python make_golden.py            (needs Pillow 13 and numpy)

A record is one line of text, `kind channels width height x y box_width box_height out_width out_height`, and the
result's bytes, rows of interleaved channels. Kinds:

    resize  image.resize(out, BILINEAR, box)              pixels around the box are seen at its edges
    crop    image.crop(box).resize(out, BILINEAR)         what rrc does
    val     image.resize(..).crop(middle)                 resize(shorter side 48) center_crop(40)

Four channels are CMYK, because Pillow multiplies RGBA by its alpha first.
"""
import os

import PIL
from PIL import Image

from golden_image import make_image

RESIZES = [  # channels, width, height, box or None, out_width, out_height
    (3, 64, 48, None, 24, 18), (3, 64, 48, None, 25, 17), (3, 37, 53, None, 16, 16), (3, 20, 15, None, 48, 40),
    (3, 48, 48, None, 48, 20), (3, 48, 48, None, 20, 48), (3, 31, 29, None, 30, 28), (3, 29, 31, None, 30, 32),
    (3, 400, 300, None, 16, 12), (3, 300, 400, None, 16, 12), (3, 1000, 30, None, 9, 30), (3, 30, 1000, None, 30, 9),
    (3, 1, 1, None, 7, 5), (3, 7, 1, None, 3, 4), (3, 1, 9, None, 4, 3), (3, 2, 2, None, 9, 9), (3, 5, 3, None, 1, 1),
    (3, 60, 50, None, 20, 49), (3, 60, 50, None, 59, 20), (3, 97, 89, None, 41, 43), (3, 96, 120, None, 32, 33),
    (1, 64, 48, None, 24, 18), (1, 37, 53, None, 16, 16), (1, 28, 28, None, 32, 32), (1, 200, 150, None, 33, 21),
    (1, 3, 2, None, 20, 21), (4, 64, 48, None, 24, 18), (4, 37, 53, None, 17, 16), (4, 9, 11, None, 20, 30),
    (3, 64, 48, (10, 5, 40, 30), 24, 18), (3, 64, 48, (0, 0, 1, 1), 8, 8), (3, 64, 48, (63, 47, 1, 1), 5, 5),
    (3, 100, 80, (50, 0, 50, 80), 20, 30), (3, 100, 80, (3, 7, 90, 5), 30, 30), (3, 80, 100, (11, 13, 33, 77), 32, 32),
    (1, 64, 48, (10, 5, 40, 30), 24, 18), (4, 64, 48, (10, 5, 40, 30), 24, 18),
]
CROPS = [  # of 500 x 375: what rrc(32) draws with seed 42, epoch 1, positions 0 to 2
    (16, 8, 364, 364), (30, 59, 217, 283), (21, 4, 466, 362),
]


def write(file, kind, channels, size, box, image):
    line = [kind, channels, *size, *box, *image.size]
    file.write((" ".join(map(str, line)) + "\n").encode() + image.tobytes())


def main():
    assert PIL.__version__.startswith("13."), "the order of the passes is Pillow 13's"
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "resize.golden"), "wb") as file:
        for channels, width, height, box, *out in RESIZES:
            x, y, w, h = box or (0, 0, width, height)
            result = make_image(channels, width, height).resize(out, Image.BILINEAR, box=(x, y, x + w, y + h))
            write(file, "resize", channels, (width, height), (x, y, w, h), result)
        for x, y, w, h in CROPS:
            result = make_image(3, 500, 375).crop((x, y, x + w, y + h)).resize((32, 32), Image.BILINEAR)
            write(file, "crop", 3, (500, 375), (x, y, w, h), result)
        for width, height in (161, 97), (97, 161):
            shorter = min(width, height)
            wide, high = 48 * width // shorter, 48 * height // shorter
            left, top = round((wide - 40) / 2), round((high - 40) / 2)
            result = make_image(3, width, height).resize((wide, high), Image.BILINEAR)
            result = result.crop((left, top, left + 40, top + 40))
            write(file, "val", 3, (width, height), (0, 0, width, height), result)


if __name__ == "__main__":
    main()
