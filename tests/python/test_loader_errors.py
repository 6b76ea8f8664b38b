"""Corrupt samples, and what a loader is told wrongly."""

import copy
import itertools
import pickle
import sys
import types

import numpy as np
import pytest
from loaders import CROP, Loader

import dlpipe
from dlpipe.arguments import read_file


# --- corrupt samples


@pytest.fixture
def corrupt(images, tmp_path):
    """A dataset of 20 samples whose samples 3 and 11 are corrupt."""
    dlpipe.ingest(images, tmp_path / "d", limit=20)
    file = tmp_path / "d" / "data.mdb"
    data = bytearray(file.read_bytes())
    for path in [dlpipe.Dataset(tmp_path / "d")[i].path for i in (3, 11)]:
        data[data.find(path.encode())] ^= 1
    file.write_bytes(data)
    return tmp_path / "d"


def test_damaged_samples_are_replaced_dropped_or_stop_it(corrupt):
    options = {"augment": CROP, "batch": 20, "shuffle": False}
    batch = next(iter(Loader(corrupt, **options)))
    assert [one["bad_sample"] for one in batch.substitutions] == [3, 11]
    assert all(one["used_sample"] not in (3, 11) and one["reason"] for one in batch.substitutions)
    assert batch.weight.all()
    dropped = next(iter(Loader(corrupt, on_bad="drop", **options)))
    assert np.flatnonzero(dropped.weight == 0).tolist() == [3, 11]
    assert not dropped.image[[3, 11]].any() and dropped.image[4].any()
    with pytest.raises(dlpipe.CorruptError, match="sample"):
        next(iter(Loader(corrupt, on_bad="stop", **options)))
    with pytest.raises(dlpipe.Error, match="max.bad"):
        list(Loader(corrupt, max_bad=0, **options))


def test_the_first_damaged_sample_is_told_once(corrupt, train, caplog):
    options = {"augment": CROP, "batch": 4, "epochs": 2}
    list(Loader(train, augment=CROP, batch=32))
    assert caplog.text == ""
    for is_train, words in ((True, "another sample replaces it"), (False, "its batch.weight is 0")):
        caplog.clear()
        bad = sum(len(batch.substitutions) for batch in Loader(corrupt, train=is_train, **options))
        assert bad >= 4
        [record] = caplog.records
        assert record.name == "dlpipe" and record.levelname == "WARNING"
        assert words in record.message and f"of {corrupt} is corrupt: " in record.message and "quarantine=FILE" in record.message


# --- errors


