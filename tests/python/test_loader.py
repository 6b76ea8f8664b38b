"""What a loader gives, in NumPy's arrays."""

import copy
import itertools
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import side_by_side

import dlpipe

CROP = "rrc(24) hflip"


def Loader(data, **options):
    """With NumPy's arrays, whatever other tests have imported."""
    return dlpipe.Loader(data, **{"as_": "numpy", **options})


def batches_of(loader, count=None):
    """Copies of the batches of one pass, or of its first ones."""
    copies = []
    for batch in loader:
        copies.append((batch.image.copy(), batch.label.copy(), batch.sample_ids.copy()))
        if len(copies) == count:
            break
    return copies


def assert_same(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right):
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)


def test_a_printed_loader_says_what_it_reads(train):
    loader = dlpipe.Loader(train, augment="rrc(16)", batch=40)
    said = f"dlpipe.Loader({str(train)!r}): 320 samples in batches of 40"
    assert repr(loader) == said
    loader.close()
    assert repr(loader) == said


def test_views_are_lists_of_pictures_of_the_same_samples(train):
    loader = Loader(train, augment=CROP, batch=32, seed=1, views=2)
    single = Loader(train, augment=CROP, batch=32, seed=1)
    assert (len(loader), loader.samples, loader.batch_size) == (len(single), single.samples, 32)
    for batch, alone in side_by_side(loader, single):
        (one, two), labels = batch
        assert one.shape == two.shape == (32, 24, 24, 3)
        assert sum(np.array_equal(a, b) for a, b in zip(one, two)) < 4, "each view has draws of its own"
        assert one.base is not None and np.shares_memory(one, one.base), "over the batch's own memory"
        np.testing.assert_array_equal(labels, alone.label)
        np.testing.assert_array_equal(batch.sample_ids, alone.sample_ids)
        assert batch.weight.tolist() == [1.0] * 32
        assert batch.path == alone.path
        assert repr(batch).startswith("Batch(image=[<uint8 32 x 24 x 24 x 3>, <uint8 32 x 24 x 24 x 3>], label=")
    assert batch.last_in_epoch


def test_the_time_of_a_transform_counts_views_as_all_stages_do(train):
    loader = Loader(train, augment=CROP, batch=32, views=2, transform=lambda batch: None)
    for _ in loader:
        pass
    samples = {stage["name"]: stage["samples"] for stage in loader.stats()["stages"]}
    assert samples["transform"] == 2 * 320
    assert samples["decoder"] >= 2 * 320 and samples["decoder"] % 2 == 0  # it may be ahead, in the next epoch


def test_a_pass_without_an_end_is_gone_on_with(train):
    endless, plain = (Loader(train, augment=CROP, batch=32, seed=1, epochs=epochs) for epochs in (-1, 2))
    expected = [batch.sample_ids.tolist() for batch in plain]
    given = [[batch.sample_ids.tolist() for batch in itertools.islice(endless, count)] for count in (3, 9)]
    assert sum(given, []) == expected[:12]


def test_views_keep_their_memory_and_resume(train):
    options = {"augment": CROP, "batch": 32, "seed": 1, "views": 3}
    loader = Loader(train, **options)
    batches = iter(loader)
    view = next(batches).image[2]
    copy_of_view = view.copy()
    state = loader.state_dict()
    rest = [[image.copy() for image in batch.image] for batch in batches]
    np.testing.assert_array_equal(view, copy_of_view)
    resumed = Loader(train, **options, threads=1)
    resumed.load_state_dict(state)
    for batch, images in side_by_side(resumed, rest):
        for mine, other in side_by_side(batch.image, images):
            np.testing.assert_array_equal(mine, other)
    with pytest.raises(dlpipe.MisuseError, match="another"):
        Loader(train, **{**options, "views": 2}).load_state_dict(state)


