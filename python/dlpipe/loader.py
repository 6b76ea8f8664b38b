"""The loader: batches of a dataset for any training loop."""

from __future__ import annotations

import atexit
import difflib
import functools
import inspect
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dlpipe import _dlpipe
from dlpipe.batch import batch_type, lend
from dlpipe.errors import MisuseError
from dlpipe.paths import Path
from dlpipe.ranks import batch_of_rank, find_rank

if TYPE_CHECKING:
    from dlpipe.dataset import Dataset

#: Options of torch.utils.data.DataLoader and its samplers, and what to do in their place.
_PYTORCHS = {
    "batch_size": "it is called batch",
    "num_workers": "it is called threads",
    "sampler": "shuffle, seed, rank and world choose the samples",
    "batch_sampler": "batch, shuffle, seed, rank and world choose the samples",
    "collate_fn": "batches come as arrays; a function over each batch is transform",
    "prefetch_factor": "it is called slots",
    "persistent_workers": "threads live as long as the loader",
    "multiprocessing_context": "there are threads, no processes",
    "worker_init_fn": "there are threads, no processes, and seed draws everything",
    "generator": "seed draws everything",
    "pin_memory_device": "it is called device",
    "num_replicas": "it is called world",
    "dataset": "it is called data, and is the directory of a dataset: dlpipe.from_dataset(...) makes one",
}

_open: weakref.WeakSet[Loader] = weakref.WeakSet()


def _close_all():
    for loader in list(_open):
        loader.close()


atexit.register(_dlpipe.end, _close_all)


def _imported_framework():
    for name in ("torch", "jax"):
        if name in sys.modules:
            return name
    return "numpy"


_Init = TypeVar("_Init", bound=Callable[..., None])


def _advise_on_options(init: _Init) -> _Init:
    """For an option that there isn't, Python's own error says what to do, where the name is PyTorch's or nearly one of ours."""
    options = list(inspect.signature(init).parameters)[2:]

    @functools.wraps(init)
    def advised(self, *args, **given):
        for name in given:
            if name not in options and name != "data":
                similar = difflib.get_close_matches(name, options, 1)
                advice = _PYTORCHS.get(name, f"did you mean {similar[0]}?" if similar else "help(dlpipe.Loader) lists all")
                raise TypeError(f"dlpipe.Loader has no option {name!r}: {advice}")
        init(self, *args, **given)

    return advised  # type: ignore[return-value]


#: Options that are numbers, for which True or False would pass too.
_WHOLE = ("batch", "seed", "epochs", "limit", "channels", "mask_fill", "threads", "slots", "slots_max", "max_bad", "max_pixels",
          "memory", "cache_size")  # fmt: skip


def _check_kinds(options):
    """Values of another kind than an option has, told in Python's own words."""
    for name in _WHOLE:
        if isinstance(options[name], bool) or not hasattr(options[name], "__index__"):
            raise MisuseError(f"[loader] {name} is {options[name]!r}; give a whole number")
    for name in ("seed", "cache_size"):
        if options[name] < 0:
            raise MisuseError(f"[loader] {name} is {options[name]}; give a number from 0 on")
    if options["seed"] >= 2**64:
        raise MisuseError(f"[loader] seed is {options['seed']}; give a number below 2**64")
    fields = options["fields"]
    if isinstance(fields, (str, bytes)) or (fields is not None and not fields):
        raise MisuseError(f"[loader] fields is {fields!r}; give a list of names, such as {[fields or 'image']!r}, or leave it out")
    for name in ("augment", "device"):
        if not isinstance(options[name], str):
            example = 'a text, such as "rrc(224) hflip"' if name == "augment" else 'a text, such as "cpu"'
            raise MisuseError(f"[loader] {name} is {options[name]!r}; give {example}")


def _directory(data):
    try:
        return os.fsencode(data)
    except TypeError:
        raise MisuseError(f"[loader] data is {type(data).__name__}; give the directory of a dataset: dlpipe.ingest(...) makes "
                          "one of files, dlpipe.from_dataset(...) of PyTorch's, Hugging Face's and others' datasets") from None


