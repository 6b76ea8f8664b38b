"""Parquet and Arrow files, as pyarrow writes them in Hugging Face's layout and in others'."""

import io
import json
import os
import pickle
import shutil
import subprocess
import sys

import dlpipe
import numpy as np
import pytest
from dlpipe import arrow
from PIL import Image

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def make_image(number, format="JPEG"):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(number).integers(0, 256, (16, 20, 3), np.uint8)).save(out, format)
    return out.getvalue()


def hugging_face_table(begin, end):
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
                "note": {"dtype": "string", "_type": "Value"}}  # fmt: skip
    columns = {
        "image": pa.array([{"bytes": make_image(i), "path": f"{i}.jpg"} for i in range(begin, end)],
                          pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "label": pa.array([i % 2 for i in range(begin, end)], pa.int64()),
        "note": pa.array([f"number {i}" for i in range(begin, end)]),
    }  # fmt: skip
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    return pa.table(columns).replace_schema_metadata(metadata)


def check(directory, begin, end):
    dataset = dlpipe.Dataset(directory)
    assert dataset.classes == ["cat", "dog"]
    for i, sample in zip(range(begin, end), dataset, strict=True):
        assert sample.path == f"{i}.jpg"
        assert sample.label == i % 2
        assert np.array_equal(sample.image, np.asarray(Image.open(io.BytesIO(make_image(i)))))
    assert len(dataset) == end - begin


@pytest.mark.parametrize("workers", [0, 2])
def test_parquet_in_hugging_faces_layout(tmp_path, workers):
    parquet.write_table(hugging_face_table(0, 20), tmp_path / "train-00000-of-00002.parquet", row_group_size=7)
    parquet.write_table(hugging_face_table(20, 30), tmp_path / "train-00001-of-00002.parquet")
    parquet.write_table(hugging_face_table(30, 40), tmp_path / "validation-00000-of-00001.parquet")
    dlpipe.from_dataset(tmp_path, tmp_path / "d", workers=workers)
    check(tmp_path / "d/train", 0, 30)
    check(tmp_path / "d/val", 30, 40)


def test_ingest_takes_them_too(tmp_path):
    hub = tmp_path / "hub" / "data"
    hub.mkdir(parents=True)
    (tmp_path / "hub" / "README.md").write_text("---\nlicense: mit\n---\n")
    parquet.write_table(hugging_face_table(0, 20), hub / "train-00000-of-00002.parquet")
    parquet.write_table(hugging_face_table(20, 30), hub / "train-00001-of-00002.parquet")
    parquet.write_table(hugging_face_table(30, 40), hub / "validation-00000-of-00001.parquet")
    parquet.write_table(hugging_face_table(40, 44), hub / "test-00000-of-00001.parquet")
    seen = []
    report = dlpipe.ingest(tmp_path / "hub", tmp_path / "d", progress=seen.append)
    assert sorted(one["samples"] for one in report["datasets"]) == [4, 10, 30]
    check(tmp_path / "d/train", 0, 30)
    check(tmp_path / "d/val", 30, 40)
    check(tmp_path / "d/test", 40, 44)
    assert seen[-1]["done"] == seen[-1]["total"] == 44 and {"skipped", "samples_per_s", "remaining_s", "limit"} <= {*seen[-1]}
    dlpipe.ingest([hub / "train-00000-of-00002.parquet", hub / "train-00001-of-00002.parquet"], tmp_path / "e", jpeg="standard")
    check(tmp_path / "e", 0, 30)
    assert dlpipe.Dataset(tmp_path / "e").file(3) == make_image(3)  # not encoded again
    dlpipe.ingest(str(hub / "*.parquet"), tmp_path / "f", no_splits=True)
    assert len(dlpipe.Dataset(tmp_path / "f")) == 44
    for options, words in (({"split": (0.9, 0.1)}, "the files have splits already: 'test', 'train', 'val'; leave split out, or give no_splits"),
                           ({"manifest": "x.csv"}, "manifest has no effect on Parquet")):  # fmt: skip
        with pytest.raises(dlpipe.MisuseError, match=words):
            dlpipe.ingest(tmp_path / "hub", tmp_path / "g", **options)
    report = dlpipe.ingest(tmp_path / "hub", tmp_path / "g", limit=12, seed=1)
    assert sum(one["samples"] for one in report["datasets"]) == 12
    check_some(tmp_path / "g" / "train", range(30))


def check_some(directory, numbers):
    """Samples are rows of these, each with its own image."""
    for sample in dlpipe.Dataset(directory):
        number = int(sample.path.split(".")[0])
        assert number in numbers and np.array_equal(sample.image, np.asarray(Image.open(io.BytesIO(make_image(number)))))


def paths_of(directory):
    return [sample.path for sample in dlpipe.Dataset(directory)]


@pytest.mark.parametrize("names", [["a.parquet"], ["train-0.parquet", "validation-0.parquet"]])
def test_limit_and_split_draw_rows(tmp_path, names):
    half = 40 // len(names)
    for number, name in enumerate(names):
        parquet.write_table(hugging_face_table(number * half, (number + 1) * half), tmp_path / name, row_group_size=7)
    options = {"split": (0.75, 0.25), "no_splits": True}
    for seed in (1, 2):
        dlpipe.ingest(tmp_path, tmp_path / f"d{seed}", seed=seed, **options)
    train, val = (paths_of(tmp_path / "d1" / split) for split in ("train", "val"))
    assert sorted(train + val) == sorted(f"{i}.jpg" for i in range(40)) and len(train) == 30
    assert dlpipe.Dataset(tmp_path / "d1" / "val").class_counts == [5, 5]  # each class alike
    assert paths_of(tmp_path / "d2" / "val") != val
    dlpipe.ingest(tmp_path, tmp_path / "few", seed=1, limit=20, **options)
    few = [*paths_of(tmp_path / "few" / "train"), *paths_of(tmp_path / "few" / "val")]
    assert len({*few}) == 20
    check_some(tmp_path / "few" / "train", range(40))
    for wrong, words in (({"limit": 0}, "limit 0; use 1 or more"), ({"split": "0.9"}, "two or three fractions"),
                         ({"split": (0.5, 0.5), "limit": 1}, "too few samples")):  # fmt: skip
        with pytest.raises(dlpipe.MisuseError, match=words):
            dlpipe.ingest(tmp_path, tmp_path / "e", no_splits=True, **wrong)


def test_rows_that_were_drawn_otherwise_are_another_source(tmp_path):
    parquet.write_table(hugging_face_table(0, 30), tmp_path / "a.parquet")
    table = arrow.Table([str(tmp_path / "a.parquet")])
    drawn = [arrow.draw({"": table}, 10, "", seed)[""] for seed in (1, 1, 2)]
    assert drawn[0].name() == drawn[1].name() != drawn[2].name()
    again = pickle.loads(pickle.dumps(drawn[0]))
    assert [row["path"] for row in again] == [row["path"] for row in drawn[0]] and len(again) == 10


def test_rows_without_an_image_are_skipped_as_bad_files_are(tmp_path, caplog):
    images = [{"bytes": make_image(0), "path": "0.jpg"}, None, {"bytes": b"no image", "path": "2.jpg"}, {"bytes": None, "path": None}]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    parquet.write_table(pa.table({"image": pa.array(images, kind), "label": [0, 1, 0, 1]}), tmp_path / "a.parquet")
    dlpipe.ingest(tmp_path / "a.parquet", tmp_path / "d")
    assert len(dlpipe.Dataset(tmp_path / "d")) == 1
    assert [path for path, _ in dlpipe.Dataset(tmp_path / "d").skipped] == ["00000001", "2.jpg", "00000003"]
    assert "[ingest] 3 files skipped:\n  00000001: " in caplog.text
    with pytest.raises(dlpipe.Error, match="00000001"):
        dlpipe.ingest(tmp_path / "a.parquet", tmp_path / "e", on_error="stop")


def test_paths_without_images_are_refused(images, tmp_path):
    files = [str(path.relative_to(images)) for path in sorted(images.rglob("*.jpg"))[:60]]
    table = pa.table({"label": [file.split("/")[0] for file in files], "file_name": files})
    gaps = table.set_column(1, "file_name", pa.array([None, "README", *files[2:]]))
    parquet.write_table(gaps, tmp_path / "gaps.parquet")
    with pytest.raises(dlpipe.MisuseError, match=f"paths of images, such as '{files[2]}'"):
        dlpipe.ingest(tmp_path / "gaps.parquet", tmp_path / "d")
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(dlpipe.MisuseError, match="'file_name' of .*a.parquet has paths of images.*'list.csv'") as raised:
        dlpipe.ingest(tmp_path / "a.parquet", tmp_path / "d")
    assert files[0] in str(raised.value)
    dlpipe.from_dataset(tmp_path / "a.parquet", tmp_path / "d", fields={"file_name": "text"})
    assert dlpipe.Dataset(tmp_path / "d")[0].file_name == files[0]
    # as it advises
    rows = [",".join(row.values()) for row in table.rename_columns(["label", "path"]).select(["path", "label"]).to_pylist()]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]) + "\n")
    report = dlpipe.ingest(tmp_path / "list.csv", tmp_path / "e", images=images)
    assert report["datasets"][0]["samples"] == 60
    parquet.write_table(table.append_column("image", pa.array([make_image(0)] * 60)), tmp_path / "b.parquet")
    assert dlpipe.ingest(tmp_path / "b.parquet", tmp_path / "f")["datasets"][0]["samples"] == 60


