"""Batches and samples have the image first and the label second, in whatever order their source has them."""

import csv
import io
import itertools

import dlpipe
import numpy as np
import pytest
from conftest import run_program
from loaders import Loader
from test_dataset import tree

PIXELS = np.random.default_rng(2).integers(0, 256, (4, 8, 12, 3), np.uint8)
LABELS = [1, 0, 2, 1]


def jpegs(images):
    return [data for _, data in sorted(tree(images).items())[:4]]


def of_dicts(images, folder):
    dlpipe.from_dataset([{"age": 3, "label": y, "image": x} for x, y in zip(PIXELS, LABELS)], folder / "d")


def of_raw_webdataset(images, folder):
    """As webdataset.WebDataset gives a shard's samples: their parts in the order of their endings."""
    samples = [{"__key__": f"{i}", "__url__": "s.tar", "cls": b"%d" % y, "jpg": x, "txt": b"a text"}
               for i, (x, y) in enumerate(zip(jpegs(images), LABELS))]  # fmt: skip
    dlpipe.from_dataset(iter(samples), folder / "d")


def of_webdataset(images, folder):
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(folder / "s.tar")) as tar:
        for i, (x, y) in enumerate(zip(jpegs(images), LABELS)):
            tar.write({"__key__": f"{i}", "jpg": x, "cls": y})
    dlpipe.from_dataset(webdataset.WebDataset(str(folder / "s.tar"), shardshuffle=False), folder / "d")


def hugging_face(images):
    datasets = pytest.importorskip("datasets")
    rows = {"id": [5, 6, 7, 8], "label": LABELS, "image": [{"bytes": x, "path": None} for x in jpegs(images)]}
    features = {"id": datasets.Value("int64"), "label": datasets.ClassLabel(names=["a", "b", "c"]), "image": datasets.Image()}
    return datasets.Dataset.from_dict(rows, features=datasets.Features(features))


def of_hugging_face(images, folder):
    dlpipe.from_dataset(hugging_face(images), folder / "d")


def of_a_stream_of_hugging_face(images, folder):
    dlpipe.from_dataset(hugging_face(images).to_iterable_dataset(), folder / "d")


def parquet(images, folder):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"age": [1, 2, 3, 4], "label": LABELS, "image": jpegs(images)})
    pytest.importorskip("pyarrow.parquet").write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


def of_parquet(images, folder):
    dlpipe.from_dataset(parquet(images, folder), folder / "d")


def of_parquet_by_ingest(images, folder):
    dlpipe.ingest(parquet(images, folder), folder / "d")


def of_parquet_by_the_program(images, folder):
    run_program("ingest", parquet(images, folder), folder / "d")


def of_a_writer(images, folder):
    with dlpipe.Writer(folder / "d", fields={"path": "text", "age": "number", "y": "label", "x": "image"}) as writer:
        for x, y in zip(PIXELS, LABELS):
            writer.write(path="p", age=1, y=y, x=x)


def of_a_folder(images, folder):
    dlpipe.ingest(images, folder / "d", limit=4)


def of_a_list(images, folder):
    with open(folder / "list.csv", "w", newline="") as file:
        csv.writer(file).writerows([["age", "label", "path"], *([3, name.split("/")[0], name] for name in sorted(tree(images))[:4])])
    dlpipe.ingest(folder / "list.csv", folder / "d", images=images, field="age:number")


def of_a_shard(images, folder):
    import tarfile

    with tarfile.open(folder / "s.tar", "w") as tar:
        for i, (x, y) in enumerate(zip(jpegs(images), LABELS)):
            for ending, data in (("cls", b"%d" % y), ("jpg", x)):
                info = tarfile.TarInfo(f"{i}.{ending}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    run_program("ingest", folder / "s.tar", folder / "d")


def of_arrays(images, folder):
    np.savez(folder / "a.npz", labels=np.array(LABELS), images=PIXELS)
    run_program("ingest", folder / "a.npz", folder / "d")


SOURCES = [one for name, one in list(globals().items()) if name.startswith("of_")]


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
def test_the_image_is_first_and_the_label_second(images, tmp_path, make):
    make(images, tmp_path)
    loader = Loader(tmp_path / "d", train=False, augment="resize(8x8)", batch=4)
    (batch,) = loader
    images, labels = itertools.islice(batch, 2)
    assert images.shape == (4, 8, 8, 3) and images.dtype == np.uint8
    assert labels.shape == (4,) and labels.dtype == np.int64
    dataset = dlpipe.Dataset(tmp_path / "d")
    image, label, *_ = dataset[2]
    assert image.ndim == 3 and label == dataset.labels[2] == labels[2]
    assert dataset.fields[:2] == loader.fields[:2] and dataset.fields[:2] == (dataset[2]._names[0], dataset[2]._names[1])
    assert set(loader.fields) == set(dataset.fields) - {"path"}


def test_fields_say_another_order(images, tmp_path):
    of_a_writer(images, tmp_path)
    loader = Loader(tmp_path / "d", train=False, batch=4, fields=["y", "age", "x"])
    assert loader.fields == ("y", "age", "x") and next(iter(loader)).y.tolist() == LABELS
    assert Loader(tmp_path / "d", batch=4).fields == ("x", "y", "age")


def test_without_an_image_the_order_is_the_datasets(tmp_path):
    dlpipe.from_dataset([{"a": 1, "label": 0, "b": 2.0}, {"a": 2, "label": 1, "b": 3.0}], tmp_path / "d")
    assert Loader(tmp_path / "d", batch=2).fields == dlpipe.Dataset(tmp_path / "d").fields == ("a", "label", "b")
