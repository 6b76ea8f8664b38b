"""Images with objects: COCO, Pascal VOC, YOLO."""

import io
import json
import os

import numpy as np
from PIL import Image

from source_case import Case, floats, make_image


def polygons(rng, size):
    """One or two polygons of any form, with coordinates as annotators' programs round them, some a little outside."""
    return [[float(x) for x in (rng.uniform(-1, 1.05, (corners, 2)) * size).clip(-1).round(places).ravel()]
            for corners, places in zip(rng.integers(3, 9, rng.integers(1, 3)), (2, 1))]


class Mask:
    """The pixels of a mask, in whatever PNG they are stored."""

    def __init__(self, pixels):
        self.pixels = pixels

    def __eq__(self, png):
        return bool(png) and np.array_equal(self.pixels, np.asarray(Image.open(io.BytesIO(png))))

    def __repr__(self):
        return repr(self.pixels)


def mask_of(coco, objects, order, size):
    """Class + 1 of each pixel, 255 where classes meet, of the pixels that pycocotools finds inside of each object; else 0."""
    pixels = np.zeros(size, np.uint8)
    for one in objects:
        number, inside = order.index(one["category_id"]) + 1, coco.annToMask(one).astype(bool)
        pixels[inside] = np.where((pixels[inside] == 0) | (pixels[inside] == number), number, 255)
    return Mask(pixels)


def case_coco(folder):
    """A root folder as published, with polygons, crowds as RLE and key points, as pycocotools reads it."""
    import contextlib

    from pycocotools import mask
    from pycocotools.coco import COCO

    rng, samples = np.random.default_rng(8), {}
    categories = [{"id": i, "name": name, "supercategory": "animal", "keypoints": ["nose", "ear", "tail"],
                   "skeleton": [[1, 2]]} for i, name in ((90, "ant"), (1, "person"), (18, "dog"))]
    os.mkdir(os.path.join(folder, "annotations"))
    for split, count in (("train2017", 6), ("val2017", 4)):
        os.mkdir(os.path.join(folder, split))
        images, annotations = [], []
        for i in range(count):
            name, size = f"{i:012d}.jpg", (20 + i, 16)
            with open(os.path.join(folder, split, name), "wb") as file:
                file.write(make_image(i + count, size=size))
            images.append({"id": 1000 - i, "file_name": name, "width": size[0], "height": size[1], "license": 1})
            for n in range(i % 3):
                box = [float(x) for x in rng.uniform(0, 8, 4).round(2)]
                crowd = int(n == 1)
                rle = mask.encode(np.asfortranarray(rng.integers(0, 2, size[::-1], np.uint8)))
                rle["counts"] = rle["counts"].decode()
                annotations.append({
                    "id": len(annotations) + 1, "image_id": 1000 - i, "category_id": categories[(i + n) % 3]["id"],
                    "bbox": box, "area": box[2] * box[3], "iscrowd": crowd, "num_keypoints": 3,
                    "keypoints": [int(x) for x in rng.integers(0, 3, 9)],
                    "segmentation": rle if crowd else polygons(rng, size)})
        path = os.path.join(folder, "annotations", f"instances_{split}.json")
        with open(path, "w") as file:
            json.dump({"info": {"year": 2017}, "licenses": [], "images": images, "annotations": annotations,
                       "categories": categories}, file)
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(path)
        order = sorted(coco.getCatIds())
        for image in coco.loadImgs(coco.getImgIds()):
            objects = coco.loadAnns(coco.getAnnIds(image["id"]))
            with open(os.path.join(folder, split, image["file_name"]), "rb") as file:
                data = file.read()
            boxes = np.array([o["bbox"] for o in objects], np.float32).reshape(-1, 4)
            boxes[:, 2:] += boxes[:, :2]
            samples[f"{split[:-4]}:{image['file_name']}"] = (None, data, {
                "boxes": boxes.tobytes(), "crowd": floats([o["iscrowd"] for o in objects]),
                "box_labels": np.array([order.index(o["category_id"]) for o in objects], "<i8").tobytes(),
                "points": floats([o["keypoints"] for o in objects]),
                "mask": mask_of(coco, objects, order, (image["height"], image["width"]))})
    yield "root", Case([folder], samples, [path], splits=("train", "val"))
    alone = {key[4:]: value for key, value in samples.items() if key.startswith("val:")}
    yield "json", Case([path, "--images", os.path.join(folder, "val2017")], alone, [path])


# Beside masks classes have the numbers that SegmentationClass gives them, less the background's.
PUBLISHED = {"cat": 7, "dog": 11, "tvmonitor": 19}


