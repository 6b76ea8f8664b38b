"""dlpipe.Dataset and dlpipe.ingest."""

import io
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import threading

import dlpipe
import numpy as np
import pytest
from conftest import run_program


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in pathlib.Path(folder).rglob("*") if p.is_file()}


def dataset_files(folder):
    """Of a dataset, but for what says when and where it was made."""
    return {name: data for name, data in tree(folder).items() if not name.endswith("provenance.json")}


def test_samples_are_those_of_the_loader(tmp_path):
    run_program("synth", tmp_path / "images", "--per-class", 5, "--size", 40, "--seed", 2)
    dlpipe.ingest(tmp_path / "images", tmp_path / "data")
    samples = dlpipe.Dataset(tmp_path / "data")
    assert samples.fields == ("image", "label", "path")
    seen = 0
    for batch in dlpipe.Loader(tmp_path / "data", batch=20, train=False, as_="numpy"):
        for number, image, label in zip(batch.sample_ids, batch.image, batch.label):
            sample = samples[int(number)]
            assert sample.image.dtype == np.uint8 and np.array_equal(sample.image, image)
            assert sample.label == label and sample.path.split("/")[0] == samples.class_name(sample.label)
            seen += 1
    assert seen == len(samples) == 50


def test_columns_need_no_samples(train):
    samples = dlpipe.Dataset(train)
    assert samples.labels.dtype == np.int64 and samples.sizes.shape == (320, 2)
    assert np.array_equal(np.bincount(samples.labels), samples.class_counts)
    assert all(tuple(samples.sizes[i]) == samples[i].image.shape[:2] for i in range(0, 320, 17))
    assert samples.mean_std == dlpipe.Loader(train, augment="center_crop(32)").mean_std


def test_slices_and_lists_are_datasets(train):
    samples = dlpipe.Dataset(train)
    part = samples[10:300:7]
    assert isinstance(part, dlpipe.Dataset) and len(part) == len(range(10, 300, 7))
    assert [s.path for s in part] == [samples[i].path for i in range(10, 300, 7)]
    assert part[2:4][-1].path == samples[10 + 3 * 7].path
    assert samples[[5, -1, np.int64(3)]][1].path == samples[319].path
    assert np.array_equal(part.labels, [s.label for s in part])
    assert np.array_equal(samples[::-1].labels, samples.labels[::-1])
    assert samples[-1].path == samples[319].path


@pytest.mark.parametrize("index", [320, -321, 10**30])
def test_an_index_beyond_the_end_is_an_index_error(train, index):
    with pytest.raises(IndexError):
        dlpipe.Dataset(train)[index]


@pytest.mark.parametrize("make", [list, tuple, np.array, lambda numbers: np.array(numbers, np.uint8)],
                         ids=["list", "tuple", "int64", "uint8"])  # fmt: skip
@pytest.mark.parametrize("numbers", [[5, 3, 200], [7]])
def test_arrays_of_numbers_are_lists(train, make, numbers):
    samples = dlpipe.Dataset(train)
    part = samples[make(numbers)]
    assert isinstance(part, dlpipe.Dataset) and [s.path for s in part] == [samples[i].path for i in numbers]


def test_torchs_tensors_are_lists_and_numbers(train):
    torch = pytest.importorskip("torch")
    samples = dlpipe.Dataset(train)
    assert [s.path for s in samples[torch.tensor([4])]] == [samples[4].path]
    assert samples[torch.tensor(4)].path == samples[4].path
    assert len(samples[torch.arange(len(samples)) < 9]) == 9


@pytest.mark.parametrize("make", [lambda mask: mask, list, lambda mask: mask.tolist()], ids=["array", "list of NumPy's", "list"])
def test_masks_pick_samples(train, make):
    samples = dlpipe.Dataset(train)
    mask = samples.labels == 3
    part = samples[make(mask)]
    assert np.array_equal(part.labels, np.full(mask.sum(), 3))
    assert part[0].path == samples[int(np.flatnonzero(mask)[0])].path
    assert len(samples[np.flatnonzero(mask)]) == mask.sum()


