"""dlpipe.from_dataset, with the libraries that are installed."""

import ast
import io
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import dlpipe
import numpy as np
import pytest
from conftest import run_program
from test_dataset import dataset_files, tree

PICTURE = np.zeros((8, 8, 3), np.uint8)


class Pictures:
    """A dataset by numbers."""

    classes = ["even", "odd"]

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if i >= self.count:
            raise IndexError(i)
        return np.random.default_rng(i).integers(0, 256, (16, 20, 3), np.uint8), i % 2


class Broken(Pictures):
    def __getitem__(self, i):
        if i == 70:
            raise ZeroDivisionError("sample 70")
        return super().__getitem__(i)


class Fatal(Pictures):
    def __getitem__(self, i):
        if i == 70:
            import os

            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


@pytest.mark.parametrize("workers", [0, 3])
def test_a_dataset_by_numbers(tmp_path, workers):
    calls = []
    report = dlpipe.from_dataset(Pictures(203), tmp_path / "d", workers=workers, progress=lambda *a: calls.append(a))
    assert calls == [(i + 1, 203) for i in range(203)]
    assert report["classes"] == ["even", "odd"]
    samples = dlpipe.Dataset(tmp_path / "d")
    assert len(samples) == 203
    assert all(np.array_equal(s.image, Pictures(203)[i][0]) and s.label == i % 2 for i, s in enumerate(samples))


def test_a_dict_of_splits_and_an_own_function(tmp_path):
    report = dlpipe.from_dataset(
        {"train": Pictures(20), "val": Pictures(5)}, tmp_path / "d", classes=["a", "b"],
        sample=lambda item: {"image": item[0], "label": "ab"[item[1]], "weight": 0.5},
        fields={"image": "image", "label": "label", "weight": "f32"}, store="jpeg",
    )  # fmt: skip
    assert [d["samples"] for d in report["datasets"]] == [20, 5]
    sample = dlpipe.Dataset(tmp_path / "d", split="val")[3]
    assert sample.weight.tolist() == [0.5] and sample.label == 1


@pytest.mark.parametrize("name", ["validation", "valid", "Val"])
def test_a_split_for_validation_is_found_whatever_it_is_called(tmp_path, name):
    report = dlpipe.from_dataset({"train": Pictures(20), name: Pictures(5), "extra": Pictures(3)}, tmp_path / "d")
    assert {d["split"]: d["samples"] for d in report["datasets"]} == {"train": 20, "val": 5, "extra": 3}
    assert sum(len(batch.label) for batch in dlpipe.Loader(tmp_path / "d", train=False, batch=5, as_="numpy")) == 5
    with pytest.raises(dlpipe.MisuseError, match="name the split 'val' twice"):
        dlpipe.from_dataset({"val": Pictures(20), "validation": Pictures(5)}, tmp_path / "e")


def test_a_generator(tmp_path):
    dlpipe.from_dataset(({"image": image, "label": label, "n": i} for i, (image, label) in enumerate(map(Pictures(30).__getitem__, range(30)))),
                        tmp_path / "d")  # fmt: skip
    samples = dlpipe.Dataset(tmp_path / "d")
    assert len(samples) == 30 and samples[29].n.tolist() == [29]


def test_a_generator_of_nothing_among_splits(tmp_path):
    pictures = Pictures(3)
    report = dlpipe.from_dataset({"train": iter([]), "val": map(pictures.__getitem__, range(3))}, tmp_path / "d")
    assert [d["samples"] for d in report["datasets"]] == [3]
    assert len(dlpipe.Dataset(tmp_path / "d", split="val")) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_of_the_dataset_comes_out(tmp_path, workers):
    with pytest.raises(ZeroDivisionError, match="sample 70"):
        dlpipe.from_dataset(Broken(100), tmp_path / "d", workers=workers)
    assert list(tmp_path.iterdir()) == []


class TwoWords(Exception):
    """pickle makes it of one word, its message."""

    def __init__(self, one, other):
        super().__init__(one + other)


class Strange(Pictures):
    def __getitem__(self, i):
        if i == 50:
            raise TwoWords("file 50 ", "is bad")
        return super().__getitem__(i)


