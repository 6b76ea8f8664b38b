"""Writes the inputs of targets whose formats other programs write: make_corpus.py FOLDER (tests/fuzz/corpus).

Small files, the same in every run. Needs scripts/requirements-test.txt.
"""

import gzip
import io
import json
import os
import struct
import sys
import tarfile
import tempfile

import lmdb
import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import zstandard
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter
from tfrecord import example_pb2
from tfrecord.writer import TFRecordWriter


tarfile.RECORDSIZE = 1024  # an end mark, and no tape's block


def tar(format, files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tars():
    shard = {"0.jpg": b"a", "0.cls": b"1", "1.jpg": b"b", "1.json": b'{"label": 2}', "1.txt": b"t"}
    folders = {"pets/cat/1.jpg": b"a", "pets/dog/" + "d" * 120 + ".jpg": b"b"}
    plain = tar(tarfile.USTAR_FORMAT, shard)
    yield "webdataset", plain
    yield "pax", tar(tarfile.PAX_FORMAT, folders)
    yield "gnu", tar(tarfile.GNU_FORMAT, folders)
    yield "nested", tar(tarfile.USTAR_FORMAT, {"n1.tar": tar(tarfile.USTAR_FORMAT, {"1.jpg": b"a"})})
    yield "gzip", gzip.compress(plain, mtime=0)
    yield "zstd", zstandard.ZstdCompressor().compress(plain)


def texts():
    yield "ascii", b"To be, or not to be:\nthat is the question.\n" * 3
    yield "utf8", "Größe 大きさ 😀 a\u0301\n".encode() * 4
    yield "no_utf8", bytes(range(256))
    yield "many_characters", "".join(chr(0x4E00 + i) for i in range(300)).encode()


def states():
    model = {"model": "lenet", "class_count": 2, "channels": 3, "height": 32, "width": 32, "length": 0,
             "weights_seed": "3", "classes": ["cat", "dog"], "val_augment": "resize(32)", "tta": "none",
             "dtype": "f32", "loss": "cross_entropy", "metrics": ["top1"]}
    trainer = {"step": 40, "best": 0.5, "best_step": 20, "worse_validations": 1, "skipped_steps": 0,
               "overflowed_steps": 0, "loss_scale": 65536.0, "good_steps": 7, "parameters_chain": "0123456789abcdef",
               "validated_step": 40, "chained_step": 40, "metrics_bytes": 4096, "quarantine_bytes": 0}
    source = {"dataset_id": "e98d0260f14af919", "pipeline_id": "94c1edb4d890e577", "seed": "3", "epoch": 2,
              "batch_index": 0, "samples_consumed": 640, "batches_chain": "f", "bad_samples": [7, 19]}
    state = {"version": 2, "model": model, "trainer": trainer, "source": source}
    yield "images", json.dumps(state).encode()
    older = {key: value for key, value in trainer.items() if key not in ("overflowed_steps", "loss_scale", "good_steps")}
    yield "older", json.dumps(state | {"version": 1, "trainer": older}).encode()


def cifars():
    yield "two", bytes([3]) + bytes(3072) + bytes([9]) + bytes(range(256)) * 12


def tfrecords():
    def example(image, label):
        message = example_pb2.Example()
        message.features.feature["image/encoded"].bytes_list.value.append(image)
        message.features.feature["image/class/label"].int64_list.value.append(label)
        return message.SerializeToString(deterministic=True)

    def record(data):
        length = struct.pack("<Q", len(data))
        return length + TFRecordWriter.masked_crc(length) + data + TFRecordWriter.masked_crc(data)

    yield "two", record(example(b"a" * 40, 3)) + record(example(b"b", 4))
    yield "example", example(b"a" * 40, 3)


def datums():
    with tempfile.TemporaryDirectory() as folder:
        with lmdb.open(folder, map_size=1 << 20, lock=False) as env, env.begin(write=True) as txn:
            txn.put(b"0", b"\x08\x01\x10\x01\x18\x02\x22\x02ab\x28\x03")
            txn.put(b"1", b"\x22\x03jpg\x28\x04\x38\x01")
        with open(os.path.join(folder, "data.mdb"), "rb") as file:
            yield "two", file.read()


def arrays():
    rng = np.random.default_rng(1)
    images, labels = rng.integers(0, 256, (3, 4, 5, 3), np.uint8), np.array([2, 0, 1])
    for name, save in (("stored", np.savez), ("packed", np.savez_compressed)):
        out = io.BytesIO()
        save(out, x_train=images, y_train=labels, x_test=images[:1], y_test=np.array(["a"]))
        yield name, out.getvalue()
    for name, array in (("c", images), ("fortran", np.asfortranarray(images)), ("grey", images[..., 0].copy())):
        out = io.BytesIO()
        np.save(out, array)
        yield name, out.getvalue()


def annotations():
    yield "coco", json.dumps({
        "images": [{"id": 1, "file_name": "1.jpg", "width": 8, "height": 6}, {"id": 2, "file_name": "2.jpg"}],
        "annotations": [{"image_id": 1, "category_id": 3, "bbox": [1, 2, 3.5, 4], "iscrowd": 0,
                         "keypoints": [1, 2, 2], "segmentation": [[1, 2, 3, 4, 5, 6]]}],
        "categories": [{"id": 3, "name": "cat", "keypoints": ["nose"]}]}).encode()
    yield "voc", (b"<annotation><filename>1.jpg</filename><size><width>8</width><height>6</height></size><object>"
                  b"<name>cat</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3.5</xmax>"
                  b"<ymax>4</ymax></bndbox></object></annotation>")
    yield "yolo", b"path: .\ntrain: images/train\nval: [a, b]\nnc: 2\nnames:\n  0: cat\n  1: dog\nkpt_shape: [1, 3]\n"
    yield "labels", b"0 0.5 0.5 0.25 0.5\n1 0.1 0.1 0.4 0.1 0.2 0.5\n"


def onnx_models():
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 2, 5, 5]) for name in "xy")
    weight = onnx.numpy_helper.from_array(np.arange(4, dtype="f4").reshape(2, 2, 1, 1), "w")
    sizes = onnx.numpy_helper.from_array(np.array([0, -1], dtype="i8"), "sizes")
    nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[1, 1]),
             onnx.helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[1, 1]),
             onnx.helper.make_node("Reshape", ["p", "sizes"], ["y"])]
    yield "images", onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y], [weight, sizes])).SerializeToString()
    nodes = [onnx.helper.make_node("Shape", ["x"], ["s"]),
             onnx.helper.make_node("Slice", ["s", "one", "two"], ["part"]),
             onnx.helper.make_node("Add", ["part", "one"], ["sum"]),
             onnx.helper.make_node("Concat", ["sum", "two"], ["joined"], axis=0),
             onnx.helper.make_node("Split", ["x"], ["a", "b"], axis=1),
             onnx.helper.make_node("Softmax", ["a"], ["y"], axis=-1)]
    one = onnx.numpy_helper.from_array(np.array([1], dtype="i8"), "one")
    two = onnx.numpy_helper.from_array(np.array([2], dtype="i8"), "two")
    yield "sizes", onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y], [one, two])).SerializeToString()


