"""Parquet and Arrow files, as pyarrow writes them in Hugging Face's layout and in others'."""

import io
import json
import os
import subprocess
import sys

import dlpipe
import numpy as np
import pytest
from PIL import Image

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def picture(number, format="JPEG"):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(number).integers(0, 256, (16, 20, 3), np.uint8)).save(out, format)
    return out.getvalue()


def hugging_face_table(begin, end):
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
                "note": {"dtype": "string", "_type": "Value"}}  # fmt: skip
    columns = {
        "image": pa.array([{"bytes": picture(i), "path": f"{i}.jpg"} for i in range(begin, end)],
                          pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "label": pa.array([i % 2 for i in range(begin, end)], pa.int64()),
        "note": pa.array([f"number {i}" for i in range(begin, end)]),
    }  # fmt: skip
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    return pa.table(columns).replace_schema_metadata(metadata)


def check(directory, begin, end):
    dataset = dlpipe.Dataset(directory)
    assert dataset.classes == ["cat", "dog"]
    for i, sample in zip(range(begin, end), dataset):
        assert sample.path == f"{i}.jpg"
        assert sample.label == i % 2
        assert np.array_equal(sample.image, np.asarray(Image.open(io.BytesIO(picture(i)))))
    assert len(dataset) == end - begin


@pytest.mark.parametrize("workers", [0, 2])
def test_parquet_in_hugging_faces_layout(tmp_path, workers):
    parquet.write_table(hugging_face_table(0, 20), tmp_path / "train-00000-of-00002.parquet", row_group_size=7)
    parquet.write_table(hugging_face_table(20, 30), tmp_path / "train-00001-of-00002.parquet")
    parquet.write_table(hugging_face_table(30, 40), tmp_path / "validation-00000-of-00001.parquet")
    dlpipe.from_dataset(tmp_path, tmp_path / "d", workers=workers)
    check(tmp_path / "d/train", 0, 30)
    check(tmp_path / "d/val", 30, 40)


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
        "jpg": pa.array([picture(i) for i in range(4)]), "label": pa.array(["b", "a", "b", "b"]),
        "weight": pa.array([0.5, 1.5, 2.5, 3.5]), "box": pa.array([[1.0, 2.0], [], [3.0], []]),
        "odd": pa.array([{"x": 1}] * 4)}), tmp_path / "a.parquet")  # fmt: skip
    dlpipe.from_dataset(tmp_path / "a.parquet", tmp_path / "d")
    samples = list(dlpipe.Dataset(tmp_path / "d"))
    assert [dlpipe.Dataset(tmp_path / "d").classes[s.label] for s in samples] == ["b", "a", "b", "b"]
    assert [float(s.weight[0]) for s in samples] == [0.5, 1.5, 2.5, 3.5]
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
    with pytest.raises(dlpipe.MisuseError, match="no Parquet or Arrow file"):
        dlpipe.from_dataset(str(tmp_path / "none.parquet"), tmp_path / "d")


def test_the_program_of_the_package(tmp_path):
    parquet.write_table(hugging_face_table(0, 10), tmp_path / "a.parquet")
    words = [sys.executable, "-m", "dlpipe", "ingest", str(tmp_path / "a.parquet"), str(tmp_path / "d")]
    done = subprocess.run([*words, "--jpeg", "standard"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "10 samples" in done.stdout
    check(tmp_path / "d", 0, 10)
    refused = subprocess.run([*words[:-1], str(tmp_path / "e"), "--window", "1GiB"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--window" in refused.stderr
