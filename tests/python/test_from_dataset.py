"""dlpipe.from_dataset with datasets by numbers, generators, torch's and torchvision's; others: test_annotations, test_hugging_face."""

import collections
import io
import itertools
import pathlib
import signal
import subprocess
import sys
import traceback

import dlpipe
import numpy as np
import pytest
from test_dataset import dataset_files, tree

IMAGE = np.zeros((8, 8, 3), np.uint8)


class Images:
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


class Broken(Images):
    def __getitem__(self, i):
        if i == 70:
            raise ZeroDivisionError("by nothing")
        return super().__getitem__(i)


class Fatal(Images):
    def __getitem__(self, i):
        if i == 70:
            import os

            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


@pytest.mark.parametrize("workers", [0, 3])
def test_a_dataset_by_numbers(tmp_path, workers):
    calls = []
    report = dlpipe.from_dataset(Images(203), tmp_path / "d", workers=workers, progress=lambda *a: calls.append(a))
    assert calls == [(i + 1, 203) for i in range(203)]
    assert report["classes"] == ["even", "odd"]
    samples = dlpipe.Dataset(tmp_path / "d")
    assert len(samples) == 203
    assert all(np.array_equal(s.image, Images(203)[i][0]) and s.label == i % 2 for i, s in enumerate(samples))


def test_a_dict_of_splits_and_an_own_function(tmp_path):
    report = dlpipe.from_dataset(
        {"train": Images(20), "val": Images(5)}, tmp_path / "d", classes=["a", "b"],
        sample=lambda item: {"image": item[0], "label": "ab"[item[1]], "weight": 0.5},
        fields={"image": "image", "label": "label", "weight": "f32"}, store="jpeg",
    )  # fmt: skip
    assert [d["samples"] for d in report["datasets"]] == [20, 5]
    sample = dlpipe.Dataset(tmp_path / "d", split="val")[3]
    assert sample.weight == 0.5 and sample.label == 1


@pytest.mark.parametrize("name", ["validation", "valid", "Val"])
def test_a_split_for_validation_is_found_whatever_it_is_called(tmp_path, name):
    report = dlpipe.from_dataset({"train": Images(20), name: Images(5), "extra": Images(3)}, tmp_path / "d")
    assert {d["split"]: d["samples"] for d in report["datasets"]} == {"train": 20, "val": 5, "extra": 3}
    assert sum(len(batch.label) for batch in dlpipe.Loader(tmp_path / "d", train=False, batch=5, as_="numpy")) == 5
    with pytest.raises(dlpipe.MisuseError, match="name the split 'val' twice"):
        dlpipe.from_dataset({"val": Images(20), "validation": Images(5)}, tmp_path / "e")


def test_a_generator(tmp_path):
    dlpipe.from_dataset(({"image": image, "label": label, "n": i} for i, (image, label) in enumerate(map(Images(30).__getitem__, range(30)))),
                        tmp_path / "d")  # fmt: skip
    samples = dlpipe.Dataset(tmp_path / "d")
    assert len(samples) == 30 and samples[29].n == 29


def test_a_generator_of_nothing_among_splits(tmp_path):
    images = Images(3)
    report = dlpipe.from_dataset({"train": iter([]), "val": map(images.__getitem__, range(3))}, tmp_path / "d")
    assert [d["samples"] for d in report["datasets"]] == [3]
    assert len(dlpipe.Dataset(tmp_path / "d", split="val")) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_of_the_dataset_is_the_cause_of_one_that_names_the_sample(tmp_path, workers):
    with pytest.raises(dlpipe.Error, match="sample 70 of 'val' raised ZeroDivisionError: by nothing") as caught:
        dlpipe.from_dataset({"train": Images(90), "val": Broken(100)}, tmp_path / "d", workers=workers)
    assert type(caught.value.__cause__) is ZeroDivisionError and str(caught.value.__cause__) == "by nothing"
    trace = "".join(traceback.format_exception(caught.value))
    assert 'raise ZeroDivisionError("by nothing")' in trace
    assert list(tmp_path.iterdir()) == []


