# /// script
# dependencies = ["opencv-python-headless==5.0.0.93", "numpy==2.4.6"]
# ///
"""OpenCV in a pool of threads, as a careful user would write it: full decode, INTER_AREA into the batch."""

import collections
import concurrent.futures
import pathlib
import random
import sys
import threading

import cv2
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402

own = threading.local()


def shrunk(image, width, height):
    # INTER_AREA averages all source pixels; where the image grows instead, it is the bilinear filter.
    shrinks = image.shape[0] > height or image.shape[1] > width
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)


def rrc(image, size, rng):
    top, left, height, width = loading.random_crop(*image.shape[:2], rng)
    small = shrunk(image[top : top + height, left : left + width], size, size)
    return cv2.flip(small, 1) if rng.random() < 0.5 else small


def val(image, size, rng):
    scale = loading.resized_side(size) / min(image.shape[:2])
    small = shrunk(image, round(image.shape[1] * scale), round(image.shape[0] * scale))
    top, left = (small.shape[0] - size) // 2, (small.shape[1] - size) // 2
    return small[top : top + size, left : left + size]


def small(image, size, rng):
    padded = cv2.copyMakeBorder(image, *[loading.PADDING] * 4, cv2.BORDER_CONSTANT)
    top, left = rng.randint(0, padded.shape[0] - size), rng.randint(0, padded.shape[1] - size)
    crop = padded[top : top + size, left : left + size]
    return cv2.flip(crop, 1) if rng.random() < 0.5 else crop


def load(path, task, size, out):
    """Decodes `path` and writes what the task makes of it into out [H,W,C]."""
    if not hasattr(own, "rng"):
        own.rng = random.Random()
    image = cv2.imdecode(numpy.fromfile(path, numpy.uint8), cv2.IMREAD_COLOR_RGB)
    if image is None:
        raise ValueError(f"OpenCV cannot decode {path}")
    out[...] = task(image, size, own.rng)


def make_batches(args):
    cv2.setNumThreads(0)
    task = {"rrc": rrc, "val": val, "small": small}[args.task]
    pool = concurrent.futures.ThreadPoolExecutor(args.threads)
    order = []

    def submit():
        batch = numpy.empty((args.batch, args.size, args.size, 3), numpy.uint8)
        while len(order) < args.batch:
            order.extend(random.sample(args.files, len(args.files)))
        paths = [order.pop() for _ in range(args.batch)]
        return batch, [pool.submit(load, path, task, args.size, batch[i]) for i, path in enumerate(paths)]

    ahead = collections.deque(submit() for _ in range(2))
    while True:
        batch, parts = ahead.popleft()
        ahead.append(submit())
        for part in parts:
            part.result()
        yield batch


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about="full decode, area average (INTER_AREA); threads",
        versions={"OpenCV": cv2.__version__},
    )
