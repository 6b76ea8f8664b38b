"""Fields of any name, in batches and in samples."""

import itertools
import pickle

import dlpipe
import numpy as np
import pytest
from conftest import side_by_side

# what Python or the tuple uses itself, and what is no attribute
FIELDS = {"image": "image", "class": "label", "weight": "f32", "index": "i64", "count": "i64", "a-b": "i64", "a_b": "i64",
          "_fields": "i64", "3d": "i64", "größe": "i64", "to_pil": "i64"}  # fmt: skip
BATCH_NAMES = ("image", "class_", "weight_", "index_", "count_", "a_b", "a_b_", "fields", "field_3d", "größe", "to_pil")


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    directory = tmp_path_factory.mktemp("odd") / "d"
    with dlpipe.Writer(directory, fields=FIELDS) as writer:
        for i in range(8):
            numbers = {name: 100 * place + i for place, name in enumerate(FIELDS) if FIELDS[name] in ("f32", "i64")}
            writer.write({"image": np.full((4, 4, 3), i, np.uint8), "class": "ab"[i % 2], **numbers})
    return directory


def test_batches(odd):
    loader = dlpipe.Loader(odd, batch=4, train=False, as_="numpy")
    assert loader.fields == tuple(FIELDS)
    batch = list(loader)[1]
    assert batch._fields == BATCH_NAMES
    assert batch.class_.tolist() == batch["class"].tolist() == batch[1].tolist() == [0, 1, 0, 1]
    assert batch.weight.tolist() == [1.0] * 4  # what every batch has stays that
    assert batch["weight"].tolist() == batch.weight_.tolist() == [204, 205, 206, 207]
    assert batch.index == 1 and batch["index"].shape == (4,) and batch["index"][0] == 304
    assert [batch["a-b"][0], batch["a_b"][0], batch["_fields"][0], batch["3d"][0]] == [504, 604, 704, 804]
    assert tuple(batch._asdict()) == tuple(FIELDS)
    with pytest.raises(KeyError, match="no field 'b'; the fields are image, class, weight"):
        batch["b"]
    with pytest.raises(AttributeError, match="the batch has no 'b'; its fields are image, class_"):
        batch.b
    copy = pickle.loads(pickle.dumps(batch))
    assert isinstance(copy, dlpipe.Batch) and copy._fields == BATCH_NAMES and copy["3d"].tolist() == batch["3d"].tolist()
    assert not hasattr(copy, "weight")  # a copy has the fields alone
    with pytest.raises(AttributeError, match="this is a copy of a batch, which has the fields only"):
        copy.epoch
    replaced = batch._replace(class_=None)
    assert replaced["class"] is None and replaced[2] is batch[2]


def test_samples(odd):
    samples = dlpipe.Dataset(odd)
    assert samples.fields == tuple(FIELDS)
    sample = samples[5]
    assert sample["class"] == sample.class_ == 1 and sample["weight"] == sample.weight == 205
    assert sample["to_pil"] == sample.to_pil_ == 1005 and sample["a-b"] == sample.a_b == 505
    copy = pickle.loads(pickle.dumps(sample))
    assert isinstance(copy, dlpipe.Sample) and copy._fields == sample._fields and copy["count"] == 405


def test_a_field_that_is_called_as_what_mixing_adds(tmp_path):
    with dlpipe.Writer(tmp_path / "d", fields={"image": "image", "label": "label", "lam": "text"}) as writer:
        for i in range(8):
            writer.write(image=np.full((4, 4, 3), i, np.uint8), label=i % 2, lam=str(i))
    with pytest.raises(dlpipe.MisuseError, match="two fields are called 'lam'"):
        dlpipe.Loader(tmp_path / "d", batch=4, dtype="f32", mixup=0.2, as_="numpy")


def test_unpacking_another_number_of_fields_names_them(odd):
    batch = next(iter(dlpipe.Loader(odd, batch=4, as_="numpy", fields=["image", "class", "a_b"])))
    with pytest.raises(ValueError, match=r"too many values to unpack \(expected 2\): a Batch here has image, class, a_b; .*fields="):
        for _images, _labels in [batch]:
            pass
    with pytest.raises(ValueError, match=r"not enough values to unpack \(expected 4, got 3\): a Batch here has image, class"):
        _one, _two, _three, _four = batch
    images, labels, numbers = batch
    assert images is batch.image and labels is batch["class"] and numbers is batch.a_b
    images, *others = batch
    assert len(others) == 2
    assert list(batch)[0] is batch.image and tuple(batch)[1] is labels and [one for one in batch][2] is numbers
    for images, labels in dlpipe.Loader(odd, batch=4, as_="numpy", fields=["image", "class"]):
        assert images.shape == (4, 4, 4, 3) and labels.shape == (4,)
    with pytest.raises(ValueError, match="too many values .*a Sample here has image, class, weight, .*; access them by name: sample.image"):
        _image, _label = dlpipe.Dataset(odd)[0]


@pytest.mark.parametrize("fields", [["a_b", "image", "index", "count", "class"], ["class", "image"]])
def test_fields_stand_in_the_order_that_was_asked_for(odd, fields):
    whole = dlpipe.Loader(odd, batch=4, seed=2, as_="numpy")
    loader = dlpipe.Loader(odd, batch=4, seed=2, as_="numpy", fields=fields)
    assert loader.fields == tuple(fields)
    for batch, all_of_it in side_by_side(loader, whole):
        for values, name in side_by_side(batch, fields):
            np.testing.assert_array_equal(values, all_of_it[name])
    other_way_round = dlpipe.Loader(odd, batch=4, seed=2, as_="numpy", fields=fields[::-1])
    other_way_round.load_state_dict(loader.state_dict())  # the samples are the same


def test_what_mixing_adds_stands_behind_the_fields(odd):
    loader = dlpipe.Loader(odd, batch=4, as_="numpy", fields=["class", "image"], dtype="f32", mixup=0.2)
    labels, images, partners, shares = next(iter(loader))
    assert loader.fields == ("class", "image", "partner_label", "lam")
    assert labels.shape == partners.shape == shares.shape == (4,) and images.shape == (4, 4, 4, 3)


def test_views_of_fields_in_another_order(odd):
    labels, (one, two) = next(iter(dlpipe.Loader(odd, batch=4, views=2, as_="numpy", fields=["class", "image"])))
    assert labels.shape == (4,) and one.shape == two.shape == (4, 4, 4, 3)


def test_unpacking_what_iterates_over_batches_is_no_unpacking_of_one(odd):
    loader = dlpipe.Loader(odd, batch=4, as_="numpy", fields=["image", "class", "a_b"])
    batch = next(iter(loader))
    one, other = map(list, [batch, batch])
    assert one[0] is other[0] is batch.image
    lists = map(list, [batch, batch])
    one, other = lists
    assert one[1] is other[1] is batch[1]
    (one, other), _ = map(list, [batch, batch]), None
    assert len(one) == len(other) == 3
    *six, = itertools.chain(batch, batch)
    a, b, c, d, e, f = itertools.chain(*[batch, batch])
    assert all(x is y for x, y in zip(six, (a, b, c, d, e, f)))
    for _, (_images, _labels, _numbers) in enumerate([batch]):
        pass
    with pytest.raises(ValueError, match="too many values .*a Batch here has image, class, a_b"):
        for _, (_images, _labels) in enumerate([batch]):
            pass
    with pytest.raises(ValueError, match=r"too many values to unpack \(expected 2"):  # Python's own
        _images, _labels = next(iter(loader))
