"""Ingests files that each format's own programs wrote, and compares the datasets with what went in.

    read_sources.py DLPIPE      (the program)

Each case writes files and says what a dataset of them must hold; then its file is cut short, and the ingest must fail
or name what it lost.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import zstandard
from PIL import Image

from read_datasets import Dataset

DLPIPE = sys.argv[1]


class Case:
    """`arguments` for dlpipe ingest; `samples`: path -> (class, encoded image or pixels, {field: bytes}); `damage`: the
    files to cut short."""

    def __init__(self, arguments, samples, damage=(), stdin=None, splits=("",)):
        self.arguments, self.samples, self.damage = arguments, samples, damage
        self.stdin, self.splits = stdin, splits


def picture(number, format="JPEG", mode="RGB", size=(20, 16)):
    rng = np.random.default_rng(number)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, shape, np.uint8), mode).save(out, format)
    return out.getvalue()


def ingest(arguments, folder, stdin=None):
    destination = os.path.join(folder, "dst")
    shutil.rmtree(destination, ignore_errors=True)
    shutil.rmtree(destination + ".partial", ignore_errors=True)
    command = [DLPIPE, "ingest", *arguments, destination, "--jpeg", "standard", "--threads", "2"]
    result = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=120)
    return destination, result


def samples_of(directory):
    dataset = Dataset(directory)
    for i in range(dataset.info["samples"]):
        fields = dataset.fields(i)
        label = fields.pop("label")
        path, image = bytes(fields.pop("path")).decode(), bytes(fields.pop("image"))
        name = dataset.info["classes"][label] if label >= 0 else None
        yield path, (name, image, {key: bytes(value) for key, value in fields.items()}), dataset.pixels(i)


def run(case, folder):
    with open(case.stdin, "rb") if case.stdin else open(os.devnull, "rb") as stdin:
        return ingest(case.arguments, folder, stdin)


def check(name, case, destination, all=True):
    found = set()
    for split in case.splits:
        for path, (label, image, fields), pixels in samples_of(os.path.join(destination, split)):
            key = f"{split}:{path}" if split else path
            expected_label, expected, expected_fields = case.samples[key]
            assert label == expected_label, (name, key, label, expected_label)
            if isinstance(expected, bytes):
                assert image == expected, (name, key)
            else:
                expected = np.broadcast_to(expected.reshape(*pixels.shape[:2], -1), pixels.shape)
                assert np.array_equal(pixels, expected), (name, key)
            assert fields == expected_fields, (name, key, fields, expected_fields)
            found.add(key)
    assert found == set(case.samples) or not all, (name, set(case.samples) ^ found)
    return len(found)


def compare(name, case, folder):
    destination, result = run(case, folder)
    assert result.returncode == 0, (name, result.stderr)
    print(f"{name}: {check(name, case, destination)} samples: same")


def cut_short(name, case, folder):
    for file in case.damage:
        with open(file, "rb") as stream:
            whole = stream.read()
        for share in (0.98, 0.5, 0.1):
            with open(file, "wb") as stream:
                stream.write(whole[: int(len(whole) * share)])
            destination, result = run(case, folder)
            assert result.returncode in (0, 1), (name, share, result.returncode, result.stderr)
            if result.returncode == 0:  # what is there is right, and what is not was named
                check(name, case, destination, all="skipped:" not in result.stderr)
        with open(file, "wb") as stream:
            stream.write(whole)


def write_tar(path, files, format, mode="w"):
    with tarfile.open(path, mode, format=format) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def class_files(prefix=""):
    long = "d" * 90 + "/" + "e" * 120
    return {
        prefix + "cat/1.jpg": picture(1),
        prefix + "cat/2.png": picture(2, "PNG"),
        prefix + f"dog/{long}.jpg": picture(3),
        prefix + "dog/\u00fcber.jpg": picture(4),
    }


def by_class(files, strip=""):
    return {name[len(strip):]: (name[len(strip):].split("/")[0], data, {}) for name, data in files.items()}


def case_python_tar(folder):
    """Python's tarfile: pax and GNU."""
    for name, format in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT)):
        path = os.path.join(folder, name + ".tar")
        write_tar(path, class_files("pets/"), format)
        yield name, Case([path], by_class(class_files("pets/"), "pets/"), [path])