def test_an_exception_that_does_not_travel_is_told_by_the_worker(tmp_path):
    with pytest.raises(TwoWords, match="file 50 is bad"):
        dlpipe.from_dataset(Strange(100), tmp_path / "d")
    with pytest.raises(dlpipe.Error, match="sample of 32 to 63 raised TwoWords: file 50 is bad") as caught:
        dlpipe.from_dataset(Strange(100), tmp_path / "d", workers=2)
    assert 'raise TwoWords("file 50 ", "is bad")' in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("samples, name", [
    ([("pics/cat/0.jpg", 1)], "image"),
    ([(pathlib.Path("pics/cat/0.jpg"), 1)], "image"),
    ([{"__key__": "0", "a.png": "pics/cat/0.png", "cls": 1}], "a.png"),
])
def test_paths_where_pictures_are_meant_are_refused(tmp_path, samples, name):
    with pytest.raises(dlpipe.MisuseError, match=f"'{name}' is .*a text; give the picture or the bytes of its file: sample="):
        dlpipe.from_dataset(samples, tmp_path / "d")
    dlpipe.from_dataset(samples, tmp_path / "d", fields={name: "text"})
    assert dlpipe.Dataset(tmp_path / "d")[0][name].startswith("pics/cat/0.")


def test_a_worker_that_is_killed_is_an_error(tmp_path):
    with pytest.raises(dlpipe.Error, match="a worker process ended"):
        dlpipe.from_dataset(Fatal(100), tmp_path / "d", workers=2)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_dataset(tmp_path):
    for dataset, words in [
        (3, "int is no dataset"),
        ([], "is empty"),
        ({}, "the dict is empty"),
        ([(1, 2, 3)], "a sample is tuple of 3; give sample="),
        ([{"image": Pictures(1)[0][0], "x": object()}], "'x' is object"),
        ([(Pictures(1)[0][0].astype(np.float32), 1)], "float32; give uint8"),
    ]:
        with pytest.raises(dlpipe.MisuseError, match=words):
            dlpipe.from_dataset(dataset, tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


RESUMING = """
import sys
sys.path.insert(0, sys.argv[2])
import dlpipe
from test_from_dataset import Pictures

class Big(Pictures):
    def __getitem__(self, i):
        image, label = super().__getitem__(i % 7)
        return image.repeat(8, 0).repeat(8, 1), label

def show(done, total):
    if done == 2500 and len(sys.argv) > 3:
        print("there", flush=True)
        sys.stdin.readline()

dlpipe.from_dataset({"train": Big(2000), "val": Big(1000)}, sys.argv[1], workers=2, progress=show)
"""


def test_killed_and_called_again_it_goes_on(tmp_path):
    here = __file__.rsplit("/", 1)[0]
    process = subprocess.Popen([sys.executable, "-c", RESUMING, tmp_path / "killed", here, "wait"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout.readline() == b"there\n"
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    assert (tmp_path / "killed.partial").exists()
    for name in ("killed", "whole"):
        subprocess.run([sys.executable, "-c", RESUMING, tmp_path / name, here], check=True)
    assert dataset_files(tmp_path / "killed") == dataset_files(tmp_path / "whole")


# Boxes, key points and masks.

WIDE = np.random.default_rng(1).integers(0, 256, (6, 10, 3), np.uint8)
CLASSES = np.arange(60).reshape(6, 10) % 3
TWO_BOXES = np.array([[1, 2, 3, 4], [0, 0, 9, 5]], np.float32)
TARGET = {"boxes": TWO_BOXES, "labels": np.array([1, 0]), "image_id": 5, "area": np.float32([4, 45]), "iscrowd": np.array([False, True])}
POINTS = np.float32([[1, 2, 1], [3, 4, 0], [5, 5, 1]])


def refused(tmp_path, samples):
    """The fields that the refusal of these samples says to give."""
    with pytest.raises(dlpipe.MisuseError, match="which no augmentation moves with the picture") as caught:
        dlpipe.from_dataset(samples, tmp_path / "refused")
    assert list(tmp_path.iterdir()) == []
    return ast.literal_eval(re.search(r"give dlpipe.from_dataset fields=(\{.*?\})", str(caught.value))[1])


@pytest.mark.parametrize("sample, fields", [
    ((WIDE, CLASSES), {"image": "image", "label": "mask"}),
    ((WIDE, CLASSES[None].astype(bool)), {"image": "image", "label": "mask"}),
    ({"image": WIDE, "y": CLASSES[:, :, None].astype(np.int32)}, {"image": "image", "y": "mask"}),
    ({"mask": CLASSES.astype(np.uint8), "image": WIDE}, {"mask": "mask", "image": "image"}),
    ({"image": WIDE, "segmentation": CLASSES.tolist(), "label": 1}, {"image": "image", "segmentation": "mask", "label": "label"}),
    ({"image": WIDE, "boxes": TWO_BOXES, "labels": [2, 1]}, {"image": "image", "boxes": "boxes", "labels": "labels:boxes"}),
    ({"image": WIDE, "boxes": TWO_BOXES[:0]}, {"image": "image", "boxes": "boxes"}),
    ({"image": WIDE, "BBox": TWO_BOXES[0].astype(int), "label": 1}, {"image": "image", "BBox": "boxes", "label": "label"}),
    ({"image": WIDE, "keypoints": POINTS}, {"image": "image", "keypoints": "points"}),
    ({"image": WIDE, "bboxes": TWO_BOXES, "keypoints": np.stack([POINTS] * 2)},
     {"image": "image", "bboxes": "boxes", "keypoints": ("points:bboxes", 3)}),
    ((WIDE, TARGET), {"image": "image", "boxes": "boxes", "labels": "labels:boxes", "image_id": "i64", "area": "f32:boxes",
                      "iscrowd": "i64:boxes"}),
    ((WIDE, {"boxes": TWO_BOXES.tolist(), "labels": [1, 0]}), {"image": "image", "boxes": "boxes", "labels": "labels:boxes"}),
    ({"image": WIDE, "target": {"boxes": TWO_BOXES, "labels": [1, 0]}},
     {"image": "image", "target.boxes": "boxes", "target.labels": "labels:target.boxes"}),
])  # fmt: skip
def test_boxes_points_and_masks_are_refused_with_the_fields_that_move_them(tmp_path, sample, fields):
    assert refused(tmp_path, [sample]) == fields
    dlpipe.from_dataset([sample], tmp_path / "d", fields=fields)
    stored = dlpipe.Dataset(tmp_path / "d")[0]
    values = sample if isinstance(sample, dict) else {"image": WIDE, **(TARGET if isinstance(sample[1], dict) else {"label": sample[1]})}
    for name, kind in fields.items():
        value = values[name] if name in values else values["target"][name.removeprefix("target.")]
        assert stored[name].reshape(-1).tolist() == np.reshape(value, -1).tolist() if kind != "label" else stored[name] == value
    links = {f["name"]: f["kind"] for f in json.loads(run_program("inspect", tmp_path / "d", "--json"))["fields"]}
    moving = {"mask": "mask", "boxes": "boxes", "points": "points"}
    assert {n: k for n, k in links.items() if k in moving} == {
        n: moving[word] for n, k in fields.items() if (word := str(k[0] if isinstance(k, tuple) else k).split(":")[0]) in moving}  # fmt: skip


def test_key_points_without_visibility_and_masks_of_several_objects_want_a_function(tmp_path):
    with pytest.raises(dlpipe.MisuseError, match="visible .1 or 0.: add the third number in sample="):
        dlpipe.from_dataset([{"image": WIDE, "keypoints": POINTS[:, :2]}], tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match=r"'masks' is \[2, 6, 10\]: make one in sample="):
        dlpipe.from_dataset([{"image": WIDE, "masks": np.zeros((2, 6, 10), bool)}], tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match=r"'mask' is float32 \[6, 10\]: make it uint8 in sample="):
        dlpipe.from_dataset([{"image": WIDE, "mask": CLASSES.astype(np.float32)}], tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match="'right' is a second image; .*'right': 'mask'"):
        dlpipe.from_dataset([{"left": WIDE, "right": WIDE}], tmp_path / "d")


@pytest.mark.parametrize("target, key", [
    ({"annotation": {"size": {"width": "10"}, "object": [{"name": "cat", "bndbox": {"xmin": "1", "ymin": "2"}}]}}, "bndbox"),
    ([{"bbox": [1, 2, 3, 4], "category_id": 1}], "bbox"),
])  # fmt: skip
def test_boxes_deep_in_an_annotation_want_a_function(tmp_path, target, key):
    with pytest.raises(dlpipe.MisuseError, match=f"'label' has '{key}' in it, .* give sample=.* dlpipe.ingest reads"):
        dlpipe.from_dataset([(WIDE, target)], tmp_path / "d")
    dlpipe.from_dataset([(WIDE, target)], tmp_path / "d", fields={"image": "image", "label": "text"})
    assert json.loads(dlpipe.Dataset(tmp_path / "d")[0].label) == target


@pytest.mark.parametrize("sample", [
    {"boxes": TWO_BOXES, "mask": CLASSES},  # no picture that could be moved
    {"image": WIDE, "matrix": TWO_BOXES, "attention_mask": np.ones(7, int), "mask_ratio": 0.5, "depth": CLASSES.astype(np.float32)},
    {"image": WIDE, "meta": {"box": 3, "text": "x"}},
])  # fmt: skip
def test_what_may_be_something_else_is_stored(tmp_path, sample):
    dlpipe.from_dataset([sample], tmp_path / "d")
    assert dlpipe.Dataset(tmp_path / "d").fields == tuple(sample)


def test_boxes_can_stay_plain_numbers_where_fields_says_so(tmp_path):
    with pytest.raises(dlpipe.MisuseError, match=r"'boxes': \('float32', \(2, 4\)\) there keeps plain numbers"):
        dlpipe.from_dataset([{"image": WIDE, "boxes": TWO_BOXES}], tmp_path / "d")
    dlpipe.from_dataset([{"image": WIDE, "boxes": TWO_BOXES}], tmp_path / "d", fields={"image": "image", "boxes": ("float32", (2, 4))})
    assert dlpipe.Dataset(tmp_path / "d")[0].boxes.tolist() == TWO_BOXES.tolist()
    with pytest.raises(dlpipe.MisuseError, match=r"'parts' has the shape \(1, 4\), the dataset's is \(2, 4\); give 'boxes' or"):
        dlpipe.from_dataset([{"parts": TWO_BOXES}, {"parts": TWO_BOXES[:1]}], tmp_path / "e")


def test_a_dict_that_is_no_json_is_told_by_name(tmp_path):
    with pytest.raises(dlpipe.MisuseError, match="'meta' is dict, stored as JSON, and that fails: .* 'meta.part'"):
        dlpipe.from_dataset([{"image": WIDE, "meta": {"x": np.float32([1, 2])}}], tmp_path / "d")
    dlpipe.from_dataset([{"image": WIDE, "meta": {"x": np.float32([1, 2])}}], tmp_path / "d", fields={"image": "image", "meta.x": ("f32", 2)})
    assert dlpipe.Dataset(tmp_path / "d")[0].meta_x.tolist() == [1, 2]


def test_torchs_tensors_of_boxes_and_masks(tmp_path):
    torch = pytest.importorskip("torch")
    picture = torch.from_numpy(WIDE).permute(2, 0, 1)
    assert refused(tmp_path, [(picture, torch.from_numpy(CLASSES))]) == {"image": "image", "label": "mask"}
    target = {name: torch.as_tensor(value) for name, value in TARGET.items()}
    fields = refused(tmp_path, [(picture, target)])
    assert fields == {"image": "image", "boxes": "boxes", "labels": "labels:boxes", "image_id": ("int64", (1,)), "area": "f32:boxes",
                      "iscrowd": "i64:boxes"}  # fmt: skip
    fewer = {name: value[:1] if value.ndim else value for name, value in target.items()}
    dlpipe.from_dataset([(picture, target), (picture, fewer)], tmp_path / "d", fields=fields)
    assert [s.boxes.tolist() for s in dlpipe.Dataset(tmp_path / "d")] == [TWO_BOXES.tolist(), TWO_BOXES[:1].tolist()]


def test_torchvisions_tensors_say_what_they_are(tmp_path):
    tensors = pytest.importorskip("torchvision.tv_tensors")
    sample = {"image": WIDE, "where": tensors.BoundingBoxes(TWO_BOXES, format="XYWH", canvas_size=(6, 10)), "what": tensors.Mask(CLASSES)}
    assert refused(tmp_path, [sample]) == {"image": "image", "where": "boxes-xywh", "what": "mask"}


# Other libraries.


def test_hugging_faces_jpegs_keep_their_bytes(pictures, tmp_path):
    datasets = pytest.importorskip("datasets")
    files = tree(pictures)
    names = sorted(files)[::4]
    classes = sorted({name.split("/")[0] for name in names})
    rows = {
        "image": [{"bytes": files[n], "path": n} for n in names],
        "label": [classes.index(n.split("/")[0]) for n in names],
        "caption": [f"a {n}" for n in names],
        "score": [i / 4 for i in range(len(names))],
        "quad": [[i, 1, 2, 3] for i in range(len(names))],
        "good": [i % 2 == 0 for i in range(len(names))],
    }
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=classes), "caption": datasets.Value("string"),
         "score": datasets.Value("float32"), "quad": datasets.Sequence(datasets.Value("int64"), length=4),
         "good": datasets.Value("bool")}
    )  # fmt: skip
    both = datasets.Dataset.from_dict(rows, features=features).train_test_split(0.2, seed=1)
    both["train"].to_parquet(tmp_path / "train.parquet")
    both["train"] = datasets.load_dataset("parquet", data_files=str(tmp_path / "train.parquet"), split="train",
                                          cache_dir=str(tmp_path / "cache"))  # fmt: skip
    for workers in (0, 2):
        report = dlpipe.from_dataset(both, tmp_path / f"d{workers}", workers=workers)
        assert {d["split"]: d["samples"] for d in report["datasets"]} == {"train": 80, "test": 20}
        assert report["classes"] == classes
        samples = dlpipe.Dataset(tmp_path / f"d{workers}", split="train")
        for i in (0, 33, 79):
            row = both["train"][i]
            name = row["caption"][2:]
            assert samples.file(i) == files[name], "the JPEG's own bytes"
            assert samples[i].caption == row["caption"] and samples[i].score.tolist() == [row["score"]]
            assert samples[i].quad.tolist() == row["quad"] and samples[i].good.tolist() == [int(row["good"])]
            assert samples.class_name(samples[i].label) == name.split("/")[0]
            assert samples[i].path == name.split("/")[1]
    stream = both["test"].to_iterable_dataset()
    dlpipe.from_dataset(stream, tmp_path / "stream")
    assert [s.caption for s in dlpipe.Dataset(tmp_path / "stream")] == both["test"]["caption"][:]


