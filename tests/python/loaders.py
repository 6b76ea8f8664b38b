"""Loaders of NumPy's arrays and their batches, for the tests of what loaders give."""

import numpy as np

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
