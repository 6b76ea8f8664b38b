"""Where a loader stands, and which part of the batches is a rank's."""

import itertools
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


# --- places by the epochs of another program


def lightnings_epochs(loader, epochs, *, state=None, limit=None):
    """The first image of each batch, by the calls of Lightning's fit loop for `epochs`. It makes the iterator of the first one
    before it reports the epoch. Only for a checkpoint within an epoch it loads the state."""
    if state is not None:
        loader.load_state_dict(state)
    iterator = iter(loader)
    seen = []
    for number, epoch in enumerate(epochs):
        loader.batch_sampler.sampler.set_epoch(epoch)
        if number > 0:
            iterator = iter(loader)
        part = [batch.image[0].tobytes() for batch in itertools.islice(iterator, limit)]
        seen.append(part)
    return seen


@pytest.mark.parametrize("options", [{}, {"epochs": 2}, {"drop_last": False, "batch": 48}, {"sampler": "balanced"},
                                     {"rank": 1, "world": 2}])  # fmt: skip
def test_a_programs_epochs_are_those_of_one_run(train, options):
    def make():
        return Loader(train, **{"augment": CROP, "batch": 32, "seed": 3, **options})

    whole = lightnings_epochs(make(), range(4))
    assert len({tuple(part) for part in whole}) == 4
    for first in (1, 3):
        assert lightnings_epochs(make(), range(first, 4)) == whole[first:]
    loader = make()
    assert whole == [[batch.image[0].tobytes() for batch in loader] for _ in range(4)]


def test_a_programs_epoch_keeps_the_position_within_it(train):
    def make(**options):
        return Loader(train, augment=CROP, batch=32, seed=3, **options)

    for epochs in (1, 2):
        whole = lightnings_epochs(make(epochs=epochs), range(3))
        loader = make(epochs=epochs)
        lightnings_epochs(loader, [0])
        batches_of(loader, 7)  # of the second epoch
        state = loader.state_dict()
        resumed = lightnings_epochs(make(epochs=epochs), [1, 2], state=state)
        # The state is within a dlpipe epoch: what is left of the `for` that it was saved in isn't known, as without a program.
        assert resumed[0][:10 - 7] == whole[1][7:10]
        assert resumed[1] == whole[2]


def test_a_programs_partial_epochs_are_repeatable(train):
    def make():
        return Loader(train, augment=CROP, batch=32, seed=3)

    whole = lightnings_epochs(make(), range(3), limit=4)
    assert lightnings_epochs(make(), [2], limit=4) == whole[2:]
    loader = make()
    assert lightnings_epochs(loader, [0], limit=4) == lightnings_epochs(loader, [0], limit=4) == whole[:1]


def test_what_programs_ask_of_a_batch_sampler(train):
    loader = Loader(train, augment=CROP, batch=32)
    assert loader.batch_sampler.batch_size == 32 and loader.batch_sampler.drop_last is True
    assert not hasattr(loader, "sampler")  # Lightning would replace one that isn't PyTorch's
    with pytest.raises(TypeError):
        iter(loader.batch_sampler)
    for wrong in (-1, "1", 1.5):
        with pytest.raises(dlpipe.MisuseError, match="epoch"):
            loader.batch_sampler.sampler.set_epoch(wrong)


def test_a_programs_epoch_of_an_endless_loader(train, caplog):
    loader = Loader(train, augment=CROP, batch=32, seed=3, epochs=-1)
    whole = lightnings_epochs(loader, range(3), limit=4)
    assert not caplog.records
    endless = Loader(train, augment=CROP, batch=32, seed=3, epochs=-1)
    assert sum(whole, []) == [image[0].tobytes() for image, *_ in batches_of(endless, 12)]
    loader = Loader(train, augment=CROP, batch=32, seed=3, epochs=-1)
    lightnings_epochs(loader, [2], limit=4)
    assert "epochs=-1" in caplog.text and "load_state_dict" in caplog.text


#: What Lightning's CombinedLoader does. The module's name matters.
COMBINED_LOADER = """
class CombinedLoader:
    def __init__(self, loaders, limits):
        self.flattened, self.limits = loaders, limits

    def _state_dicts(self):
        return [loader.state_dict() for loader in self.flattened]
"""


@pytest.mark.parametrize("epochs, limits, warns", [(-1, None, True), (-1, [float("inf")], True), (-1, [100], False), (2, None, False)])
def test_a_program_that_reads_ahead_is_warned(train, caplog, epochs, limits, warns):
    module = {"__name__": "lightning.pytorch.utilities.combined_loader"}
    exec(COMBINED_LOADER, module)
    loader = Loader(train, augment=CROP, batch=32, epochs=epochs)
    combined = module["CombinedLoader"]([loader], limits)
    for _ in range(2):
        assert combined._state_dicts() == [loader.state_dict()]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warns
    assert ("epochs=N" in caplog.text) == warns


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