@pytest.mark.parametrize("options, kind, text", [
    ({"data": "no/such/dataset"}, FileNotFoundError, "no dataset no/such/dataset"),
    ({"augment": "rcc(24)"}, ValueError, "did you mean 'rrc'"),
    ({"augment": ""}, ValueError, "different sizes"),
    ({"batch": 0}, ValueError, "batch 0"),
    ({"batch": 1000}, ValueError, "fewer than one batch"),
    ({"slots": 0}, ValueError, "slots 0"),
    ({"slots": 4, "slots_max": 2}, ValueError, "slots_max 2"),
    ({"threads": -1}, ValueError, "threads -1"),
    ({"epochs": 0}, ValueError, "epochs 0"),
    ({"layout": "CHW"}, ValueError, "layout 'CHW'"),
    ({"as_": "tensorflow"}, ValueError, "as_ tensorflow; known: numpy, torch, jax, dlpack"),
    ({"on_bad": "ignore"}, ValueError, "on_bad ignore; known: substitute, drop, stop"),
    ({"on_bad": "skip"}, ValueError, "use 'drop'"),
    ({"mean": [0.5] * 3, "std": [0, 1, 1], "dtype": "f32"}, ValueError, "std .* must be positive, got 0; leave mean and std out"),
    ({"mean": [127] * 3, "std": [0.5] * 3, "dtype": "f32"}, ValueError, "got 127; divide it by 255"),
    ({"rank": 1}, ValueError, "rank and world belong together"),
    ({"memory": 1 << 20}, MemoryError, "memory"),
    ({"batch": "32"}, ValueError, "batch is '32'; give a whole number"),
    ({"threads": True}, ValueError, "threads is True; give a whole number"),
    ({"seed": -1}, ValueError, "seed is -1; give a number of at least 0"),
    ({"seed": None}, ValueError, "seed is None; give a whole number"),
    ({"augment": ["rrc(24)", "hflip"]}, ValueError, "give a string, such as"),
    ({"data": [1, 2, 3]}, ValueError, "data is list; .*from_dataset"),
    ({"fields": "image"}, ValueError, r"fields is 'image'; give a list of names, such as \['image'\]"),
    ({"fields": []}, ValueError, "or leave it out"),
    ({"seed": 2**64}, ValueError, "give a number below 2"),
    ({"mean": 0.5, "std": 0.5, "dtype": "f32"}, ValueError, "mean is 0.5; give a number for each channel"),
    ({"drop_last": 1}, ValueError, "drop_last is 1; give True or False"),
    ({"shuffle": "no"}, ValueError, "shuffle is 'no'; give True or False"),
    ({"train": None}, ValueError, "train is None; give True or False"),
    ({"pin_memory": "yes"}, ValueError, "pin_memory is 'yes'; give True or False"),
    ({"mixup": "0.2"}, ValueError, "mixup is '0.2'; give a number"),
    ({"threads": 2**40}, ValueError, r"threads is 1099511627776; give a number below 2\*\*31"),
    ({"batch": 2**70}, ValueError, r"give a number below 2\*\*63"),
    ({"rank": "0", "world": 1}, ValueError, "rank is '0'; give a whole number"),
    ({"slots_max": 2.5}, ValueError, "slots_max is 2.5; give a whole number"),
    ({"on_bad": 3}, ValueError, "on_bad is 3; give a string"),
    ({"quarantine": 3}, ValueError, "quarantine is 3; give a path"),
    ({"transform": 5}, ValueError, "transform is 5; give a function"),
    ({"mean": "abc", "std": [0.5] * 3}, ValueError, "mean is 'abc'; give a number for each channel"),
    ({"mean": [0.5, None, 0.5], "std": [0.5] * 3}, ValueError, r"mean\[1\] is None; give a number"),
    ({"fields": [1]}, ValueError, r"fields\[0\] is 1; give a string"),
    ({"fields": ["image", "image"]}, ValueError, "fields names 'image' twice"),
    ({"device": 0}, ValueError, 'device is 0; give a string, such as "cpu"'),
    ({"mean": [0.5] * 3, "std": [0.5] * 3, "dtype": "u8"}, ValueError, "dtype 'u8' leaves pixels unchanged"),
])
def test_errors_are_pythons_own_and_say_what_is_wrong(train, options, kind, text):
    with pytest.raises(kind, match=text) as raised:
        Loader(**{"data": train, "augment": CROP, "batch": 32, **options})
    assert isinstance(raised.value, dlpipe.Error)
    assert "--" not in str(raised.value)  # options have their names in Python


def test_numpys_numbers_are_taken(train):
    loader = Loader(train, augment=CROP, batch=np.int32(32), drop_last=np.bool_(True), mixup=np.float32(0), seed=np.uint8(3))
    assert len(loader) == 10