def idx_files():
    """A byte for the type, one for the axes, each axis as four bytes, big end first (MNIST's page)."""
    for name, code, array in (("u8_images", 8, np.arange(2 * 3 * 4, dtype="u1").reshape(2, 3, 4)), ("u8_labels", 8, np.arange(3, dtype="u1")),
                              ("f32", 13, np.arange(4, dtype=">f4").reshape(2, 2))):
        yield name, struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.tobytes()
    yield "u8_gzip", gzip.compress(struct.pack(">HBBI", 0, 8, 1, 3) + b"abc", mtime=0)


def event_files():
    out = io.BytesIO()
    writer = RecordWriter(out)
    writer.write(event_pb2.Event(wall_time=1, file_version="brain.Event:2").SerializeToString())
    scalars = [summary_pb2.Summary.Value(tag=tag, simple_value=0.5) for tag in ("loss", "lr")]
    writer.write(event_pb2.Event(wall_time=2, step=7, summary=summary_pb2.Summary(value=scalars)).SerializeToString())
    yield "tensorboard", out.getvalue()


def tensor_files():
    """safetensors: the length of a JSON header, which says where each tensor's bytes lie, and those."""
    def file(tensors, metadata=None):
        header, data = {} if metadata is None else {"__metadata__": metadata}, b""
        for name, (dtype, array) in tensors.items():
            header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
            data += array.tobytes()
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data

    yield "f32", file({"fc.weight": ("F32", np.arange(6, dtype="f4").reshape(2, 3)), "fc.bias": ("F32", np.zeros(2, dtype="f4"))})
    yield "dtypes", file({"a": ("BF16", np.zeros(2, dtype="u2")), "b": ("I64", np.array(3, dtype="i8")), "c": ("F16", np.ones(1, dtype="f2"))},
                         {"format": "pt"})


KINDS = {"annotations": annotations, "onnx": onnx_models, "datum": datums, "numpy": arrays, "cifar": cifars, "events": event_files,
         "idx": idx_files, "state": states, "tar": tars, "tensors": tensor_files, "text": texts, "tfrecord": tfrecords}


def main():
    for kind, make in KINDS.items():
        folder = os.path.join(sys.argv[1], kind)
        os.makedirs(folder, exist_ok=True)
        for name, data in make():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()