def test_hugging_faces_bytes_that_are_called_as_pictures(pictures, tmp_path, caplog):
    datasets = pytest.importorskip("datasets")
    files = list(tree(pictures).values())[:6]
    dataset = datasets.Dataset.from_dict({"image": files, "mask_file": files, "label": [0, 1] * 3})
    dlpipe.from_dataset(dataset, tmp_path / "d")
    samples = dlpipe.Dataset(tmp_path / "d")
    assert samples.fields == ("image", "mask_file", "label", "path") and [samples.file(i) for i in range(6)] == files
    assert not caplog.records
    assert [s.label for s in samples] == [0, 1] * 3 and samples.classes == ["0", "1"]  # a column called label, without a ClassLabel
    named = dataset.remove_columns("label").add_column("label", ["b", "a"] * 3)
    dlpipe.from_dataset(named.add_column("class", ["x"] * 6), tmp_path / "named")
    assert [dlpipe.Dataset(tmp_path / "named").class_name(s.label) for s in dlpipe.Dataset(tmp_path / "named")] == ["b", "a"] * 3
    assert dlpipe.Dataset(tmp_path / "named")[0]["class"] == "x"
    dlpipe.from_dataset(dataset.with_transform(lambda rows: rows), tmp_path / "e")
    assert "with_transform is left out" in caplog.text and dlpipe.Dataset(tmp_path / "e").id == samples.id


