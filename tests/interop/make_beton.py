"""Writes tests/interop/beton/*.gz with FFCV's own writer, and what its own reader finds in them as expected.json.

    make_beton.py FOLDER

Run once, by hand (FFCV wants OpenCV, libturbojpeg and PyTorch; benchmarks/peers' environment has them). 1.0.2 wrote what is
committed.
"""

import base64
import gzip
import hashlib
import json
import os
import sys
import tempfile

import numpy as np
from ffcv.fields import BytesField, FloatField, IntField, JSONField, NDArrayField, RGBImageField
from ffcv.reader import Reader
from ffcv.writer import DatasetWriter


class Samples:
    def __len__(self):
        return 5

    def __getitem__(self, i):
        i = int(i)
        rng = np.random.default_rng(i)
        image = rng.integers(0, 256, (16, 20 + i, 3), np.uint8)
        return (image, 100 - i % 3, i / 8, np.frombuffer(b"b" * (i + 1), np.uint8), {"n": i}, rng.normal(size=(2, 3)).astype("<f4"))


def read(path):
    """What stands in the file, by FFCV's types."""
    reader = Reader(path)
    sizes = {int(p): int(s) for p, s in zip(reader.alloc_table["ptr"], reader.alloc_table["size"])}
    with open(path, "rb") as file:
        whole = file.read()

    def piece(at):
        return whole[int(at) : int(at) + sizes[int(at)]]

    for row in reader.metadata:
        image, label, weight, blob, note, array = row
        data = piece(image["data_ptr"])
        yield {"mode": int(image["mode"]), "size": [int(image["width"]), int(image["height"])],
               "image": hashlib.sha256(data).hexdigest(), "begin": int(image["data_ptr"]),
               "bytes": len(data), "label": int(label), "weight": float(weight),
               "blob": piece(blob["ptr"]).decode(), "note": piece(note["ptr"]).decode().rstrip("\0"),
               "array": base64.b64encode(piece(array)).decode()}


def main():
    expected = {}
    for mode in ("jpg", "raw"):
        fields = {"image": RGBImageField(write_mode=mode), "label": IntField(), "weight": FloatField(),
                  "blob": BytesField(), "note": JSONField(), "array": NDArrayField(np.dtype("<f4"), (2, 3))}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"{mode}.beton")
            DatasetWriter(path, fields, page_size=1 << 21, num_workers=1).from_indexed_dataset(Samples())
            expected[mode] = list(read(path))
            with open(path, "rb") as file, open(os.path.join(sys.argv[1], f"{mode}.beton.gz"), "wb") as out:
                out.write(gzip.compress(file.read(), mtime=0))
    with open(os.path.join(sys.argv[1], "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)


if __name__ == "__main__":
    main()