def test_options_of_other_functions_are_looked_at_likewise(train, tmp_path):
    for function, given, options, text in [
        (dlpipe.ingest, ("x", tmp_path / "d"), {"no_splits": 1}, r"\[ingest\] no_splits is 1; give True or False"),
        (dlpipe.ingest, ("x", tmp_path / "d"), {"limit": "3"}, "limit is '3'; give a whole number"),
        (dlpipe.ingest, ("x", tmp_path / "d"), {"seed": -1}, "seed is -1; give a number of at least 0"),
        (dlpipe.ingest, ("x", tmp_path / "d"), {"manifest": 3}, "manifest is 3; give a path"),
        (dlpipe.from_dataset, ([], tmp_path / "d"), {"workers": "2"}, "workers is '2'; give a whole number"),
        (dlpipe.Writer, (tmp_path / "d",), {"source": 3}, "source is 3; give a string"),
        (dlpipe.Dataset, (train,), {"split": 3}, "split is 3; give a string"),
        (dlpipe.Dataset, (train,), {"max_pixels": 1e9}, "max_pixels is 1000000000.0; give a whole number"),
        (dlpipe.evaluate, ("run", train), {"tf32": 1}, r"\[eval\] tf32 is 1; give True or False"),
        (dlpipe.Predictor, ("run",), {"batch": 1.5}, "batch is 1.5; give a whole number"),
        (dlpipe.predict, ("run", "x.jpg"), {"top": "3"}, "top is '3'; give a whole number"),
        (dlpipe.predict, ("run", [np.zeros(3)]), {}, r"\[predict\] paths holds ndarray; give paths"),
        (dlpipe.predict, ("run", 3), {}, "paths is 3; give a path or several"),
        (dlpipe.ingest, (None, tmp_path / "d"), {}, "src is None; give a path or several"),
        (dlpipe.from_dataset, ([], None), {}, "dst is None; give a path"),
        (dlpipe.from_dataset, ([], tmp_path / "d"), {"sample": 3}, "sample is 3; give a function"),
        (dlpipe.from_dataset, ([], tmp_path / "d"), {"fields": ["image"]}, "fields is .*; give a dict"),
        (dlpipe.from_dataset, ([], tmp_path / "d"), {"classes": [1]}, r"classes\[0\] is 1; give a string"),
        (dlpipe.from_dataset, ([], tmp_path / "d"), {"workers": -1}, "workers is -1"),
        (dlpipe.train, (train,), {"on_step": 3}, "on_step is 3; give a function"),
        (dlpipe.Predictor, (None,), {}, "ckpt is None; give a path"),
        (dlpipe.Writer(tmp_path / "d").write, (), {"split": None}, "split is None; give a string"),
        (Loader(train, augment=CROP).doctor, ("a",), {}, "samples_per_s is 'a'; give a number"),
        (Loader(train, augment=CROP).doctor, (-3,), {}, "samples_per_s is -3"),
        (Loader(train, augment=CROP).doctor, (float("nan"),), {}, "samples_per_s is nan"),
        *((Loader(train, augment=CROP).set_epoch, (epoch,), {}, "epoch is .*give a") for epoch in (None, "1", 1.5, 2**63)),
    ]:
        with pytest.raises(dlpipe.MisuseError, match=text):
            function(*given, **options)