def test_a_folder_of_images_beside_such_files_is_one_of_images(images, tmp_path):
    shutil.copytree(images / "disc", tmp_path / "src" / "disc")
    shutil.copytree(images / "ring", tmp_path / "src" / "ring")
    parquet.write_table(hugging_face_table(0, 4), tmp_path / "src" / "index.parquet")
    dlpipe.ingest(tmp_path / "src", tmp_path / "d")
    assert len(dlpipe.Dataset(tmp_path / "d")) == 80


def test_folders_called_like_splits_are_splits(tmp_path):
    for split, begin, end in (("train", 0, 8), ("validation", 8, 12)):
        (tmp_path / "data" / split).mkdir(parents=True)
        parquet.write_table(hugging_face_table(begin, end), tmp_path / "data" / split / "0000.parquet")
    dlpipe.from_dataset(tmp_path / "data", tmp_path / "d", jpeg="standard")
    check(tmp_path / "d" / "train", 0, 8)
    check(tmp_path / "d" / "val", 8, 12)


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_files(tmp_path, stream):
    table = hugging_face_table(0, 10)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    dlpipe.from_dataset(str(tmp_path / "a.arrow"), tmp_path / "d")
    check(tmp_path / "d", 0, 10)


def test_columns_by_their_types(tmp_path):
    parquet.write_table(pa.table({
        "jpg": pa.array([make_image(i) for i in range(4)]), "label": pa.array(["b", "a", "b", "b"]),
        "weight": pa.array([0.5, 1.5, 2.5, 3.5]), "box": pa.array([[1.0, 2.0], [], [3.0], []]),
        "odd": pa.array([{"x": 1}] * 4)}), tmp_path / "a.parquet")  # fmt: skip
    dlpipe.from_dataset(tmp_path / "a.parquet", tmp_path / "d")
    samples = list(dlpipe.Dataset(tmp_path / "d"))
    assert [dlpipe.Dataset(tmp_path / "d").classes[s.label] for s in samples] == ["b", "a", "b", "b"]
    assert [float(s.weight) for s in samples] == [0.5, 1.5, 2.5, 3.5]
    assert [list(s.box) for s in samples] == [[1, 2], [], [3], []]
    assert samples[1].path == "00000001"


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(hugging_face_table(0, 10), path)
    whole = path.read_bytes()
    for share in (0.98, 0.5, 0.01):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(dlpipe.Error, match="a.parquet can't be read"):
            dlpipe.from_dataset(path, tmp_path / "d")
        assert not os.path.exists(tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match="not a Parquet or Arrow file"):
        dlpipe.from_dataset(str(tmp_path / "none.parquet"), tmp_path / "d")


