"""The command line and the clock that every loader in loaders/ shares.

    python loaders/NAME.py FOLDER --threads T --seconds S [--task rrc] [--batch 64] [--size 224] [--cache DIR] [--wants N]

Tasks: rrc, RandomResizedCrop(size) and a random flip; val, the shorter side to 8/7 of size and the middle; small, a
random crop of the image padded by four black pixels, and a random flip.

A loader hands `main` a function that makes an endless iterator of uint8 batches [N,H,W,C]; `main` checks the first
one, warms up, times, and prints one JSON line. With --wants N the consumer takes N samples per second, sleeping in
between, and the line says how much of the time it waited. Files a loader must write beforehand go to --cache and are not timed.
"""

import argparse
import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402

# RandomResizedCrop as the field defines it (Inception's; the defaults of every peer that has them).
SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)


PADDING = 4  # of the task small


TASKS = ("rrc", "val", "small")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path, help="JPEGs, at any depth")
    parser.add_argument("--task", choices=TASKS, default="rrc")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path("."), help="where to keep re-encoded files")
    parser.add_argument("--wants", type=float, help="samples per second that the consumer takes (default: all)")
    parser.add_argument("--data", help="for dlpipe: the same images, ingested")
    args = parser.parse_args()
    endings = {".jpg", ".jpeg"}
    args.files = sorted(str(path) for path in args.folder.rglob("*") if path.suffix.lower() in endings)
    if not args.files:
        raise SystemExit(f"[peers] no .jpg or .jpeg below {args.folder}")
    return args


def written_once(args, name, write):
    """Where `write(files, path)` has put the images in a peer's own format, in the cache; it runs at the first start only,
    and what is left of a run that was killed is not taken for whole."""
    total = sum(pathlib.Path(file).stat().st_size for file in args.files)
    path = args.cache / f"{name}_{len(args.files)}_{total}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        write(args.files, partial)
        partial.rename(path)
    return path


def resized_side(size):
    """Of the shorter side, before the middle is taken: 256 for 224."""
    return round(size * 8 / 7)


def main(make_batches, antialiased, about, versions):
    """`about` is a sentence, or one for each task."""
    args = arguments()
    if not isinstance(about, str):
        about = about[args.task]
    batches = make_batches(args)
    first = next(batches)
    want = (args.batch, args.size, args.size, 3)
    if tuple(first.shape) != want or str(first.dtype).removeprefix("torch.") != "uint8":
        raise SystemExit(f"[peers] a batch is {first.dtype} {tuple(first.shape)}, not uint8 {want}")
    result = measure.timed(lambda: next(batches), args.batch, args.seconds, warm_up_steps=3, min_steps=4, wants_per_s=args.wants)
    measure.report(**result, antialiased=antialiased, about=about, versions=versions, threads=args.threads)


def random_crop(height, width, rng=random):
    """(top, left, height, width) of a RandomResizedCrop, for loaders whose library has none: ten attempts at an area
    and a log-uniform aspect ratio, else the largest centred crop within the ratios."""
    for _ in range(10):
        area = height * width * rng.uniform(*SCALE)
        aspect = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, height - h), rng.randint(0, width - w), h, w
    w = min(width, round(height * RATIO[1]))
    h = min(height, round(width / RATIO[0]))
    return (height - h) // 2, (width - w) // 2, h, w
