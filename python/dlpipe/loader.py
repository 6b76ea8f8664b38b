"""The loader: batches of a dataset for any training loop."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from dlpipe import _dlpipe
from dlpipe.batch import Batch, Ragged, batch_type, lend
from dlpipe.errors import Error, MisuseError
from dlpipe.kinds import Augment, kinds_checked
from dlpipe.loader_options import (
    advise_on_options,
    check_fields,
    check_framework,
    check_on_bad,
    check_transform,
    chosen_dtype,
    chosen_samples,
    device_name,
    framework_of_caller,
    normalize_op,
)
from dlpipe.loader_report import Timed, doctor_text
from dlpipe.paths import Path
from dlpipe.ranks import batch_of_rank, find_rank, rank_of_group
from dlpipe.views import lend_views

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dlpipe.dataset import Chosen, Dataset

    class TorchsSubset(Protocol):
        """torch.utils.data.Subset."""

        dataset: Any
        indices: Sequence[int]

_open: weakref.WeakSet[Loader] = weakref.WeakSet()


def _close_all():
    for loader in list(_open):
        loader.close()


atexit.register(_dlpipe.end, _close_all)


class Loader:
    """Batches of a dataset that `dlpipe ingest` made, decoded and augmented on threads of its own.

    Each `for` over a loader is one epoch, in an order of its own (`epochs` of them if given). Batches are named tuples of
    the dataset's fields, `image` and `label` for pictures, as arrays over the memory that they were made in:

    - image: uint8 [batch, height, width, channels], or with `dtype` float32, float16 or bfloat16, normalised
    - label: int64 [batch]
    - numbers: [batch], one value per sample; other arrays of one size: [batch, ...]
    - masks: uint8 [batch, height, width], moved with their pictures
    - what has any number of rows in each sample, such as boxes, points, labels and texts: a dlpipe.Ragged, values of all
      samples below each other and offsets; boxes and points have moved with their pictures
    - with mixup or cutmix, partner_label: int64 [batch], whom each sample was mixed with, and lam: float32 [batch], the
      weight of its own label (1 - lam is the partner's)

    That memory is yours until the last array and the last view of it are gone; then the next batch is made there. Keep
    as many batches as fit half of the machine's memory: there are `slots` of them at first, and more as you keep them. Labels,
    numbers, sample_ids and whatever else has at most 64 bytes per sample are copies, to be kept of a whole epoch (not label
    and numbers on a GPU or with pin_memory: keep clones of these). The batches are a function of dataset, options and seed
    alone: threads and slots change none of their bits.

    Args:
        data: the dataset's directory, or one that holds splits ("train", and "val" for train=False). str or os.PathLike. Or a
            dlpipe.Dataset, or a part of one: Loader(dataset[mask]), or a Subset of one as torch's random_split makes it.
        subset: use these samples alone: a list or an array of numbers, a mask with a bool for each sample, a slice, or a list or
            an array of names of classes (dlpipe.Dataset.choose). Order, states and ranks are as of a dataset of these; sample_ids are those
            of the whole dataset. A number that is there several times is used as often.
        augment: what happens to a picture, such as "rrc(224) hflip" (`dlpipe --help ops` lists all). Empty: nothing,
            where all pictures have one size. Transforms of torchvision, Albumentations or timm are converted where a chain means
            exactly the same (dlpipe.convert_augment).
        batch: samples of a batch, on this rank. Default: 64.
        global_batch: in its place, samples of a batch of all ranks together, a multiple of `world`: the same batches for
            every world size, and a state goes on with another one.
        views: of each picture, so many augmented views, each by draws of its own, as SimCLR, BYOL and DINO train on. The image,
            and masks, are then lists: `for (one, two), labels in loader` with views=2. All are parts of one array in the
            batch's memory, in which the views of a picture stand behind each other (JAX copies them). stats() and doctor()
            count views. Fields with any number of rows have to be left out of `fields`.
        seed: of the order and of every draw of the augmentations.
        train: False for validation: the dataset's own order, every sample once, and nothing stands in for damaged
            ones. Sets the defaults of shuffle, drop_last and on_bad.
        shuffle: another order every epoch. Default: `train`.
        drop_last: leave out an epoch's last, smaller batch. Default: `train`.
        epochs: how many epochs one `for` takes; -1: it has no end.
        limit: use so many samples, drawn by the seed from all over the dataset; -1: all.
        as_: "torch", "jax" or "numpy"; "dlpack" for objects that other libraries' from_dlpack takes. Default: torch or jax,
            if the code that opens the loader has imported it (the nearest function on the stack, or its module, that imports
            torch, jax or numpy), else "numpy". What other modules import doesn't count. Both torch and jax: an error.
        layout: "NHWC", or "NCHW" for the same memory as [batch, channels, height, width] (torch's channels_last).
        channels: 3 for RGB, 1 for grey, 0 for what the pictures have.
        fields: names of what batches hold, in the order of the loop: `for images, labels in loader` with ["image", "label"].
            Default: all that the dataset has but "path", which `batch.path` reads: the image first, the label second, then
            the others in the dataset's order.
        mask_fill: what masks hold where the picture shows what is outside of the source, and where a sample has none.
        dtype: of the pictures: "u8", or "f32", "f16" or "bf16" for (value / 255 - mean) / std, by channel. PyTorch's and
            NumPy's names are taken too. Default: "f32" with `mean` and `std` or where `augment` ends in normalize, what it
            says where it ends in cast, else "u8".
        mean, std: three numbers each (one for grey) of values scaled to [0, 1]. Default: the dataset's. For
            validation those of the training set, where `data` is a folder of splits that has one; else give them: its
            loader's `mean_std`.
        threads: that decode; 0: as many as the process may use.
        slots: batches in memory, the one in your hands included.
        slots_max: as many as there may become for whoever keeps batches. Default: as many as fit half of the memory that
            the process may use, and 16 on a GPU. What they took stays the loader's until close().
        device: where batches are: "cpu", "cuda" or "cuda:1", or such a torch.device. On a GPU the loader copies on a stream of
            its own, ahead of the loop, and the GPU decodes what ingest stored as coefficients; the stream that is current
            where a batch is taken waits for the copy, and reads it. sample_ids, weight, partner_label, lam and fields with
            any number of rows stay on the CPU.
        pin_memory: page-locked batches of the CPU, for `image.to("cuda", non_blocking=True)` of your own on the stream that
            is current where a batch is taken. The memory is filled again only after that copy.
        rank, world: this process' number and how many there are. Default: what torch.distributed or JAX says at the first
            batch; without a group of processes what the environment says when the loader is opened (RANK and WORLD_SIZE, as
            torchrun sets them). Each rank gets its own part of every global batch of `batch` x `world` samples, and as many
            batches as the others.
        pad_last: an epoch's last, smaller batch has equally many samples on every rank: some ranks repeat samples of others,
            with a 0 in batch.weight. Weigh losses and metrics by that to count each sample once. False: parts may differ by
            one, and a rank's may be empty; the mean of that is NaN. Default: True for validation (train=False).
        mixup, cutmix: alpha of mixup and CutMix; 0: off. They need a `dtype` other than u8.
        on_bad: what happens to damaged samples: "substitute" another one, "drop" (zeros, weight 0) or "stop". Default:
            "substitute", for validation "drop". A warning is logged at the first one.
        max_bad: so many distinct damaged samples are too many; -1: the larger of 10 and 0.1 %.
        max_pixels: larger pictures count as damaged.
        memory: bytes that the whole process may take; 0: no ceiling. They count what it took before (Python, PyTorch, other
            loaders), `slots` batches, each as large as its arrays, the pages of the dataset's file that are being read,
            and what each thread decodes into; pages that were read go in time to stay below. Too few for this are
            refused, part by part. stats() says slot_bytes and scratch_bytes.
        quarantine: file to list damaged samples in. str or os.PathLike.
        cache: of a dataset that links to its pictures (`dlpipe ingest --store link`), a folder of this loader's own in which
            JPEGs are kept as coefficient records, made in time that its threads would have waited and decoded several times
            faster from then on. str or os.PathLike. Batches are the same.
        cache_size: bytes that it may take; 0: what leaves 1 GiB of its disk free.
        transform: a function over each batch, in the loop's own thread; what it returns is what `for` gives. Its time
            stands in stats() and doctor(). A batch of which it raises counts as given: state_dict() is the place behind it.
            Compiled functions over each picture: dlpipe.add_augmentation. Transforms of other libraries are for single
            images, and refused: give them as `augment`.

    Raises:
        dlpipe.Error: of the kind that fits, such as dlpipe.MisuseError (a ValueError) for options that make no sense
            and dlpipe.NotFoundError (a FileNotFoundError).
    """

    @advise_on_options
    @kinds_checked("loader", data=None, transform=None, augment=', such as "rrc(224) hflip"')
    def __init__(
        self,
        data: Path | Dataset | TorchsSubset,
        *,
        subset: Chosen | Sequence[str] | npt.NDArray[np.str_] | None = None,
        augment: Augment = "",
        batch: int | None = None,
        global_batch: int | None = None,
        views: int = 1,
        seed: int = 0,
        train: bool = True,
        shuffle: bool | None = None,
        drop_last: bool | None = None,
        epochs: int = 1,
        limit: int = -1,
        as_: Literal["torch", "jax", "numpy", "dlpack"] | None = None,
        layout: Literal["NHWC", "NCHW"] = "NHWC",
        channels: int = 0,
        fields: Sequence[str] | None = None,
        mask_fill: int = 0,
        dtype: Any = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        threads: int = 0,
        slots: int = 3,
        slots_max: int | None = None,
        device: Any = "cpu",
        pin_memory: bool = False,
        rank: int | None = None,
        world: int | None = None,
        pad_last: bool | None = None,
        mixup: float = 0.0,
        cutmix: float = 0.0,
        on_bad: Literal["substitute", "drop", "stop"] | None = None,
        max_bad: int = -1,
        max_pixels: int = 178_956_970,
        memory: int = 0,
        quarantine: Path = "",
        cache: Path = "",
        cache_size: int = 0,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if layout not in ("NHWC", "NCHW"):
            raise MisuseError(f"[loader] layout {layout!r}; use 'NHWC' or 'NCHW'")
        check_fields(fields)
        check_framework(as_)
        check_on_bad(on_bad)
        check_transform(transform, layout)
        dtype = chosen_dtype(dtype, mean)
        directory, samples = chosen_samples(data, subset, train)
        self._batch, self._global_batch = batch, global_batch
        self._options = {
            "data": directory,
            "samples": samples,
            "augment": augment + normalize_op(mean, std, dtype, augment),
            "views": views,
            "threads": threads,
            "slots": slots,
            "slots_max": -1 if slots_max is None else slots_max,
            "seed": seed,
            "train": train,
            "shuffle": train if shuffle is None else shuffle,
            "drop_last": train if drop_last is None else drop_last,
            "epochs": epochs,
            "limit": limit,
            "pad_last": not train if pad_last is None else pad_last,
            "channels": channels,
            "fields": [] if fields is None else list(fields),
            "mask_fill": mask_fill,
            "dtype": dtype,
            "mixup": mixup,
            "cutmix": cutmix,
            "on_bad": ("substitute" if train else "drop") if on_bad is None else on_bad,
            "max_bad": max_bad,
            "max_pixels": max_pixels,
            "memory": memory,
            "quarantine": os.fsencode(quarantine),
            "cache": os.fsencode(cache),
            "cache_size": cache_size,
            "framework": as_ or framework_of_caller(),
            "channels_first": layout == "NCHW",
            "device": device_name(device),
            "pin_memory": pin_memory,
        }
        self._open(*find_rank(rank, world))
        self._asks_group = rank is None
        self._has_given = False
        lend_one = lend if views == 1 else functools.partial(lend_views, views, set(self._feed.moved))
        self._lend = functools.partial(_lend_pinned, lend_one) if pin_memory else lend_one
        self._views = views
        self._batch_type = batch_type(tuple(self._feed.fields))
        self._transform = None if transform is None else Timed(transform, views)
        _open.add(self)

    def _open(self, rank, world):
        self.batch_size = batch_of_rank(self._batch, self._global_batch, world)
        self._feed = _dlpipe.Feed(batch=self.batch_size, rank=rank, world=world, **self._options)
        self._rank = (rank, world)

    def _of_rank(self):
        """The feed, as the rank that this process has by now: a loader may be opened before the processes form a group."""
        group = rank_of_group() if self._asks_group else None
        if group is None or group[1] == 1 or group == self._rank:
            return self._feed
        if self._has_given:
            raise MisuseError(f"[loader] this loader has given batches as rank {self._rank[0]} of {self._rank[1]}, and now this "
                              f"process is rank {group[0]} of {group[1]}: open the loader once the processes have formed their group "
                              "(torch.distributed.init_process_group), or give rank= and world=")  # fmt: skip
        former, begin = self._feed, self._feed.state()
        self._open(*group)
        former.close()
        if begin["batch_index"] > 0:
            self._feed.seek(begin)
        elif begin["epoch"] > 0:
            self._feed.seek_epoch(begin["epoch"])
        return self._feed

    def __repr__(self) -> str:
        data = os.fsdecode(self._options["data"])
        return f"dlpipe.Loader({data!r}): {self.samples} samples in batches of {self.batch_size}"

    def __iter__(self) -> Iterator[Batch]:
        """A new pass over the data. One that was left early is not gone on with: the next epoch begins. With epochs=-1 it is:
        the new pass begins behind the batches that were given. With `transform` it gives what that answers."""
        return _Pass(self)

    def __len__(self) -> int:
        """Batches of one `for`."""
        batches = self._of_rank().batches_per_pass()
        if batches < 0:
            raise TypeError("a loader with epochs=-1 has no length")
        return batches

    def state_dict(self) -> dict[str, Any]:
        """The place behind the batches given so far: a small dict of numbers and texts."""
        return self._of_rank().state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on behind a state_dict(): the next `for` gives the batches that would have followed, bit for bit, in
        mid-epoch too, on any number of threads. Needs the same dataset, options and seed."""
        if not isinstance(state, dict):
            raise MisuseError(f"[loader] the state is {type(state).__name__}; give what state_dict() answered")
        self._of_rank().seek(state)

    @kinds_checked("loader")
    def set_epoch(self, epoch: int) -> None:
        """The next `for` takes this epoch. Not needed: epochs follow each other by themselves."""
        self._of_rank().seek_epoch(epoch)

    def stats(self) -> dict[str, Any]:
        """What each stage did and waited for since the beginning: a dict of numbers. `transform` is a stage, too."""
        stats = self._feed.stats()
        if self._transform is not None:
            stats["stages"].append({"name": "transform", "samples": self._transform.samples, "bytes": 0, "threads": 1,
                                    "busy_s": self._transform.seconds, "wait_input_s": 0.0, "wait_output_s": 0.0})
        return stats

    @kinds_checked("loader")
    def doctor(self, samples_per_s: float | None = None) -> str:
        """In words: the stage table, who waits for whom, and how many cores feed a consumer of `samples_per_s`. Default:
        as many as it took so far."""
        if samples_per_s is not None and not 0 < samples_per_s < float("inf"):
            raise MisuseError(f"[loader] samples_per_s is {samples_per_s}; give how many samples a consumer takes in a second")
        return doctor_text(self._feed, self._transform, samples_per_s)

    def close(self) -> None:
        """Stops all threads. Batches that you hold stay as they are."""
        self._feed.close()

    def __reduce__(self) -> Any:
        raise TypeError("a dlpipe.Loader has threads and can't be copied or pickled: open one in each process; its place is "
                        "state_dict()")  # fmt: skip

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def held(self) -> int:
        """Batches of which somebody has an array or a view."""
        return self._feed.held()

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of a batch's fields, in their order, as the dataset calls them: batch[name]."""
        return self._batch_type._names

    @property
    def classes(self) -> list[str]:
        """Names of the classes, by label."""
        return self._feed.classes

    @property
    def dataset(self) -> Dataset:
        """The dataset, sample by sample, or the part of it that `subset` or `data` chose: len(loader.dataset) is the number of
        its samples, on all ranks. `sample_ids` are numbers in the whole dataset."""
        from dlpipe.dataset import Dataset

        whole = Dataset(os.fsdecode(self._feed.directory))
        samples = self._options["samples"]
        return whole if samples is None else whole[memoryview(samples).cast("q").tolist()]

    @property
    def samples(self) -> int:
        """Samples that an epoch has on this rank."""
        return self._of_rank().samples // self._views

    @property
    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the dataset's pixels, each a tuple by channel, of values scaled to [0, 1]."""
        return self._feed.mean_std


def _lend_pinned(lend_one, kind, lent):
    """A batch that PyTorch's current stream copies from."""
    stream = sys.modules["torch"].cuda.current_stream()
    lent.read_on(stream.cuda_stream, stream.device_index)
    return lend_one(kind, lent)


def _warn_of_narrowed(loader, batch):
    """JAX makes i64 and f64 i32 and f32 without a word. Fields of labels fit."""
    if sys.modules["jax"].config.jax_enable_x64:
        return
    narrowed = []
    with contextlib.suppress(Error):  # the first sample may be damaged
        sample = loader.dataset[0]
        for name in (one for one in loader.fields if one in sample._names):
            dtype = str(getattr(sample[name], "dtype", ""))
            if dtype == "float64" or (dtype == "int64" and not isinstance(batch[name], Ragged)):
                narrowed.append(f"{name} ({dtype})")
    if narrowed:
        logging.getLogger("dlpipe").warning(
            "[loader] JAX gives 32 bits of %s, and whole numbers beyond 2**31 wrap: call jax.config.update('jax_enable_x64', True) first, "
            "store another dtype, or take as_='numpy'", ", ".join(narrowed))  # fmt: skip


class _Pass:
    """The iterator of one `for`."""

    def __init__(self, loader):
        self._loader = loader
        self._begin(loader._of_rank())

    def _begin(self, feed):
        self._feed = feed
        self._number = feed.begin_pass()

    def __iter__(self):
        return self

    def __next__(self):
        loader = self._loader
        feed = loader._of_rank()  # at each batch: a pass without an end would never hear of a group otherwise
        if feed is not self._feed and not loader._has_given:
            self._begin(feed)
        lent = self._feed.next(self._number)
        if lent is None:
            raise StopIteration
        is_first = not loader._has_given
        loader._has_given = True
        batch = loader._lend(loader._batch_type, lent)
        if is_first and loader._options["framework"] == "jax":
            _warn_of_narrowed(loader, batch)
        if loader._transform is None:
            return batch
        try:
            return loader._transform(batch)
        except StopIteration as error:  # as of a generator (PEP 479): the `for` would take it for the epoch's end
            raise RuntimeError("[loader] transform raised StopIteration") from error