def test_views_that_make_no_sense_are_refused(train):
    for options, message in (
        ({"views": 0}, "views 0; use 1 to 64"),
        ({"views": 2, "mixup": 0.5, "dtype": "f32"}, "views 2 does not go with mixup, cutmix and grains"),
        ({"views": 2, "fields": ["image", "path"]}, "'path' has any number of rows"),
        ({"views": 2, "as_": "dlpack"}, "as_='dlpack'"),
        ({"views": True}, "views is True"),
    ):
        with pytest.raises(dlpipe.MisuseError, match=message):
            Loader(train, augment=CROP, **options)


def test_batches_are_named_tuples_of_arrays(train):
    loader = Loader(train, augment=CROP, batch=32, seed=1)
    assert len(loader) == 10
    assert loader.fields == ("image", "label")
    assert loader.samples == 320
    assert len(loader.classes) == 10
    seen = []
    for index, batch in enumerate(loader):
        images, labels = batch
        assert images is batch.image and labels is batch.label
        assert images.shape == (32, 24, 24, 3) and images.dtype == np.uint8
        assert labels.shape == (32,) and labels.dtype == np.int64
        assert (batch.epoch, batch.index, batch.last_in_epoch) == (0, index, index == 9)
        assert batch.weight.tolist() == [1.0] * 32
        assert batch.substitutions == []
        seen += batch.sample_ids.tolist()
    assert sorted(seen) == list(range(320))


def test_labels_are_those_of_the_samples(train):
    loader = Loader(train, augment="resize(16x16)", batch=20, train=False)
    by_id = {}
    for batch in loader:
        by_id.update(zip(batch.sample_ids.tolist(), batch.label.tolist()))
    again = Loader(train, augment=CROP, batch=20, seed=9)
    for batch in again:
        assert [by_id[i] for i in batch.sample_ids.tolist()] == batch.label.tolist()