def _dtype_name(dtype):
    """"f32" of "float32", torch.float32 and NumPy's, too; what is none of these as it is."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    return {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint8": "u8"}.get(name, name)


def _normalize(mean, std, dtype):
    """The op that says so, for the end of an expression."""
    if mean is None and std is None:
        return ""
    if mean is None or std is None:
        raise MisuseError("[loader] mean and std belong together: give both or neither")
    if dtype == "u8":
        raise MisuseError("[loader] mean and std normalise, and dtype 'u8' leaves pixels as they are; give dtype='f32', 'f16' or "
                          "'bf16'")  # fmt: skip
    for name, values in (("mean", mean), ("std", std)):
        if not hasattr(values, "__iter__"):
            raise MisuseError(f"[loader] {name} is {values!r}; give a number for each channel, such as [0.5, 0.5, 0.5]")
    texts = [":".join(map(repr, map(float, values))) for values in (mean, std)]
    return f" normalize(mean={texts[0]},std={texts[1]})"


class Loader:
    """Batches of a dataset that `dlpipe ingest` made, decoded and augmented on threads of its own.

    Each `for` over a loader is one epoch, in an order of its own (`epochs` of them if given). Batches are named tuples of
    the dataset's fields, `image` and `label` for pictures, as arrays over the memory that they were made in:

    - image: uint8 [batch, height, width, channels], or with `dtype` float32, float16 or bfloat16, normalised
    - label: int64 [batch]
    - masks: uint8 [batch, height, width], moved with their pictures
    - what has any number of rows in each sample, such as boxes, points, labels and texts: a dlpipe.Ragged, values of all
      samples below each other and offsets; boxes and points have moved with their pictures
    - with mixup or cutmix, partner_label: int64 [batch], whom each sample was mixed with, and lam: float32 [batch], the
      weight of its own label (1 - lam is the partner's)

    That memory is yours until the last array and the last view of it are gone; then the next batch is made there. Keep
    as many batches as you like: there are `slots` of them at first and up to `slots_max`, and only then an error. The
    batches are a function of dataset, options and seed alone: threads and slots change none of their bits.

    Args:
        data: the dataset's directory, or one that holds splits ("train", and "val" for train=False). str or os.PathLike.
        augment: what happens to a picture, such as "rrc(224) hflip" (`dlpipe --help ops` lists all). Empty: nothing,
            where all pictures have one size.
        batch: samples of a batch, on this rank. Default: 64.
        global_batch: in its place, samples of a batch of all ranks together, a multiple of `world`: the same batches for
            every world size, and a state goes on with another one.
        seed: of the order and of every draw of the augmentations.
        train: False for validation: the dataset's own order, every sample once, and nothing stands in for damaged
            ones. Sets the defaults of shuffle, drop_last and on_bad.
        shuffle: another order every epoch. Default: `train`.
        drop_last: leave out an epoch's last, smaller batch. Default: `train`.
        epochs: how many epochs one `for` takes; -1: it has no end.
        limit: use so many samples, drawn by the seed from all over the dataset; -1: all.
        as_: "torch", "jax" or "numpy"; "dlpack" for objects that other libraries' from_dlpack takes. Default: what is
            imported, in this order.
        layout: "NHWC", or "NCHW" for the same memory as [batch, channels, height, width] (torch's channels_last).
        channels: 3 for RGB, 1 for grey, 0 for what the pictures have.
        fields: names of what batches hold. Default: all that the dataset has but "path", which `batch.path` reads.
        mask_fill: what masks hold where the picture shows what is outside of the source, and where a sample has none.
        dtype: of the pictures: "u8", or "f32", "f16" or "bf16" for (value / 255 - mean) / std, by channel. PyTorch's and
            NumPy's names are taken too.
        mean, std: for `dtype`, three numbers each (one for grey) of values scaled to [0, 1]. Default: the dataset's. For
            validation those of the training set, where `data` is a folder of splits that has one; else give them: its
            loader's `mean_std`.
        threads: that decode; 0: as many as the process may use.
        slots: batches in memory, the one in your hands included.
        slots_max: as many as there may become for whoever keeps batches. Default: 16.
        device: where batches are: "cpu", "cuda" or "cuda:1". On a GPU the loader copies on a stream of its own, ahead of the
            loop, and the GPU decodes what ingest stored as coefficients; the stream that is current where a batch is taken
            waits for the copy, and reads it. sample_ids, weight, partner_label, lam and fields with any number of rows stay
            on the CPU.
        pin_memory: page-locked batches of the CPU, for `image.to("cuda", non_blocking=True)` of your own on the stream that
            is current where a batch is taken. The memory is filled again only after that copy.
        rank, world: this process' number and how many there are. Default: what torch.distributed, JAX or the
            environment (RANK and WORLD_SIZE, as torchrun sets them) says. Each rank gets its own part of every global
            batch of `batch` x `world` samples.
        mixup, cutmix: alpha of mixup and CutMix; 0: off. They need a `dtype` other than u8.
        on_bad: what happens to damaged samples: "substitute" another one, "drop" (zeros, weight 0) or "stop". Default:
            "substitute", for validation "drop".
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
            stands in stats() and doctor(). Compiled functions over each picture: dlpipe.add_augmentation.

    Raises:
        dlpipe.Error: of the kind that fits, such as dlpipe.MisuseError (a ValueError) for options that make no sense
            and dlpipe.NotFoundError (a FileNotFoundError).
    """

    @_advise_on_options
    def __init__(
        self,
        data: Path,
        *,
        augment: str = "",
        batch: int | None = None,
        global_batch: int | None = None,
        seed: int = 0,
        train: bool = True,
        shuffle: bool | None = None,
        drop_last: bool | None = None,
        epochs: int = 1,
        limit: int = -1,
        as_: str | None = None,
        layout: str = "NHWC",
        channels: int = 0,
        fields: Sequence[str] | None = None,
        mask_fill: int = 0,
        dtype: Any = "u8",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        threads: int = 0,
        slots: int = 3,
        slots_max: int | None = None,
        device: str = "cpu",
        pin_memory: bool = False,
        rank: int | None = None,
        world: int | None = None,
        mixup: float = 0.0,
        cutmix: float = 0.0,
        on_bad: str | None = None,
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
        rank, world = find_rank(rank, world)
        batch = batch_of_rank(batch, global_batch, world)
        slots_max = max(slots, 16) if slots_max is None else slots_max
        _check_kinds(locals())
        dtype = _dtype_name(dtype)
        self._feed = _dlpipe.Feed(
            data=_directory(data),
            augment=augment + _normalize(mean, std, dtype),
            batch=batch,
            threads=threads,
            slots=slots,
            slots_max=slots_max,
            seed=seed,
            train=train,
            shuffle=train if shuffle is None else shuffle,
            drop_last=train if drop_last is None else drop_last,
            epochs=epochs,
            limit=limit,
            rank=rank,
            world=world,
            channels=channels,
            fields=[] if fields is None else list(fields),
            mask_fill=mask_fill,
            dtype=dtype,
            mixup=mixup,
            cutmix=cutmix,
            on_bad=("substitute" if train else "drop") if on_bad is None else on_bad,
            max_bad=max_bad,
            max_pixels=max_pixels,
            memory=memory,
            quarantine=os.fsencode(quarantine),
            cache=os.fsencode(cache),
            cache_size=cache_size,
            framework=as_ or _imported_framework(),
            channels_first=layout == "NCHW",
            device=device,
            pin_memory=pin_memory,
        )
        self._lend = _lend_pinned if pin_memory else lend
        self._batch_type = batch_type(tuple(self._feed.fields))
        self.batch_size = batch
        self._transform = None if transform is None else _Timed(transform)
        self._data = data
        _open.add(self)

    def __repr__(self) -> str:
        data = os.fsdecode(self._data) if isinstance(self._data, (str, bytes, os.PathLike)) else self._data
        return f"dlpipe.Loader({data!r}): {self.samples} samples in batches of {self.batch_size}"

    def __iter__(self) -> Iterator[Any]:
        """A new pass over the data. One that was left early is not gone on with: the next epoch begins."""
        return _Pass(self._feed, self._batch_type, self._lend, self._transform)

    def __len__(self) -> int:
        """Batches of one `for`."""
        batches = self._feed.batches_per_pass()
        if batches < 0:
            raise TypeError("a loader with epochs=-1 has no length")
        return batches

    def state_dict(self) -> dict[str, Any]:
        """The place behind the batches given so far: a small dict of numbers and texts."""
        return self._feed.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on behind a state_dict(): the next `for` gives the batches that would have followed, bit for bit, in
        mid-epoch too, on any number of threads. Needs the same dataset, options and seed."""
        if not isinstance(state, dict):
            raise MisuseError(f"[loader] the state is {type(state).__name__}; give what state_dict() answered")
        self._feed.seek(state)

    def set_epoch(self, epoch: int) -> None:
        """The next `for` takes this epoch. Not needed: epochs follow each other by themselves."""
        self._feed.seek_epoch(epoch)

    def stats(self) -> dict[str, Any]:
        """What each stage did and waited for since the beginning: a dict of numbers. `transform` is a stage, too."""
        stats = self._feed.stats()
        if self._transform is not None:
            stats["stages"].append({"name": "transform", "samples": self._transform.samples, "bytes": 0, "threads": 1,
                                    "busy_s": self._transform.seconds, "wait_input_s": 0.0, "wait_output_s": 0.0})
        return stats

    def doctor(self, samples_per_s: float | None = None) -> str:
        """In words: the stage table, who waits for whom, and how many cores feed a consumer of `samples_per_s`. Default:
        as many as it took so far."""
        stats = self._feed.stats()
        rows, now, _ = self._feed.report(0.0)
        rate = now if samples_per_s is None else float(samples_per_s)
        cores, of_one = (self._feed.report(wanted)[2] for wanted in (rate, 1.0))
        said = _who_waits(stats, rows, now, self._feed.threads / of_one if of_one > 0 else 0.0)
        if self._transform is not None:
            rows.append(self._transform.row(stats["wall_s"]))
        lines = [f"{'stage':<10} {'samples':>12} {'samples/s alone':>16} {'busy':>7} {'waiting':>8}"]
        lines += [f"{name:<10} {samples:>12,} {round(alone):>16,} {busy:>7.1%} {waiting:>8.1%}" if alone else
                  f"{name:<10} {samples:>12,} {'':>16} {busy:>7.1%} {waiting:>8.1%}"
                  for name, samples, alone, busy, waiting in rows]
        if "cache" in stats:
            said.append(stats["cache"]["text"])
        return "\n".join([*lines, *said, f"{rate:,.0f} samples/s need {cores:.2f} cores for decoding and augmenting; this "
                                         f"loader has {_counted(self._feed.threads, 'thread')}."])  # fmt: skip

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
        """Names of a batch's fields, as the dataset has them: batch[name]."""
        return self._batch_type._names

    @property
    def classes(self) -> list[str]:
        """Names of the classes, by label."""
        return self._feed.classes

    @property
    def dataset(self) -> Dataset:
        """The whole dataset, sample by sample: len(loader.dataset) is the number of its samples, on all ranks."""
        from dlpipe.dataset import Dataset

        return Dataset(os.fsdecode(self._feed.directory))

    @property
    def samples(self) -> int:
        """Samples that an epoch has on this rank."""
        return self._feed.samples

    @property
    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the dataset's pixels, each a tuple by channel, of values scaled to [0, 1]."""
        return self._feed.mean_std


def _lend_pinned(kind, lent):
    """A batch that PyTorch's current stream copies from."""
    lent.read_on(sys.modules["torch"].cuda.current_stream().cuda_stream)
    return lend(kind, lent)


def _counted(number, what):
    return f"{number} {what}{'' if number == 1 else 's'}"


#: A loop that waits less than this share of its time is not what a faster loader would help; run/record/stage_report.h.
_NEGLIGIBLE = 0.05


def _who_waits(stats, rows, now, possible):
    """Two sentences: how long the loop and the loader waited for each other, and which of them to speed up. `possible`:
    samples per second of the loader's threads if they did nothing else."""
    busiest = max((row for row in rows if row[2] > 0), key=lambda row: row[3], default=None)
    if busiest is None or stats["samples"] == 0:
        return ["Nothing was measured: take some batches first."]
    stager = stats["stages"][-1]  # there the loop waits for a batch, or a finished batch for the loop
    loop, batch = (stager[name] / stats["wall_s"] for name in ("wait_input_s", "wait_output_s"))
    waited = (f"At {now:,.0f} samples/s your loop waited for the loader {loop:.1%} of the time, and a finished batch waited for "
              f"your loop {batch:.1%} of it.")  # fmt: skip
    work = f"most of its work is in the {busiest[0]}"
    if loop < _NEGLIGIBLE:
        return [waited, f"Your loop limits. The loader could give {possible:,.0f} samples/s; {work}."]
    if possible > 3 * now:
        return [waited, f"The loader's threads alone could give {possible:,.0f} samples/s: they and your loop share the cores, or "
                        f"batches are few; {work}."]  # fmt: skip
    return [waited, f"The loader limits: give it more threads or cores, or make samples cheaper; {work}."]


class _Timed:
    """The user's function over a batch, and how long it takes."""

    def __init__(self, function):
        self._function = function
        self.samples = 0
        self.seconds = 0.0

    def __call__(self, batch):
        begin = time.perf_counter()
        made = self._function(batch)
        self.seconds += time.perf_counter() - begin
        self.samples += batch._lent.count
        return made

    def row(self, wall_s):
        alone = self.samples / self.seconds if self.seconds > 0 else 0.0
        return ("transform", self.samples, alone, self.seconds / wall_s if wall_s > 0 else 0.0, 0.0)


class _Pass:
    """The iterator of one `for`."""

    def __init__(self, feed, kind, lend, transform):
        self._feed = feed
        self._kind = kind
        self._lend = lend
        self._transform = transform
        self._number = feed.begin_pass()

    def __iter__(self):
        return self

    def __next__(self):
        lent = self._feed.next(self._number)
        if lent is None:
            raise StopIteration
        batch = self._lend(self._kind, lent)
        return batch if self._transform is None else self._transform(batch)
