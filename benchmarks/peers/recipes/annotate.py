# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""Boxes and masks for a folder of JPEGs, by which a check can see whether they moved with the pixels.

    annotate.py FOLDER OUT      writes OUT/images.jsonl and OUT/masks/*.png

Boxes lie around bright places; the mask's classes 1 to 4 are levels of brightness of coarse blocks. Labels go round.
Equal folders give equal files. PyTorch isn't used: the environment is that of the peers.
"""

import json
import pathlib
import random
import sys

import numpy
from PIL import Image

CLASSES, BLOCKS = 20, 24


def boxes_of(grey, width, height, rng):
    """Two to seven, each the brightest of eight drawn ones; grey is [BLOCKS, BLOCKS]."""
    chosen = []
    for _ in range(rng.randint(2, 7)):
        drawn = []
        for _ in range(8):
            across, down = rng.uniform(0.1, 0.5), rng.uniform(0.1, 0.5)
            x, y = rng.uniform(0, 1 - across), rng.uniform(0, 1 - down)
            rows, columns = (slice(int(a * BLOCKS), int((a + b) * BLOCKS) + 1) for a, b in ((y, down), (x, across)))
            drawn.append((grey[rows, columns].mean(), [x * width, y * height, (x + across) * width, (y + down) * height]))
        chosen.append([round(at, 1) for at in max(drawn)[1]])
    return chosen


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    (out / "masks").mkdir(parents=True, exist_ok=True)
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not files:
        raise SystemExit(f"[peers] no .jpg or .jpeg below {folder}")
    lines = []
    for i, file in enumerate(files):
        rng = random.Random(i)
        with Image.open(file) as image:
            width, height = image.size
            grey = numpy.asarray(image.convert("L").resize((BLOCKS, BLOCKS), Image.Resampling.BOX), numpy.float32)
        levels = numpy.searchsorted(numpy.quantile(grey, (0.25, 0.5, 0.75)), grey, side="right") + 1
        mask = out / "masks" / f"{i:05}.png"
        Image.fromarray(levels.astype(numpy.uint8)).resize((width, height), Image.Resampling.NEAREST).save(mask)
        boxes = boxes_of(grey, width, height, rng)
        kinds = [rng.randrange(CLASSES) for _ in boxes]
        row = {"path": str(file.resolve()), "label": i % CLASSES, "width": width, "height": height}
        lines.append(json.dumps(row | {"boxes": boxes, "kinds": kinds, "mask": str(mask.resolve())}))
    (out / "images.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