def test_nothing_is_a_list_of_no_numbers(train):
    assert len(dlpipe.Dataset(train)[[]]) == len(dlpipe.Dataset(train)[np.array([], np.int64)]) == 0


@pytest.mark.parametrize("index, words", [
    ("image", "a number, a slice, a list of numbers or a mask.*dataset.number.*'image'"),
    (1.5, "the index is 1.5"),
    (None, "the index is None"),
    ([1.5], "sample 1.5; give a whole number"),
    ([True, False], "2 bools among 2 items; a mask has one bool for each of the 320 samples"),
    ([True, 5], "1 bools among 2 items"),
    (np.zeros((2, 2), np.int64), "an array with 2 axes"),
])
def test_other_indices_are_told_what_there_is(train, index, words):
    with pytest.raises(dlpipe.MisuseError, match=words):
        dlpipe.Dataset(train)[index]


def test_numbers_beyond_the_end_are_named_in_lists_too(train):
    samples = dlpipe.Dataset(train)
    for wrong in (lambda: samples[[1, 320]], lambda: samples.file(320)):
        with pytest.raises(IndexError, match="sample 320 of a dataset of 320"):
            wrong()


def test_names_of_labels(train):
    samples = dlpipe.Dataset(train)
    assert samples.class_name(-1) is None and samples.class_name(0) == samples.classes[0]
    for label in (-5, 10):
        with pytest.raises(IndexError, match=f"label {label} of 10 classes"):
            samples.class_name(label)


def test_a_printed_sample_does_not_hold_the_image(train):
    sample = dlpipe.Dataset(train)[0]
    height, width, channels = sample.image.shape
    image = f"<uint8 {height} x {width} x {channels}>"
    assert repr(sample) == f"Sample(image={image}, label={sample.label!r}, path={sample.path!r})"


def test_a_sample_outlives_its_dataset_and_may_be_written(train):
    image = dlpipe.Dataset(train)[3].image
    image += 1
    assert np.array_equal(image, dlpipe.Dataset(train)[3].image + np.uint8(1))


def test_pickled_datasets_and_samples(train):
    samples = dlpipe.Dataset(train)[5:100:3]
    again = pickle.loads(pickle.dumps(samples))
    assert len(again) == len(samples)
    one = pickle.loads(pickle.dumps(again[4]))
    assert np.array_equal(one.image, samples[4].image) and one.path == samples[4].path


def written(directory, values):
    """A dataset of one image for each value, in place of the one that is there."""
    shutil.rmtree(directory, ignore_errors=True)
    with dlpipe.Writer(directory, classes=["a", "b"]) as writer:
        for value in values:
            writer.write(image=np.full((8, 8, 3), value, np.uint8), label=value % 2)


def test_a_dataset_that_was_replaced_is_not_unpickled(tmp_path):
    written(tmp_path / "data", range(40))
    whole = dlpipe.Dataset(tmp_path / "data")
    kept = [pickle.dumps(part) for part in (whole, whole[[5, 6]], whole[30:], whole[[]])]
    assert [len(pickle.loads(one)) for one in kept] == [40, 2, 10, 0]
    written(tmp_path / "data", range(100, 140))  # as many samples
    for one in kept:
        with pytest.raises(dlpipe.ChangedError, match="another dataset: its id is [0-9a-f]+, and was [0-9a-f]+"):
            pickle.loads(one)
    written(tmp_path / "data", range(40))
    assert pickle.loads(kept[1])[1].image[0, 0, 0] == 6
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(dlpipe.NotFoundError):
        pickle.loads(kept[1])


