"""The loader: batches of a dataset, for any training loop."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from dlpipe import _dlpipe
from dlpipe.arguments import MAX_PIXELS, Augment, Path, kinds_checked
from dlpipe.batch import Batch, Ragged, batch_type, lend, lend_views
from dlpipe.dataset import check_unchanged
from dlpipe.errors import Error, MisuseError
from dlpipe.recipes import Chain, channels_of
from dlpipe.loader_options import (
    advise_on_options,
    batch_of_rank,
    check_fields,
    check_framework,
    check_on_bad,
    check_transform,
    chosen_dtype,
    chosen_samples,
    device_name,
    find_rank,
    framework_of_caller,
    normalize_op,
    rank_of_group,
)

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
    """Batches of a dataset created by `dlpipe ingest`, decoded and augmented on the loader's own threads.

    Each `for` over a loader is one epoch (or `epochs` of them), and each epoch has its own order. Batches are named tuples of
    the dataset's fields, such as `image` and `label`. Their arrays are views of the loader's memory, without a copy:

    - image: uint8 [batch, height, width, channels], or with `dtype` float32, float16 or bfloat16, normalised
    - label: int64 [batch]
    - numbers: [batch], one value per sample; other arrays of fixed size: [batch, ...]
    - masks: uint8 [batch, height, width], transformed with their images
    - variable-length fields, such as boxes, points, labels and texts: a dlpipe.Ragged, the values of all samples
      concatenated plus offsets; boxes and points are transformed with their images
    - with mixup or cutmix, partner_label: int64 [batch], the label of the sample that each one was mixed with, and lam:
      float32 [batch], the weight of the sample's own label (the partner's is 1 - lam)

    A batch's memory is yours until its last array and the last view of one are gone. Then the loader reuses it for another
    batch. You can keep as many batches as fit in half of the machine's memory: the loader starts with `slots` batches and
    allocates more while you keep them. Labels, numbers, sample_ids and all else of at most 64 bytes per sample are copies, which
    you can keep for a whole epoch. On a GPU or with pin_memory, label and numbers are not copies: keep clones of these.
    Dataset, options and seed alone determine the batches, bit for bit; threads and slots don't.

    Args:
        data: the dataset's directory, or a folder of splits, of which "train" is used ("val" with train=False). str or
            os.PathLike. Or a dlpipe.Dataset or a part of one: Loader(dataset[mask]), or torch's Subset of one (random_split).
        subset: use only these samples: a list or an array of numbers, a mask with a bool for each sample, a slice, or a list or
            an array of class names (dlpipe.Dataset.choose). Order, states and ranks are those of a dataset with only these
            samples; sample_ids are numbers in the whole dataset. A number that is listed several times is used that often.
        augment: augmentations of the images, such as "rrc(224) hflip" (`dlpipe --help ops` lists all). Empty: none; all images
            must have one size then. Transforms of torchvision, Albumentations or timm are converted if an expression means
            exactly the same (dlpipe.convert_augment): with ToTensor images are floats in [0, 1] or normalised.
        batch: samples of a batch, on this rank. Default: 64.
        global_batch: instead of `batch`: samples of a batch over all ranks, a multiple of `world`. The batches are then the same for
            every world size, and a state can be resumed with another one. Not with mixup and cutmix: each rank mixes only its own
            samples, so they have other partners.
        views: number of augmented views of each image, each with its own random draws, as SimCLR, BYOL and DINO need. The image,
            and masks, are then lists: `for (one, two), labels in loader` with views=2. All are parts of one array in the
            batch's memory, in which the views of an image are adjacent (JAX copies them). stats() and doctor() count views.
            Variable-length fields have to be left out of `fields`.
        seed: determines the order and every draw of the augmentations.
        train: False for validation: the dataset's own order, every sample once, and no substitutes for corrupt
            ones. Sets the defaults of shuffle, drop_last and on_bad.
        shuffle: use a different order in every epoch. Default: `train`.
        sampler: how often samples are used. "uniform": once per epoch. "balanced": all classes equally often. "sqrt": each class in
            proportion to the square root of its number of samples. "cat=2,dog=1": classes in these proportions. The number of samples
            per epoch does not change: samples of rare classes are repeated, and samples of frequent classes that an epoch leaves out
            are used in a later one. A sample with several labels counts for its rarest. The order does not depend on ranks, threads or
            resumes.
        drop_last: leave out an epoch's last, smaller batch. Default: `train`.
        epochs: number of epochs per `for`; -1: endless.
        limit: use only this many samples, drawn with the seed from the whole dataset; -1: all.
        as_: "torch", "jax" or "numpy"; "dlpack" for objects that other libraries' from_dlpack accepts. Default: torch or jax,
            if the code that opens the loader has imported it (the nearest function on the stack, or its module, that imports
            torch, jax or numpy), else "numpy". What other modules import doesn't count. Both torch and jax: an error.
        layout: "NHWC", or "NCHW" for the same memory as [batch, channels, height, width] (torch's channels_last). Default: "NCHW" if
            `augment` is transforms that end with a tensor, such as torchvision's ToTensor, else "NHWC".
        channels: 3 for RGB, 1 for grey, 0 for as many as the images have.
        fields: names of the fields in a batch, in the order of the loop: `for images, labels in loader` with ["image", "label"].
            Default: all of the dataset's fields except "path", which `batch.path` reads: the image, the label, then the
            others in the dataset's order.
        mask_fill: value of masks outside of the source image, and for samples without a mask.
        dtype: of the images: "u8", or "f32", "f16" or "bf16" for (value / 255 - mean) / std, per channel. PyTorch's and
            NumPy's dtypes and names are accepted too. Default: "f32" if `mean` and `std` are given or `augment` ends in
            normalize; the dtype of the cast if `augment` ends in cast; else "u8".
        mean, std: three numbers each (one for grey), for values scaled to [0, 1]. Default: the dataset's. For validation the
            default is that of the training set, if `data` is a folder of splits with one; otherwise pass the training
            loader's `mean_std`.
        threads: number of decoding threads; 0: as many as the process may use.
        slots: batches in memory, including the one that you hold.
        slots_max: upper limit of slots, which grow while you keep batches. Default: as many as fit in half of the memory that
            the process may use, and 16 on a GPU. The loader keeps their memory until close().
        device: where batches are: "cpu", "cuda" or "cuda:1", or the torch.device. For a GPU the loader copies batches ahead
            of the loop on its own stream, and the GPU decodes images stored as coefficients. The stream that is current
            when the loop gets a batch waits for the copy, and must be the one that reads the batch. sample_ids, weight,
            partner_label, lam and variable-length fields stay on the CPU.
        pin_memory: page-locked CPU batches, for your own `image.to("cuda", non_blocking=True)` on the stream that
            is current when the loop gets the batch. The memory is reused only after that copy.
        rank, world: this process's rank and the number of processes. Default: those of torch.distributed or JAX at the first
            batch. Without a process group: the environment's RANK and WORLD_SIZE when the loader is opened, as
            torchrun sets them. Each rank gets its own part of every global batch of `batch` x `world` samples, and all
            ranks get the same number of batches.
        pad_last: give every rank the same number of samples in an epoch's last, smaller batch. Some ranks then repeat samples
            of others, with a 0 in batch.weight; weight losses and metrics by it to count each sample once. False: parts may
            differ by one sample, and a rank's part may be empty; its mean is NaN. Default: True for validation (train=False).
        mixup, cutmix: alpha of mixup and CutMix; 0: off. They need a `dtype` other than u8.
        on_bad: what to do with corrupt samples: "substitute" another sample, "drop" (zeros, weight 0) or "stop". Default:
            "substitute", for validation "drop". The first corrupt sample logs a warning.
        max_bad: fail when more than this many distinct samples are corrupt; -1: the larger of 10 and 0.1 %.
        max_pixels: larger images count as corrupt.
        memory: bytes that the whole process may use; 0: no limit. This includes what the process already uses (Python, PyTorch,
            other loaders), `slots` batches, each as large as its arrays, the pages of the dataset's file that are being read,
            and each thread's decoding buffers. Pages that were read are released in time to stay below the limit. A limit that
            is too small even without decoding buffers is refused, with a list of these parts. stats() reports slot_bytes and
            scratch_bytes.
        quarantine: file to list corrupt samples in. str or os.PathLike.
        cache: for a dataset that links to its images (`dlpipe ingest --store link`): a folder, used by this loader only, for
            JPEGs as coefficient records. The loader's threads write them when they would otherwise wait, and they decode
            several times faster from then on. Batches are the same. str or os.PathLike.
        cache_size: bytes that the cache may use; 0: all but 1 GiB of the disk's free space.
        transform: a function called with each batch in the loop's thread; `for` yields what it returns. Its time is part of
            stats() and doctor(). If it raises, the batch counts as delivered: state_dict() is the position after it. For
            compiled functions over each image see dlpipe.add_augmentation. Transforms of other libraries work on single
            images and are refused here: pass them as `augment`.

    Raises:
        dlpipe.Error: a subclass that fits, such as dlpipe.MisuseError (a ValueError) for invalid options
            or dlpipe.NotFoundError (a FileNotFoundError).
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
        sampler: str = "uniform",
        drop_last: bool | None = None,
        epochs: int = 1,
        limit: int = -1,
        as_: Literal["torch", "jax", "numpy", "dlpack"] | None = None,
        layout: Literal["NHWC", "NCHW"] | None = None,
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
        max_pixels: int = MAX_PIXELS,
        memory: int = 0,
        quarantine: Path = "",
        cache: Path = "",
        cache_size: int = 0,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if layout is None:
            layout = "NCHW" if isinstance(augment, Chain) and augment.is_tensor else "NHWC"
        if layout not in ("NHWC", "NCHW"):
            raise MisuseError(f"[loader] layout {layout!r}; use 'NHWC' or 'NCHW'")
        check_fields(fields)
        check_framework(as_)
        check_on_bad(on_bad)
        check_transform(transform, layout)
        dtype = chosen_dtype(dtype, mean)
        channels = channels_of("loader", channels, augment=augment)
        if isinstance(augment, Chain) and (mean is not None or dtype == "u8"):
            augment = augment.without_scale()
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
            "sampler": sampler,
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
        self._is_placed = False  # by load_state_dict() or set_epoch(), and no batch was returned since
        self._moves = 0  # by the sampler's set_epoch()
        self._has_warned = False  # about Lightning
        self._said: int | None = None  # what len() returned
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
        """The feed for this process's current rank. A loader may be opened before the processes form a group."""
        group = rank_of_group() if self._asks_group else None
        if group is None or group[1] == 1 or group == self._rank:
            return self._feed
        if self._has_given:
            raise MisuseError(f"[loader] this loader has returned batches as rank {self._rank[0]} of {self._rank[1]}, and now this "
                              f"process is rank {group[0]} of {group[1]}; open the loader after the processes have formed their group "
                              "(torch.distributed.init_process_group), or give rank= and world=")  # fmt: skip
        former, begin = self._feed, self._feed.state()
        self._open(*group)
        check_unchanged("loader", former.directory, self._feed.dataset_id, former.dataset_id)
        former.close()
        if self._said is not None:
            logging.getLogger("dlpipe").warning(
                "[loader] len(loader) was %d before this process became rank %d of %d, and is %d now; what was computed from it, such as "
                "a schedule's steps, is wrong: open the loader after init_process_group", self._said, *group, self._feed.batches_per_pass())  # fmt: skip
            self._said = None
        if begin["batch_index"] > 0:
            self._feed.seek(begin)
        elif begin["epoch"] > 0:
            self._feed.seek_epoch(begin["epoch"])
        return self._feed

    def __repr__(self) -> str:
        data = os.fsdecode(self._options["data"])
        return f"dlpipe.Loader({data!r}): {self.samples} samples in batches of {self.batch_size}"

    def __iter__(self) -> Iterator[Batch]:
        """A new pass over the data. An abandoned pass is not resumed: the next epoch begins. With epochs=-1 it is resumed:
        the new pass begins after the batches delivered so far. With `transform`, yields what that returns."""
        return _Pass(self)

    def __len__(self) -> int:
        """Number of batches per `for`."""
        batches = self._of_rank().batches_per_pass()
        if batches < 0:
            raise TypeError("a loader with epochs=-1 has no length")
        self._said = batches
        return batches

    def state_dict(self) -> dict[str, Any]:
        """The position after the batches delivered so far, as a small dict of numbers and strings."""
        if self._options["epochs"] < 0 and not self._has_warned and _lightning_reads_ahead():
            self._has_warned = True
            logging.getLogger("dlpipe").warning(
                "[loader] Lightning reads one batch ahead of a loader without a length (epochs=-1), and this checkpoint has the position "
                "after that batch: a resumed fit() skips it. Give epochs=N, or Trainer(limit_train_batches=N)")
        return self._of_rank().state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes from a state_dict(): the next `for` yields the batches that would have followed, bit for bit, also in
        mid-epoch and with any number of threads. Needs the same dataset, options and seed."""
        if not isinstance(state, dict):
            raise MisuseError(f"[loader] the state is {type(state).__name__}; give what state_dict() returned")
        self._of_rank().seek(state)
        self._is_placed = True

    @kinds_checked("loader")
    def set_epoch(self, epoch: int) -> None:
        """The next `for` begins with this epoch. Not needed normally: the epoch advances automatically."""
        self._of_rank().seek_epoch(epoch)
        self._is_placed = True

    @property
    def batch_sampler(self) -> BatchSampler:
        """For programs that call `loader.batch_sampler.sampler.set_epoch(epoch)` before each epoch, as Lightning does: a resumed
        training then begins with the right epoch. It can't be iterated, and a Loader has no `sampler`, so nothing can replace it."""
        return BatchSampler(self)

    def stats(self) -> dict[str, Any]:
        """What each stage did, and how long it waited, since the loader was opened: a dict of numbers. `transform` is a stage, too."""
        stats = self._feed.stats()
        if self._transform is not None:
            stats["stages"].append({"name": "transform", "samples": self._transform.samples, "bytes": 0, "threads": 1,
                                    "busy_s": self._transform.seconds, "wait_input_s": 0.0, "wait_output_s": 0.0})
        return stats

    @kinds_checked("loader")
    def doctor(self, samples_per_s: float | None = None) -> str:
        """A report as text: a table of the stages, whether the loader or your loop is the bottleneck, and how many cores
        `samples_per_s` would need. Default: the rate so far."""
        if samples_per_s is not None and not 0 < samples_per_s < float("inf"):
            raise MisuseError(f"[loader] samples_per_s is {samples_per_s}; give the number of samples that the loop uses per second")
        return doctor_text(self._feed, self._transform, samples_per_s)

    def close(self) -> None:
        """Stops all threads. Batches that you hold stay valid."""
        self._feed.close()

    def __reduce__(self) -> Any:
        raise TypeError("a dlpipe.Loader has threads and can't be copied or pickled: open one in each process; state_dict() "
                        "holds its position")  # fmt: skip

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def held(self) -> int:
        """Number of batches in use: an array of the batch, or a view of one, is still alive."""
        return self._feed.held()

    @property
    def fields(self) -> tuple[str, ...]:
        """The dataset's names of a batch's fields, in their order, for batch[name]."""
        return self._batch_type._names

    @property
    def classes(self) -> list[str]:
        """Names of the classes, by label."""
        return self._feed.classes

    @property
    def dataset(self) -> Dataset:
        """The dlpipe.Dataset that the loader reads, or the part of it that `subset`, `data` or `limit` selects. len(loader.dataset)
        counts the samples of all ranks. `sample_ids` are numbers in the whole dataset."""
        from dlpipe.dataset import Dataset

        whole, chosen = Dataset(os.fsdecode(self._feed.directory)), self._feed.chosen
        check_unchanged("loader", self._feed.directory, whole.id, self._feed.dataset_id)
        return whole if chosen is None else whole[chosen]

    @property
    def samples(self) -> int:
        """Number of distinct samples per epoch on this rank; over all ranks they add up to those of an epoch. The samples that
        pad_last repeats, with a 0 in batch.weight, don't count."""
        return self._of_rank().samples // self._views

    @property
    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the dataset's pixels, scaled to [0, 1]: a tuple each, one value per channel."""
        return self._feed.mean_std


class BatchSampler:
    """The part of `loader.batch_sampler` that programs for PyTorch's DataLoader use."""

    def __init__(self, loader: Loader) -> None:
        self.batch_size: int = loader.batch_size
        self.drop_last: bool = loader._options["drop_last"]
        self.sampler = Sampler(loader)


class Sampler:
    """Tells a loader which epoch a program is in."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    @kinds_checked("loader")
    def set_epoch(self, epoch: int) -> None:
        """Moves the loader to the `for` number `epoch`, also if its iterator already exists but has returned no batch. Keeps a
        position from load_state_dict() or Loader.set_epoch() until a batch has been returned from it. With epochs=-1 it moves
        nothing: a pass has no end, so the beginning of the next one is unknown."""
        loader = self._loader
        feed, epochs = loader._of_rank(), loader._options["epochs"]
        if loader._is_placed:
            return
        if epochs > 0:
            feed.seek_epoch(epoch * epochs)
            loader._moves += 1
        elif epoch > 0 and not loader._has_given:
            logging.getLogger("dlpipe").warning(
                "[loader] this training resumes at epoch %d, but a loader with epochs=-1 doesn't know where that epoch begins and starts "
                "from the first batch: call load_state_dict() with the state of the checkpoint first, or give epochs=N", epoch)


def _lightning_reads_ahead():
    """Whether the caller of Loader.state_dict() is Lightning's CombinedLoader without a length: its fetcher then holds one batch
    that it has not yet passed to the model."""
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(2):  # a list comprehension has a frame of its own before Python 3.12
        if frame is None or not frame.f_globals.get("__name__", "").endswith("pytorch.utilities.combined_loader"):
            return False
        limits = getattr(frame.f_locals.get("self"), "limits", ())
        if limits != ():
            return limits is None or float("inf") in limits
        frame = frame.f_back
    return False


def _lend_pinned(lend_one, kind, lent):
    """A batch that PyTorch's current stream may copy from."""
    stream = sys.modules["torch"].cuda.current_stream()
    lent.read_on(stream.cuda_stream, stream.device_index)
    return lend_one(kind, lent)


def _warn_of_narrowed(loader, batch):
    """Warns that JAX silently narrows i64 and f64 to 32 bits. Variable-length i64 fields hold labels, which fit."""
    if sys.modules["jax"].config.jax_enable_x64:
        return
    narrowed = []
    with contextlib.suppress(Error):  # the first sample may be corrupt
        sample = loader.dataset[0]
        for name in (one for one in loader.fields if one in sample._names):
            dtype = str(getattr(sample[name], "dtype", ""))
            if dtype == "float64" or (dtype == "int64" and not isinstance(batch[name], Ragged)):
                narrowed.append(f"{name} ({dtype})")
    if narrowed:
        logging.getLogger("dlpipe").warning(
            "[loader] JAX narrows %s to 32 bits, and whole numbers beyond 2**31 wrap: call jax.config.update('jax_enable_x64', True) first, "
            "store another dtype, or use as_='numpy'", ", ".join(narrowed))  # fmt: skip


class _Pass:
    """The iterator of one `for`."""

    def __init__(self, loader):
        self._loader = loader
        self._begin(loader._of_rank())

    def _begin(self, feed):
        self._feed = feed
        self._number = feed.begin_pass()
        self._moves = self._loader._moves
        self._has_given = False

    def __iter__(self):
        return self

    def __next__(self):
        loader = self._loader
        feed = loader._of_rank()  # at each batch: an endless pass would never notice a new process group otherwise
        if (feed is not self._feed and not loader._has_given) or (self._moves != loader._moves and not self._has_given):
            self._begin(feed)
        lent = self._feed.next(self._number)
        if lent is None:
            raise StopIteration
        is_first = not loader._has_given
        self._has_given = loader._has_given = True
        loader._is_placed = False
        batch = loader._lend(loader._batch_type, lent)
        if is_first and loader._options["framework"] == "jax":
            _warn_of_narrowed(loader, batch)
        if loader._transform is None:
            return batch
        try:
            return loader._transform(batch)
        except StopIteration as error:  # as in generators (PEP 479): the `for` would mistake it for the epoch's end
            raise RuntimeError("[loader] transform raised StopIteration") from error


# ---- the report: whether the loader or the loop is the bottleneck


def counted(number, what):
    return f"{number} {what}{'' if number == 1 else 's'}"


#: If the loop waits less than this share of its time, a faster loader doesn't help. As in run/record/stage_report.h.
_NEGLIGIBLE = 0.05


def who_waits(stats, rows, now, possible):
    """Two sentences: how long the loop and the loader waited for each other, and which of them is the bottleneck. `possible`:
    samples per second if the loader's threads never waited."""
    busiest = max((row for row in rows if row[2] > 0), key=lambda row: row[3], default=None)
    if busiest is None or stats["samples"] == 0:
        return ["Nothing was measured: iterate over some batches first."]
    stager = stats["stages"][-1]  # in this stage, the loop waits for a batch or a finished batch waits for the loop
    loop, batch = (stager[name] / stats["wall_s"] for name in ("wait_input_s", "wait_output_s"))
    waited = (f"At {now:,.0f} samples/s your loop waited for the loader {loop:.1%} of the time, and a finished batch waited for "
              f"your loop {batch:.1%} of it.")  # fmt: skip
    work = f"most of the loader's work is in the {busiest[0]}"
    if loop < _NEGLIGIBLE:
        return [waited, f"Your loop is the bottleneck. The loader could deliver {possible:,.0f} samples/s; {work}."]
    if possible > 3 * now:
        return [waited, f"The loader's threads alone could deliver {possible:,.0f} samples/s. Either they share the cores with your "
                        f"loop, or there were few batches; {work}."]  # fmt: skip
    return [waited, f"The loader is the bottleneck: give it more threads or cores, or make samples cheaper; {work}."]


def doctor_text(feed, transform, samples_per_s):
    """The text of Loader.doctor(), for its feed and its transform."""
    stats = feed.stats()
    rows, now, _ = feed.report(0.0)
    rate = now if samples_per_s is None else float(samples_per_s)
    cores, of_one = (feed.report(wanted)[2] for wanted in (rate, 1.0))
    said = who_waits(stats, rows, now, feed.threads / of_one if of_one > 0 else 0.0)
    if transform is not None:
        rows.append(transform.row(stats["wall_s"]))
    lines = [f"{'stage':<10} {'samples':>12} {'samples/s alone':>16} {'busy':>7} {'waiting':>8}"]
    lines += [f"{name:<10} {samples:>12,} {round(alone):>16,} {busy:>7.1%} {waiting:>8.1%}" if alone else
              f"{name:<10} {samples:>12,} {'':>16} {busy:>7.1%} {waiting:>8.1%}"
              for name, samples, alone, busy, waiting in rows]
    if "cache" in stats:
        said.append(stats["cache"]["text"])
    return "\n".join([*lines, *said, f"{rate:,.0f} samples/s need {cores:.2f} cores for decoding and augmenting; this "
                                     f"loader has {counted(feed.threads, 'thread')}."])  # fmt: skip


class Timed:
    """Calls the user's transform and measures its time. Counts views as samples, as the other stages do."""

    def __init__(self, function, views):
        self._function = function
        self._views = views
        self.samples = 0
        self.seconds = 0.0

    def __call__(self, batch):
        begin = time.perf_counter()
        made = self._function(batch)
        self.seconds += time.perf_counter() - begin
        self.samples += batch._lent.count * self._views
        return made

    def row(self, wall_s):
        alone = self.samples / self.seconds if self.seconds > 0 else 0.0
        return ("transform", self.samples, alone, self.seconds / wall_s if wall_s > 0 else 0.0, 0.0)