# The system would use the path that ends before it.
def test_paths_have_no_zero_bytes(train, tmp_path):
    odd = f"{tmp_path}/a\0b"
    for call in (lambda: Loader(odd), lambda: Loader(train, augment=CROP, quarantine=odd), lambda: dlpipe.Dataset(odd),
                 lambda: dlpipe.ingest(odd, tmp_path / "d"), lambda: dlpipe.ingest(train, odd), lambda: dlpipe.Writer(odd),
                 lambda: dlpipe.from_dataset(odd + "/*.parquet", tmp_path / "d"), lambda: dlpipe.from_dataset([{"label": 0}], odd),
                 lambda: dlpipe.train(train, model="lenet", augment=CROP, out=odd), lambda: dlpipe.train(resume=odd),
                 lambda: dlpipe.Predictor(odd), lambda: dlpipe.predict("run", [odd]), lambda: read_file("predict", odd)):  # fmt: skip
        with pytest.raises(dlpipe.Error, match="zero byte"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("function, option, near", [(dlpipe.Predictor, "bacth", "batch"), (dlpipe.evaluate, "splitt", "split")])
def test_the_nearest_option_is_named_by_all_functions(train, function, option, near):
    with pytest.raises(TypeError, match=f"no option '{option}'; did you mean '{near}'"):
        function("run", **{option: 3})


def test_a_state_of_other_batches_names_what_decides(train):
    state = Loader(train, augment=CROP).state_dict()
    with pytest.raises(dlpipe.MisuseError, match="the fields and their dtype, augment .mean and std"):
        Loader(train, augment=CROP, dtype="f32").load_state_dict(state)


def test_as_many_batches_are_kept_as_there_are(train):
    loader = Loader(train, augment=CROP, batch=4)
    kept = list(loader)
    assert len(kept) == loader.held == 80
    del kept
    kept = list(loader)
    with pytest.raises(dlpipe.MisuseError, match="all 3 allowed batches .*slots_max.*epochs=-1 .itertools.cycle keeps"):
        for _ in itertools.cycle(Loader(train, augment=CROP, slots_max=3)):
            pass


# What a module of a user's has imported, and whose arrays it gets, whatever else is there.
CALLERS = [
    ("import torch", "torch"), ("from torch import nn", "torch"), ("import torch, numpy", "torch"), ("import jax.numpy as jnp", "jax"),
    ("import numpy as np", "numpy"), ("import lightning as L", "torch"), ("import torch, jax", None),
]  # fmt: skip


@pytest.mark.parametrize("imports, framework", CALLERS)
def test_arrays_are_those_of_the_code_that_opens_the_loader(imports, framework, monkeypatch):
    from dlpipe.loader_options import framework_of_caller

    for name in ("torch", "torch.nn", "jax", "jax.numpy", "numpy", "lightning"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name in ("torch.nn", "jax.numpy"):
        setattr(sys.modules[name.split(".")[0]], name.split(".")[1], sys.modules[name])
    code = {"__name__": "train", "ask": framework_of_caller}
    exec(imports, code)
    if framework is None:
        with pytest.raises(dlpipe.MisuseError, match="as_='torch' or as_='jax'"):
            eval("ask()", code)
        exec("def of_jax(jnp): return ask()", code)
        assert eval("of_jax(jax)", code) == "jax"  # the function's own
    else:
        assert eval("ask()", code) == framework
        of_nothing = {"__name__": "data", "ask": framework_of_caller}
        exec("def make(): return ask()", of_nothing)
        assert eval("make()", {**code, "make": of_nothing["make"]}) == framework


def test_a_framework_that_there_is_not_is_told_at_once(train, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(dlpipe.MisuseError, match="jax is not installed"):
        Loader(train, augment=CROP, as_="jax")


@pytest.mark.parametrize("option, text", [
    ("batch_size", "no option 'batch_size': it is called batch"),
    ("num_workers", "no option 'num_workers': it is called threads"),
    ("augmnt", "did you mean augment"),
    ("path", "it is called data"),
    ("split", "data is the directory of the split, such as 'data/train'"),
    ("indices", "it is called subset"),
    ("xyzzy", "help\\(dlpipe.Loader\\) lists all"),
])
def test_an_option_of_another_name_is_pythons_own_error_and_says_what_to_do(train, option, text):
    with pytest.raises(TypeError, match=text):
        Loader(train, augment=CROP, **{option: 4})


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32")])
def test_dtypes_have_numpys_and_pytorchs_names_too(train, dtype):
    assert next(iter(Loader(train, augment=CROP, dtype=dtype))).image.dtype == np.float32


def test_a_loader_is_not_pickled_and_says_what_to_do(train):
    loader = Loader(train, augment=CROP)
    for copy_of in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="open one in each process"):
            copy_of(loader)


def test_a_transform_that_raises_stopiteration_does_not_end_the_epoch(train):
    loader = Loader(train, augment="rrc(24)", transform=lambda batch: next(iter(())))
    with pytest.raises(RuntimeError, match="transform raised StopIteration"):
        list(loader)


def test_a_closed_loader_says_so(train):
    with Loader(train, augment=CROP) as loader:
        iterator = iter(loader)
        batch = next(iterator)
    expected = batch.image.copy()
    loader.close()
    with pytest.raises(dlpipe.MisuseError, match="closed"):
        next(iterator)
    with pytest.raises(dlpipe.MisuseError, match="closed"):
        iter(loader)
    np.testing.assert_array_equal(batch.image, expected)
    assert loader.samples == 320 and loader.stats()["samples"] == 64


LONE = "a\ud800"


@pytest.mark.parametrize("call", [
    lambda data: Loader(LONE), lambda data: Loader(data, augment=LONE), lambda data: Loader(data, fields=["image", LONE]),
    lambda data: Loader(data, dtype=LONE), lambda data: Loader(data, device=LONE), lambda data: Loader(data, quarantine=LONE),
    lambda data: dlpipe.Dataset(LONE), lambda data: dlpipe.Dataset(data, split=LONE), lambda data: dlpipe.ingest(LONE, "d"),
    lambda data: dlpipe.train(LONE), lambda data: dlpipe.train(data, model=LONE), lambda data: dlpipe.evaluate(LONE, data),
    lambda data: dlpipe.Predictor(LONE), lambda data: dlpipe.predict("x", [LONE]), lambda data: dlpipe.Writer("d", classes=[LONE]),
    lambda data: dlpipe.from_dataset([{"t": LONE}], "d")])  # fmt: skip
def test_a_text_without_bytes_is_named(train, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dlpipe.MisuseError, match=r"is '[^']*a\\ud800'; it has a lone surrogate at 1, which UTF-8 can't encode"):
        call(train)
    assert list(tmp_path.iterdir()) == []