def case_gnu_tar(folder):
    """GNU tar, in each of its formats; and what a pipe gives."""
    source = os.path.join(folder, "files")
    for name, data in class_files().items():
        os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
        with open(os.path.join(source, name), "wb") as file:
            file.write(data)
    for format in ("gnu", "pax", "posix", "oldgnu"):
        path = os.path.join(folder, format + ".tar")
        subprocess.run(["tar", f"--format={format}", "-C", source, "-cf", path, "."], check=True)
        yield format, Case([path], by_class(class_files()), [path])
    packed = os.path.join(folder, "packed.tar.gz")
    subprocess.run(["tar", "-C", source, "-czf", packed, "cat", "dog"], check=True)
    yield "tgz", Case([packed], by_class(class_files()), [packed])
    yield "stdin", Case(["-"], by_class(class_files()), [packed], stdin=packed)


def case_webdataset(folder):
    """WebDataset's own ShardWriter; shards by braces, one of them packed by gzip, one by zstd."""
    import webdataset

    samples, shards = {}, []
    with webdataset.ShardWriter(os.path.join(folder, "s-%04d.tar"), maxcount=5, verbose=0) as writer:
        for i in range(20):
            data, info = picture(i), {"label": i % 4, "n": i}
            writer.write({"__key__": f"k{i:05d}", "jpg": data, "cls": i % 3, "json": info, "txt": f"number {i}"})
            ending = {2: ".gz", 3: ".zst"}.get(i // 5, "")
            shards.append(f"s-{i // 5:04d}.tar{ending}")
            samples[f"{shards[-1]}/k{i:05d}.jpg"] = (
                str(i % 3), data, {"txt": f"number {i}".encode(), "json": None})
    for number, pack in ((2, lambda b: gzip.compress(b)), (3, lambda b: zstandard.ZstdCompressor().compress(b))):
        plain = os.path.join(folder, f"s-{number:04d}.tar")
        with open(plain, "rb") as file, open(plain + {2: ".gz", 3: ".zst"}[number], "wb") as out:
            out.write(pack(file.read()))
        os.remove(plain)
    for shard in set(shards):  # the JSON as it was written
        path = os.path.join(folder, shard)
        with open(path, "rb") as file:
            data = file.read()
        if shard.endswith(".gz"):
            data = gzip.decompress(data)
        if shard.endswith(".zst"):
            data = zstandard.ZstdDecompressor().decompress(data)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.name.endswith(".json"):
                    key = f"{shard}/{member.name[:-5]}.jpg"
                    samples[key][2]["json"] = archive.extractfile(member).read()
    yield "folder", Case([folder], samples, [os.path.join(folder, shards[0]), os.path.join(folder, shards[-1])])
    both = [os.path.join(folder, "s-{0000..0001}.tar"), os.path.join(folder, "s-*.tar.*")]
    yield "braces", Case(both, samples)
    relabelled = {key: (str(int(key.split("/k")[1][:5]) % 4), *rest) for key, (_, *rest) in samples.items()}
    yield "json", Case([folder, "--label", "label"], relabelled)


def case_imagenet(folder):
    """As published: an archive of class archives, and validation pictures with a list of their classes."""
    classes = {"n01440764": 3, "n01443537": 2}
    train, samples = {}, {}
    for name, count in classes.items():
        inner = io.BytesIO()
        with tarfile.open(fileobj=inner, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for i in range(count):
                data = picture(i + 100 * count)
                info = tarfile.TarInfo(f"{name}_{i}.JPEG")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
                samples[f"train:ILSVRC2012_img_train.tar/{name}/{name}_{i}.JPEG"] = (name, data, {})
        train[f"{name}.tar"] = inner.getvalue()
    val = {f"ILSVRC2012_val_{i:08d}.JPEG": picture(50 + i) for i in range(1, 5)}
    labels = ["n01443537", "n01440764", "n01440764", "n01443537"]
    for name, files in (("train", train), ("val", val)):
        write_tar(os.path.join(folder, f"ILSVRC2012_img_{name}.tar"), files, tarfile.USTAR_FORMAT)
    with open(os.path.join(folder, "synsets.txt"), "w") as file:
        file.write("\n".join(labels) + "\n")
    for (name, data), label in zip(val.items(), labels):
        samples[f"val:ILSVRC2012_img_val.tar/{name}"] = (label, data, {})
    arguments = [folder, "--labels", os.path.join(folder, "synsets.txt")]
    yield "archives", Case(arguments, samples, [os.path.join(folder, "ILSVRC2012_img_train.tar")],
                           splits=("train", "val"))


def case_cifar(folder):
    """CIFAR-10 and CIFAR-100 in binary, by NumPy."""
    for name, labels, files in (("10", 1, ("data_batch_1", "test_batch")), ("100", 2, ("train", "test"))):
        os.mkdir(os.path.join(folder, name))
        samples, rng = {}, np.random.default_rng(int(name))
        for file, split in zip(files, ("train", "val")):
            images = rng.integers(0, 256, (7, 3, 32, 32), np.uint8)
            classes = rng.integers(0, 10, (7, labels), np.uint8)
            np.hstack([classes, images.reshape(7, -1)]).tofile(os.path.join(folder, name, file + ".bin"))
            for i in range(7):
                fields = {"superclass": f"s{classes[i, 0]:02d}".encode()} if labels == 2 else {}
                samples[f"{split}:{file}-{i:05d}"] = (
                    f"c{classes[i, -1]:02d}", images[i].transpose(1, 2, 0), fields)
        for file, letter, count in (("batches.meta.txt", "c", 10), ("fine_label_names.txt", "c", 100),
                                    ("coarse_label_names.txt", "s", 20)):
            with open(os.path.join(folder, name, file), "w") as out:
                out.write("".join(f"{letter}{i:02d}\n" for i in range(count)))
        path = os.path.join(folder, name)
        yield name, Case([path], samples, [os.path.join(path, files[0] + ".bin")], splits=("train", "val"))


def case_pillow(folder):
    """Each kind of picture that is read, written by Pillow, under a name that says another."""
    kinds = [("JPEG", "RGB"), ("PNG", "RGB"), ("PNG", "L"), ("WEBP", "RGB"), ("BMP", "RGB"), ("BMP", "L"), ("PPM", "RGB"),
             ("PPM", "L")]
    samples = {}
    for number, (format, mode) in enumerate(kinds):
        name, data = f"c{number % 2}/{number}.jpg", picture(number, format, mode)
        os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        samples[name] = (f"c{number % 2}", data, {})
    yield "formats", Case([folder], samples, [os.path.join(folder, f"c{n % 2}/{n}.jpg") for n in range(len(kinds))])


def case_json_lines(folder):
    """A list as the json module writes it, with boxes, labels and numbers."""
    rng, samples, lines = np.random.default_rng(5), {}, []
    names = ["bird", "cat", "dog"]
    for i in range(12):
        with open(os.path.join(folder, f"{i}.png"), "wb") as file:
            file.write(picture(i, "PNG"))
        boxes = np.sort(rng.uniform(0, 16, (i % 3, 2, 2)), 1).reshape(-1, 4).astype(np.float32)
        tags = [int(t) for t in rng.permutation(3)[: i % 4]]
        lines.append({"path": f"{i}.png", "label": names[i % 3], "tags": [names[t] for t in tags], "age": i / 8,
                      "boxes": boxes.tolist(), "note": f"\u00fc {i}"})
        samples[f"{i}.png"] = (names[i % 3], picture(i, "PNG"), {
            "tags": np.array(tags, "<i8").tobytes(), "age": np.float32(i / 8).tobytes(), "boxes": boxes.tobytes(),
            "note": f"\u00fc {i}".encode()})
    path = os.path.join(folder, "list.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
    fields = ["--field", "tags:labels", "--field", "age:number", "--field", "boxes:boxes"]
    yield "fields", Case([path, *fields], samples)


def case_tfrecord(folder):
    """TFRecord files, by the package tfrecord."""
    from tfrecord.writer import TFRecordWriter

    samples, paths = {}, []
    for number, split in ((0, "train"), (1, "train"), (0, "validation")):
        name = f"{split}-{number:05d}-of-{2 if split == 'train' else 1:05d}"
        paths.append(os.path.join(folder, name))
        writer = TFRecordWriter(paths[-1])
        for i in range(6):
            data = picture(10 * len(paths) + i, size=(40, 30))
            writer.write({"image/encoded": (data, "byte"), "image/class/label": (i % 2, "int"),
                          "image/height": (30, "int"), "weights": ([0.5, 0.25], "float")})
            samples[f"{'val' if split == 'validation' else split}:{name}/{name}-{i:06d}"] = (str(i % 2), data, {})
        writer.close()
    yield "folder", Case([folder], samples, paths[:1], splits=("train", "val"))


def case_caffe_lmdb(folder):
    """py-lmdb, with Datum records as Caffe writes them."""
    import lmdb

    def varint(value):
        out = b""
        while value >= 128:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    samples = {}
    with lmdb.open(folder, map_size=1 << 24, lock=False) as env, env.begin(write=True) as txn:
        for i in range(9):
            key, label = f"{i:08d}_x", b"\x28" + varint(i * 100 % 300)
            if i % 2 == 0:
                data = picture(i)
                datum, expected = b"\x22" + varint(len(data)) + data + label + b"\x38\x01", data
            else:
                expected = np.random.default_rng(i).integers(0, 256, (5, 7, 3), np.uint8)
                planes = expected[:, :, ::-1].transpose(2, 0, 1).tobytes()
                datum = b"\x08\x03\x10\x05\x18\x07\x22" + varint(len(planes)) + planes + label
            txn.put(key.encode(), datum)
            samples[key] = (str(i * 100 % 300), expected, {})
    yield "datum", Case([folder], samples, [os.path.join(folder, "data.mdb")])


def floats(numbers):
    return np.array(numbers, "<f4").tobytes()


def polygons(rng, size):
    """One or two polygons of any form, with coordinates as annotators' programs round them, some a little outside."""
    return [[float(x) for x in (rng.uniform(-1, 1.05, (corners, 2)) * size).clip(-1).round(places).ravel()]
            for corners, places in zip(rng.integers(3, 9, rng.integers(1, 3)), (2, 1))]


class Mask:
    """The pixels of a mask, in whatever PNG they are stored."""

    def __init__(self, pixels):
        self.pixels = pixels

    def __eq__(self, png):
        return np.array_equal(self.pixels, np.asarray(Image.open(io.BytesIO(png)))) if png else self.pixels is None

    def __repr__(self):
        return repr(self.pixels)


def mask_of(coco, objects, order, size):
    """Class + 1 of each pixel, 255 where classes meet, of the pixels that pycocotools finds inside of each object."""
    if not objects:
        return Mask(None)
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
                file.write(picture(i + count, size=size))
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
            data, tree = picture(i), ElementTree.Element("annotation")
            ElementTree.SubElement(tree, "filename").text = f"2008_{i:06d}.jpg"
            size = ElementTree.SubElement(tree, "size")
            for key, value in (("width", 20), ("height", 16), ("depth", 3)):
                ElementTree.SubElement(size, key).text = str(value)
            boxes, labels, difficult = [], [], []
            for n in range(i % 3):
                left, top = (int(x) for x in rng.integers(1, 10, 2))
                boxes.append([left - 1, top - 1, left + 4, top + n])
                labels.append(sorted(names).index(names[(i + n) % 3]))
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
            data = picture(i + count, size=(width, height))
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


def case_numpy(folder):
    """numpy.save, savez and savez_compressed: each order of axes and of bytes, labels of several kinds."""
    rng = np.random.default_rng(11)
    images = {"train": rng.integers(0, 256, (11, 9, 7, 3), np.uint8), "test": rng.integers(0, 256, (4, 9, 7, 3), np.uint8)}
    labels = {split: rng.integers(0, 12, len(x)) for split, x in images.items()}
    samples = {f"{split}:{split}-{i:06d}": (str(labels[split][i]), x[i], {})
               for split, x in images.items() for i in range(len(x))}
    arrays = {}
    for split in images:
        arrays |= {f"x_{split}": images[split], f"y_{split}": labels[split]}
    splits = tuple(images)
    for name, save in (("npz", np.savez), ("compressed", np.savez_compressed)):
        path = os.path.join(folder, name + ".npz")
        save(path, **arrays)
        yield name, Case([path], samples, [path], splits=splits)
    for name, change in (("fortran", np.asfortranarray), ("channels first", lambda x: x.transpose(0, 3, 1, 2).copy()),
                         ("transposed", lambda x: x.transpose(0, 3, 1, 2))):
        path = os.path.join(folder, name)
        os.mkdir(path)
        for key, array in arrays.items():
            np.save(os.path.join(path, key), change(array) if array.ndim > 1 else array.astype(">i4"))
        yield name, Case([path], samples, [os.path.join(path, "x_train.npy")], splits=splits)
    x, n = images["test"], len(images["test"])
    names = np.array(["ant", "bee", "\u00fcber", "ant"])
    target, several = rng.normal(size=(n, 2)).astype(np.float16), rng.integers(0, 2, (n, 5), np.uint8)
    several[0] = 1
    for kind, y, expect in (
        ("texts", names, lambda i: (str(names[i]), x[i], {})),
        ("one-hot", np.eye(3)[[2, 0, 1, 1]], lambda i: (str([2, 0, 1, 1][i]), x[i], {})),
        ("numbers", target, lambda i: (None, x[i], {"target": target[i].astype("<f4").tobytes()})),
        ("several", several, lambda i: (None, x[i], {"labels": np.nonzero(several[i])[0].astype("<i8").tobytes()})),
    ):
        path = os.path.join(folder, kind + ".npz")
        np.savez(path, images=x, labels=y)
        yield kind, Case([path], {f"images-{i:06d}": expect(i) for i in range(n)}, [path])


def case_beton(folder):
    """What FFCV's writer wrote (make_beton.py), JPEG and raw."""
    stored = os.path.join(os.path.dirname(os.path.abspath(__file__)), "beton")
    with open(os.path.join(stored, "expected.json")) as file:
        expected = json.load(file)
    for mode, rows in expected.items():
        path, samples = os.path.join(folder, f"{mode}.beton"), {}
        with gzip.open(os.path.join(stored, f"{mode}.beton.gz")) as file:
            whole = file.read()
        with open(path, "wb") as file:
            file.write(whole)
        for i, row in enumerate(rows):
            data = whole[row["begin"] : row["begin"] + row["bytes"]]
            assert hashlib.sha256(data).hexdigest() == row["image"]
            if mode == "raw":
                data = np.frombuffer(data, np.uint8).reshape(row["size"][1], row["size"][0], 3)
            samples[f"{mode}-{i:06d}"] = (str(row["label"]), data, {
                "weight": np.float64(row["weight"]).tobytes(), "blob": row["blob"].encode(),
                "note": row["note"].encode(), "array": base64.b64decode(row["array"])})
        yield mode, Case([path], samples, [path])


def case_background(folder):
    """Pictures with alpha of each kind, on a background, as Pillow pastes them."""
    rng, samples = np.random.default_rng(12), {}
    rgba = Image.fromarray(rng.integers(0, 256, (16, 20, 4), np.uint8), "RGBA")
    palette = Image.fromarray(rng.integers(0, 8, (16, 20), np.uint8), "P")
    palette.putpalette(rng.integers(0, 256, 24, np.uint8).tobytes())
    palette.info["transparency"] = bytes(rng.integers(0, 256, 8, np.uint8).tolist())
    grey = Image.fromarray(rng.integers(0, 256, (16, 20, 2), np.uint8), "LA")
    kinds = [("rgba.png", rgba, {}), ("palette.png", palette, {"transparency": palette.info["transparency"]}),
             ("grey.png", grey, {}), ("rgba.webp", rgba, {"lossless": True, "exact": True})]
    for colour, name in (((255, 204, 0), "#ffCC00"), ((255, 255, 255), "white")):
        samples = {}
        for file, image, options in kinds:
            path = os.path.join(folder, "c", file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            image.save(path, **options)
            stored = Image.open(path).convert("RGBA")
            expected = Image.new("RGB", stored.size, colour)
            expected.paste(stored, mask=stored.getchannel("A"))
            samples["c/" + file] = ("c", np.asarray(expected), {})
        os.makedirs(os.path.join(folder, "d"), exist_ok=True)
        with open(os.path.join(folder, "d", "plain.png"), "wb") as file:
            file.write(picture(1, "PNG"))
        samples["d/plain.png"] = ("d", picture(1, "PNG"), {})
        yield name, Case([folder, "--background", name], samples)


CASES = [case_pillow, case_json_lines, case_python_tar, case_gnu_tar, case_webdataset, case_imagenet, case_cifar,
         case_tfrecord, case_caffe_lmdb, case_coco, case_voc, case_yolo, case_numpy,
         case_beton, case_background]


def main():
    for make in CASES:
        name = make.__name__.removeprefix("case_")
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "src"))
            for kind, case in make(os.path.join(root, "src")):
                compare(f"{name} {kind}", case, root)
                cut_short(f"{name} {kind}", case, root)


if __name__ == "__main__":
    main()