def test_the_program_of_the_package(tmp_path):
    parquet.write_table(hugging_face_table(0, 10), tmp_path / "a.parquet")
    words = [sys.executable, "-m", "dlpipe", "ingest", str(tmp_path / "a.parquet"), str(tmp_path / "d")]
    done = subprocess.run([*words, "--jpeg", "standard"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "10 samples" in done.stdout
    check(tmp_path / "d", 0, 10)
    folder = [*words[:-2], str(tmp_path), str(tmp_path / "of_folder")]
    (tmp_path / "d").rename(tmp_path.parent / "made")  # the folder holds the file alone
    done = subprocess.run(folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "10 samples" in done.stdout, done.stderr
    refused = subprocess.run([*words[:-1], str(tmp_path / "e"), "--window", "1GiB"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--window" in refused.stderr


# As of all commands of the program: what scripts give to any of them.
def test_the_program_takes_what_every_ingest_takes(tmp_path):
    parquet.write_table(hugging_face_table(0, 10), tmp_path / "a.parquet")
    for number, options in enumerate((["--quiet"], ["--color", "never", "--jobs", "2"], ["--color=always", "--workers", "1"])):
        data = tmp_path / f"d{number}"
        words = [sys.executable, "-m", "dlpipe", "ingest", str(tmp_path / "a.parquet"), str(data), *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        check(data, 0, 10)


def test_nothing_in_a_column_of_numbers(tmp_path):
    images = pa.array([{"bytes": make_image(i), "path": None} for i in range(3)],
                        pa.struct([("bytes", pa.binary()), ("path", pa.string())]))  # fmt: skip
    parquet.write_table(pa.table({"image": images, "label": [0, None, 1], "age": [1.5, None, 2.0]}), tmp_path / "f.parquet")
    report = dlpipe.ingest(tmp_path / "f.parquet", tmp_path / "d")
    assert [skipped["path"] for skipped in report["skipped"]] == ["00000001"]
    assert "row 1 has no 'label'" in report["skipped"][0]["reason"]
    assert not [words for words in report["warnings"] if "have no class" in words], "it is not stored without one"
    samples = list(dlpipe.Dataset(tmp_path / "d"))
    assert [(sample.label, sample.age) for sample in samples] == [(0, 1.5), (1, 2.0)]
    dlpipe.from_dataset(tmp_path / "f.parquet", tmp_path / "s", on_error="skip")
    assert [sample.label for sample in dlpipe.Dataset(tmp_path / "s")] == [0, 1]
    # without labels at all, as in a test split, or where they are not stored, rows are kept
    parquet.write_table(pa.table({"image": images, "label": [-1, None, -1], "age": [1.5, None, 2.0]}), tmp_path / "t.parquet")
    dlpipe.ingest(tmp_path / "t.parquet", tmp_path / "t")
    dlpipe.from_dataset(tmp_path / "f.parquet", tmp_path / "u", fields={"image": "image", "age": "f32"})
    for data in ("t", "u"):
        ages = np.array([sample.age for sample in dlpipe.Dataset(tmp_path / data)])
        np.testing.assert_array_equal(ages, [1.5, np.nan, 2.0])

    parquet.write_table(pa.table({"image": images, "count": pa.array([1, None, 2])}), tmp_path / "i.parquet")
    with pytest.raises(dlpipe.MisuseError, match="row 1 of .*i.parquet has no 'count', .* floating-point numbers"):
        dlpipe.ingest(tmp_path / "i.parquet", tmp_path / "e")


def test_a_label_of_yes_and_no_is_a_class(tmp_path):
    images = pa.array([make_image(i) for i in range(2)], pa.binary())
    parquet.write_table(pa.table({"image": images, "label": [True, False]}), tmp_path / "b.parquet")
    dlpipe.ingest(tmp_path / "b.parquet", tmp_path / "d")
    assert dlpipe.Dataset(tmp_path / "d").classes == ["0", "1"]
    assert [sample.label for sample in dlpipe.Dataset(tmp_path / "d")] == [1, 0]


def test_a_second_column_that_is_called_as_classes_are_is_stored_by_its_type(tmp_path):
    columns = {"label": [0, 1], "category": ["pet", None], "target": [7, -1]}
    parquet.write_table(pa.table({"image": [make_image(0), make_image(1)], **columns}), tmp_path / "a.parquet")
    dlpipe.from_dataset(tmp_path / "a.parquet", tmp_path / "d")
    assert [(s.label, s.category, s.target.tolist()) for s in dlpipe.Dataset(tmp_path / "d")] == [(0, "pet", 7), (1, "", -1)]


def test_boxes_and_masks_are_what_fields_say(tmp_path, caplog):
    some = [make_image(i) for i in range(2)]
    size = Image.open(io.BytesIO(some[0])).size
    file = io.BytesIO()
    Image.new("L", size, 3).save(file, "png")
    masks = pa.array([{"bytes": file.getvalue(), "path": None}] * 2, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    boxes = [[[1.0, 2, 3, 4], [0, 0, 2, 2]], [[1.0, 1, 2, 2]]]
    table = pa.table({"image": some, "objects": boxes, "annotation": masks})
    parquet.write_table(table, tmp_path / "a.parquet")
    dlpipe.from_dataset(tmp_path / "a.parquet", tmp_path / "none")
    assert "columns ignored, because no field can hold them: objects, annotation; to store them" in caplog.text
    caplog.clear()
    fields = {"image": "image", "objects": "boxes", "annotation": "mask"}
    dlpipe.from_dataset(tmp_path / "a.parquet", tmp_path / "all", fields=fields, workers=2)
    assert caplog.text == ""
    assert [sample.objects.tolist() for sample in dlpipe.Dataset(tmp_path / "all")] == boxes
    assert all((sample.annotation == 3).all() for sample in dlpipe.Dataset(tmp_path / "all"))

    parquet.write_table(pa.table({"image": some, "bbox": [[1.0, 2, 3, 4]] * 2}), tmp_path / "b.parquet")
    for store in (dlpipe.from_dataset, dlpipe.ingest):
        with pytest.raises(dlpipe.MisuseError, match="'bbox' holds boxes, .* fields={'image': 'image', 'bbox': 'boxes'}"):
            store(tmp_path / "b.parquet", tmp_path / "b")
    dlpipe.from_dataset(tmp_path / "b.parquet", tmp_path / "b", fields={"image": "image", "bbox": "boxes"})
    assert dlpipe.Dataset(tmp_path / "b")[1].bbox.tolist() == [[1, 2, 3, 4]]


def test_classes_are_those_of_the_label(tmp_path):
    table = hugging_face_table(0, 4)
    parquet.write_table(table.add_column(0, "class", pa.array([2, 0, 1, 2], pa.int64())), tmp_path / "a.parquet")
    dlpipe.from_dataset(tmp_path / "a.parquet", tmp_path / "d")
    samples = dlpipe.Dataset(tmp_path / "d")
    assert samples.fields == ("image", "class", "path", "label", "note")
    assert samples.classes == ["0", "1", "2"] and [s.class_ for s in samples] == [2, 0, 1, 2]
    assert [s.label for s in samples] == [0, 1, 0, 1]


TEXTS = pa.array(["cat", "dog", "cat", None])


@pytest.mark.parametrize("labels", [
    TEXTS, TEXTS.cast(pa.large_string()), TEXTS.cast(pa.string_view()), TEXTS.dictionary_encode(),
    TEXTS.cast(pa.dictionary(pa.int8(), pa.string())), TEXTS.cast(pa.large_string()).dictionary_encode(),
], ids=lambda labels: str(labels.type))  # fmt: skip
@pytest.mark.parametrize("store", [dlpipe.ingest, dlpipe.from_dataset], ids=["ingest", "from_dataset"])
def test_texts_of_any_arrow_type_are_classes(tmp_path, labels, store):
    parquet.write_table(pa.table({"image": [make_image(i) for i in range(4)], "label": labels, "note": labels}), tmp_path / "a.parquet")
    assert store(tmp_path / "a.parquet", tmp_path / "d")["classes"] == ["cat", "dog"]
    samples = dlpipe.Dataset(tmp_path / "d")
    unlabelled = [(-1, "")] if store is dlpipe.from_dataset else []  # ingest skips it
    assert [(s.label, s.note) for s in samples] == [(0, "cat"), (1, "dog"), (0, "cat"), *unlabelled]


def test_files_of_one_table_may_have_their_texts_in_other_ways(tmp_path):
    for name, labels in (("a", TEXTS.dictionary_encode()), ("b", TEXTS), ("c", TEXTS.cast(pa.large_string()))):
        parquet.write_table(pa.table({"image": [make_image(0)] * 4, "label": labels}), tmp_path / f"{name}.parquet")
    assert dlpipe.ingest(tmp_path, tmp_path / "d")["classes"] == ["cat", "dog"]
    assert len(dlpipe.Dataset(tmp_path / "d")) == 9


def test_a_label_that_is_no_class_is_not_left_out_silently(tmp_path, caplog):
    some = [make_image(0), make_image(1)]
    parquet.write_table(pa.table({"image": some, "label": [["a"], ["b", "c"]]}), tmp_path / "a.parquet")
    for store in (dlpipe.from_dataset, dlpipe.ingest):
        with pytest.raises(dlpipe.MisuseError, match="column 'label' of .*a.parquet has a name that usually means classes, but its type is list"):
            store(tmp_path / "a.parquet", tmp_path / "d")
    dlpipe.from_dataset(tmp_path / "a.parquet", tmp_path / "d", fields={"image": "image"})
    parquet.write_table(pa.table({"image": some, "label": [0.5, 1.0]}), tmp_path / "b.parquet")
    dlpipe.ingest(tmp_path / "b.parquet", tmp_path / "e")
    assert "'label' of " in caplog.text and "has no classes" in caplog.text
    assert [s.label for s in dlpipe.Dataset(tmp_path / "e")] == [0.5, 1.0]


@pytest.mark.parametrize("workers", [0, 1])
def test_paths_begin_where_the_file_lies(tmp_path, monkeypatch, workers):
    (tmp_path / "data/jpegs").mkdir(parents=True)
    for i in range(2):
        (tmp_path / f"data/jpegs/{i}.jpg").write_bytes(make_image(i))
    paths = ["jpegs/0.jpg", "jpegs/gone.jpg", str(tmp_path / "data/jpegs/1.jpg")]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array([{"bytes": None, "path": path} for path in paths], kind), "label": [0, 1, 0]})
    parquet.write_table(table, tmp_path / "data/a.parquet", row_group_size=1)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dlpipe.NotFoundError, match=r"row 1 of data/a.parquet, column 'image': .*data/jpegs/gone.jpg: No such file"):
        dlpipe.from_dataset("data/a.parquet", tmp_path / "d", workers=workers)
    dlpipe.ingest("data/a.parquet", tmp_path / "d")
    samples = dlpipe.Dataset(tmp_path / "d")
    assert [samples.file(i) for i in range(2)] == [make_image(0), make_image(1)]
    assert [(path, "No such file" in reason) for path, reason in samples.skipped] == [("gone.jpg", True)]


def test_a_device_in_a_row_is_a_bad_sample(tmp_path):
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": None, "path": "/dev/zero"}, {"bytes": make_image(0), "path": None}]
    parquet.write_table(pa.table({"image": pa.array(rows, kind), "label": [0, 0]}), tmp_path / "a.parquet")
    dlpipe.ingest(tmp_path / "a.parquet", tmp_path / "d")
    samples = dlpipe.Dataset(tmp_path / "d")
    assert len(samples) == 1 and "is a device" in samples.skipped[0][1]