def detections(datasets, pictures, **columns):
    """Two pictures, with two objects and with none."""
    files = [data for _, data in sorted(tree(pictures).items())[:2]]
    boxes = [[[1, 2, 3, 4], [5, 6, 7, 8]], []]
    rows = {"image": [{"bytes": data, "path": None} for data in files],
            "objects": [{"bbox": b, "category": [1, 0][: len(b)], "area": [12.0, 56.0][: len(b)], "crowd": [True, False][: len(b)]}
                        for b in boxes], **{name: values for name, (values, _) in columns.items()}}  # fmt: skip
    d = datasets
    features = d.Features({"image": d.Image(), "objects": {
        "bbox": d.Sequence(d.Sequence(d.Value("float32"), length=4)), "category": d.Sequence(d.ClassLabel(names=["cat", "dog"])),
        "area": d.Sequence(d.Value("float64")), "crowd": d.Sequence(d.Value("bool"))},
        **{name: feature for name, (_, feature) in columns.items()}})  # fmt: skip
    return d.Dataset.from_dict(rows, features=features)


def test_hugging_faces_objects_become_boxes_with_their_classes(pictures, tmp_path):
    datasets = pytest.importorskip("datasets")
    tags = ([[0, 1], []], datasets.Sequence(datasets.ClassLabel(names=["cat", "dog"])))
    other = ([[1], [0, 0]], datasets.Sequence(datasets.ClassLabel(names=["x", "y"])))
    words = ([["a", "b"], []], datasets.Sequence(datasets.Value("string")))
    many = ([[1, 2, 3], []], datasets.Sequence(datasets.Value("int32")))
    matrix = ([[[1.5, 2]], [[3, 4]]], datasets.Array2D((1, 2), "float32"))
    listed = ([[{"x": 1}, {"x": 5}], []], [{"x": datasets.Value("int64")}])
    dataset = detections(datasets, pictures, tags=tags, other=other, words=words, many=many, matrix=matrix, listed=listed)
    with pytest.raises(dlpipe.MisuseError, match="column 'objects.bbox' holds boxes; say of which form: boxes='xywh'"):
        dlpipe.from_dataset(dataset, tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match="boxes='coco'; give 'xywh'"):
        dlpipe.from_dataset(dataset, tmp_path / "d", boxes="coco")
    report = dlpipe.from_dataset(dataset, tmp_path / "d", boxes="xywh")
    assert report["classes"] == ["cat", "dog"]
    one, none = dlpipe.Dataset(tmp_path / "d")
    assert one["objects.bbox"].tolist() == [[1, 2, 4, 6], [5, 6, 12, 14]] and none.objects_bbox.shape == (0, 4)
    assert one["objects.category"].tolist() == [1, 0] and one.objects_area.tolist() == [12, 56]
    assert one.objects_crowd.tolist() == [1, 0] and one.tags.tolist() == [0, 1] and one.other.tolist() == [1]
    assert none.other.tolist() == [0, 0] and one.words == '["a", "b"]' and one.many.tolist() == [1, 2, 3]
    assert one.matrix.tolist() == [[1.5, 2]] and one["listed.x"].tolist() == [1, 5] and len(none.listed_x) == 0
    links = {f["name"]: f.get("of", "") for f in json.loads(run_program("inspect", tmp_path / "d", "--json"))["fields"]}
    assert {name for name, of in links.items() if of == "objects.bbox"} == {"objects.category", "objects.area", "objects.crowd"}
    dlpipe.from_dataset(dataset.select_columns(["image", "objects"]), tmp_path / "xyxy", boxes="xyxy")
    assert dlpipe.Dataset(tmp_path / "xyxy")[0].objects_bbox.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    dlpipe.from_dataset(dataset, tmp_path / "some", fields={"image": "image", "objects.bbox": "boxes-xywh", "many": ("i64", None)})
    assert dlpipe.Dataset(tmp_path / "some").fields == ("image", "objects.bbox", "many")


