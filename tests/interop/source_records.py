"""Records and arrays of other programs: CIFAR, TFRecord, Caffe, NumPy, FFCV."""

import base64
import gzip
import hashlib
import json
import os

import numpy as np

from source_case import Case, make_image


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


def case_tfrecord(folder):
    """TFRecord files, by the package tfrecord."""
    from tfrecord.writer import TFRecordWriter

    samples, paths = {}, []
    for number, split in ((0, "train"), (1, "train"), (0, "validation")):
        name = f"{split}-{number:05d}-of-{2 if split == 'train' else 1:05d}"
        paths.append(os.path.join(folder, name))
        writer = TFRecordWriter(paths[-1])
        for i in range(6):
            data = make_image(10 * len(paths) + i, size=(40, 30))
            writer.write({"image/encoded": (data, "byte"), "image/class/label": (i % 2, "int"),
                          "image/height": (30, "int"), "weights": ([0.5, 0.25], "float")})
            # The file stands in front where several make a split.
            sample = f"val:{name}-{i:06d}" if split == "validation" else f"train:{name}/{name}-{i:06d}"
            samples[sample] = (str(i % 2), data, {})
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
                data = make_image(i)
                datum, expected = b"\x22" + varint(len(data)) + data + label + b"\x38\x01", data
            else:
                expected = np.random.default_rng(i).integers(0, 256, (5, 7, 3), np.uint8)
                planes = expected[:, :, ::-1].transpose(2, 0, 1).tobytes()
                datum = b"\x08\x03\x10\x05\x18\x07\x22" + varint(len(planes)) + planes + label
            txn.put(key.encode(), datum)
            samples[key] = (str(i * 100 % 300), expected, {})
    yield "datum", Case([folder], samples, [os.path.join(folder, "data.mdb")])


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
