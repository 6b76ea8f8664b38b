"""dlpipe.from_dataset with Hugging Face's datasets."""

import io
import json
import shutil

import dlpipe
import numpy as np
import pytest
from conftest import run_program
from test_annotations import CLASSES, POINTS, TWO_BOXES, WIDE, refused
from test_dataset import tree


def test_hugging_faces_jpegs_keep_their_bytes(images, tmp_path):
    datasets = pytest.importorskip("datasets")
    files = tree(images)
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
            assert samples[i].caption == row["caption"] and samples[i].score == row["score"]
            assert samples[i].quad.tolist() == row["quad"] and samples[i].good == int(row["good"])
            assert samples.class_name(samples[i].label) == name.split("/")[0]
            assert samples[i].path == name.split("/")[1]
    stream = both["test"].to_iterable_dataset()
    dlpipe.from_dataset(stream, tmp_path / "stream")
    assert [s.caption for s in dlpipe.Dataset(tmp_path / "stream")] == both["test"]["caption"][:]


def test_hugging_faces_bytes_that_are_called_as_images(images, tmp_path, caplog):
    datasets = pytest.importorskip("datasets")
    files = list(tree(images).values())[:6]
    dataset = datasets.Dataset.from_dict({"image": files, "mask_file": files, "label": [0, 1] * 3})
    dlpipe.from_dataset(dataset, tmp_path / "d")
    samples = dlpipe.Dataset(tmp_path / "d")
    assert samples.fields == ("image", "label", "mask_file", "path") and [samples.file(i) for i in range(6)] == files
    assert not caplog.records
    assert [s.label for s in samples] == [0, 1] * 3 and samples.classes == ["0", "1"]  # a column called label, without a ClassLabel
    named = dataset.remove_columns("label").add_column("label", ["b", "a"] * 3)
    dlpipe.from_dataset(named.add_column("class", ["x"] * 6), tmp_path / "named")
    assert [dlpipe.Dataset(tmp_path / "named").class_name(s.label) for s in dlpipe.Dataset(tmp_path / "named")] == ["b", "a"] * 3
    assert dlpipe.Dataset(tmp_path / "named")[0]["class"] == "x"
    dlpipe.from_dataset(dataset.with_transform(lambda rows: rows), tmp_path / "e")
    assert "with_transform is ignored" in caplog.text and dlpipe.Dataset(tmp_path / "e").id == samples.id


def detections(datasets, images, **columns):
    """Two images, with two objects and with none."""
    files = [data for _, data in sorted(tree(images).items())[:2]]
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


def test_hugging_faces_objects_become_boxes_with_their_classes(images, tmp_path):
    datasets = pytest.importorskip("datasets")
    tags = ([[0, 1], []], datasets.Sequence(datasets.ClassLabel(names=["cat", "dog"])))
    other = ([[1], [0, 0]], datasets.Sequence(datasets.ClassLabel(names=["x", "y"])))
    words = ([["a", "b"], []], datasets.Sequence(datasets.Value("string")))
    many = ([[1, 2, 3], []], datasets.Sequence(datasets.Value("int32")))
    matrix = ([[[1.5, 2]], [[3, 4]]], datasets.Array2D((1, 2), "float32"))
    listed = ([[{"x": 1}, {"x": 5}], []], [{"x": datasets.Value("int64")}])
    dataset = detections(datasets, images, tags=tags, other=other, words=words, many=many, matrix=matrix, listed=listed)
    with pytest.raises(dlpipe.MisuseError, match="column 'objects.bbox' holds boxes; give their format: boxes='xywh'"):
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


def test_hugging_face_columns_that_no_field_holds(images, tmp_path):
    datasets = pytest.importorskip("datasets")
    with pytest.raises(dlpipe.MisuseError, match=r"column 'many' .*remove_columns\('many'\)"):
        dlpipe.from_dataset(datasets.Dataset.from_dict({"many": [[[1]], [[2, 3]]]}), tmp_path / "d")
    dataset = datasets.Dataset.from_dict({"bbox": [[[1, 2, 3, 4]]], "tags": [[1, 2]]})
    with pytest.raises(dlpipe.MisuseError, match="field 'tags' has 2 rows for 1 box of field 'bbox'"):
        dlpipe.from_dataset(dataset, tmp_path / "d", boxes="xyxy")
    with pytest.raises(dlpipe.MisuseError, match="boxes= is for Hugging Face's"):
        dlpipe.from_dataset([{"image": np.zeros((4, 4), np.uint8)}], tmp_path / "d", boxes="xyxy")


def png(image, array, **options):
    file = io.BytesIO()
    image.fromarray(array).save(file, "png", **options)
    return {"bytes": file.getvalue(), "path": None}