def test_hugging_face_columns_that_no_field_holds(pictures, tmp_path):
    datasets = pytest.importorskip("datasets")
    with pytest.raises(dlpipe.MisuseError, match=r"column 'many' .*remove_columns\('many'\)"):
        dlpipe.from_dataset(datasets.Dataset.from_dict({"many": [[[1]], [[2, 3]]]}), tmp_path / "d")
    dataset = datasets.Dataset.from_dict({"bbox": [[[1, 2, 3, 4]]], "tags": [[1, 2]]})
    with pytest.raises(dlpipe.MisuseError, match="field 'tags' has 2 rows for 1 boxes of field 'bbox'"):
        dlpipe.from_dataset(dataset, tmp_path / "d", boxes="xyxy")
    with pytest.raises(dlpipe.MisuseError, match="boxes= is for Hugging Face's"):
        dlpipe.from_dataset([{"image": np.zeros((4, 4), np.uint8)}], tmp_path / "d", boxes="xyxy")


def png(image, array, **options):
    file = io.BytesIO()
    image.fromarray(array).save(file, "png", **options)
    return {"bytes": file.getvalue(), "path": None}


def rows_beside_pictures(datasets, **columns):
    """Two rows of a picture, WIDE, and columns of (values, feature)."""
    d = datasets
    picture = png(pytest.importorskip("PIL.Image"), WIDE)
    return d.Dataset.from_dict({"image": [picture] * 2, **{name: [value] * 2 for name, (value, _) in columns.items()}},
                               features=d.Features({"image": d.Image(), **{name: of for name, (_, of) in columns.items()}}))  # fmt: skip