@pytest.mark.parametrize("mixing", [{"mixup": 0.3}, {"cutmix": 1.0}])
def test_each_rank_mixes_only_its_own_samples(train, mixing):
    def rank_of(rank, world):
        return Loader(train, augment=CROP, global_batch=32, dtype="f32", seed=4, rank=rank, world=world, **mixing)

    alone, ranks = rank_of(0, 1), [rank_of(rank, 2) for rank in range(2)]
    whole, parts = next(iter(alone)), [next(iter(loader)) for loader in ranks]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("sample_ids", "label", "lam", "image")}
    for name in ("sample_ids", "label", "lam"):
        np.testing.assert_array_equal(joined[name], getattr(whole, name))
    assert not np.array_equal(joined["image"], whole.image)  # the partners are others
    with pytest.raises(dlpipe.MisuseError, match=r"keep everything .* world \(each rank mixes only its own samples\)"):
        alone.load_state_dict(ranks[0].state_dict())


def test_a_global_batch_that_no_rank_can_take_a_part_of(train):
    with pytest.raises(dlpipe.MisuseError, match="global_batch 30 can't be divided evenly among 4 ranks"):
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
    loader = Loader(train, augment=CROP, batch=32)
    assert len(loader) == 5
    assert len(Loader(train, augment=CROP, batch=32, rank=0, world=1)) == 10
    monkeypatch.setenv("RANK", "0")  # a later one is of other loaders
    assert_same(batches_of(loader, 2), batches_of(Loader(train, augment=CROP, batch=32, rank=1, world=2), 2))
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
    sizes = [[len(batch.label) for batch in Loader(train, rank=rank, pad_last=False, **options)] for rank in range(4)]
    assert [len(of_rank) for of_rank in sizes] == [2] * 4
    assert sum(map(sum, sizes)) == 30 and min(map(min, sizes)) == 0
    batches = [(batch.sample_ids, batch.weight) for rank in range(4) for batch in Loader(train, rank=rank, **options)]
    assert [len(ids) for ids, _ in batches] == [7, 1] * 4  # the default: no rank's is empty
    whole = [batch.sample_ids.tolist() for batch in Loader(train, augment="center_crop(24)", train=False, limit=30, batch=28)]
    assert sorted(np.concatenate([ids[weight == 1] for ids, weight in batches])) == sum(whole, [])


class Group:
    """What torch.distributed says, without torch."""

    def __init__(self, monkeypatch):
        self.rank_and_world = None
        monkeypatch.setitem(sys.modules, "torch", self)
        monkeypatch.setitem(sys.modules, "jax", None)

    distributed = property(lambda self: self)
    is_available = staticmethod(lambda: True)

    def is_initialized(self):
        return self.rank_and_world is not None

    def get_rank(self):
        return self.rank_and_world[0]

    def get_world_size(self):
        return self.rank_and_world[1]