def test_every_pass_is_the_next_epoch_and_another_order(train):
    loader = Loader(train, augment=CROP, batch=32, seed=1)
    epochs = [[batch.sample_ids.tolist() for batch in loader] for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    endless = Loader(train, augment=CROP, batch=32, seed=1, epochs=3)
    assert len(endless) == 30
    assert [batch.sample_ids.tolist() for batch in endless] == sum(epochs, [])


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads_and_slots(train):
    expected = batches_of(Loader(train, augment=CROP, batch=32, seed=7, threads=1, slots=1))
    for threads, slots in ((2, 3), (4, 2)):
        assert_same(batches_of(Loader(train, augment=CROP, batch=32, seed=7, threads=threads, slots=slots)),
                    expected)


def test_validation_is_every_sample_once_in_order_with_a_short_last_batch(train):
    loader = Loader(train, augment="resize(24x24)", batch=48, train=False)
    assert len(loader) == 7
    ids = [batch.sample_ids.tolist() for batch in loader]
    assert sum(ids, []) == list(range(320))
    assert len(ids[-1]) == 320 - 6 * 48
    for batch in loader:
        assert len(batch.image) == len(batch.label) == len(batch.weight)


def test_a_folder_of_splits_stands_for_its_training_data(splits, train):
    assert Loader(str(splits), augment=CROP).samples == Loader(train, augment=CROP).samples


def test_nchw_is_another_view_of_the_same_bytes(train):
    nhwc = batches_of(Loader(train, augment=CROP, batch=32, seed=1))
    for batch, (images, _, _) in side_by_side(Loader(train, augment=CROP, batch=32, seed=1, layout="NCHW"), nhwc):
        assert batch.image.shape == (32, 3, 24, 24)
        assert batch.image.strides == (24 * 24 * 3, 1, 24 * 3, 3)
        np.testing.assert_array_equal(batch.image.transpose(0, 2, 3, 1), images)


def test_grey(train):
    batch = next(iter(Loader(train, augment=CROP, channels=1)))
    assert batch.image.shape == (64, 24, 24, 1)


def test_limit_takes_a_part_by_the_seed(train):
    def ids(seed):
        loader = Loader(train, augment=CROP, batch=16, limit=64, seed=seed)
        assert len(loader) == 4
        return sorted(sum((batch.sample_ids.tolist() for batch in loader), []))

    assert ids(1) == ids(1) != ids(2)


def test_batches_are_pickled_with_copies_of_their_arrays(train):
    for batch in Loader(train, augment=CROP, batch=32):
        copy = pickle.loads(pickle.dumps(batch))
        assert type(copy).__name__ == "Batch" and copy._fields == batch._fields
        np.testing.assert_array_equal(copy.image, batch.image)
        assert not np.shares_memory(copy.image, batch.image)
        break


# --- places


@pytest.mark.parametrize("taken", [0, 3, 10, 14])
def test_goes_on_in_mid_epoch_on_other_threads(train, taken):
    def make(**options):
        return Loader(train, augment=CROP, batch=32, seed=3, **options)

    everything = batches_of(make(epochs=2))
    loader = make()
    left = taken
    while left > 0:
        left -= len(batches_of(loader, min(left, 10)))
    state = loader.state_dict()
    assert pickle.loads(pickle.dumps(state)) == state
    other = make(threads=3, slots=2)
    next(iter(other))
    other.load_state_dict(state)
    assert other.state_dict() == state
    rest = batches_of(other)
    assert_same(rest, everything[taken:taken + len(rest)])
    assert taken + len(rest) == (20 if taken >= 10 else 10)


def test_goes_on_in_another_process(train):
    loader = Loader(train, augment=CROP, batch=32, seed=3)
    batches_of(loader, 4)
    program = (
        "import dlpipe, sys\n"
        "loader = dlpipe.Loader(sys.argv[1], augment=sys.argv[2], batch=32, seed=3, threads=3)\n"
        "loader.load_state_dict(eval(sys.argv[3]))\n"
        "print([batch.sample_ids.tolist() for batch in loader], loader.state_dict()['chain'])\n"
    )
    state = loader.state_dict()
    said = subprocess.run([sys.executable, "-c", program, str(train), CROP, repr(state)], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    loader.load_state_dict(state)
    expected = [batch.sample_ids.tolist() for batch in loader]
    assert said.stdout == f"{expected} {loader.state_dict()['chain']}\n"


def test_a_pass_that_was_left_early_is_followed_by_the_next_epoch(train):
    loader = Loader(train, augment=CROP, batch=32)
    first = iter(loader)
    iter(loader)  # takes nothing: nothing is left out
    with pytest.raises(dlpipe.MisuseError, match="iterator ended"):
        next(first)
    for batch in loader:
        assert batch.epoch == 0
        break
    assert [batch.epoch for batch in loader] == [1] * 10


def test_set_epoch(train):
    loader = Loader(train, augment=CROP, batch=32, seed=2)
    expected = [batches_of(loader), batches_of(loader)]
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        assert_same(batches_of(loader), expected[epoch])


def test_a_state_of_another_loader_is_refused_and_nothing_is_lost(train):
    def make(seed):
        return Loader(train, augment=CROP, batch=32, seed=seed)

    expected = batches_of(make(1))
    loader = make(1)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    with pytest.raises(ValueError, match="seed"):
        loader.load_state_dict(make(2).state_dict())
    for wrong in ({}, {**loader.state_dict(), "epoch": "x"}, {**loader.state_dict(), "epoch": -4}):
        with pytest.raises(dlpipe.MisuseError):
            loader.load_state_dict(wrong)
    assert_same([(batch.image.copy(), batch.label.copy(), batch.sample_ids.copy()) for batch in iterator], expected[3:])


# --- ranks


@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_share_the_same_global_batches(train, world):
    whole = [batch.sample_ids.tolist() for batch in Loader(train, augment=CROP, batch=32, seed=4)]
    ranks = [Loader(train, augment=CROP, batch=32 // world, seed=4, rank=rank, world=world)
             for rank in range(world)]
    parts = [[batch.sample_ids.tolist() for batch in loader] for loader in ranks]
    assert [sum(joined, []) for joined in zip(*parts)] == whole


@pytest.mark.parametrize("world", [1, 2, 4])
def test_a_global_batch_is_the_same_for_every_world_size(train, world, monkeypatch):
    def rank_of(rank, world):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        return Loader(train, augment=CROP, global_batch=32, seed=4)

    alone = rank_of(0, 1)
    whole = batches_of(alone, 3)
    ranks = [rank_of(rank, world) for rank in range(world)]
    parts = [batches_of(loader, 3) for loader in ranks]
    assert {loader.batch_size for loader in ranks} == {32 // world} and {len(loader) for loader in ranks} == {10}
    joined = [tuple(np.concatenate(arrays) for arrays in zip(*batches)) for batches in zip(*parts)]
    assert_same(joined, whole)
    for loader in ranks:  # and goes on where a run of another size was
        loader.load_state_dict(alone.state_dict())
    parts = [batches_of(loader, 2) for loader in ranks]
    joined = [tuple(np.concatenate(arrays) for arrays in zip(*batches)) for batches in zip(*parts)]
    alone.load_state_dict(alone.state_dict())
    assert_same(joined, batches_of(alone, 2))


def test_a_global_batch_that_no_rank_can_take_a_part_of(train):
    with pytest.raises(dlpipe.MisuseError, match="global_batch 30 can't be shared out among 4 ranks evenly"):
        Loader(train, augment=CROP, global_batch=30, rank=0, world=4)
    with pytest.raises(dlpipe.MisuseError, match="batch 8 and global_batch 32"):
        Loader(train, augment=CROP, batch=8, global_batch=32)
    with pytest.raises(dlpipe.MisuseError, match="batch 0"):
        Loader(train, augment=CROP, global_batch=0)
    with pytest.raises(dlpipe.MisuseError, match="world 0"):
        Loader(train, augment=CROP, global_batch=32, rank=0, world=0)


def test_torchruns_environment_says_the_rank(train, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(Loader(train, augment=CROP, batch=32)) == 5
    assert len(Loader(train, augment=CROP, batch=32, rank=0, world=1)) == 10
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(dlpipe.MisuseError, match="rank 2"):
        Loader(train, augment=CROP, batch=32)
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(dlpipe.MisuseError, match="RANK"):
        Loader(train, augment=CROP, batch=32)


def test_jax_says_the_rank(train, monkeypatch):
    class Jax:
        class distributed:
            is_initialized = staticmethod(lambda: True)

        process_index = staticmethod(lambda: 1)
        process_count = staticmethod(lambda: 2)

    monkeypatch.setitem(sys.modules, "jax", Jax)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_same(batches_of(Loader(train, augment=CROP, batch=32)), batches_of(Loader(train, augment=CROP, batch=32, rank=1, world=2)))


# --- damaged samples


@pytest.fixture
def damaged(pictures, tmp_path):
    """A dataset of 20 samples whose samples 3 and 11 are damaged."""
    dlpipe.ingest(pictures, tmp_path / "d", limit=20)
    file = tmp_path / "d" / "data.mdb"
    data = bytearray(file.read_bytes())
    for path in [dlpipe.Dataset(tmp_path / "d")[i].path for i in (3, 11)]:
        data[data.find(path.encode())] ^= 1
    file.write_bytes(data)
    return tmp_path / "d"


def test_damaged_samples_are_replaced_dropped_or_stop_it(damaged):
    options = {"augment": CROP, "batch": 20, "shuffle": False}
    batch = next(iter(Loader(damaged, **options)))
    assert [one["bad_sample"] for one in batch.substitutions] == [3, 11]
    assert all(one["used_sample"] not in (3, 11) and one["reason"] for one in batch.substitutions)
    assert batch.weight.all()
    dropped = next(iter(Loader(damaged, on_bad="drop", **options)))
    assert np.flatnonzero(dropped.weight == 0).tolist() == [3, 11]
    assert not dropped.image[[3, 11]].any() and dropped.image[4].any()
    with pytest.raises(dlpipe.CorruptError, match="sample"):
        next(iter(Loader(damaged, on_bad="stop", **options)))
    with pytest.raises(dlpipe.Error, match="max.bad"):
        list(Loader(damaged, max_bad=0, **options))


def test_the_first_damaged_sample_is_told_once(damaged, train, caplog):
    options = {"augment": CROP, "batch": 4, "epochs": 2}
    list(Loader(train, augment=CROP, batch=32))
    assert caplog.text == ""
    for is_train, words in ((True, "another sample stands in for it"), (False, "a 0 in batch.weight")):
        caplog.clear()
        bad = sum(len(batch.substitutions) for batch in Loader(damaged, train=is_train, **options))
        assert bad >= 4
        [record] = caplog.records
        assert record.name == "dlpipe" and record.levelname == "WARNING"
        assert words in record.message and f"of {damaged} is damaged: " in record.message and "quarantine=FILE" in record.message


# --- errors


@pytest.mark.parametrize("options, kind, text", [
    ({"data": "no/such/dataset"}, FileNotFoundError, "no dataset no/such/dataset"),
    ({"augment": "rcc(24)"}, ValueError, "did you mean 'rrc'"),
    ({"augment": ""}, ValueError, "many sizes"),
    ({"batch": 0}, ValueError, "batch 0"),
    ({"batch": 1000}, ValueError, "fewer than one batch"),
    ({"slots": 0}, ValueError, "slots 0"),
    ({"slots": 4, "slots_max": 2}, ValueError, "slots_max 2"),
    ({"threads": -1}, ValueError, "threads -1"),
    ({"epochs": 0}, ValueError, "epochs 0"),
    ({"layout": "CHW"}, ValueError, "layout 'CHW'"),
    ({"as_": "tensorflow"}, ValueError, "as_ tensorflow; known: numpy, torch, jax, dlpack"),
    ({"on_bad": "ignore"}, ValueError, "on_bad ignore; known: substitute, drop, stop"),
    ({"rank": 1}, ValueError, "rank and world belong together"),
    ({"memory": 1 << 20}, MemoryError, "memory"),
    ({"batch": "32"}, ValueError, "batch is '32'; give a whole number"),
    ({"threads": True}, ValueError, "threads is True; give a whole number"),
    ({"seed": -1}, ValueError, "seed is -1; give a number from 0 on"),
    ({"seed": None}, ValueError, "seed is None; give a whole number"),
    ({"augment": ["rrc(24)", "hflip"]}, ValueError, "give a text, such as"),
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
    ({"on_bad": 3}, ValueError, "on_bad is 3; give a text"),
    ({"quarantine": 3}, ValueError, "quarantine is 3; give a path"),
    ({"transform": 5}, ValueError, "transform is 5; give a function"),
    ({"mean": "abc", "std": [0.5] * 3}, ValueError, "mean is 'abc'; give a number for each channel"),
    ({"mean": [0.5, None, 0.5], "std": [0.5] * 3}, ValueError, r"mean\[1\] is None; give a number"),
    ({"fields": [1]}, ValueError, r"fields\[0\] is 1; give a text"),
    ({"fields": ["image", "image"]}, ValueError, "fields names 'image' twice"),
    ({"device": 0}, ValueError, 'device is 0; give a text, such as "cpu"'),
    ({"mean": [0.5] * 3, "std": [0.5] * 3, "dtype": "u8"}, ValueError, "dtype 'u8' leaves pixels as they are"),
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
        (dlpipe.ingest, ("x", tmp_path / "d"), {"seed": -1}, "seed is -1; give a number from 0 on"),
        (dlpipe.ingest, ("x", tmp_path / "d"), {"manifest": 3}, "manifest is 3; give a path"),
        (dlpipe.from_dataset, ([], tmp_path / "d"), {"workers": "2"}, "workers is '2'; give a whole number"),
        (dlpipe.Writer, (tmp_path / "d",), {"source": 3}, "source is 3; give a text"),
        (dlpipe.Dataset, (train,), {"split": 3}, "split is 3; give a text"),
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
        (dlpipe.from_dataset, ([], tmp_path / "d"), {"classes": [1]}, r"classes\[0\] is 1; give a text"),
        (dlpipe.from_dataset, ([], tmp_path / "d"), {"workers": -1}, "workers is -1"),
        (dlpipe.train, (train,), {"on_step": 3}, "on_step is 3; give a function"),
        (dlpipe.Predictor, (None,), {}, "ckpt is None; give a path"),
        (dlpipe.Writer(tmp_path / "d").write, (), {"split": None}, "split is None; give a text"),
        (Loader(train, augment=CROP).doctor, ("a",), {}, "samples_per_s is 'a'; give a number"),
        (Loader(train, augment=CROP).doctor, (-3,), {}, "samples_per_s is -3"),
        (Loader(train, augment=CROP).doctor, (float("nan"),), {}, "samples_per_s is nan"),
        *((Loader(train, augment=CROP).set_epoch, (epoch,), {}, "epoch is .*give a") for epoch in (None, "1", 1.5, 2**63)),
    ]:
        with pytest.raises(dlpipe.MisuseError, match=text):
            function(*given, **options)


@pytest.mark.parametrize("function, option, near", [(dlpipe.Predictor, "bacth", "batch"), (dlpipe.evaluate, "splitt", "split")])
def test_the_nearest_option_is_named_by_all_functions(train, function, option, near):
    with pytest.raises(TypeError, match=f"no option '{option}'; did you mean '{near}'"):
        function("run", **{option: 3})


def test_a_framework_that_there_is_not_is_told_at_once(train, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(dlpipe.MisuseError, match="this Python has no jax"):
        Loader(train, augment=CROP, as_="jax")


@pytest.mark.parametrize("option, text", [
    ("batch_size", "no option 'batch_size': it is called batch"),
    ("num_workers", "no option 'num_workers': it is called threads"),
    ("augmnt", "did you mean augment"),
    ("xyzzy", "help\\(dlpipe.Loader\\) lists all"),
])
def test_an_option_of_another_name_is_pythons_own_error_and_says_what_to_do(train, option, text):
    with pytest.raises(TypeError, match=text):
        Loader(train, augment=CROP, **{option: 4})


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32")])
def test_dtypes_have_numpys_and_pytorchs_names_too(train, dtype):
    assert next(iter(Loader(train, augment=CROP, dtype=dtype))).image.dtype == np.float32


def test_the_dataset_of_a_loader(train):
    loader = Loader(train, augment=CROP, batch=32, rank=0, world=2)
    assert len(loader.dataset) == 320 and loader.samples == 160
    assert loader.dataset.classes == loader.classes


def test_paths_may_be_any_bytes(train, tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    os.symlink(train, folder)
    assert Loader(folder, augment=CROP).samples == 320
    with pytest.raises(FileNotFoundError, match="no dataset"):
        Loader(folder + "x")


def test_classes_may_be_called_by_any_bytes(pictures, tmp_path):
    for name, one in ((b"caf\xe9", "disc"), (b"ring", "ring")):
        shutil.copytree(pictures / one, tmp_path / "src" / os.fsdecode(name))
    dlpipe.ingest(tmp_path / "src", tmp_path / "d")
    assert Loader(tmp_path / "d", augment=CROP).classes == dlpipe.Dataset(tmp_path / "d").classes == ["caf\ufffd", "ring"]


def test_a_state_is_what_state_dict_answered(train):
    with pytest.raises(dlpipe.MisuseError, match="the state is NoneType; give what state_dict"):
        Loader(train, augment=CROP).load_state_dict(None)


def test_an_endless_loader_has_no_length(train):
    with pytest.raises(TypeError):
        len(Loader(train, augment=CROP, epochs=-1))


def test_a_loader_is_not_pickled_and_says_what_to_do(train):
    loader = Loader(train, augment=CROP)
    for copy_of in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="open one in each process"):
            copy_of(loader)


def test_a_transform_that_raises_stopiteration_does_not_end_the_epoch(train):
    loader = Loader(train, augment="rrc(24)", transform=lambda batch: next(iter(())))
    with pytest.raises(RuntimeError, match="transform raised StopIteration"):
        list(loader)


def test_ranks_of_validation_have_as_many_batches_and_every_sample_once(train):
    options = dict(augment="center_crop(24)", train=False, limit=30, batch=7, world=4)
    sizes = [[len(batch.label) for batch in Loader(train, rank=rank, **options)] for rank in range(4)]
    assert [len(of_rank) for of_rank in sizes] == [2] * 4
    assert sum(map(sum, sizes)) == 30 and min(map(min, sizes)) == 0


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