def test_hugging_faces_masks_boxes_and_points_are_refused_with_the_fields_that_move_them(tmp_path):
    d = pytest.importorskip("datasets")
    whole, number = d.Value("int64"), d.Value("float32")
    for columns, fields in [
        ({"mask": (CLASSES, d.Array2D((6, 10), "int64"))}, {"mask": "mask"}),
        ({"segmentation": (CLASSES.tolist(), d.Sequence(d.Sequence(whole)))}, {"segmentation": "mask"}),
        ({"ground_truth": (CLASSES, d.Array2D((6, 10), "uint8"))}, {"ground_truth": "mask"}),
        ({"box": ([1, 2, 3, 4], d.Sequence(whole, length=4)), "label": (1, whole)}, {"box": "boxes", "label": "label"}),
        ({"keypoints": (POINTS, d.Array2D((3, 3), "float32"))}, {"keypoints": "points"}),
        ({"bboxes": (TWO_BOXES, d.Array2D((2, 4), "float32")), "labels": ([1, 0], d.Sequence(whole)),
          "score": ([0.5, 1.0], d.Sequence(number))},
         {"bboxes": "boxes", "labels": "labels:bboxes", "score": "f64:bboxes"}),
    ]:  # fmt: skip
        rows = rows_beside_pictures(d, **columns)
        for source in (rows, rows.to_iterable_dataset()):
            assert refused(tmp_path, source) == {"image": "image", **fields}
        dlpipe.from_dataset(rows, tmp_path / "d", fields={"image": "image", **fields})
        for sample in dlpipe.Dataset(tmp_path / "d"):
            assert all(sample[name].reshape(-1).tolist() == np.reshape(value, -1).tolist()
                       for name, (value, _) in columns.items() if name != "label")  # fmt: skip
        shutil.rmtree(tmp_path / "d")
    polygons = d.Sequence(d.Sequence(d.Sequence(number)))
    rows = rows_beside_pictures(d, segmentation=([[[1.0, 2, 3, 4, 5, 6]], [[1.0, 2], [3, 4, 5]]], polygons))
    with pytest.raises(dlpipe.MisuseError, match="'segmentation' .* no field holds that"):
        dlpipe.from_dataset(rows, tmp_path / "d")
    rows = rows_beside_pictures(d, matrix=(TWO_BOXES, d.Array2D((2, 4), "float32")), numbers=(CLASSES[0], d.Sequence(whole)))
    dlpipe.from_dataset(rows, tmp_path / "d")
    assert dlpipe.Dataset(tmp_path / "d").fields == ("image", "matrix", "numbers", "path")


