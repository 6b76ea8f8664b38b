# /// script
# dependencies = ["opencv-python-headless==5.0.0.93", "numpy==2.4.6"]
# ///
"""OpenCV in a pool of threads, as a careful user would write it: full decode, crop, INTER_AREA into the batch."""

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


def load(path, size, out):
    """Decodes `path` and writes its crop into out [H,W,C]."""
    if not hasattr(own, "rng"):
        own.rng = random.Random()
    image = cv2.imdecode(numpy.fromfile(path, numpy.uint8), cv2.IMREAD_COLOR_RGB)
    if image is None:
        raise ValueError(f"OpenCV cannot decode {path}")
    top, left, height, width = loading.random_crop(*image.shape[:2], own.rng)
    crop = image[top : top + height, left : left + width]
    # INTER_AREA averages all source pixels; where the crop grows instead, it is the bilinear filter.
    shrinks = height > size or width > size
    small = cv2.resize(crop, (size, size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    out[...] = cv2.flip(small, 1) if own.rng.random() < 0.5 else small


def make_batches(args):
    cv2.setNumThreads(0)
    pool = concurrent.futures.ThreadPoolExecutor(args.threads)
    order = []

    def submit():
        batch = numpy.empty((args.batch, args.size, args.size, 3), numpy.uint8)
        while len(order) < args.batch:
            order.extend(random.sample(args.files, len(args.files)))
        paths = [order.pop() for _ in range(args.batch)]
        return batch, [pool.submit(load, path, args.size, batch[i]) for i, path in enumerate(paths)]

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
