"""Fields of which samples have any number of rows: boxes, labels of boxes, numbers, points, texts."""

import gc
import json
import pickle

import numpy as np
import pytest

import dlpipe
from conftest import run_program, side_by_side


@pytest.fixture(scope="module")
def objects(images, tmp_path_factory):
    """A dataset of 40 images with boxes and what belongs to them, and by path what each was listed with."""
    folder = tmp_path_factory.mktemp("objects")
    rows = []
    for i, path in enumerate(sorted(images.rglob("*.jpg"))[:40]):
        boxes = [[k, k + 1, k + 5, k + 9] for k in range(i % 4)]
        rows.append({"path": str(path.relative_to(images)), "label": "ab"[i % 2], "box": boxes,
                     "kind": ["xyz"[k] for k in range(i % 4)], "score": [k / 4 for k in range(i % 4)],
                     "spot": [[i, 1, 1]] * (i % 3), "caption": f"image {i}", "class": f"word {i}"})  # fmt: skip
    with open(folder / "list.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    fields = ["box:boxes", "kind:labels:box", "score:numbers:box", "spot:points"]
    run_program("ingest", images, folder / "data", "--manifest", folder / "list.jsonl", "--label", "label",
                *(word for field in fields for word in ("--field", field)))  # fmt: skip
    return folder / "data", {row["path"]: row for row in rows}


def loader_of(objects, **more):
    return dlpipe.Loader(objects[0], augment="resize(64x64)", batch=8, seed=3, as_=more.pop("as_", "numpy"), **more)


@pytest.mark.parametrize("as_", ["numpy", "torch", "jax"])
def test_each_sample_has_its_own_rows(objects, as_):
    pytest.importorskip(as_)
    loader = loader_of(objects, as_=as_)
    assert loader.fields == ("image", "label", "box", "kind", "score", "spot", "caption", "class")
    seen = set()
    for batch in loader:
        assert len(batch.box) == 8 and batch.box.values.shape == (int(batch.box.offsets[8]), 4)
        assert "Ragged(8 samples" in repr(batch.box)
        captions, words = batch.caption.texts(), batch["class"].texts()
        for i, path in enumerate(batch.path):
            row = objects[1][path]
            assert [loader.classes[int(kind)] for kind in batch.kind[i]] == row["kind"]
            assert [float(score) for score in batch.score[i]] == row["score"]
            assert len(batch.box[i]) == len(row["box"]) and len(batch.spot[i]) == len(row["spot"])
            assert captions[i] == row["caption"] and words[i] == row["class"]
            seen.add(path)
    assert len(seen) == 40


@pytest.mark.parametrize("as_", ["numpy", "torch", "jax"])
def test_labels_as_a_zero_or_one_for_each_class(objects, as_):
    framework = pytest.importorskip(as_)
    loader = loader_of(objects, as_=as_)
    for batch in loader:
        dense = batch.kind.multi_hot(len(loader.classes))
        assert isinstance(dense, framework.ndarray if as_ == "numpy" else framework.Tensor if as_ == "torch" else framework.Array)
        expected = [[float(name in objects[1][path]["kind"]) for name in loader.classes] for path in batch.path]
        assert str(dense.dtype).endswith("float32") and np.asarray(dense).tolist() == expected
    with pytest.raises(IndexError, match="has the label [0-9]+, but multi_hot got 1 classes"):
        batch.kind.multi_hot(1)


@pytest.mark.parametrize("as_", ["numpy", "torch", "jax"])
def test_methods_refuse_fields_of_other_kinds(objects, as_):
    pytest.importorskip(as_)
    batch = next(iter(loader_of(objects, as_=as_)))
    for field, held in (("box", r"float32 \[rows, 4\]"), ("kind", "int(64|32) "), ("score", r"float32 \[rows\]")):
        with pytest.raises(dlpipe.MisuseError, match=rf"texts\(\) is for fields of texts or bytes, but this field holds {held}"):
            batch[field].texts()
    for field in ("box", "score", "caption"):
        with pytest.raises(dlpipe.MisuseError, match=r"multi_hot\(\) is for fields of labels, but this field holds (float32|uint8) "):
            batch[field].multi_hot(70)


@pytest.mark.parametrize("as_", ["numpy", "torch", "jax"])
def test_a_slice_holds_the_rows_of_its_samples(objects, as_):
    pytest.importorskip(as_)
    batch = next(iter(loader_of(objects, as_=as_)))
    for chosen in (slice(0, 2), slice(3, None), slice(-3, -1), slice(None), slice(5, 5), slice(6, 2), slice(9, 12)):
        part, samples = batch.box[chosen], range(8)[chosen]
        assert isinstance(part, dlpipe.Ragged) and len(part) == len(samples) and int(part.offsets[0]) == 0
        for rows, i in zip(part, samples):
            np.testing.assert_array_equal(rows, batch.box[i])
    assert batch.caption[2:4].texts() == batch.caption.texts()[2:4]
    for index in (slice(0, 4, 2), slice(None, None, -1), "box", [0, 1]):
        with pytest.raises(dlpipe.MisuseError, match="step of a slice|give the number of a sample, or a slice"):
            batch.box[index]


def test_tensors_are_copied_to_another_device(objects):
    torch = pytest.importorskip("torch")
    box = next(iter(loader_of(objects, as_="torch"))).box.to(torch.device("meta"), non_blocking=True)
    assert box.values.is_meta and box.offsets.is_meta and len(box) == 8
    with pytest.raises(dlpipe.MisuseError, match=r"to\(\) is for PyTorch's tensors"):
        next(iter(loader_of(objects))).box.to("cpu")


def test_values_are_the_slots_own_memory_and_keep_it(objects):
    loader = loader_of(objects, slots=2)
    iterator = iter(loader)
    batch = next(iterator)
    rows, copy = batch.box[3], batch.box.values.copy()
    assert rows.base is not None and np.shares_memory(rows, batch.box.values) or len(rows) == 0
    boxes = batch.box
    del batch, rows
    gc.collect()
    for later in iterator:
        del later
    assert loader.held == 1
    np.testing.assert_array_equal(boxes.values, copy)
    del boxes
    gc.collect()
    assert loader.held == 0


def test_ragged_fields_are_indexed_pickled_and_chosen(objects):
    batch = next(iter(loader_of(objects, fields=["box", "image"])))
    assert batch._fields == ("box", "image")
    np.testing.assert_array_equal(batch.box[-1], batch.box[7])
    with pytest.raises(IndexError):
        batch.box[8]
    again = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(again.box.values, batch.box.values)
    np.testing.assert_array_equal(again.box.offsets, batch.box.offsets)
    with pytest.raises(dlpipe.MisuseError, match="no field 'boxs'"):
        loader_of(objects, fields=["boxs"])
    with pytest.raises(dlpipe.MisuseError, match="field 'box' of kind boxes, which can't be mixed"):
        loader_of(objects, mixup=0.2, dtype="f32")


def test_training_says_which_fields_it_leaves_aside(objects, tmp_path, caplog):
    run = dlpipe.train(objects[0], model="lenet", augment="resize(32x32)", out=tmp_path / "run", batch=8, max_steps=1)
    assert run is not None
    assert "lenet does not use box (boxes), kind (labels), score (tensor), spot (points)" in caplog.text


def test_paths_are_read_with_the_batch_where_they_are_asked_for(objects):
    beside = [batch.path for batch in loader_of(objects)]
    assert sorted(sum(beside, [])) == sorted(objects[1])
    for batch, paths in side_by_side(loader_of(objects, fields=["image", "path"]), beside):
        assert batch.path == batch["path"].texts() == batch.path_.texts() == paths
        batch._lent = None  # whatever reads the dataset
        assert batch.path == paths


def test_masks_move_with_their_images(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(1)
    rows = []
    for i in range(12):
        mask = rng.integers(0, 9, (20 + i, 30)).astype(np.uint8)
        Image.fromarray(mask * 20).convert("RGB").save(tmp_path / f"{i}.png")  # the image shows its mask
        paletted = Image.fromarray(mask, "P")
        paletted.putpalette(list(rng.integers(0, 256, 768)))
        paletted.save(tmp_path / f"m{i}.png")
        rows.append(f"{i}.png,a,m{i}.png" if i != 7 else f"{i}.png,a,")
    (tmp_path / "list.csv").write_text("path,label,mask\n" + "\n".join(rows) + "\n")
    dlpipe.ingest(tmp_path / "list.csv", tmp_path / "data", field="mask:mask")
    samples = {sample.path: sample for sample in dlpipe.Dataset(tmp_path / "data")}
    assert samples["7.png"].mask is None
    np.testing.assert_array_equal(samples["3.png"].mask, np.asarray(Image.open(tmp_path / "m3.png")))
    chain = "random_crop(16) rot90 hflip transpose pad_to(24x24)"
    for batch in dlpipe.Loader(tmp_path / "data", augment=chain, batch=4, seed=2, as_="numpy", mask_fill=77):
        assert batch.mask.shape == (4, 24, 24) and batch.mask.dtype == np.uint8
        for image, mask, path in zip(batch.image, batch.mask, batch.path):
            if path == "7.png":
                assert (mask == 77).all()
            else:
                np.testing.assert_array_equal(np.where(mask == 77, 0, mask) * 20, image[:, :, 0])
