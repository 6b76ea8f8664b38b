"""The image that the golden files are made of; tests/augment/golden_image.h has the same."""
import numpy
from PIL import Image


def make_image(channels, width, height):
    """Tiles of 16 x 16 pixels, by turns noise and a slope."""
    y, x, c = numpy.indices((height, width, channels), dtype=numpy.uint64)
    noise = ((x * 73 + y * 15101 + c * 57 + 1) * 2654435761 % 2**32) >> numpy.uint64(24)
    slope = (x * 5 + y * 3 + c * 40) % 256
    pixels = numpy.where((x // 16 + y // 16) % 2 == 0, noise, slope).astype(numpy.uint8)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels, {1: "L", 3: "RGB", 4: "CMYK"}[channels])
