"""What a loader gives, in NumPy's arrays."""

import itertools
import os
import pickle
import shutil

import numpy as np
import pytest
from conftest import side_by_side
from loaders import CROP, Loader, assert_same, batches_of

import dlpipe


def test_a_printed_loader_says_what_it_reads(train):
    loader = dlpipe.Loader(train, augment="rrc(16)", batch=40)
    said = f"dlpipe.Loader({str(train)!r}): 320 samples in batches of 40"
    assert repr(loader) == said
    loader.close()
    assert repr(loader) == said


def test_views_are_lists_of_images_of_the_same_samples(train):
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
        ({"views": 2, "mixup": 0.5, "dtype": "f32"}, "views 2 does not work with mixup, cutmix and grains"),
        ({"views": 2, "fields": ["image", "path"]}, "'path' has a variable length"),
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


def test_the_dataset_of_a_loader(train):
    loader = Loader(train, augment=CROP, batch=32, rank=0, world=2)
    assert len(loader.dataset) == 320 and loader.samples == 160
    part = Loader(train, augment=CROP, batch=32, limit=50, seed=3, drop_last=False)
    assert len(part.dataset) == part.samples == 50
    assert sorted(part.dataset[i].label for i in range(50)) == sorted(label for batch in part for label in batch.label.tolist())
    assert loader.dataset.classes == loader.classes


def test_paths_may_be_any_bytes(train, tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    os.symlink(train, folder)
    assert Loader(folder, augment=CROP).samples == 320
    with pytest.raises(FileNotFoundError, match="no dataset"):
        Loader(folder + "x")


def test_classes_may_be_called_by_any_bytes(images, tmp_path):
    for name, one in ((b"caf\xe9", "disc"), (b"ring", "ring")):
        shutil.copytree(images / one, tmp_path / "src" / os.fsdecode(name))
    dlpipe.ingest(tmp_path / "src", tmp_path / "d")
    assert Loader(tmp_path / "d", augment=CROP).classes == dlpipe.Dataset(tmp_path / "d").classes == ["caf\ufffd", "ring"]


def test_an_endless_loader_has_no_length(train):
    with pytest.raises(TypeError):
        len(Loader(train, augment=CROP, epochs=-1))
