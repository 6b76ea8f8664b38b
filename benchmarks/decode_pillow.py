#!/usr/bin/env python3
"""decode_pillow.py PROGRAM FOLDER [--images N] [--rounds N] [--spng LIBRARY]: how fast are whole images decoded to RGB, one
thread, from memory, by dlpipe (PROGRAM is decode_benchmark) and by Pillow? FOLDER holds photos; each is written in every format first, by
Pillow. Both decode each file five times in turn, the best counts; the ratio is Pillow's time / dlpipe's, summed over the
images, the median of the rounds. The last column is the largest difference of a byte.
Pillow writes no PNG of 16 bits per colour and none interlaced: tests/io/data/codec/make_images.py writes these,
unfiltered. --spng adds libspng (libspng.so.0) to the rows of PNG, which it decodes to RGB with its defaults."""
import argparse
import ctypes
import io
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import PIL
from PIL import Image, features

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/io/data/codec"))
import make_images  # noqa: E402


def sixteen_bits(pixels):
    height, width, _ = pixels.shape
    rows = (row.tobytes() for row in (pixels.astype(">u2") * 257).reshape(height, -1))
    return make_images.png_chunks(width, height, 16, 2, rows)


def interlaced(pixels):
    height, width, _ = pixels.shape
    return make_images.png_chunks(width, height, 8, 2, make_images.passes(pixels), interlaced=True)


REPEATS = 5
JPEG = {"quality": 90, "subsampling": "4:2:0"}
# name, how the image is changed first, suffix, Pillow's options or what writes it instead
FORMATS = [
    ("JPEG 4:2:0", "RGB", ".jpg", JPEG),
    ("JPEG 4:4:4", "RGB", ".jpg", {"quality": 90, "subsampling": "4:4:4"}),
    ("JPEG grey", "L", ".jpg", {"quality": 90}),
    ("JPEG progressive", "RGB", ".jpg", {**JPEG, "progressive": True}),
    ("PNG RGB", "RGB", ".png", {}),
    ("PNG RGBA", "RGBA", ".png", {}),
    ("PNG palette", "P", ".png", {}),
    ("PNG grey", "L", ".png", {}),
    ("PNG RGB, 16 bits", "RGB", ".png", sixteen_bits),
    ("PNG RGB, interlaced", "RGB", ".png", interlaced),
    ("WebP lossy", "RGB", ".webp", {"quality": 85}),
    ("WebP lossless", "RGB", ".webp", {"lossless": True}),
    ("BMP", "RGB", ".bmp", {}),
    ("PPM", "RGB", ".ppm", {}),
]


def pillow(content):
    """Seconds, the best of a few, and pixels."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.perf_counter()
        image = Image.open(io.BytesIO(content))
        if image.mode != "RGB":
            image = image.convert("RGB")
        image.load()
        best = min(best, time.perf_counter() - begin)
    return best, np.asarray(image)


class Spng:
    RGB8 = 4  # SPNG_FMT_RGB8

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.spng_ctx_new.restype = self.library.spng_version_string.restype = ctypes.c_void_p

    def version(self):
        return ctypes.string_at(self.library.spng_version_string()).decode()

    def decode(self, content):
        """As pillow(), in pixels of three bytes."""
        best, size = float("inf"), ctypes.c_size_t()
        for _ in range(REPEATS):
            begin = time.perf_counter()
            context = ctypes.c_void_p(self.library.spng_ctx_new(0))
            failed = self.library.spng_set_png_buffer(context, content, ctypes.c_size_t(len(content)))
            failed = failed or self.library.spng_decoded_image_size(context, self.RGB8, ctypes.byref(size))
            pixels = np.empty(size.value, np.uint8)
            to = pixels.ctypes.data_as(ctypes.c_void_p)
            failed = failed or self.library.spng_decode_image(context, to, size, self.RGB8, 0)
            self.library.spng_ctx_free(context)
            best = min(best, time.perf_counter() - begin)
            if failed:
                sys.exit(f"decode_pillow: libspng failed with error {failed}")
        return best, pixels


class Dlpipe:
    def __init__(self, program, pixels):
        self.pixels = pixels
        self.child = subprocess.Popen([program, pixels], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def decode(self, file, shape):
        print(file, file=self.child.stdin, flush=True)
        answer = self.child.stdout.readline().strip()
        return float(answer), np.fromfile(self.pixels, np.uint8).reshape(shape)

    def end(self):  # so that who measures what other programs took counts this one as ours
        self.child.stdin.close()
        self.child.wait()


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def measure(name, files, dlpipe, spng, rounds):
    ratios, rates, difference = [], [], 0  # of Pillow, of libspng where it decodes this format
    for _ in range(rounds):
        seconds, pixels = [0, 0, 0], 0
        for file in files:
            content = file.read_bytes()
            own, expected = pillow(content)
            seconds[1] += own
            own, got = dlpipe.decode(file, expected.shape)
            seconds[0] += own
            pixels += expected.shape[0] * expected.shape[1]
            difference = max(difference, int(np.abs(expected.astype(int) - got).max()))
            if spng and file.suffix == ".png":
                own, other = spng.decode(content)
                seconds[2] += own
                difference = max(difference, int(np.abs(other.reshape(got.shape).astype(int) - got).max()))
        ratios.append([other / seconds[0] for other in seconds[1:]])
        rates.append([pixels / own / 1e6 if own else 0 for own in seconds])
    ours, theirs, others = (statistics.median(column) for column in zip(*rates))
    over_pillow, over_spng = zip(*ratios)
    more = f" {others:.0f} | {spread(over_spng)} |" if others else " | |" if spng else ""
    print(f"| {name} | {ours:.0f} | {theirs:.0f} | {spread(over_pillow)} |{more} {difference} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spng", metavar="LIBRARY")
    options = parser.parse_args()
    spng = Spng(options.spng) if options.spng else None
    photos = sorted(file for file in options.folder.rglob("*") if file.suffix.lower() in (".jpg", ".jpeg"))
    photos = photos[:: max(1, len(photos) // options.images)][: options.images]
    versions = ", ".join(f"{name} {features.version(name)}" for name in ("libjpeg_turbo", "zlib", "webp"))
    others = f"; libspng {spng.version()}" if spng else ""
    print(f"{len(photos)} photos; Pillow {PIL.__version__} with {versions}{others}; {options.rounds} rounds\n")
    names = ["format", "dlpipe, megapixels/s", "Pillow", "ratio", *(["libspng", "ratio"] if spng else []), "largest difference"]
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        dlpipe = Dlpipe(options.program, folder / "pixels")
        for number, (name, mode, suffix, how) in enumerate(FORMATS):
            files = []
            for i, photo in enumerate(photos):
                files.append(folder / f"{number}-{i}{suffix}")
                image = Image.open(photo).convert("RGB")
                image = image.convert(mode, **({"palette": Image.Palette.ADAPTIVE} if mode == "P" else {}))
                if callable(how):
                    files[-1].write_bytes(how(np.asarray(image)))
                else:
                    image.save(files[-1], **how)
            measure(name, files, dlpipe, spng, options.rounds)
        dlpipe.end()


if __name__ == "__main__":
    main()
