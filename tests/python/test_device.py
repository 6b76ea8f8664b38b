"""Batches on a GPU, and for one. What needs no GPU is the DLPack protocol; tests/pipeline/feed_test.cpp holds the order of
streams on a simulated device."""

import dlpipe
import numpy as np
import pytest
from conftest import side_by_side

OPTIONS = {"augment": "rrc(24) hflip", "batch": 32, "seed": 1}


def expected(train, **options):
    return [(batch.image.copy(), batch.label.copy()) for batch in dlpipe.Loader(train, as_="numpy", **OPTIONS, **options)]


def has_gpu():
    torch = pytest.importorskip("torch")
    try:
        dlpipe.Loader("no/such/dataset", device="cuda", as_="torch")
    except dlpipe.NotFoundError as error:
        return torch.cuda.is_available() and "no dataset" in str(error)
    except dlpipe.UnsupportedError:  # built without CUDA
        return False


@pytest.fixture
def torch_with_gpu():
    if not has_gpu():
        pytest.skip("no GPU, or built without CUDA")
    return pytest.importorskip("torch")


def test_any_library_takes_the_dlpack_protocol(train):
    for batch, (images, labels) in side_by_side(dlpipe.Loader(train, as_="dlpack", **OPTIONS), expected(train)):
        assert batch.image.__dlpack_device__() == (1, 0)
        taken = np.from_dlpack(batch.image)
        np.testing.assert_array_equal(taken, images)
        np.testing.assert_array_equal(np.from_dlpack(batch.label), labels)
        assert np.shares_memory(taken, np.from_dlpack(batch.image))
        with pytest.raises(BufferError, match="the batch is on the CPU"):
            batch.image.__dlpack__(stream=1)
        with pytest.raises(BufferError, match="give the stream that reads"):
            batch.image.__dlpack__(stream=0)


def test_an_array_of_the_protocol_keeps_its_batch(train):
    loader = dlpipe.Loader(train, as_="dlpack", slots=2, **OPTIONS)
    first = next(iter(loader))
    taken = np.from_dlpack(first.image)
    copy = taken.copy()
    del first
    assert sum(1 for _ in loader) == 10
    assert loader.held == 1
    np.testing.assert_array_equal(taken, copy)
    del taken
    assert loader.held == 0
    loader.set_epoch(0)
    kept = [np.from_dlpack(batch.label) for batch in loader]
    assert loader.held == 0  # labels are copies
    for mine, (_, labels) in side_by_side(kept, expected(train)):
        np.testing.assert_array_equal(mine, labels)


@pytest.mark.parametrize("options, words", [
    ({"device": "gpu"}, "unknown device 'gpu'; use cpu, cuda or cuda:N"),
    ({"device": "cuda"}, "built without CUDA|no CUDA device|NumPy has no arrays on device 'cuda'"),
    ({"pin_memory": True}, "built without CUDA|no CUDA device|pin_memory is for copies on PyTorch's stream"),
    ({"device": "cuda", "pin_memory": True}, "built without CUDA|no CUDA device|pin_memory is for CPU batches"),
])  # fmt: skip
def test_what_cannot_be(train, options, words):
    with pytest.raises(dlpipe.Error, match=words):
        dlpipe.Loader(train, as_="numpy", **OPTIONS, **options)


@pytest.mark.parametrize("dtype", ["u8", "f16"])
def test_batches_on_a_gpu_are_the_cpus(train, torch_with_gpu, dtype):
    torch = torch_with_gpu
    stream = torch.cuda.Stream()
    loader = dlpipe.Loader(train, device="cuda", as_="torch", dtype=dtype, slots=2, **OPTIONS)
    sums = []
    with torch.cuda.stream(stream):
        for batch in loader:
            assert batch.image.is_cuda and batch.label.is_cuda
            sums.append((batch.image.clone(), batch.label.clone()))  # after the copy, and before the memory is filled again
    torch.cuda.synchronize()
    for (image, label), (images, labels) in side_by_side(sums, expected(train, dtype=dtype)):
        np.testing.assert_array_equal(image.cpu().numpy(), images)
        np.testing.assert_array_equal(label.cpu().numpy(), labels)
    assert len(sums) == 10


def test_a_page_locked_batch_waits_for_the_copy_of_it(train, torch_with_gpu):
    torch = torch_with_gpu
    slow = torch.randn(4096, 4096, device="cuda")
    loader = dlpipe.Loader(train, pin_memory=True, as_="torch", slots=2, **OPTIONS)
    copies = []
    for images, _ in loader:
        assert images.is_pinned()
        slow = slow @ slow / 4096  # the copy comes late
        copies.append(images.to("cuda", non_blocking=True))
        del images
    torch.cuda.synchronize()
    for copy, (images, _) in side_by_side(copies, expected(train)):
        np.testing.assert_array_equal(copy.cpu().numpy(), images)