def test_exceptions_of_streams_and_of_sample_name_it_too(tmp_path):
    def stream():
        yield {"__key__": "a/0", "jpg": IMAGE, "cls": 1}
        yield {"__key__": "a/1", "jpg": IMAGE, "cls": "x"}
        raise OSError("the disk is gone")

    with pytest.raises(dlpipe.Error, match="sample 2 raised OSError: the disk is gone") as caught:
        dlpipe.from_dataset(stream(), tmp_path / "d", fields={"jpg": "image"})
    assert type(caught.value.__cause__) is OSError
    for workers in (0, 1):
        with pytest.raises(dlpipe.Error, match=r"sample 1 \(a/1\) raised ValueError: ") as caught:
            dlpipe.from_dataset(list(itertools.islice(stream(), 2)), tmp_path / "d", sample=whole_class, workers=workers)
        assert type(caught.value.__cause__) is ValueError
    with pytest.raises(dlpipe.Error, match="sample 0 raised ZeroDivisionError"):
        dlpipe.from_dataset([1], tmp_path / "d", sample=lambda item: item / 0)
    with pytest.raises(dlpipe.MisuseError, match=r"float32; give uint8.* \(sample 1 of 'val'\)"):
        dlpipe.from_dataset({"val": [(IMAGE, 0), (IMAGE.astype(np.float32), 1)]}, tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


def whole_class(sample):
    return {**sample, "cls": int(sample["cls"])}


class TwoWords(Exception):
    """pickle makes it of one word, its message."""

    def __init__(self, one, other):
        super().__init__(one + other)


class Strange(Images):
    def __getitem__(self, i):
        if i == 50:
            raise TwoWords("file 50 ", "is bad")
        return super().__getitem__(i)


def test_an_exception_that_does_not_travel_is_told_by_the_worker(tmp_path):
    with pytest.raises(dlpipe.Error, match="sample 50 raised TwoWords: file 50 is bad") as caught:
        dlpipe.from_dataset(Strange(100), tmp_path / "d")
    assert type(caught.value.__cause__) is TwoWords
    with pytest.raises(dlpipe.Error, match="sample 50 raised TwoWords: file 50 is bad") as caught:
        dlpipe.from_dataset(Strange(100), tmp_path / "d", workers=2)
    assert 'raise TwoWords("file 50 ", "is bad")' in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("samples, name", [
    ([("pics/cat/0.jpg", 1)], "image"),
    ([(pathlib.Path("pics/cat/0.jpg"), 1)], "image"),
    ([{"__key__": "0", "a.png": "pics/cat/0.png", "cls": 1}], "a.png"),
])
def test_paths_where_images_are_meant_are_refused(tmp_path, samples, name):
    with pytest.raises(dlpipe.MisuseError, match=f"'{name}' is .*a string; give the image or the bytes of its file with sample="):
        dlpipe.from_dataset(samples, tmp_path / "d")
    dlpipe.from_dataset(samples, tmp_path / "d", fields={name: "text"})
    assert dlpipe.Dataset(tmp_path / "d")[0][name].startswith("pics/cat/0.")


def test_a_worker_that_is_killed_is_an_error(tmp_path):
    with pytest.raises(dlpipe.Error, match="a worker process ended"):
        dlpipe.from_dataset(Fatal(100), tmp_path / "d", workers=2)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_dataset(tmp_path):
    for dataset, words in [
        (3, "int is not a dataset"),
        ([], "is empty"),
        ({}, "the dict is empty"),
        ([(1, 2, 3)], "a sample is tuple of 3; give sample="),
        ([{"image": Images(1)[0][0], "x": object()}], "'x' is object"),
        ([(Images(1)[0][0].astype(np.float32), 1)], "float32; give uint8"),
    ]:
        with pytest.raises(dlpipe.MisuseError, match=words):
            dlpipe.from_dataset(dataset, tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


RESUMING = """
import sys
sys.path.insert(0, sys.argv[2])
import dlpipe
from test_from_dataset import Images

class Big(Images):
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


def test_torchvisions_folders_keep_their_files(images, tmp_path):
    folder = pytest.importorskip("torchvision.datasets").ImageFolder
    dlpipe.from_dataset(folder(str(images)), tmp_path / "d", workers=2)
    ingested = dlpipe.ingest(images, tmp_path / "ingested")
    assert dlpipe.Dataset(tmp_path / "d").id == ingested["datasets"][0]["id"]
    dlpipe.from_dataset(folder(str(images), transform=lambda p: p.resize((16, 16))), tmp_path / "small")
    assert dlpipe.Dataset(tmp_path / "small")[0].image.shape == (16, 16, 3)
    data = pytest.importorskip("torch.utils.data")
    train, val = data.random_split(folder(str(images)), [0.75, 0.25])
    dlpipe.from_dataset({"train": train, "val": data.Subset(val, range(10))}, tmp_path / "drawn", workers=2)
    for split, subset in (("train", train), ("val", val)):
        samples = dlpipe.Dataset(tmp_path / "drawn", split=split)
        assert samples.classes == train.dataset.classes
        for i in (0, len(samples) - 1):
            path, label = train.dataset.samples[subset.indices[i]]
            assert samples.file(i) == pathlib.Path(path).read_bytes() and samples[i].label == label
    with pytest.raises(dlpipe.MisuseError, match=r"float32; give uint8.*has a transform: leave it out \(transform=None\)"):
        dlpipe.from_dataset(folder(str(images), transform=lambda p: np.float32(p) / 255), tmp_path / "floats")


def test_a_transform_is_warned_of_and_a_changed_label_has_no_name(images, tmp_path, caplog):
    folder = pytest.importorskip("torchvision.datasets").ImageFolder
    transforms = pytest.importorskip("torchvision.transforms")
    dlpipe.from_dataset(folder(str(images), transform=transforms.RandomCrop(16, pad_if_needed=True)), tmp_path / "drawn")
    assert "transform is applied once" in caplog.text and "transform=None" in caplog.text
    assert len(dlpipe.Dataset(tmp_path / "drawn").classes) == 10
    caplog.clear()
    dlpipe.from_dataset(folder(str(images), target_transform=lambda label: 9 - label), tmp_path / "turned")
    turned = dlpipe.Dataset(tmp_path / "turned")
    assert turned.classes == list("0123456789") and turned[0].label == 9 and turned[399].label == 0
    assert "target_transform" in caplog.text and "applied once" not in caplog.text
    caplog.clear()
    dlpipe.from_dataset(folder(str(images)), tmp_path / "plain")
    assert caplog.text == ""


class Drawing(Images):
    """Each time it is asked it has another image, as with a random transform under whatever name."""

    def __init__(self, count):
        super().__init__(count)
        self.steps = {"train": [self.draw]}
        self.draws = 0

    def draw(self, image):
        self.draws += 1
        return image + np.uint8(self.draws)

    def __getitem__(self, i):
        image, label = super().__getitem__(i)
        return self.steps["train"][0](image), label


@pytest.mark.parametrize("workers", [0, 2])
def test_what_draws_at_random_is_found_by_reading_samples_twice(tmp_path, caplog, workers):
    report = dlpipe.from_dataset({"train": Images(20), "val": Drawing(20)}, tmp_path / "d", workers=workers)
    assert [d["samples"] for d in report["datasets"]] == [20, 20]
    drawn = [record.getMessage() for record in caplog.records if "each time" in record.getMessage()]
    assert len(drawn) == 1 and "sample 0 of 'val' has a different image each time" in drawn[0] and "'train'" not in drawn[0]


def test_a_random_function_of_the_items_is_found_too(tmp_path, caplog):
    draws = itertools.count()

    def drawn(item):
        return {"image": item[0] + np.uint8(next(draws)), "label": item[1]}

    def emptied(item):  # it can be called but once with each item
        return {"image": item.pop("x"), "label": 0}

    for samples in (Images(9), map(Images(9).__getitem__, range(9))):
        caplog.clear()
        dlpipe.from_dataset(samples, tmp_path / type(samples).__name__, sample=drawn)
        assert "sample 0 has a different image each time" in caplog.text
    caplog.clear()
    fields = {"image": "image", "label": "label"}
    dlpipe.from_dataset([{"x": IMAGE}, {"x": IMAGE}], tmp_path / "emptied", sample=emptied, fields=fields)
    assert len(dlpipe.Dataset(tmp_path / "emptied")) == 2 and caplog.text == ""


def test_torchvisions_imagenet_has_the_names_of_its_folders(images, tmp_path):
    class ImageNet(pytest.importorskip("torchvision.datasets").ImageFolder):
        def __init__(self, root):
            super().__init__(root)
            self.wnids = self.classes
            self.classes = [("crane",), ("crane", "a bird")] * 5

    dataset = ImageNet(str(images))
    assert dlpipe.from_dataset(dataset, tmp_path / "d")["classes"] == dataset.wnids


def test_a_file_of_a_folder_that_is_gone_follows_on_error(images, tmp_path):
    dataset = pytest.importorskip("torchvision.datasets").ImageFolder(str(images))
    dataset.samples[3] = (str(images / "class0" / "gone.jpg"), 0)
    with pytest.raises(dlpipe.NotFoundError, match="sample 3 .*gone.jpg.*No such file"):
        dlpipe.from_dataset(dataset, tmp_path / "d")
    dlpipe.from_dataset(dataset, tmp_path / "d", on_error="skip", workers=2)
    samples = dlpipe.Dataset(tmp_path / "d")
    assert len(samples) == 399 and [path for path, _ in samples.skipped] == ["class0/gone.jpg"]


class NotRead:
    """Pixels that raise where they are read."""

    dtype = np.dtype("uint8")

    def __init__(self, *shape):
        self.shape = shape

    def __array__(self, *args, **kwargs):
        raise AssertionError("the pixels were read")


@pytest.mark.parametrize("workers", (0, 2))
def test_too_many_pixels_are_not_read(workers, tmp_path):
    image, torch = pytest.importorskip("PIL.Image"), pytest.importorskip("torch")
    file = io.BytesIO()
    image.effect_noise((60, 50), 40).save(file, "PNG")
    small = np.full((9, 8, 3), 7, np.uint8)
    large = {"array": NotRead(50, 60, 3), "tensor": torch.zeros(3, 50, 60, dtype=torch.uint8),
             "file": image.open(io.BytesIO(file.getvalue()[:-500])), "bytes": file.getvalue()}  # fmt: skip
    for name, value in large.items():
        samples = [{"image": small, "label": 0}, {"image": value, "label": 1}]
        with pytest.raises(dlpipe.UnsupportedError, match="sample 1 .*60x50 pixels are more than max_pixels 2000"):
            dlpipe.from_dataset(samples, tmp_path / name, fields={"image": "image", "label": "label"}, max_pixels=2000, workers=workers)
        dlpipe.from_dataset(samples, tmp_path / f"{name}_skipped", fields={"image": "image", "label": "label"}, max_pixels=2000,
                            on_error="skip", workers=workers)  # fmt: skip
        kept = dlpipe.Dataset(tmp_path / f"{name}_skipped")
        assert len(kept) == 1 and "60x50 pixels" in kept.skipped[0][1]
    samples = [{"image": small, "mask": small[:, :, 0]}, {"image": small, "mask": NotRead(50, 60)}]
    with pytest.raises(dlpipe.UnsupportedError, match="sample 1 .*60x50 pixels"):
        dlpipe.from_dataset(samples, tmp_path / "mask", fields={"image": "image", "mask": "mask"}, max_pixels=2000, workers=workers)
    with pytest.raises(dlpipe.UnsupportedError, match="sample 0 .*60x50 pixels"), dlpipe.Writer(tmp_path / "w", max_pixels=2000) as writer:
        writer.write(image=NotRead(50, 60), label="a")


def test_torchs_datasets_behind_each_other(images, tmp_path, caplog):
    data = pytest.importorskip("torch.utils.data")
    folder = pytest.importorskip("torchvision.datasets").ImageFolder
    one = folder(str(images))
    both = data.ConcatDataset([data.Subset(one, [7, 250]), data.ConcatDataset([one])])
    dlpipe.from_dataset(both, tmp_path / "files", workers=2)
    samples = dlpipe.Dataset(tmp_path / "files")
    assert samples.classes == one.classes and len(samples) == 402
    for i, number in enumerate([7, 250, 0, 1]):
        path, label = one.samples[number]
        assert samples.file(i) == pathlib.Path(path).read_bytes() and samples[i].label == label
    drawn = folder(str(images), transform=lambda image: image.resize((8, 8)))
    dlpipe.from_dataset(data.ConcatDataset([Images(3), Images(2)]), tmp_path / "pixels")
    assert [s.label for s in dlpipe.Dataset(tmp_path / "pixels")] == [0, 1, 0, 0, 1]
    assert dlpipe.Dataset(tmp_path / "pixels").classes == ["even", "odd"]
    caplog.clear()
    dlpipe.from_dataset(data.ConcatDataset([Images(3), drawn]), tmp_path / "others")
    assert dlpipe.Dataset(tmp_path / "others").classes == list("0123456789")
    assert "different classes" in caplog.text


def test_torchs_datasets(tmp_path):
    data = pytest.importorskip("torch.utils.data")
    dlpipe.from_dataset(data.Subset(Images(20), range(3, 9)), tmp_path / "subset")
    assert [s.label for s in dlpipe.Dataset(tmp_path / "subset")] == [1, 0, 1, 0, 1, 0]

    class Stream(data.IterableDataset):
        def __len__(self):
            return 20

        def __iter__(self):
            return map(Images(9).__getitem__, range(9))

    dlpipe.from_dataset(Stream(), tmp_path / "stream")
    assert len(dlpipe.Dataset(tmp_path / "stream")) == 9
    loader = data.DataLoader(dlpipe.Dataset(tmp_path / "stream"), batch_size=3, num_workers=2)
    assert [len(batch.label) for batch in loader] == [3, 3, 3]


def test_webdatasets(images, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    files = tree(images)
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


Pair = collections.namedtuple("Pair", "target image")


def test_labels_in_other_forms(tmp_path):
    for i, label in enumerate([b"cat\n", np.array([3]), np.int32(3), b" 3 "]):
        dlpipe.from_dataset([{"jpg": IMAGE, "cls": label}], tmp_path / f"{i}")
        samples = dlpipe.Dataset(tmp_path / f"{i}")
        assert samples.class_name(samples[0].cls) == ("cat" if i == 0 else "3")
    dlpipe.from_dataset([Pair(2, IMAGE)], tmp_path / "named")
    assert dlpipe.Dataset(tmp_path / "named")[0].target == 2 and dlpipe.Dataset(tmp_path / "named")[0].image.shape == IMAGE.shape
    with pytest.raises(dlpipe.MisuseError, match=r"the label is an image and .*\(label, image\)"):
        dlpipe.from_dataset([(1, IMAGE)], tmp_path / "swapped")
    with pytest.raises(dlpipe.MisuseError, match="the label is 0.5; .*'number' in fields="):
        dlpipe.from_dataset([(IMAGE, 0.5)], tmp_path / "number")
    dlpipe.from_dataset(dlpipe.Dataset(tmp_path / "named")[:1], tmp_path / "again")
    again = dlpipe.Dataset(tmp_path / "again")
    assert again[0].target == 2 and np.array_equal(again[0].image, IMAGE)


def test_pillow_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    dlpipe.from_dataset([(image.fromarray(Images(1)[0][0]), "cat")], tmp_path / "d")
    dlpipe.Dataset(tmp_path / "d").to_pil(0).save(file, "png")
    assert np.array_equal(np.asarray(image.open(file)), Images(1)[0][0])


def test_what_the_first_sample_has_not_is_told_by_name_and_number(tmp_path):
    samples = [{"image": IMAGE, "label": "a"}, {"image": IMAGE, "label": "b", "x": 2.7}]
    with pytest.raises(dlpipe.MisuseError, match="sample 1 has 'x', which the first sample lacks.* give fields="):
        dlpipe.from_dataset(samples, tmp_path / "d")
    dlpipe.from_dataset(samples, tmp_path / "e", fields={"image": "image", "label": "label"})
    with pytest.raises(dlpipe.MisuseError, match=r"no 'x'.*fields= without it.*sample 1"):
        dlpipe.from_dataset(samples[::-1], tmp_path / "f")


@pytest.mark.parametrize("form", [list, iter], ids=["indexed", "iterator"])
def test_what_the_first_sample_has_as_none_is_told_by_a_later_one(tmp_path, form):
    samples = [(IMAGE, None), (IMAGE + np.uint8(1), None), (IMAGE + np.uint8(2), 1)]
    report = dlpipe.from_dataset(form(samples), tmp_path / "d")
    assert report["warnings"] == ["[writer] 2 of 3 samples have no class: their label is -1"]
    stored = dlpipe.Dataset(tmp_path / "d")
    assert [(int(one.image.max()), one.label) for one in stored] == [(0, -1), (1, -1), (2, 1)]
    dlpipe.from_dataset({"test": form(samples[:2] * 40), "train": form(samples)}, tmp_path / "splits")
    assert [len(dlpipe.Dataset(tmp_path / "splits", split=name)) for name in ("test", "train")] == [80, 3]
    mask = np.arange(64).reshape(8, 8)  # whole numbers of the image's size, but not of the first one's
    samples = [{"image": np.zeros((9, 9, 3), np.uint8), "y": None}, {"image": IMAGE, "y": mask}]
    with pytest.raises(dlpipe.MisuseError, match="'y' holds a mask.*fields={'image': 'image', 'y': 'mask'}"):
        dlpipe.from_dataset(form(samples), tmp_path / "masks")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind, name", [("mask", "mask"), ("labels", "tag"), ("boxes", "boxes"), ("text", "note")])
def test_a_field_that_no_sample_has_is_refused(tmp_path, workers, kind, name):
    samples = [(np.zeros((20, 24, 3), np.uint8), np.full((20, 24), 1 + i % 2, np.uint8)) for i in range(5)]
    with pytest.raises(dlpipe.MisuseError, match=f"no sample has '{name}'.*'label'"):
        dlpipe.from_dataset(samples, tmp_path / "data", fields={"image": "image", name: kind}, classes=["a", "b", "c"], workers=workers)
    assert not (tmp_path / "data").exists()


def test_what_all_first_samples_have_as_none_wants_fields(tmp_path):
    samples = [(IMAGE + np.uint8(i), None if i < 64 else 1) for i in range(70)]
    with pytest.raises(dlpipe.MisuseError, match="'label' is None in the first samples .* such as fields={'image': 'image', 'label': 'label'}"):
        dlpipe.from_dataset(samples, tmp_path / "d")
    dlpipe.from_dataset(samples, tmp_path / "d", fields={"image": "image", "label": "label"})
    assert dlpipe.Dataset(tmp_path / "d").labels.tolist() == [-1] * 64 + [1] * 6
    with pytest.raises(dlpipe.MisuseError, match="'x' is None in the first samples .* give fields= with its kind, or without it$"):
        dlpipe.from_dataset([{"image": IMAGE, "x": None}], tmp_path / "e")
    with pytest.raises(dlpipe.MisuseError, match="no image 'image'"):
        dlpipe.from_dataset([(None, 1), (IMAGE, 0)], tmp_path / "f")


@pytest.mark.parametrize("value, keep", [
    (float("nan"), "'f64'"), (np.float32("inf"), "'f32'"), (np.float64([1, -np.inf]), r"\('f64', \(2,\)\)")])  # fmt: skip
def test_numbers_that_no_model_is_trained_on_are_refused_by_sample(tmp_path, value, keep):
    samples = [{"image": IMAGE + np.uint8(i), "y": value if i == 2 else np.ones_like(value)}
               for i in range(4)]  # fmt: skip
    with pytest.raises(dlpipe.MisuseError, match=f"'y' is .*NaN or infinity; leave the sample out, or give {keep} .*sample 2"):
        dlpipe.from_dataset(samples, tmp_path / "d", workers=0)
    plain = ("f64", (2,)) if np.shape(value) else "f64"
    dlpipe.from_dataset(samples, tmp_path / "d", fields={"image": "image", "y": plain})
    np.testing.assert_array_equal(dlpipe.Dataset(tmp_path / "d")[2].y, value)


def test_samples_without_a_class_are_counted(tmp_path):
    other = IMAGE + np.uint8(3)
    report = dlpipe.from_dataset([(IMAGE, 0), (IMAGE, None), (other, 1)], tmp_path / "d")
    assert report["warnings"] == ["[writer] 1 of 3 samples have no class: their label is -1"]
    assert dlpipe.from_dataset([(IMAGE, 0), (other, 1)], tmp_path / "e")["warnings"] == []


HOT = [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_vectors_of_zeros_and_ones_are_said_to_be_stored_as_numbers(tmp_path, caplog, dtype):
    samples = [{"image": IMAGE, "y": np.array(one, dtype)} for one in HOT]
    dlpipe.from_dataset(samples, tmp_path / "numbers")
    assert "'y' holds vectors of 0 and 1, which are stored as numbers" in caplog.text
    assert "with 'y': 'multi-hot', and classes= with 4 names" in caplog.text
    caplog.clear()
    dlpipe.from_dataset(samples, tmp_path / "labels", fields={"image": "image", "y": "multi-hot"}, classes=list("abcd"))
    assert [one.y.tolist() for one in dlpipe.Dataset(tmp_path / "labels")] == [[0, 3], [], [1, 2]]
    assert dlpipe.Dataset(tmp_path / "labels").classes == ["a", "b", "c", "d"]
    given = {"image": "image", "y": ("f32", (4,))}
    dlpipe.from_dataset(samples, tmp_path / "given", fields=given)
    others = [{"image": IMAGE, "y": np.array(one, dtype), "x": [1.0]} for one in [*HOT, [2, 0, 0, 0]]]
    dlpipe.from_dataset(others, tmp_path / "others", sample=lambda one: {**one, "x": np.float32([1])})
    assert "0 and 1" not in caplog.text


def test_multi_hot_values_that_are_none(tmp_path):
    fields = {"image": "image", "y": "multi-hot"}
    with pytest.raises(dlpipe.MisuseError, match="'y' is multi-hot; give classes="):
        dlpipe.from_dataset([{"image": IMAGE, "y": [True, False]}], tmp_path / "a", fields=fields)
    for value in ([0, 2, 0], [0, 1], 1, "no"):
        with pytest.raises(dlpipe.MisuseError, match="'y' is .*; a multi-hot field has 3 numbers, one for each class, all 0 or 1"):
            dlpipe.from_dataset([{"image": IMAGE, "y": value}], tmp_path / "a", fields=fields, classes=["a", "b", "c"])
    dlpipe.from_dataset([{"image": IMAGE, "y": [True, False]}], tmp_path / "a", fields=fields, classes=["a", "b"])
    assert dlpipe.Dataset(tmp_path / "a")[0].y.tolist() == [0]


def test_arrays_of_one_number_are_warned_of(tmp_path, caplog):
    samples = [{"image": IMAGE, "far": np.float32([i / 2])} for i in range(4)]
    dlpipe.from_dataset(samples, tmp_path / "one")
    assert "'far' is an array of one number" in caplog.text and "batch.far[:, None]" in caplog.text
    assert next(iter(dlpipe.Loader(tmp_path / "one", train=False, batch=2))).far.shape == (2,)
    caplog.clear()
    dlpipe.from_dataset([{**one, "far": float(one["far"][0])} for one in samples], tmp_path / "number")
    assert "array of one number" not in caplog.text


@pytest.mark.parametrize("values, kind, stored", [
    ([0, 2], "labels", [0, 2]), (["cat", "dog"], "labels", [0, 1]), ([1.5, 2.0], "numbers", [1.5, 2.0]), ([], "labels", [])])  # fmt: skip
def test_lists_want_fields_that_the_error_suggests(tmp_path, values, kind, stored):
    with pytest.raises(dlpipe.MisuseError, match="'label' is a list of ") as refused:
        dlpipe.from_dataset([(IMAGE, values)] * 3, tmp_path / "d")
    fields = {"image": "image", "label": kind}
    assert f"give fields={fields} " in str(refused.value)
    dlpipe.from_dataset([(IMAGE, values)] * 3, tmp_path / "d", fields=fields)
    assert dlpipe.Dataset(tmp_path / "d")[2].label.tolist() == stored


@pytest.mark.parametrize("name, value, kind", [("class", 5, "i64"), ("target", "cat", "text")])
def test_two_labels_want_a_choice(tmp_path, name, value, kind):
    samples = [{"image": IMAGE, "label": 0, name: value}] * 2
    with pytest.raises(dlpipe.MisuseError, match=f"'label' and {name!r} look like class labels, but a dataset has one") as refused:
        dlpipe.from_dataset(samples, tmp_path / "d")
    fields = {"image": "image", "label": "label", name: kind}
    assert f"fields={fields}" in str(refused.value)
    dlpipe.from_dataset(samples, tmp_path / "d", fields=fields)
    assert dlpipe.Dataset(tmp_path / "d")[1][name] == value


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint16", "uint32", "uint64"])
def test_dtypes_that_no_field_has_are_inferred_as_wider_ones(tmp_path, dtype):
    value = np.ones((), dtype)[()]
    dlpipe.from_dataset([{"image": IMAGE, "v": value, "w": np.full((2, 3), value)}] * 2, tmp_path / "d")
    sample = dlpipe.Dataset(tmp_path / "d")[1]
    assert sample.v == 1 and sample.v.dtype == np.int64 and sample.w.dtype == np.int64 and sample.w.shape == (2, 3)
    with pytest.raises(dlpipe.MisuseError, match="'v' is .*18446744073709551615.*not a valid i64"):
        dlpipe.from_dataset([{"image": IMAGE, "v": np.uint64(2**64 - 1)}], tmp_path / "e")


def test_bfloat16_is_inferred_as_f32(tmp_path):
    torch = pytest.importorskip("torch")
    values = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    dlpipe.from_dataset([{"image": IMAGE, "v": values, "w": values[0]}] * 2, tmp_path / "d")
    sample = dlpipe.Dataset(tmp_path / "d")[1]
    assert sample.v.dtype == np.float32 and sample.v.tolist() == [1.5, -2.0] and sample.w == 1.5


def test_none_is_not_a_number(tmp_path):
    samples = [{"image": IMAGE, "v": 1.0}, {"image": IMAGE, "v": None}]
    with pytest.raises(dlpipe.MisuseError, match="field 'v' is None, which isn't a number; .* 'v': 'f32' .*sample 1"):
        dlpipe.from_dataset(samples, tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match="the sample has no 'v'.*sample 1"):
        dlpipe.from_dataset([samples[0], {"image": IMAGE}], tmp_path / "e")
    dlpipe.from_dataset([samples[0], {"image": IMAGE, "v": float("nan")}], tmp_path / "f", fields={"image": "image", "v": "f32"})
    assert np.isnan(dlpipe.Dataset(tmp_path / "f")[1].v)


def test_boxes_outside_their_images_are_reported(tmp_path, caplog):
    inside, beyond, outside = [1, 2, 3, 4], [6, 6, 90, 90], [8, 1, 9, 2]  # IMAGE is 8 x 8
    samples = [{"image": IMAGE, "boxes": boxes} for boxes in ([inside, beyond], [], [inside, outside], [[-3, 0, 0, 9]], [[9, 9, 9, 9]])]
    report = dlpipe.from_dataset(samples, tmp_path / "d", fields={"image": "image", "boxes": "boxes"})
    assert [said for said in report["warnings"] if "2 of 5 samples have a box outside the image, first sample 2, field 'boxes'" in said]
    assert "outside the image" in caplog.text
    assert [len(sample.boxes) for sample in dlpipe.Dataset(tmp_path / "d")] == [2, 0, 2, 1, 1]
    report = dlpipe.from_dataset(samples[:2], tmp_path / "e", fields={"image": "image", "boxes": "boxes"})
    assert not [said for said in report["warnings"] if "outside" in said]