def test_numbers_of_a_replaced_dataset_choose_nothing_for_a_loader(tmp_path):
    written(tmp_path / "data", range(40))
    whole = dlpipe.Dataset(tmp_path / "data")
    loader = dlpipe.Loader(whole[[5, 6]], train=False, as_="numpy", batch=2)
    written(tmp_path / "data", range(100, 110))
    for part in (whole, whole[[5, 6]], whole[30:]):
        with pytest.raises(dlpipe.ChangedError):
            dlpipe.Loader(part, train=False, as_="numpy")
    with pytest.raises(dlpipe.ChangedError):
        dlpipe.Loader(whole, subset=["a"], train=False, as_="numpy")
    with pytest.raises(dlpipe.ChangedError):
        loader.dataset
    assert [batch.image[:, 0, 0, 0].tolist() for batch in loader] == [[5, 6]]  # from the files that it has open


def test_many_threads_read(train):
    samples = dlpipe.Dataset(train)
    expected = [int(s.image.sum()) for s in samples]
    wrong = []

    def read(begin):
        wrong.extend(i for i in range(begin, 320, 3) if int(samples[i].image.sum()) != expected[i])

    threads = [threading.Thread(target=read, args=(i % 3,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_files_and_export_give_the_jpegs_back(images, splits, tmp_path):
    originals = tree(images)
    samples = dlpipe.Dataset(splits, split="val")
    for i in (0, 17, 79):
        assert samples.file(i) == originals[samples[i].path]
    calls = []
    report = samples.export(tmp_path / "out", progress=lambda done, total: calls.append((done, total)))
    assert report["files"] == 80 and calls[-1] == (80, 80)
    assert all(originals[name] == data for name, data in tree(tmp_path / "out").items())
    with pytest.raises(dlpipe.MisuseError, match="a part of one"):
        samples[:3].export(tmp_path / "part")
    assert not (tmp_path / "part").exists()


def test_to_pil(train):
    pil = pytest.importorskip("PIL.Image")
    samples = dlpipe.Dataset(train)
    image = samples.to_pil(7)
    assert np.array_equal(np.asarray(image), samples[7].image)
    assert np.array_equal(np.asarray(pil.open(io.BytesIO(samples.file(7)))), samples[7].image)


def test_to_pil_shows_the_image_and_no_other_field(tmp_path):
    pytest.importorskip("PIL.Image")
    image = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)
    with dlpipe.Writer(tmp_path / "d", fields={"before": ("u8", (2, 4, 3)), "image": "image"}) as writer:
        writer.write(before=np.zeros((2, 4, 3), np.uint8), image=image)
    samples = dlpipe.Dataset(tmp_path / "d")
    for sample in (samples[0], pickle.loads(pickle.dumps(samples[0]))):
        assert np.array_equal(np.asarray(sample.to_pil()), image)
    assert np.array_equal(np.asarray(samples.to_pil(0)), image)
    with dlpipe.Writer(tmp_path / "e", fields={"before": ("u8", (2, 4, 3)), "label": "label"}) as writer:
        writer.write(before=np.zeros((2, 4, 3), np.uint8), label=0)
    with pytest.raises(dlpipe.MisuseError, match="no image; its fields are before, label"):
        dlpipe.Dataset(tmp_path / "e")[0].to_pil()


def test_a_damaged_sample_is_an_error_that_names_it(images, tmp_path):
    dlpipe.ingest(images, tmp_path / "d", limit=20)
    needle = dlpipe.Dataset(tmp_path / "d")
    file = tmp_path / "d" / "data.mdb"
    data = bytearray(file.read_bytes())
    path = needle[11].path.encode()
    place = data.find(path)
    assert place > 0
    data[place] ^= 1
    file.write_bytes(data)
    samples = dlpipe.Dataset(tmp_path / "d")
    with pytest.raises(dlpipe.CorruptError, match="sample 11 of .* is corrupt"):
        samples[11]
    assert samples[12].image.shape[2] == 3


def test_no_dataset(tmp_path, splits):
    with pytest.raises(FileNotFoundError):
        dlpipe.Dataset(tmp_path / "none")
    with pytest.raises(dlpipe.Error, match="train"):
        dlpipe.Dataset(splits)


# Ingest.


def test_ingest_is_the_programs(images, tmp_path):
    report = dlpipe.ingest(images, tmp_path / "python", split=(0.75, 0.25), seed=3, quality=80, resize_max=40)
    printed = json.loads(
        run_program("ingest", images, tmp_path / "cli", "--split", "0.75,0.25", "--seed", 3, "--quality", 80,
                    "--resize-max", 40, "--json")
    )
    assert dataset_files(tmp_path / "python") == dataset_files(tmp_path / "cli")
    assert report.keys() == printed.keys()
    assert [d["id"] for d in report["datasets"]] == [d["id"] for d in printed["datasets"]]
    assert dlpipe.ingest(images, tmp_path / "cli", split="0.75,0.25", seed=3, quality=80, resize_max=40)["already_complete"]


def test_a_split_of_one_number_is_told_what_split_takes(images, tmp_path):
    with pytest.raises(TypeError, match=r"split=0.9; give the fractions of train, val and test, such as \(0.9, 0.1\)"):
        dlpipe.ingest(images, tmp_path / "d", split=0.9)


def test_ingest_takes_several_sources(images, tmp_path):
    folders = sorted(p for p in images.iterdir())
    archives = []
    for i in range(2):
        archives.append(tmp_path / f"{i}.tar")
        subprocess.run(["tar", "-cf", archives[i], "-C", images, *(f.name for f in folders[i::2])], check=True)
    report = dlpipe.ingest(archives, tmp_path / "d")
    assert report["datasets"][0]["samples"] == 400 and len(report["classes"]) == 10


def test_ingest_keeps_labels_boxes_and_numbers_of_a_list(images, tmp_path):
    names = sorted(tree(images))[:6]
    with open(tmp_path / "list.jsonl", "w") as file:
        for i, name in enumerate(names):
            row = {"path": name, "label": "ab"[i % 2], "age": i / 2, "tags": [0, i], "bbox": [[0, 0, i + 1, 2], [1, 1, 2, 2]]}
            file.write(json.dumps(row) + "\n")
    dlpipe.ingest(images, tmp_path / "d", manifest=tmp_path / "list.jsonl",
                  field=["age:number", "tags:labels", "bbox:boxes-xywh"])  # fmt: skip
    samples = {sample.path: sample for sample in dlpipe.Dataset(tmp_path / "d")}
    one = samples[names[3]]
    assert one.age.item() == 1.5 and one.tags.dtype == np.int64 and one.tags.shape == (2,)
    assert one.bbox.dtype == np.float32 and one.bbox.tolist() == [[0, 0, 4, 2], [1, 1, 3, 3]]


def test_ingest_says_how_far_it_is(images, tmp_path):
    calls = []
    dlpipe.ingest(images, tmp_path / "d", progress=calls.append)
    assert calls[-1]["done"] == calls[-1]["total"] == 400
    assert calls[-1]["limit"] in ("read", "decode", "encode", "write")


def test_ingest_with_a_bar(images, tmp_path):
    pytest.importorskip("tqdm")
    out = io.StringIO()
    dlpipe.ingest(images, tmp_path / "d", progress=dlpipe.TqdmProgress(file=out, desc="images"))
    assert "images" in out.getvalue() and "400/400" in out.getvalue()


def test_a_bar_without_tqdm_says_what_to_install(images, tmp_path, monkeypatch):
    for module in ("tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(dlpipe.MisuseError, match="pip install tqdm"):
        dlpipe.ingest(images, tmp_path / "d", progress=True)
    assert not (tmp_path / "d").exists()


def test_options_that_make_no_sense(images, tmp_path):
    for options, words in [
        ({"store": "jepg"}, "store jepg.*jpeg"),
        ({"quality": 0}, "quality 0"),
        ({"window": "12 apples"}, "window '12 apples'"),
        ({"split": "0.9"}, "split 0.9"),
    ]:
        with pytest.raises(dlpipe.MisuseError, match=words):
            dlpipe.ingest(images, tmp_path / "d", **options)
    with pytest.raises(TypeError):
        dlpipe.ingest(images, tmp_path / "d", progress=3)
    with pytest.raises(FileNotFoundError):
        dlpipe.ingest(tmp_path / "none", tmp_path / "d")
    assert not (tmp_path / "d").exists() and not (tmp_path / "d.partial").exists()


def test_bad_files_are_listed_or_stop_it(images, tmp_path):
    bad = tmp_path / "bad"
    subprocess.run(["cp", "-r", images, bad], check=True)
    (bad / "disc" / "00001.jpg").write_bytes(b"no image")
    report = dlpipe.ingest(bad, tmp_path / "d")
    assert [s["path"] for s in report["skipped"]] == ["disc/00001.jpg"]
    assert dlpipe.Dataset(tmp_path / "d").skipped[0][0] == "disc/00001.jpg"
    with pytest.raises(dlpipe.Error, match="disc/00001.jpg"):
        dlpipe.ingest(bad, tmp_path / "e", on_error="stop")


def test_an_exception_of_the_callback_stops_it_and_comes_out(images, tmp_path):
    class Mine(Exception):
        pass

    def progress(now):
        raise Mine("no more")

    with pytest.raises(Mine, match="no more"):
        dlpipe.ingest(images, tmp_path / "d", progress=progress, window=1, threads=1)


def test_ctrl_c_stops_and_the_same_call_goes_on(tmp_path):
    run_program("synth", tmp_path / "images", "--per-class", 400, "--size", 64, "--seed", 1)
    code = (
        "import dlpipe, time\n"
        f"dlpipe.ingest({str(tmp_path / 'images')!r}, {str(tmp_path / 'd')!r}, resize_max=60, threads=1,\n"
        "              progress=lambda now: (print(now['done'], flush=True), time.sleep(1)))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "dlpipe.errors.CancelledError: [ingest] stopped after" in errors
    assert not (tmp_path / "d").exists() and (tmp_path / "d.partial").exists()
    report = dlpipe.ingest(tmp_path / "images", tmp_path / "d", resize_max=60)
    assert report["resumed"] and report["datasets"][0]["samples"] == 4000
    dlpipe.ingest(tmp_path / "images", tmp_path / "whole", resize_max=60)
    assert dataset_files(tmp_path / "d") == dataset_files(tmp_path / "whole")


def test_groups_and_folds(images, tmp_path):
    """A group is in one fold; a run of one fold is judged on it alone."""
    names = sorted(os.path.relpath(os.path.join(folder, name), images) for folder, _, files in os.walk(images) for name in files
                   if name.endswith(".jpg"))  # fmt: skip
    lines = [f"{name},{os.path.dirname(name) or 'one'},p{i % 6}" for i, name in enumerate(names)]
    (tmp_path / "list.csv").write_text("path,label,patient\n" + "\n".join(lines))
    dlpipe.ingest(images, tmp_path / "data", manifest=tmp_path / "list.csv", group="patient", folds=3)
    loader = dlpipe.Loader(tmp_path / "data", augment="resize(8x8)", batch=len(names), epochs=1, shuffle=False, as_="numpy",
                           fields=["image", "patient", "fold"])  # fmt: skip
    batch = next(iter(loader))
    folds = {}
    for patient, fold in zip(batch["patient"], batch["fold"]):
        folds.setdefault(bytes(patient), set()).add(int(fold))
    assert len(folds) == 6 and all(len(fold) == 1 for fold in folds.values())
    assert set.union(*folds.values()) == {1, 2, 3}
    with pytest.raises(dlpipe.MisuseError, match="no such field"):
        dlpipe.ingest(images, tmp_path / "no", group="patient", folds=3)
