"""How many planted copies and bad images do `dlpipe inspect --problems`, imagededup and cleanvision find, and how many others?

    python benchmarks/copies.py IMAGES [--dlpipe build/release/bin/dlpipe]

IMAGES is a folder of photographs. Each is copied: encoded again, halved, cropped by 5 % of its sides, mirrored, brightened, and as a
PNG of its pixels. Prints for each way the share of copies that are in a pair with their original (recall), and the share of all pairs
whose images have one original (precision). Then plants dark, blurred and one-coloured images. imagededup and cleanvision are used if
they are installed (pip install imagededup cleanvision); both are only for comparison."""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from unittest import mock

from PIL import Image, ImageEnhance, ImageFilter

WHITE = (255, 255, 255)


def crop(image, at):
    width, height = image.size
    small = round(width * 0.95), round(height * 0.95)
    x, y = round((width - small[0]) * at[0]), round((height - small[1]) * at[1])
    return image.crop((x, y, x + small[0], y + small[1]))


def ways(draw):
    """name: (function of an image, JPEG quality)."""
    return {
        "quality 50": (lambda image: image, 50),
        "halved": (lambda image: image.resize([max(1, side // 2) for side in image.size], Image.LANCZOS), 85),
        "cropped in the middle": (lambda image: crop(image, (0.5, 0.5)), 90),
        "cropped anywhere": (lambda image: crop(image, (draw.random(), draw.random())), 90),
        "mirrored": (lambda image: image.transpose(Image.FLIP_LEFT_RIGHT), 85),
        "brightened by 30 %": (lambda image: ImageEnhance.Brightness(image).enhance(1.3), 85),
    }


def plant_copies(originals, folder):
    folder.mkdir(parents=True)
    makers = ways(random.Random(1))
    for number, file in enumerate(originals):
        image = Image.open(file).convert("RGB")
        (folder / f"{number}.original.jpg").write_bytes(file.read_bytes())
        image.save(folder / f"{number}.same pixels.png", compress_level=1)
        for name, (make, quality) in makers.items():
            make(image).save(folder / f"{number}.{name}.jpg", quality=quality)
    return ["same pixels", *makers]


def plant_problems(originals, folder):
    """Every second image stays; of the others, each is dark, blurred a little, blurred much, or of one colour."""
    folder.mkdir(parents=True)
    planted = {}
    for number, file in enumerate(originals):
        image = Image.open(file).convert("RGB")
        pixel = max(image.size) / 256
        name = ["dark", "blurred by 1/256", "blurred by 1/85", "one colour"][number // 2 % 4] if number % 2 else ""
        if name == "dark":
            image = ImageEnhance.Brightness(image).enhance(0.2)
        elif name.startswith("blurred"):
            image = image.filter(ImageFilter.GaussianBlur(pixel * (1 if name.endswith("256") else 3)))
        elif name:
            image = Image.new("RGB", image.size, image.resize((1, 1)).getpixel((0, 0)))
        image.save(folder / f"{number}.jpg", quality=95)
        planted[f"{number}.jpg"] = name
    return planted


def run_dlpipe(dlpipe, folder, data):
    subprocess.run([dlpipe, "ingest", folder.parent, data, "--jpeg", "standard"], check=True, capture_output=True)
    begin = time.monotonic()
    found = subprocess.run([dlpipe, "inspect", data, "--problems", "--json"], check=True, capture_output=True)
    return json.loads(found.stdout), time.monotonic() - begin


def report_pairs(who, pairs, kinds, count, seconds):
    """`pairs`: sets of two file names."""
    origin = lambda name: name.split(".")[0]
    right = sum(len({origin(name) for name in pair}) == 1 for pair in pairs)
    found = {name for pair in pairs for name in pair if any(".original." in other for other in pair)}
    recalls = [f"{kind} {sum(f'.{kind}.' in name for name in found) / count:.1%}" for kind in kinds]
    print(f"{who} ({seconds:.0f} s): precision {right}/{len(pairs)}; recall: {', '.join(recalls)}")


def judge_imagededup(folder, kinds, count):
    torch = ("", ".nn", ".utils", ".utils.data")
    torchvision = ("", ".models", ".models.vision_transformer", ".transforms")
    for name in [f"torch{part}" for part in torch] + [f"torchvision{part}" for part in torchvision]:  # only its networks need them
        sys.modules.setdefault(name, mock.MagicMock(Tensor=type("Tensor", (), {})))
    try:
        from imagededup.methods import PHash
    except ImportError as error:
        return print(f"imagededup: {error}")
    begin = time.monotonic()
    found = PHash(verbose=False).find_duplicates(image_dir=str(folder), max_distance_threshold=10)
    pairs = {frozenset((name, other)) for name, others in found.items() for other in others}
    report_pairs("imagededup's PHash at 10", pairs, kinds, count, time.monotonic() - begin)


def judge_cleanvision(folder, planted):
    try:
        from cleanvision import Imagelab
    except ImportError as error:
        return print(f"cleanvision: {error}")
    begin = time.monotonic()
    lab = Imagelab(data_path=str(folder))
    lab.find_issues({name: {} for name in ("dark", "blurry", "low_information")}, verbose=False)
    seconds = time.monotonic() - begin
    issues = {pathlib.Path(path).name: row for path, row in lab.issues.iterrows()}
    names = {"dark": "is_dark_issue", "blurred": "is_blurry_issue", "one colour": "is_low_information_issue"}
    report_problems("cleanvision", {mine: {n for n, row in issues.items() if row[theirs]} for mine, theirs in names.items()},
                    planted, seconds)  # fmt: skip


def report_problems(who, found, planted, seconds):
    print(f"{who} ({seconds:.0f} s):")
    for problem, names in found.items():
        shares = []
        for kind in sorted(set(planted.values())):
            those = [name for name, own in planted.items() if own == kind]
            shares.append(f"{kind or 'others'} {sum(name in names for name in those)}/{len(those)}")
        print(f"  {problem}: {', '.join(shares)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--dlpipe", default="build/release/bin/dlpipe")
    options = parser.parse_args()
    originals = sorted(file for file in options.images.rglob("*") if file.is_file())
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        kinds = plant_copies(originals, scratch / "copies/all")
        found, seconds = run_dlpipe(options.dlpipe, scratch / "copies/all", scratch / "copies.data")
        name = lambda place: pathlib.Path(place["path"]).name
        pairs = {frozenset((name(pair["first"]), name(pair["second"]))) for pair in found["alike"]}
        report_pairs("dlpipe", pairs, kinds, len(originals), seconds)
        judge_imagededup(scratch / "copies/all", kinds, len(originals))

        planted = plant_problems(originals, scratch / "problems/all")
        found, seconds = run_dlpipe(options.dlpipe, scratch / "problems/all", scratch / "problems.data")
        by_problem = {problem: set() for problem in ("dark", "blurred", "one colour")}
        for image in found["images"]:
            by_problem.setdefault(image["problem"], set()).add(name(image))
        report_problems("dlpipe", {p: by_problem[p] for p in ("dark", "blurred", "one colour")}, planted, seconds)
        judge_cleanvision(scratch / "problems/all", planted)


main()
