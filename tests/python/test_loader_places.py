"""Where a loader stands, and which part of the batches is a rank's."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from loaders import CROP, Loader, assert_same, batches_of

import dlpipe


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


def test_a_state_is_what_state_dict_answered(train):
    with pytest.raises(dlpipe.MisuseError, match="the state is NoneType; give what state_dict"):
        Loader(train, augment=CROP).load_state_dict(None)


def test_ranks_of_validation_have_as_many_batches_and_every_sample_once(train):
    options = dict(augment="center_crop(24)", train=False, limit=30, batch=7, world=4)
    sizes = [[len(batch.label) for batch in Loader(train, rank=rank, **options)] for rank in range(4)]
    assert [len(of_rank) for of_rank in sizes] == [2] * 4
    assert sum(map(sum, sizes)) == 30 and min(map(min, sizes)) == 0
