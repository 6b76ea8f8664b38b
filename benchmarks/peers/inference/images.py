"""JPEG files as batches for a network: the shorter side becomes 256, the middle 224 x 224 is cut out and normalised as
torchvision's weights expect. As many threads as the network has decode ahead of it; decoders let go of the GIL."""

import collections
import concurrent.futures
import itertools

import numpy
from jpegs import jpegs

SIZE, SHORTER = 224, 256
MEAN = numpy.array([0.485, 0.456, 0.406], dtype="f4")
STD = numpy.array([0.229, 0.224, 0.225], dtype="f4")
SCALE, SHIFT = 1 / (255 * STD), -MEAN / STD
BATCHES_AHEAD = 2


def middle(width, height):
    """The part of the image that is cut out: left, top, side. No pixel outside of it needs to be resized."""
    side = SIZE / SHORTER * min(width, height)
    return (width - side) / 2, (height - side) / 2, side


def with_pillow(path):
    import PIL.Image

    image = PIL.Image.open(path).convert("RGB")
    left, top, side = middle(*image.size)
    box = (left, top, left + side, top + side)
    return numpy.asarray(image.resize((SIZE, SIZE), PIL.Image.Resampling.BILINEAR, box=box))


def with_opencv(path):
    """INTER_AREA is its antialiased filter for making images smaller."""
    import cv2

    image = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
    height, width, _ = image.shape
    left, top, side = (round(value) for value in middle(width, height))
    return cv2.resize(image[top : top + side, left : left + side], (SIZE, SIZE), interpolation=cv2.INTER_AREA)


DECODERS = {"pillow": with_pillow, "opencv": with_opencv}


def batches(folder, batch, threads, decoder):
    """f32 [batch, 3, SIZE, SIZE], without end."""
    paths = itertools.cycle(jpegs(folder))
    decode = DECODERS[decoder]

    def fill(path, to):
        numpy.multiply(decode(path).transpose(2, 0, 1), SCALE[:, None, None], out=to)
        to += SHIFT[:, None, None]

    def start():
        slot = numpy.empty((batch, 3, SIZE, SIZE), dtype="f4")
        return slot, [pool.submit(fill, next(paths), slot[i]) for i in range(batch)]

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        ahead = collections.deque(start() for _ in range(BATCHES_AHEAD))
        while True:
            slot, filling = ahead.popleft()
            for one in filling:
                one.result()
            ahead.append(start())
            yield slot