def rows_beside_images(datasets, **columns):
    """Two rows of an image, WIDE, and columns of (values, feature)."""
    d = datasets
    image = png(pytest.importorskip("PIL.Image"), WIDE)
    return d.Dataset.from_dict({"image": [image] * 2, **{name: [value] * 2 for name, (value, _) in columns.items()}},
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
        rows = rows_beside_images(d, **columns)
        for source in (rows, rows.to_iterable_dataset()):
            assert refused(tmp_path, source) == {"image": "image", **fields}
        dlpipe.from_dataset(rows, tmp_path / "d", fields={"image": "image", **fields})
        for sample in dlpipe.Dataset(tmp_path / "d"):
            assert all(sample[name].reshape(-1).tolist() == np.reshape(value, -1).tolist()
                       for name, (value, _) in columns.items() if name != "label")  # fmt: skip
        shutil.rmtree(tmp_path / "d")
    polygons = d.Sequence(d.Sequence(d.Sequence(number)))
    rows = rows_beside_images(d, segmentation=([[[1.0, 2, 3, 4, 5, 6]], [[1.0, 2], [3, 4, 5]]], polygons))
    with pytest.raises(dlpipe.MisuseError, match="'segmentation' .* which no field can hold"):
        dlpipe.from_dataset(rows, tmp_path / "d")
    rows = rows_beside_images(d, matrix=(TWO_BOXES, d.Array2D((2, 4), "float32")), numbers=(CLASSES[0], d.Sequence(whole)))
    dlpipe.from_dataset(rows, tmp_path / "d")
    assert dlpipe.Dataset(tmp_path / "d").fields == ("image", "matrix", "numbers", "path")


def test_hugging_faces_image_column_may_be_a_mask(tmp_path):
    d = pytest.importorskip("datasets")
    image = pytest.importorskip("PIL.Image")
    classes = png(image, CLASSES.astype(np.uint8))
    rows = rows_beside_images(d, annotation=(classes, d.Image()))
    with pytest.raises(dlpipe.MisuseError, match="columns 'image' and 'annotation' are images, .* with 'annotation': 'mask'"):
        dlpipe.from_dataset(rows, tmp_path / "d")
    colours = png(image, np.stack([CLASSES.astype(np.uint8)] * 3, 2))
    for one in (rows, rows_beside_images(d, annotation=(colours, d.Image(mode="L")))):
        dlpipe.from_dataset(one, tmp_path / "d", fields={"image": "image", "annotation": "mask"})
        for sample in dlpipe.Dataset(tmp_path / "d"):
            assert np.array_equal(sample.image, WIDE) and np.array_equal(sample.annotation, CLASSES)
        shutil.rmtree(tmp_path / "d")
    masks = rows_beside_images(d, mask=(classes, d.Image()))
    assert refused(tmp_path, masks) == {"image": "image", "mask": "mask"}
    subset = pytest.importorskip("torch.utils.data").Subset(masks, [1])
    dlpipe.from_dataset(subset, tmp_path / "d", fields={"image": "image", "mask": "mask"})
    assert np.array_equal(dlpipe.Dataset(tmp_path / "d")[0].mask, CLASSES)


def test_hugging_faces_mode_of_an_image_column(tmp_path):
    d = pytest.importorskip("datasets")
    image = pytest.importorskip("PIL.Image")
    grey = rows_beside_images(d).cast_column("image", d.Image(mode="L"))
    dlpipe.from_dataset(grey, tmp_path / "grey", workers=2)
    assert np.array_equal(dlpipe.Dataset(tmp_path / "grey")[1].image[:, :, 0], np.asarray(image.fromarray(WIDE).convert("L")))
    coloured = rows_beside_images(d).cast_column("image", d.Image(mode="RGB"))
    dlpipe.from_dataset(coloured, tmp_path / "coloured")
    assert dlpipe.Dataset(tmp_path / "coloured").file(0) == png(image, WIDE)["bytes"], "the file has that mode and stays"


def test_hugging_faces_paths_are_no_images(tmp_path):
    d = pytest.importorskip("datasets")
    paths = d.Dataset.from_dict({"image": ["pics/0.jpg", "pics/1.jpg"], "label": [0, 1]})
    with pytest.raises(dlpipe.MisuseError, match=r"column 'image' holds texts; .*cast_column\('image', datasets.Image\(\)\)"):
        dlpipe.from_dataset(paths, tmp_path / "d")
    dlpipe.from_dataset(paths, tmp_path / "d", fields={"image": "text", "label": "label"})
    assert [s.image for s in dlpipe.Dataset(tmp_path / "d")] == ["pics/0.jpg", "pics/1.jpg"]
    none = d.Dataset.from_dict({"image": [None], "label": [0]}, features=d.Features({"image": d.Image(), "label": d.Value("int64")}))
    with pytest.raises(dlpipe.MisuseError, match="a sample has no image 'image'; filter such samples out"):
        dlpipe.from_dataset(none, tmp_path / "e")


def test_hugging_faces_files_that_are_gone_follow_on_error(images, tmp_path):
    d = pytest.importorskip("datasets")
    there = str(next(iter(sorted(images.rglob("*.jpg")))))
    rows = d.Dataset.from_dict({"image": [there, str(tmp_path / "gone.jpg")], "label": [0, 1]},
                               features=d.Features({"image": d.Image(), "label": d.Value("int64")}))  # fmt: skip
    with pytest.raises(dlpipe.NotFoundError, match="sample 1 .*column 'image': .*gone.jpg: No such file"):
        dlpipe.from_dataset(rows, tmp_path / "d")
    dlpipe.from_dataset(rows, tmp_path / "d", on_error="skip")
    assert [path for path, _ in dlpipe.Dataset(tmp_path / "d").skipped] == ["gone.jpg"]


def test_hugging_faces_labels_that_are_no_classes_are_warned_of(tmp_path, caplog):
    d = pytest.importorskip("datasets")
    rows = rows_beside_images(d, label=(0.5, d.Value("float32")))
    dlpipe.from_dataset(rows, tmp_path / "d")
    assert "column 'label' has a name that usually means classes" in caplog.text and dlpipe.Dataset(tmp_path / "d")[0].label == 0.5