def test_hugging_faces_image_column_may_be_a_mask(tmp_path):
    d = pytest.importorskip("datasets")
    image = pytest.importorskip("PIL.Image")
    classes = png(image, CLASSES.astype(np.uint8))
    rows = rows_beside_pictures(d, annotation=(classes, d.Image()))
    with pytest.raises(dlpipe.MisuseError, match="'image' and 'annotation' are images; .* with 'annotation': 'mask'"):
        dlpipe.from_dataset(rows, tmp_path / "d")
    colours = png(image, np.stack([CLASSES.astype(np.uint8)] * 3, 2))
    for one in (rows, rows_beside_pictures(d, annotation=(colours, d.Image(mode="L")))):
        dlpipe.from_dataset(one, tmp_path / "d", fields={"image": "image", "annotation": "mask"})
        for sample in dlpipe.Dataset(tmp_path / "d"):
            assert np.array_equal(sample.image, WIDE) and np.array_equal(sample.annotation, CLASSES)
        shutil.rmtree(tmp_path / "d")
    masks = rows_beside_pictures(d, mask=(classes, d.Image()))
    assert refused(tmp_path, masks) == {"image": "image", "mask": "mask"}
    subset = pytest.importorskip("torch.utils.data").Subset(masks, [1])
    dlpipe.from_dataset(subset, tmp_path / "d", fields={"image": "image", "mask": "mask"})
    assert np.array_equal(dlpipe.Dataset(tmp_path / "d")[0].mask, CLASSES)


def test_hugging_faces_mode_of_an_image_column(tmp_path):
    d = pytest.importorskip("datasets")
    image = pytest.importorskip("PIL.Image")
    grey = rows_beside_pictures(d).cast_column("image", d.Image(mode="L"))
    dlpipe.from_dataset(grey, tmp_path / "grey", workers=2)
    assert np.array_equal(dlpipe.Dataset(tmp_path / "grey")[1].image[:, :, 0], np.asarray(image.fromarray(WIDE).convert("L")))
    coloured = rows_beside_pictures(d).cast_column("image", d.Image(mode="RGB"))
    dlpipe.from_dataset(coloured, tmp_path / "coloured")
    assert dlpipe.Dataset(tmp_path / "coloured").file(0) == png(image, WIDE)["bytes"], "the file has that mode and stays"


def test_hugging_faces_paths_are_no_pictures(tmp_path):
    d = pytest.importorskip("datasets")
    paths = d.Dataset.from_dict({"image": ["pics/0.jpg", "pics/1.jpg"], "label": [0, 1]})
    with pytest.raises(dlpipe.MisuseError, match=r"column 'image' holds texts; .*cast_column\('image', datasets.Image\(\)\)"):
        dlpipe.from_dataset(paths, tmp_path / "d")
    dlpipe.from_dataset(paths, tmp_path / "d", fields={"image": "text", "label": "label"})
    assert [s.image for s in dlpipe.Dataset(tmp_path / "d")] == ["pics/0.jpg", "pics/1.jpg"]
    none = d.Dataset.from_dict({"image": [None], "label": [0]}, features=d.Features({"image": d.Image(), "label": d.Value("int64")}))
    with pytest.raises(dlpipe.MisuseError, match="a sample has no picture 'image'; filter such samples out"):
        dlpipe.from_dataset(none, tmp_path / "e")