@pytest.mark.parametrize("options", [{}, {"drop_last": False}, {"train": False}, {"train": False, "pad_last": False}, {"train": False, "views": 2}])
@pytest.mark.parametrize("world", [2, 3])
def test_the_samples_of_a_rank_are_those_that_count(train, options, world):
    ranks = [Loader(train, **{"augment": CROP, "batch": 16, "limit": 103, "rank": rank, "world": world, **options}) for rank in range(world)]
    total = 0
    for loader in ranks:
        counted = sum(int((batch.weight > 0).sum()) for batch in loader)
        assert loader.samples == counted
        total += counted
    assert total == (103 // (16 * world) * 16 * world if options == {} else 103)


def test_the_rank_is_decided_at_the_first_batch(train, monkeypatch):
    group = Group(monkeypatch)
    expected = batches_of(Loader(train, augment=CROP, batch=32, seed=4, rank=1, world=2))
    for prepare in (lambda loader: None, iter, lambda loader: loader.load_state_dict(loader.state_dict())):
        group.rank_and_world = None
        loader = Loader(train, augment=CROP, batch=32, seed=4)
        assert len(loader) == 10
        prepare(loader)
        group.rank_and_world = (1, 2)
        assert len(loader) == 5 and loader.samples == 160
        assert_same(batches_of(loader), expected)
    group.rank_and_world = None
    loader = Loader(train, augment=CROP, global_batch=64, seed=4)
    iterator = iter(loader)
    loader.set_epoch(0)
    group.rank_and_world = (1, 2)
    assert loader.batch_size == 64  # nobody has asked yet
    np.testing.assert_array_equal(next(iter(loader)).image, expected[0][0])
    assert loader.batch_size == 32
    with pytest.raises(dlpipe.MisuseError, match="iterator ended|closed"):
        next(iterator)


def test_an_iterator_of_before_the_group_takes_the_ranks_batches(train, monkeypatch):
    group = Group(monkeypatch)
    iterator = iter(Loader(train, augment=CROP, batch=32, seed=4))
    group.rank_and_world = (0, 2)
    assert [batch.sample_ids.tolist() for batch in iterator] == [
        batch.sample_ids.tolist() for batch in Loader(train, augment=CROP, batch=32, seed=4, rank=0, world=2)]


def test_a_group_that_comes_after_batches_is_an_error(train, monkeypatch):
    group = Group(monkeypatch)
    loader, of_a_rank = Loader(train, augment=CROP, batch=32), Loader(train, augment=CROP, batch=32, rank=0, world=1)
    running = iter(loader)
    for one in (running, iter(of_a_rank)):
        next(one)
    group.rank_and_world = (0, 1)  # a group of one changes nothing
    next(running)
    group.rank_and_world = (1, 2)
    for use in (iter, len, lambda one: one.state_dict(), lambda one: next(running)):
        with pytest.raises(dlpipe.MisuseError, match="as rank 0 of 1, and now this process is rank 1 of 2; .*init_process_group.*rank="):
            use(loader)
    assert len(of_a_rank) == 10  # it was told


# --- a part of the samples


def ids_of(loader):
    return sorted(sum((batch.sample_ids.tolist() for batch in loader), []))


def test_samples_are_chosen_by_number_mask_and_class(train):
    dataset = dlpipe.Dataset(train)
    second = dataset.labels == 1
    wanted = np.flatnonzero(second).tolist()
    options = dict(augment=CROP, batch=8, drop_last=False)
    for chosen in ({"subset": second}, {"subset": wanted}, {"subset": np.array(wanted[::-1])}, {"subset": [dataset.classes[1]]},
                   {"subset": np.array([dataset.classes[1]])}, {"subset": np.array([dataset.classes[1]], object)}, {"subset": np.where(second)},
                   {"data": dataset[second]}, {"data": dataset, "subset": second}, {"data": train.parent, "subset": second}):
        loader = Loader(**{"data": train, **options, **chosen})
        assert ids_of(loader) == wanted and loader.samples == len(wanted) == len(loader.dataset)
        assert [loader.dataset[i].label for i in (0, -1)] == [dataset.labels[wanted[0]]] * 2
    assert ids_of(Loader(dataset[second], subset=slice(0, 4), **options)) == wanted[:4]
    assert ids_of(Loader(train, subset=[5, 5, 7], **options)) == [5, 5, 7]
    assert ids_of(Loader(dataset, **options)) == list(range(320))
    orders = [[batch.sample_ids.tolist() for batch in loader] for loader in [Loader(train, subset=wanted, **options)] for _ in range(2)]
    assert orders[0] != orders[1]


def test_torchs_subsets_are_parts(train):
    data = pytest.importorskip("torch.utils.data")
    dataset = dlpipe.Dataset(train)
    options = dict(augment=CROP, batch=8, drop_last=False)
    drawn, rest = data.random_split(dataset, [0.25, 0.75])
    assert ids_of(Loader(drawn, **options)) == sorted(drawn.indices) and ids_of(Loader(rest, **options)) == sorted(rest.indices)
    within = data.Subset(data.Subset(dataset[100:], np.arange(50)), [3, 4])
    assert ids_of(Loader(within, **options)) == [103, 104] and ids_of(Loader(within, subset=[1], **options)) == [104]
    with pytest.raises(dlpipe.MisuseError, match="data is Subset; .*from_dataset"):
        Loader(data.Subset([1, 2], [0]), **options)


def test_chosen_samples_go_on_and_are_shared_out(train):
    options = dict(augment=CROP, subset=range(10, 90, 2), seed=6)
    whole = batches_of(Loader(train, batch=8, **options))
    ranks = [batches_of(Loader(train, batch=4, rank=rank, world=2, **options)) for rank in range(2)]
    assert_same([tuple(np.concatenate(arrays) for arrays in zip(*batches)) for batches in zip(*ranks)], whole)
    loader = Loader(train, batch=8, **options)
    batches_of(loader, 2)
    other = Loader(train, batch=8, threads=3, **options)
    other.load_state_dict(loader.state_dict())
    assert_same(batches_of(other), whole[2:])
    with pytest.raises(dlpipe.MisuseError, match="chosen samples"):
        Loader(train, batch=8, **{**options, "subset": range(11, 91, 2)}).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("subset, text", [
    ([320], "sample 320 of a dataset of 320"), ([], "no sample of .* is chosen"), ([True, False], "a mask has one bool for each"),
    (["rign"], "no class 'rign' among 10; did you mean 'ring'"), (3, "the index is 3; give"), ("ring", "the index is 'ring'; give"),
    ("ring", r"such as \['ring'\]"), (np.array(["rign"]), "no class 'rign' among 10; did you mean 'ring'"),
    (np.ones((2, 2)).nonzero(), "give a whole number"),
])  # fmt: skip
def test_what_is_no_part_of_a_dataset(train, subset, text):
    with pytest.raises((dlpipe.MisuseError, IndexError), match=text):
        Loader(train, augment=CROP, subset=subset)
