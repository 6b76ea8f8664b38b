"""Pixels as normalised numbers, mixed samples, and the user's own steps."""

import numpy as np
import pytest

import dlpipe

CROP = "rrc(24) hflip"
TOLERANCE = {"f32": 2e-6, "f16": 2e-3, "bf16": 2e-2}  # rounding of numbers below 4 to 23, 10 and 7 bits


def loader_of(data, **options):
    return dlpipe.Loader(data, **{"as_": "numpy", "augment": CROP, "batch": 32, "seed": 1, **options})


@pytest.mark.parametrize("dtype, kind", [("f32", np.float32), ("f16", np.float16)])
@pytest.mark.parametrize("given", [None, ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
def test_numbers_are_the_normalised_bytes(train, dtype, kind, given):
    options = {} if given is None else {"mean": given[0], "std": given[1]}
    numbers = loader_of(train, dtype=dtype, **options)
    mean, std = given or numbers.mean_std
    assert numbers.mean_std == loader_of(train).mean_std
    for batch, bytes_ in zip(numbers, loader_of(train)):
        assert batch.image.dtype == kind
        assert batch.sample_ids.tolist() == bytes_.sample_ids.tolist()
        expected = (bytes_.image / 255.0 - np.array(mean)) / np.array(std)
        np.testing.assert_allclose(batch.image, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_bf16_is_torchs(train):
    torch = pytest.importorskip("torch")
    numbers = loader_of(train, dtype="bf16", as_="torch", layout="NCHW")
    for batch, exact in zip(numbers, loader_of(train, dtype="f32", as_="torch", layout="NCHW")):
        assert batch.image.dtype == torch.bfloat16
        assert batch.image.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(batch.image, exact.image.bfloat16())


def test_bf16_is_jaxs(train):
    jax = pytest.importorskip("jax")
    batch = next(iter(loader_of(train, dtype="bf16", as_="jax")))
    exact = next(iter(loader_of(train, dtype="f32", as_="jax")))
    assert batch.image.dtype == jax.numpy.bfloat16
    assert (batch.image == exact.image.astype(jax.numpy.bfloat16)).all()


def test_mixup_gives_pairs_of_labels_and_their_weight(train):
    plain = loader_of(train, dtype="f32")
    mixed = loader_of(train, dtype="f32", mixup=0.4)
    assert mixed.fields == ("image", "label", "partner_label", "lam")
    for batch, own in zip(mixed, plain):
        images, labels, partners, lam = batch
        assert labels.tolist() == own.label.tolist()
        assert partners.dtype == np.int64 and lam.dtype == np.float32
        assert ((0 <= lam) & (lam <= 1)).all()
        # each is lam of itself and 1 - lam of one other sample of the batch
        for i in range(len(images)):
            rest = images[i] - lam[i] * own.image[i]
            candidates = [np.abs(rest - (1 - lam[i]) * other).max() for other in own.image]
            assert min(candidates) < 1e-4
            assert partners[i] in own.label[np.array(candidates) < 1e-4]


def test_cutmix_pastes_a_box(train):
    for batch, own in zip(loader_of(train, dtype="f32", cutmix=1.0), loader_of(train, dtype="f32")):
        for i in range(len(batch.image)):
            share = (batch.image[i] == own.image[i]).all(-1).mean()
            assert share >= batch.lam[i] - 1e-6


@pytest.mark.parametrize("options, text", [
    ({"dtype": "f64"}, "dtype f64"),
    ({"dtype": "float"}, "dtype"),
    ({"dtype": "bf16"}, "NumPy has no bf16"),
    ({"mixup": 0.2}, "set dtype"),
    ({"mean": (0.5, 0.5, 0.5)}, "mean and std"),
    ({"mean": (0.5, 0.5), "std": (1, 1), "dtype": "f32"}, "normalize"),
    ({"mixup": -1, "dtype": "f32"}, "mixup -1"),
])
def test_what_cannot_be_is_refused(train, options, text):
    with pytest.raises(ValueError, match=text):
        loader_of(train, **options)