def test_torchvisions_folders_keep_their_files(pictures, tmp_path):
    folder = pytest.importorskip("torchvision.datasets").ImageFolder
    dlpipe.from_dataset(folder(str(pictures)), tmp_path / "d", workers=2)
    ingested = dlpipe.ingest(pictures, tmp_path / "ingested")
    assert dlpipe.Dataset(tmp_path / "d").id == ingested["datasets"][0]["id"]
    dlpipe.from_dataset(folder(str(pictures), transform=lambda p: p.resize((16, 16))), tmp_path / "small")
    assert dlpipe.Dataset(tmp_path / "small")[0].image.shape == (16, 16, 3)
    data = pytest.importorskip("torch.utils.data")
    train, val = data.random_split(folder(str(pictures)), [0.75, 0.25])
    dlpipe.from_dataset({"train": train, "val": data.Subset(val, range(10))}, tmp_path / "drawn", workers=2)
    for split, subset in (("train", train), ("val", val)):
        samples = dlpipe.Dataset(tmp_path / "drawn", split=split)
        assert samples.classes == train.dataset.classes
        for i in (0, len(samples) - 1):
            path, label = train.dataset.samples[subset.indices[i]]
            assert samples.file(i) == pathlib.Path(path).read_bytes() and samples[i].label == label
    with pytest.raises(dlpipe.MisuseError, match=r"float32; give uint8.*has a transform: leave it out \(transform=None\)"):
        dlpipe.from_dataset(folder(str(pictures), transform=lambda p: np.float32(p) / 255), tmp_path / "floats")


def test_torchs_datasets(tmp_path):
    data = pytest.importorskip("torch.utils.data")
    dlpipe.from_dataset(data.Subset(Pictures(20), range(3, 9)), tmp_path / "subset")
    assert [s.label for s in dlpipe.Dataset(tmp_path / "subset")] == [1, 0, 1, 0, 1, 0]

    class Stream(data.IterableDataset):
        def __len__(self):
            return 20

        def __iter__(self):
            return map(Pictures(9).__getitem__, range(9))

    dlpipe.from_dataset(Stream(), tmp_path / "stream")
    assert len(dlpipe.Dataset(tmp_path / "stream")) == 9
    loader = data.DataLoader(dlpipe.Dataset(tmp_path / "stream"), batch_size=3, num_workers=2)
    assert [len(batch.label) for batch in loader] == [3, 3, 3]


def test_webdatasets(pictures, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    files = tree(pictures)
    names = sorted(files)[::8]
    with webdataset.TarWriter(str(tmp_path / "shard.tar")) as tar:
        for i, name in enumerate(names):
            tar.write({"__key__": f"{i:06d}", "jpg": files[name], "cls": i % 10, "json": {"name": name}})
    raw = webdataset.WebDataset(str(tmp_path / "shard.tar"), shardshuffle=False)
    dlpipe.from_dataset(raw, tmp_path / "raw")
    samples = dlpipe.Dataset(tmp_path / "raw")
    assert [samples.file(i) for i in range(len(names))] == [files[name] for name in names]
    assert [s.cls for s in samples] == [i % 10 for i in range(len(names))]
    assert samples[3].path == "000003" and names[3] in samples[3].json
    pytest.importorskip("PIL.Image")
    decoded = webdataset.WebDataset(str(tmp_path / "shard.tar"), shardshuffle=False).decode("pil").to_tuple("jpg", "cls")
    dlpipe.from_dataset(decoded, tmp_path / "decoded")
    assert np.array_equal(dlpipe.Dataset(tmp_path / "decoded")[5].image, samples[5].jpg)


def test_pillow_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    dlpipe.from_dataset([(image.fromarray(Pictures(1)[0][0]), "cat")], tmp_path / "d")
    dlpipe.Dataset(tmp_path / "d").to_pil(0).save(file, "png")
    assert np.array_equal(np.asarray(image.open(file)), Pictures(1)[0][0])


def test_what_the_first_sample_has_not_is_told_by_name_and_number(tmp_path):
    samples = [{"image": PICTURE, "label": "a"}, {"image": PICTURE, "label": "b", "x": 2.7}]
    with pytest.raises(dlpipe.MisuseError, match="sample 1 has 'x', which the first one, .* give fields="):
        dlpipe.from_dataset(samples, tmp_path / "d")
    dlpipe.from_dataset(samples, tmp_path / "e", fields={"image": "image", "label": "label"})
    with pytest.raises(dlpipe.MisuseError, match=r"no 'x'.*fields= without it.*sample 1"):
        dlpipe.from_dataset(samples[::-1], tmp_path / "f")


def test_samples_without_a_class_are_counted(tmp_path):
    report = dlpipe.from_dataset([(PICTURE, 0), (PICTURE, None), (PICTURE, 1)], tmp_path / "d")
    assert report["warnings"] == ["[writer] 1 of 3 samples have no class: their label is -1"]
    assert dlpipe.from_dataset([(PICTURE, 0), (PICTURE, 1)], tmp_path / "e")["warnings"] == []
