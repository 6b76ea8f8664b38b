"""Reads datasets with py-lmdb, Pillow and xxhash, knowing only FORMAT.md, and compares them with their files.

    read_datasets.py MAKE_DATASETS      (the program that writes datasets and the folders they were made of)
"""

import io
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import lmdb
import numpy as np
import xxhash
import zstandard
from PIL import Image, ImageOps

ROWS = 511
SIZES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2, "u8": 1, "i32": 4, "i64": 8}
LAYOUTS = {1: "JPEG", 2: "PNG", 3: "raw", 6: "WebP", 7: "BMP", 8: "PNM"}


class Dataset:
    def __init__(self, directory):
        env = lmdb.open(directory, readonly=True, lock=False, max_dbs=8)
        self.txn = env.begin()
        self.dbs = {n: env.open_db(n.encode(), self.txn, create=False) for n in ("meta", "headers", "records", "skipped")}
        text = self.txn.get(b"dataset", db=self.dbs["meta"])
        before, _, checksum = text.rpartition(b',"text_checksum":')
        assert checksum == b'"%016x"}' % xxhash.xxh3_64_intdigest(before)
        self.info = json.loads(text)
        assert self.info["format"] == "dlpipe-dataset" and self.info["version"] in (2, 3, 4)

    def row(self, i):
        chunk = self.txn.get(struct.pack("<Q", i // ROWS), db=self.dbs["headers"])
        names = ("width", "height", "size", "channels", "orientation", "layout", "zero", "label", "checksum")
        return dict(zip(names, struct.unpack_from("<IIIBBBBqQ", chunk, 32 * (i % ROWS))))

    def record(self, i):
        k = self.info["records_per_value"]
        value = self.txn.get(struct.pack("<Q", i // k), db=self.dbs["records"])
        if k > 1:
            begin, end = struct.unpack_from("<II", value, 4 * (i % k))
            value = value[begin:end]
        if self.info["compression"] == "zstd":
            value = zstandard.ZstdDecompressor().decompress(value, max_output_size=self.row(i)["size"])
        return value

    def fields(self, i):
        record, out, at, varying = self.record(i), {}, 0, []
        for field in self.info["fields"]:
            if field["kind"] == "label":
                (out[field["name"]],) = struct.unpack_from("<q", record, at)
                at += 8
            elif field["kind"] == "tensor" and field["shape"]:
                size = SIZES[field["dtype"]] * math.prod(field["shape"])
                out[field["name"]] = record[at : at + size]
                at += size
            else:
                varying.append(field["name"])
        ends = struct.unpack_from(f"<{len(varying)}I", record, at)
        begin = at + 4 * len(varying)
        for name, end in zip(varying, ends):
            out[name], begin = record[begin:end], end
        assert begin == len(record)
        return out

    def pixels(self, i):
        image, row = self.fields(i)["image"], self.row(i)
        if LAYOUTS[row["layout"]] == "raw":
            width, height, channels = struct.unpack_from("<III", image, 8)
            assert image[:8] == b"DLPRAW1\n"
            array = np.frombuffer(image, np.uint8, offset=20).reshape(height, width, channels)
            return np.broadcast_to(array, (height, width, 3))
        return decode(image)

    def id(self):
        rows = xxhash.xxh3_64()
        for chunk in range((self.info["samples"] + ROWS - 1) // ROWS):
            rows.update(self.txn.get(struct.pack("<Q", chunk), db=self.dbs["headers"]))
        for numbers in (self.info["pixel_stats"]["mean"], self.info["pixel_stats"]["std"]):
            rows.update(struct.pack(f"<{len(numbers)}d", *numbers))
        covered = {name: self.info[name] for name in ("fields", "classes", "class_counts")}
        identity = json.dumps(covered, separators=(",", ":"), ensure_ascii=False)
        return f"{xxhash.xxh3_64_intdigest(identity.encode(), seed=rows.intdigest()):016x}"

    def skipped(self):
        checksum, files = 0, 0
        for key, value in self.txn.cursor(db=self.dbs["skipped"]):
            checksum = xxhash.xxh3_64_intdigest(value, seed=xxhash.xxh3_64_intdigest(key, seed=checksum))
            files += 1
        assert self.info["skipped"] == {"files": files, "checksum": f"{checksum:016x}"}
        return [value.split(b"\0")[0] for _, value in self.txn.cursor(db=self.dbs["skipped"])]


def decode(data):
    image = Image.open(io.BytesIO(data))
    if image.mode.startswith("I"):  # 16-bit grey: the upper byte
        return np.repeat((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8)[:, :, None], 3, 2)
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def compare(root, name):
    dataset, source = Dataset(os.path.join(root, name)), os.path.join(root, name + ".src")
    info = dataset.info
    files = sorted(
        os.path.relpath(os.path.join(folder, f), source).encode() for folder, _, fs in os.walk(source) for f in fs
    )
    skipped = dataset.skipped()
    files = [f for f in files if f not in skipped]
    assert skipped == ([b"odd/text.jpg"] if name == "forms" else []), skipped
    assert info["samples"] == len(files), (info["samples"], len(files))
    assert info["classes"] == sorted(os.listdir(source))
    counts, sums, squares, pixels = [0] * len(info["classes"]), np.zeros(3), np.zeros(3), 0
    for i, file in enumerate(files):
        row, fields = dataset.row(i), dataset.fields(i)
        with open(os.path.join(source, file.decode()), "rb") as f:
            original = f.read()
        assert bytes(fields["path"]) == file
        assert info["classes"][fields["label"]] == file.decode().split("/")[0] and row["label"] == fields["label"]
        assert xxhash.xxh3_64_intdigest(dataset.record(i)) == row["checksum"] and row["zero"] == 0
        if LAYOUTS[row["layout"]] != "raw":
            assert bytes(fields["image"]) == original, file
        expected, got = decode(original), dataset.pixels(i)
        assert got.shape == (row["height"], row["width"], 3) and (got == expected).all(), file
        counts[row["label"]] += 1
        sums += expected.sum((0, 1), dtype=np.float64)
        squares += (expected.astype(np.float64) ** 2).sum((0, 1))
        pixels += row["width"] * row["height"]
    mean = sums / pixels
    std = np.sqrt(squares / pixels - mean**2)
    assert counts == info["class_counts"]
    assert np.allclose(mean / 255, info["pixel_stats"]["mean"]) and np.allclose(std / 255, info["pixel_stats"]["std"])
    assert dataset.id() == info["id"]
    print(f"{name}: {len(files)} samples, {info['records_per_value']} a value, {info['compression']}: same")
    return info


def main():
    with tempfile.TemporaryDirectory() as root:
        subprocess.run([sys.argv[1], root], check=True)
        infos = {name: compare(root, name) for name in ("forms", "forms_raw", "packed", "packed_zstd", "alone")}
        assert infos["packed"]["records_per_value"] > 1 and infos["packed_zstd"]["compression"] == "zstd"
        assert infos["alone"]["records_per_value"] == 1


if __name__ == "__main__":
    main()
