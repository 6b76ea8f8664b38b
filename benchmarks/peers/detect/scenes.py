"""Data sets for detect.py: images with boxes, as COCO and YOLO files. Standard library only.

A scene is (name of its image, the file's bytes, width, height, objects). An object is (class number from 0, (left, top,
width, height) in pixels).
"""

import gzip
import json
import math
import os
import random
import struct
import zlib

SIZE = 128  # of a canvas of digits
DIGITS = (4, 8)  # on a canvas
HEIGHTS = (18, 40)  # of a digit's ink
MAX_OVERLAP = 0.1  # of two boxes: their intersection over the smaller one
FRAGMENTS, FRAGMENT = 6, 7  # clutter: squares of FRAGMENT pixels cut from other digits
NOISE = bytes(value // 6 for value in range(256))  # background: uniform noise of 0 to 42


def read_idx(path):
    """(sizes of the dimensions, bytes) of an IDX file of bytes, compressed with gzip or not."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    rank = data[3] if data[:3] == b"\0\0\x08" else 0
    sizes = struct.unpack_from(f">{rank}I", data, 4) if rank else ()
    if not rank or len(data) != 4 + 4 * rank + math.prod(sizes):
        raise SystemExit(f"[detect] {path} is not an IDX file of bytes, or it is truncated; download it again")
    return sizes, data[4 + 4 * rank :]


def read_digits(folder):
    """MNIST's training images, cut to their ink: [(class number, width, height, pixels)]."""
    images, labels = (sorted(folder.glob(f"train-{kind}*")) for kind in ("images", "labels"))
    if not images or not labels:
        raise SystemExit(
            f"[detect] {folder} has no train-images* and train-labels*: MNIST's IDX files, compressed or not"
        )
    (count, height, width), pixels = read_idx(images[0])
    (_,), classes = read_idx(labels[0])
    step = height * width
    return [(classes[i], *cut_to_ink(pixels[i * step : (i + 1) * step], width)) for i in range(count)]


def cut_to_ink(pixels, width, threshold=64):
    """(width, height, pixels) of the part of a grey image that has pixels above `threshold`."""
    rows = [pixels[top : top + width] for top in range(0, len(pixels), width)]
    used = [y for y, row in enumerate(rows) if max(row) > threshold]
    columns = [x for x in range(width) if max(row[x] for row in rows) > threshold]
    left, right = columns[0], columns[-1] + 1
    rows = [row[left:right] for row in rows[used[0] : used[-1] + 1]]
    return right - left, len(rows), b"".join(rows)


def resized(pixels, width, height, new_width, new_height):
    """A grey image resized bilinearly: rows of bytes."""

    def taps(size, new_size):
        centers = (min(max((i + 0.5) * size / new_size - 0.5, 0), size - 1) for i in range(new_size))
        return [(int(c), min(int(c) + 1, size - 1), c - int(c)) for c in centers]

    rows = [pixels[top : top + width] for top in range(0, width * height, width)]
    across = taps(width, new_width)
    wide = [[row[a] + (row[b] - row[a]) * f for a, b, f in across] for row in rows]
    return [bytes(int(p + (q - p) * f + 0.5) for p, q in zip(wide[a], wide[b])) for a, b, f in taps(height, new_height)]


def overlap(one, other):
    """The intersection of two boxes over the area of the smaller one."""
    w = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    h = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    return max(w, 0) * max(h, 0) / min(one[2] * one[3], other[2] * other[3])


def place(draw, shapes, size=SIZE):
    """A box for each (width, height) at a random height and place, or None where no free place was found."""
    boxes = []
    for width, height in shapes:
        new_height = draw.randint(*HEIGHTS)
        new_width = min(max(round(width * new_height / height), 4), size)
        for _ in range(50):
            box = (draw.randint(0, size - new_width), draw.randint(0, size - new_height), new_width, new_height)
            if all(overlap(box, other) <= MAX_OVERLAP for other in boxes if other):
                boxes.append(box)
                break
        else:
            boxes.append(None)
    return boxes


def compose(digits, draw, size=SIZE):
    """(grey pixels, objects) of a canvas: noise, pieces of digits, and digits of random sizes without much overlap."""
    canvas = bytearray(draw.randbytes(size * size).translate(NOISE))

    def blend(rows, left, top):  # the brighter pixel wins
        for y, row in enumerate(rows, top):
            begin = y * size + left
            canvas[begin : begin + len(row)] = bytes(map(max, row, canvas[begin : begin + len(row)]))

    for _ in range(FRAGMENTS):
        _, width, height, pixels = draw.choice(digits)
        rows = [pixels[y * width : y * width + width] for y in range(height)]
        top, left = draw.randint(0, max(height - FRAGMENT, 0)), draw.randint(0, max(width - FRAGMENT, 0))
        piece = [row[left : left + FRAGMENT] for row in rows[top : top + FRAGMENT]]
        blend(piece, draw.randint(0, size - FRAGMENT), draw.randint(0, size - FRAGMENT))
    chosen = [draw.choice(digits) for _ in range(draw.randint(*DIGITS))]
    boxes = place(draw, [(width, height) for _, width, height, _ in chosen], size)
    objects = [(digit, box) for digit, box in zip(chosen, boxes) if box]
    for (_, width, height, pixels), (left, top, new_width, new_height) in objects:
        blend(resized(pixels, width, height, new_width, new_height), left, top)
    return bytes(canvas), [(digit[0], box) for digit, box in objects]


def png(grey, width, height):
    """A PNG file of three equal channels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = []
    for top in range(0, width * height, width):
        row = bytearray(3 * width)
        row[0::3] = row[1::3] = row[2::3] = grey[top : top + width]
        rows.append(b"\0" + row)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )


def digit_scenes(digits, count, seed):
    """{"train": scenes, "val": a tenth of them}. Every tenth digit is used for validation only."""
    draw = random.Random(seed)
    parts = {"train": [d for i, d in enumerate(digits) if i % 10], "val": digits[::10]}
    numbers = iter(range(1, count + 1))
    scenes = {}
    for split, wanted in (("train", count - count // 10), ("val", count // 10)):
        scenes[split] = []
        for _ in range(wanted):
            grey, objects = compose(parts[split], draw)
            scenes[split].append((f"{next(numbers):06d}.png", png(grey, SIZE, SIZE), SIZE, SIZE, objects))
    return scenes, [str(digit) for digit in range(10)]


def coco_scenes(annotations, images, seed):
    """The same of a COCO file and its folder of images: a random tenth is for validation."""
    coco = json.loads(annotations.read_text())
    categories = sorted(coco["categories"], key=lambda one: one["id"])
    number = {one["id"]: i for i, one in enumerate(categories)}
    objects = {}
    for one in coco["annotations"]:
        objects.setdefault(one["image_id"], []).append((number[one["category_id"]], tuple(one["bbox"])))
    listed = coco["images"]
    random.Random(seed).shuffle(listed)
    scenes = {"train": [], "val": []}
    for i, image in enumerate(listed):
        file = images / image["file_name"]
        scene = (
            f"{i + 1:06d}{file.suffix}",
            file.read_bytes(),
            image["width"],
            image["height"],
            objects.get(image["id"], []),
        )
        scenes["val" if i < len(listed) // 10 else "train"].append(scene)
    return scenes, [one["name"] for one in categories]


def write(scenes, classes, folder):
    """FOLDER/coco: annotations/instances_*2017.json, train2017/, val2017/. FOLDER/yolo: data.yaml, images/, labels/; its
    images are links to the same files."""
    for split, own in scenes.items():
        paths = [
            folder / "coco" / f"{split}2017",
            folder / "yolo" / "images" / split,
            folder / "yolo" / "labels" / split,
        ]
        for path in [*paths, folder / "coco" / "annotations"]:
            path.mkdir(parents=True, exist_ok=True)
        for name, data, width, height, objects in own:
            (paths[0] / name).write_bytes(data)
            os.link(paths[0] / name, paths[1] / name)
            (paths[2] / name).with_suffix(".txt").write_text("".join(yolo_line(one, width, height) for one in objects))
        target = folder / "coco" / "annotations" / f"instances_{split}2017.json"
        target.write_text(json.dumps(coco_file(own, classes)))
    names = "".join(f"  {i}: {json.dumps(name)}\n" for i, name in enumerate(classes))
    text = f"path: {(folder / 'yolo').resolve()}\ntrain: images/train\nval: images/val\nnames:\n{names}"
    (folder / "yolo" / "data.yaml").write_text(text)


def yolo_line(one, width, height):
    number, (left, top, w, h) = one
    return f"{number} {(left + w / 2) / width:.6f} {(top + h / 2) / height:.6f} {w / width:.6f} {h / height:.6f}\n"


def coco_file(scenes, classes):
    """COCO's annotations; an image's id is the number in its name, a category's id its class number plus 1, and the outline
    of an object its box."""
    annotations = []
    for name, _, _, _, objects in scenes:
        for number, (x, y, w, h) in objects:
            outline = [[x, y, x + w, y, x + w, y + h, x, y + h]]
            of_image = {"id": len(annotations) + 1, "image_id": image_id(name), "category_id": number + 1, "iscrowd": 0}
            annotations.append({**of_image, "bbox": [x, y, w, h], "area": w * h, "segmentation": outline})
    return {
        "images": [{"id": image_id(name), "file_name": name, "width": w, "height": h} for name, _, w, h, _ in scenes],
        "categories": [{"id": i + 1, "name": name} for i, name in enumerate(classes)],
        "annotations": annotations,
    }


def image_id(name):
    return int(name.split(".")[0])