def case_voc(folder):
    """A devkit as published, its XML by xml.etree: pixels are counted from 1, the last one is inside."""
    from xml.etree import ElementTree

    rng, samples, names = np.random.default_rng(9), {}, ["dog", "cat", "tvmonitor"]
    root = os.path.join(folder, "VOCdevkit", "VOC2012")
    for below in ("Annotations", "JPEGImages", "ImageSets/Main", "SegmentationClass"):
        os.makedirs(os.path.join(root, below))
    splits = {"train": range(0, 5), "val": range(5, 8)}
    for split, numbers in splits.items():
        with open(os.path.join(root, "ImageSets/Main", split + ".txt"), "w") as file:
            file.write("".join(f"2008_{i:06d}\n" for i in numbers))
        for i in numbers:
            data, tree = make_image(i), ElementTree.Element("annotation")
            ElementTree.SubElement(tree, "filename").text = f"2008_{i:06d}.jpg"
            size = ElementTree.SubElement(tree, "size")
            for key, value in (("width", 20), ("height", 16), ("depth", 3)):
                ElementTree.SubElement(size, key).text = str(value)
            boxes, labels, difficult = [], [], []
            for n in range(i % 3):
                left, top = (int(x) for x in rng.integers(1, 10, 2))
                boxes.append([left - 1, top - 1, left + 4, top + n])
                labels.append(PUBLISHED[names[(i + n) % 3]])
                difficult.append(n)
                node = ElementTree.SubElement(tree, "object")
                ElementTree.SubElement(node, "name").text = names[(i + n) % 3]
                ElementTree.SubElement(node, "difficult").text = str(n)
                place = ElementTree.SubElement(node, "bndbox")
                for key, value in (("xmax", left + 4), ("xmin", left), ("ymax", top + n), ("ymin", top)):
                    ElementTree.SubElement(place, key).text = str(value)
            xml = os.path.join(root, "Annotations", f"2008_{i:06d}.xml")
            ElementTree.ElementTree(tree).write(xml)
            with open(os.path.join(root, "JPEGImages", f"2008_{i:06d}.jpg"), "wb") as file:
                file.write(data)
            mask = b""  # of some, with VOC's numbers as indices of a palette
            if i % 2 == 0:
                drawn = Image.fromarray(rng.choice(np.array([0, 8, 12, 20, 255], np.uint8), (16, 20)), "P")
                drawn.putpalette(rng.integers(0, 256, 768, np.uint8).tobytes())
                drawn.save(os.path.join(root, "SegmentationClass", f"2008_{i:06d}.png"))
                with open(os.path.join(root, "SegmentationClass", f"2008_{i:06d}.png"), "rb") as file:
                    mask = file.read()
            samples[f"{split}:2008_{i:06d}.jpg"] = (None, data, {
                "boxes": floats(boxes), "box_labels": np.array(labels, "<i8").tobytes(), "difficult": floats(difficult),
                "mask": mask})
    yield "devkit", Case([os.path.join(folder, "VOCdevkit")], samples, [xml], splits=tuple(splits))


def case_yolo(folder):
    """A dataset as ultralytics' programs lay it out; data.yaml by PyYAML."""
    import yaml

    rng, samples = np.random.default_rng(10), {}
    for split, count in (("train", 5), ("val", 3)):
        for kind in ("images", "labels"):
            os.makedirs(os.path.join(folder, kind, split))
        for i in range(count):
            width, height = 20 + i, 16
            data = make_image(i + count, size=(width, height))
            with open(os.path.join(folder, "images", split, f"{i}.jpg"), "wb") as file:
                file.write(data)
            boxes = rng.uniform(0.2, 0.4, (i % 3, 4))
            with open(os.path.join(folder, "labels", split, f"{i}.txt"), "w") as file:
                file.write("".join(f"{n} {x:.6f} {y:.6f} {w:.6f} {h:.6f}\n" for n, (x, y, w, h) in enumerate(boxes)))
            boxes = boxes.round(6)
            corners = np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2]).astype(np.float32)
            pixels = (corners.astype(np.float64) * [width, height, width, height]).astype("<f4")
            samples[f"{split}:{i}.jpg"] = (None, data, {
                "boxes": pixels.tobytes(), "box_labels": np.arange(len(boxes), dtype="<i8").tobytes()})
    path = os.path.join(folder, "data.yaml")
    with open(path, "w") as file:
        yaml.safe_dump({"path": ".", "train": "images/train", "val": "images/val", "names": {0: "ant", 1: "bee"}}, file)
    yield "yaml", Case([path], samples, [path], splits=("train", "val"))
    yield "folder", Case([folder], samples, splits=("train", "val"))
