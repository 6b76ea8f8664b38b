"""Times Pillow's bilinear resize on the sizes of benchmarks/resize.cpp: processor time, best of five runs."""
import time
import timeit

import PIL
from PIL import Image

SIZES = [(150, 150), (224, 224), (300, 300), (350, 350), (350, 280), (280, 350), (400, 350), (500, 375), (375, 500),
         (1000, 800)]


def time_us(image):
    calls = 20
    run = lambda: image.resize((224, 224), Image.BILINEAR)
    return min(timeit.repeat(run, timer=time.process_time, number=calls, repeat=5)) / calls * 1e6


def main():
    print("Pillow", PIL.__version__)
    for width, height in SIZES:
        print(f"RGB {width}x{height}: {time_us(Image.effect_noise((width, height), 80).convert('RGB')):.0f} us")
    print(f"L 350x350: {time_us(Image.effect_noise((350, 350), 80)):.0f} us")


if __name__ == "__main__":
    main()
