"""Converts other libraries' datasets."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dlpipe import arrow, images, sample_sources
from dlpipe.arguments import MAX_PIXELS, Path, Progress, Reporter, kinds_checked
from dlpipe.errors import Error, MisuseError
from dlpipe.images import Unreadable, as_image, oversized, size_of
from dlpipe.writer import FieldKind, StoringOptions, Writer, documented, without_bfloat16

if TYPE_CHECKING:
    from typing_extensions import Unpack


# ---- worker processes that read the samples


_converter: Any = None


def _begin_worker(converter):
    global _converter
    _converter = converter
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: die with a killed parent
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


class WorkerTraceback(Exception):
    """The traceback of an exception in a worker, set as its cause, because pickle drops tracebacks."""


def _take_range(begin, end, read):
    """(samples, failure): what the converter's method `read` returns for each number, and, if one raised, the exception, its cause
    and its traceback; else None."""
    samples = []
    try:
        for number in range(begin, end):
            samples.append(getattr(_converter, read)(number))
    except Exception as error:
        cause = error.__cause__
        where = "".join(traceback.format_exception(error if cause is None else cause))
        if not _can_travel(error):
            error = Error(f"[from_dataset] one of the samples {begin} to {end - 1} raised {type(error).__qualname__}: {error}")
        if not _can_travel(cause):
            error, cause = type(error)(f"{error}; it can't be pickled, here is its traceback:\n{where}"), None
        return samples, (error, cause, where)
    return samples, None


def _can_travel(error):
    """Whether the exception can be pickled and unpickled. If not, the pool would consider its worker broken."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


def _ready():
    return os.getpid()


class Workers:
    """Worker processes that read ranges of samples ahead of the writer and return them in order."""

    RANGE = 32

    def __init__(self, count, converter):
        from concurrent.futures import ProcessPoolExecutor

        # Python's default before 3.14: without fork, datasets that are defined in a notebook's cell can't be sent to other
        # processes. The workers need none of the library's threads. A start method that the user has set is kept.
        method = multiprocessing.get_start_method(allow_none=True) or "fork"
        self.count = count
        self.pool = ProcessPoolExecutor(count, multiprocessing.get_context(method), _begin_worker, (converter,))
        self._run(lambda: [f.result() for f in [self.pool.submit(_ready) for _ in range(count)]])

    @staticmethod
    def _run(work):
        from concurrent.futures.process import BrokenProcessPool

        try:
            return work()
        except BrokenProcessPool as error:
            raise Error("[from_dataset] a worker process ended: it was killed (out of memory?), or it could not start "
                        "(the dataset can't be pickled, or the program lacks `if __name__ == '__main__':`); try workers=0"
                        ) from error  # fmt: skip

    def samples(self, begin, end, read):
        ahead: collections.deque[Any] = collections.deque()
        ranges = ((i, min(i + self.RANGE, end)) for i in range(begin, end, self.RANGE))
        for one in itertools.islice(ranges, 4 * self.count):
            ahead.append(self.pool.submit(_take_range, *one, read))
        while ahead:
            taken = self._run(ahead.popleft().result)
            for one in itertools.islice(ranges, 1):
                ahead.append(self.pool.submit(_take_range, *one, read))
            yield from taken[0]
            if taken[1] is not None:
                error, cause, where = taken[1]
                if cause is not None:
                    cause.__cause__ = WorkerTraceback(where)
                raise error from cause

    def close(self):
        self.pool.shutdown(wait=False, cancel_futures=True)


# ---- from_dataset


_LABEL_NAMES = ("label", "labels", "cls", "class", "target", "fine_label")
_IMAGE_ENDINGS = ("jpg", "jpeg", "png", "ppm", "img", "image")
#: Of dtypes that no field has: the one that values are stored as.
_WIDER = {**dict.fromkeys(("bool", "int8", "int16", "uint16", "uint32", "uint64"), "i64"), "bfloat16": "f32"}
_LOOKS_AT_NUMBERS = 64  # samples
_LOOKS = 8  # samples that are read twice: this detects a flip with p=0.5 in 255 of 256 datasets


def _refuse(*words):
    raise MisuseError("[from_dataset] " + "".join(map(str, words)))


def _is_image(value):
    kind = type(value)
    if kind.__module__.split(".")[0] == "PIL":
        return True
    shape = getattr(value, "shape", None)
    return shape is not None and str(value.dtype).endswith("uint8") and len(shape) in (2, 3)


def _is_one_whole_number(value):
    """Whether the value is an array of one whole number, as labels in some datasets are."""
    return getattr(value, "shape", None) == (1,) and "int" in str(value.dtype)


def _ending(name):
    return name.rsplit(".", 1)[-1].lower()


def _kind_of(name, value):
    """The kind of field that holds such values; None if there is none."""
    ending = _ending(name)
    if _is_image(value) or (ending in _IMAGE_ENDINGS and (isinstance(value, bytes) or hasattr(value, "shape"))):
        return "image"
    is_number = isinstance(value, (int, float)) or (hasattr(value, "dtype") and getattr(value, "shape", None) == ())
    if ending in _LABEL_NAMES and (isinstance(value, (int, str, bytes)) or is_number or _is_one_whole_number(value)):
        return "label"
    if isinstance(value, (str, os.PathLike, dict)) or (isinstance(value, bytes) and ending in ("txt", "json", "text")):
        return "text"
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, (bool, int)):
        return "i64"
    if isinstance(value, float):
        return "f64"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        dtype = str(value.dtype).removeprefix("torch.")
        return _WIDER.get(dtype, dtype), tuple(value.shape) or (1,)
    return None


def _refuse_list(name, values, fields):
    """Refuses a list of numbers or texts, which may be labels or numbers, and suggests fields. Returns for other lists."""
    if not all(isinstance(one, (int, float, str)) for one in values):
        return
    known = {other: kind for other, kind in fields.items() if kind is not None}
    if any(isinstance(one, float) for one in values):
        _refuse(f"{name!r} is a list of numbers; give fields={ {**known, name: 'numbers'} } to store any number of them per sample, or "
                f"{name!r}: ('f32', {len(values)}) if all samples have {len(values)}")  # fmt: skip
    what = "texts" if any(isinstance(one, str) for one in values) else "whole numbers"
    numbers = "" if what == "texts" and values else f"; or {name!r}: ('i64', None) if they are plain numbers"
    _refuse(f"{name!r} is a list of {what}; give fields={ {**known, name: 'labels'} } if they are the classes that apply to the sample{numbers}; "
            "or fields= without it")


def _infer(samples):
    """The fields of a dataset, from its first sample and, for values that it lacks, from later ones."""
    first = _filled(samples[0], samples)
    fields: dict[str, Any] = {}
    for name, value in first.items():
        if _ending(name) in _IMAGE_ENDINGS and isinstance(value, (str, os.PathLike)):
            _refuse(f"{name!r} is {value!r}, a string; give the image or the bytes of its file with sample=, a function from the "
                    "dataset's item to a dict of values; or give fields= if a text is meant")  # fmt: skip
        fields[name] = _kind_of(name, value)
    image_names = [name for name, kind in fields.items() if kind == "image"]
    if image_names == ["label"] and "image" in fields:
        _refuse("the label is an image and the value before it is not, so items seem to be (label, image); give sample=, a function "
                "from the dataset's item to a dict such as {'image': ..., 'label': ...}")
    if image_names:
        image = next((name for name in image_names if images.kind_of(name, first[name]) is None), image_names[0])
        for one in samples:
            _refuse_annotations(_filled(one, samples), image)
        for name in image_names:
            if name != image:
                _refuse(f"{name!r} is a second image; give fields= with one of them, and with {name!r}: 'mask' if it holds the "
                        "class of each pixel")
    labels = [name for name, kind in fields.items() if kind == "label"]
    if len(labels) > 1:
        others = {name: "text" if isinstance(first[name], (str, bytes)) else "i64" for name in labels[1:]}
        _refuse(f"{' and '.join(map(repr, labels))} look like class labels, but a dataset has one; give fields= with 'label' for the one to "
                f"learn and another kind for the rest, such as fields={ {**fields, **others} }")  # fmt: skip
    for name, kind in fields.items():
        if kind is None and first[name] is None:
            given = {other: kind or "label" for other, kind in fields.items() if kind is not None or other == name}
            _refuse(f"{name!r} is None in the first samples (at most {_LOOKS_AT_NUMBERS} of each split are read); give fields= with its kind, or without "
                    "it" + f", such as fields={given}" * (_ending(name) in _LABEL_NAMES))  # fmt: skip
        if kind is None and isinstance(first[name], (list, tuple)):
            _refuse_list(name, first[name], fields)
        if kind is None:
            _refuse(f"{name!r} is {type(first[name]).__name__}, which no field can hold; give fields= without it, or sample=, a "
                    "function from the dataset's item to a dict of values")
    return fields


def _filled(values, samples):
    """A sample's values; those that are None are replaced by other samples'."""
    return {name: value if value is not None else next((one[name] for one in samples if one.get(name) is not None), None)
            for name, value in values.items()}  # fmt: skip


def _refuse_annotations(first, image):
    """Refuses boxes, key points and masks, also in dicts, that need fields= to move with the image."""
    values: dict[str, Any] = {}
    for name, value in first.items():
        if images.holds_annotations(value):
            values |= {part if name == "label" else f"{name}.{part}": one for part, one in value.items()}
        else:
            values[name] = value
    size = size_of(first[image])
    fields = {name: _kind_of(name, value) for name, value in values.items()}
    meant = {}
    for name, value in values.items():
        # a uint8 array that isn't called a mask may be a second image
        kind = images.kind_of(name, value, None if fields[name] == "image" else size)
        if name != image and kind is not None:
            meant[name] = kind
    for name, value in values.items():
        key = images.annotation_within(value) if fields[name] in ("text", None) else None
        if key is not None and not meant:
            _refuse(f"{name!r} contains {key!r}, which augmentations can't transform with the image while it is nested; give sample=, a "
                    "function from the dataset's item to a dict of values, and fields= with 'boxes', 'points' or 'mask'; or "
                    f"fields= with {name!r}: 'text' to keep it as JSON. dlpipe.ingest reads VOC and COCO files")  # fmt: skip
    if meant:
        told = {name: kind for name, kind in fields.items() if kind != "image" or name == image or name in meant}
        images.refuse_annotations(told, meant, values)


def _value(name, kind, value, max_pixels):
    """The value in a plain form that can be pickled: images as bytes or arrays, texts as str."""
    too_large = oversized(value, max_pixels) if kind in ("image", "mask") else None
    if too_large is not None:
        return too_large
    if kind == "image":
        if value is None:
            _refuse(f"a sample has no image {name!r}; filter such samples out (Hugging Face: dataset.filter(...))")
        return as_image(value)
    if kind == "label" and isinstance(value, bytes):
        text = os.fsdecode(value).strip()
        return int(text) if text.removeprefix("-").isdecimal() else text
    if kind == "label" and _is_one_whole_number(value):
        return value.item()
    if kind in ("boxes", "boxes-xywh") and value is not None and images.is_one_box(value):
        return [value]
    if kind == "text" and not isinstance(value, (str, bytes, os.PathLike)) and value is not None:
        try:
            return json.dumps(value)
        except (TypeError, ValueError) as error:
            _refuse(f"{name!r} is {type(value).__name__}, which can't be stored as JSON: {error}; give fields= with its parts, "
                    f"such as {name + '.part'!r}, or sample=, a function from the dataset's item to a dict of values")
    return value


def _part(values, name, absent=None):
    """A sample's value. Parts of dicts are "objects.bbox"; parts of a dict in the label's place (torchvision's detection targets)
    have their own name only."""
    if name in values:
        return values[name]
    first, _, rest = name.partition(".")
    if rest and isinstance(values.get(first), collections.abc.Mapping):
        return _part(values[first], rest, absent)
    target = values.get("label")
    return target.get(name, absent) if isinstance(target, collections.abc.Mapping) else absent


def _as_dict(item):
    """A sample of any library as a dict of values."""
    if isinstance(item, collections.abc.Mapping):
        return {("path" if name == "__key__" else name): v for name, v in item.items()
                if name == "__key__" or not name.startswith("__")}  # fmt: skip
    names = getattr(item, "_fields", ()) if isinstance(item, tuple) else ()
    if len(names) > 2 or any(_ending(name) in (*_LABEL_NAMES, *_IMAGE_ENDINGS) for name in names):
        return item._asdict()
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return {"image": item[0], "label": item[1]}
    what = f"{type(item).__name__} of {len(item)}" if isinstance(item, (tuple, list)) else type(item).__name__
    _refuse(f"a sample is {what}; give sample=, a function from it to a dict such as {{'image': ..., 'label': ...}}")


def _place(split, number, item=None):
    """Names a sample by its number in its split, and by its key or path if it has one."""
    key = next((item[name] for name in ("__key__", "path") if isinstance(item, collections.abc.Mapping) and name in item), None)
    return f"sample {number}" + (f" of {split!r}" if split else "") + (f" ({key})" if key else "")


@contextlib.contextmanager
def _naming(split, number, item=None):
    """Raises an Error that names the sample, with the exception of the dataset or of `sample` as its cause."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        said = f"{type(error).__qualname__}: {error}"
        raise Error(f"[from_dataset] {_place(split, number, item)} raised {said}") from error


def _is_same(image, other):
    if isinstance(image, (bytes, str)):
        return image == other
    import numpy as np

    return np.array_equal(image, other)


#: The key under which a converted sample lists the fields that the item lacks.
_ABSENT = "\0absent"


class _Converter:
    """Converts a source's items to values of samples. Sent to the worker processes."""

    def __init__(self, split, source, sample, fields, told_by_first, max_pixels=MAX_PIXELS, skips=False):
        self.split, self.source, self.sample = split, source, sample
        self.fields, self.told_by_first, self.max_pixels = fields, told_by_first, max_pixels
        self.names = []  # of the parts of the last sample that this process read
        self.needs_label = skips and sample is None and isinstance(source, arrow.Table) and source.lacks_some_labels()

    def dict_of(self, item, number):
        """The sample's values as the dataset, or `sample`, returns them."""
        with _naming(self.split, number, item):
            return _as_dict(item if self.sample is None else self.sample(item))

    def at(self, number):
        """The sample with this number, for a source with random access."""
        with _naming(self.split, number):
            item = self.source[number]
        return self.one(item, number)

    def twice(self, number):
        """The sample, and whether reading it again returns a different image."""
        values = self.at(number)
        return values, self.is_drawn(values, lambda: self.at(number))

    def is_drawn(self, values, read_again):
        image_names = [name for name, kind in self.fields.items() if kind == "image"]
        with contextlib.suppress(Exception):  # `sample` may have modified the item
            again = read_again()
            return not all(_is_same(values[name], again[name]) for name in image_names)
        return False

    def items(self):
        """(number, item) of a stream."""
        iterator, end = iter(self.source), object()
        for number in itertools.count():
            with _naming(self.split, number):
                item = next(iterator, end)
            if item is end:
                return
            yield number, item

    def one(self, item, number):
        values = self.dict_of(item, number)
        self.names = list(values)
        more = [name for name in values if name not in self.fields] if self.told_by_first else ()
        if more:
            _refuse(f"sample {number} has {', '.join(map(repr, more))}, which the first sample lacks; fields are inferred from "
                    "the first sample: give fields={name: kind} with what to store")
        try:
            with _naming(self.split, number, values):  # a PIL.Image may read its file only now
                found = {name: _value(name, kind, _part(values, name), self.max_pixels) for name, kind in self.fields.items()}
                if self.needs_label:
                    self._leave_out_unlabelled(found, number)
                found[_ABSENT] = [name for name in self.fields if found[name] is None and _part(values, name, _ABSENT) is _ABSENT]
                return found
        except MisuseError as error:
            advice = ""
            if getattr(getattr(self.source, "dataset", None), "transform", None) is not None:
                advice = ("; the dataset has a transform: leave it out (transform=None) and give it to dlpipe.Loader as "
                          "augment")  # fmt: skip
            raise MisuseError(f"{error}{advice} ({_place(self.split, number, values)})") from None

    def _leave_out_unlabelled(self, found, number):
        """As ingest does with lists: a sample without a label, among others that have one, is like an image that can't be read."""
        of_kind = {kind: name for name, kind in self.fields.items() if kind in ("image", "label")}
        if len(of_kind) == 2 and found[of_kind["label"]] is None:
            found[of_kind["image"]] = Unreadable.because(f"row {number} has no {of_kind['label']!r}; write its class")


def _length(source):
    return len(source) if getattr(source, "__len__", None) is not None else None


def _items(source):
    """Yields the items to infer fields from. Close the generator: it then puts back the items of an iterator."""
    if _length(source) is not None:
        yield from (source[i] for i in range(_length(source)))
        return
    iterator, read = iter(source), []
    is_used_up = iterator is getattr(source, "dataset", None)  # an iterator, which can't start again
    try:
        for item in iterator:
            read.append(item)
            yield item
    finally:
        if is_used_up and read:
            source.dataset = itertools.chain(read, iterator)


def _first_samples(sources, sample):
    """The values of the first sample of all sources, and those of later ones that have a value for what is None in all before."""
    samples: list[dict[str, Any]] = []
    missing: set[str] = set()
    end = object()
    for split, source in sources.items():
        converter = _Converter(split, source, sample, {}, False)
        with contextlib.closing(_items(source)) as items:
            for number in range(_LOOKS_AT_NUMBERS):
                with _naming(split, number):
                    item = next(items, end)
                if item is end:
                    break
                values = converter.dict_of(item, number)
                found = {name for name in missing if values.get(name) is not None}
                if not samples:
                    missing = {name for name, value in values.items() if value is None}
                if not samples or found:
                    samples.append(values)
                missing -= found
                if not missing:
                    return samples
    return samples


@documented
@kinds_checked("from_dataset")
def from_dataset(
    dataset: Any,
    dst: Path,
    *,
    fields: Mapping[str, FieldKind] | None = None,
    classes: Iterable[str] | None = None,
    sample: Callable[[Any], Mapping[str, Any]] | None = None,
    boxes: str | None = None,
    workers: int = 0,
    interrupted: str = "resume",
    progress: Progress = None,
    **storing: Unpack[StoringOptions],
) -> dict[str, Any]:
    """Creates a dataset from another library's dataset.

        dlpipe.from_dataset(datasets.load_dataset("beans"), "data/beans")              # Hugging Face: all its splits
        dlpipe.from_dataset(torchvision.datasets.ImageFolder("images"), "data")      # stores the files' bytes
        dlpipe.from_dataset(my_dataset, "data", workers=8, progress=True)              # 8 processes run my_dataset[i]
        dlpipe.from_dataset({"train": a, "val": b}, "data")                            # splits
        dlpipe.from_dataset("data/*.parquet", "data")                                  # Parquet or Arrow files, with pyarrow

    If it is killed or stopped by Ctrl-C, call it again to resume after the last commit. It commits every 16,384 samples or
    32 MiB; before the first commit nothing is left. Image columns of Hugging Face's datasets, undecoded WebDataset samples and
    torchvision's folders without a transform keep their JPEG and PNG bytes. Decoded images, and those of Image(mode=...) with
    another mode, are stored as raw pixels (with a PIL.Image's EXIF orientation applied), or as JPEGs with store="jpeg".
    dlpipe.ingest("shards-{000..127}.tar", dst) also reads WebDataset's shards, without Python.

    Columns of Hugging Face's datasets become fields: a ClassLabel "label", a list of ClassLabels "labels", numbers and lists of
    numbers fields of their dtype, texts "text". Dicts become one field per entry: "objects" with "bbox" and "category" becomes
    "objects.bbox" (boxes) and "objects.category" (one per box).

    Args:
        dataset: one of Hugging Face's `datasets` (also a DatasetDict or a stream), a torch dataset (indexed or iterable),
            a WebDataset, or any other sequence or iterator of samples; or a dict of several, by split. Or Parquet or Arrow
            files: a path, a pattern, a folder or several. Files or folders of them called train, val and test become
            splits. A split called "validation" or "valid" becomes "val". torch's Subset (as random_split returns it) and
            ConcatDataset of these are accepted; a ConcatDataset keeps the class names if all of its parts have the
            same. Leave transforms out: they would be applied once. Give them to dlpipe.Loader as `augment` for training.
            The first samples are read twice, and a warning is logged if an image differs.
        dst: the dataset to create. Must not exist, because an existing dataset can't be compared with the samples.
        fields: {name: kind} as in dlpipe.Writer. A part of a dict is called "name.part"; a part of a dict in the label's place,
            as in torchvision's detection, is called "part". Default: inferred from the columns, or from the first sample (or
            for values that are None in it, from the first that has one, among at most 64 of each split). Inferred boxes, key
            points and masks are refused, because plain numbers would not move with the image; the error suggests `fields`.
            Numbers inferred from samples refuse NaN and infinity.
        classes: names by label. Default: those of the dataset, or as in dlpipe.Writer.
        sample: a function from the dataset's item to a dict of values. Default: items are dicts, or (image, label).
        boxes: the format of the boxes in a column "bbox" of Hugging Face's: "xywh" (x_min, y_min, width, height, as in COCO)
            or "xyxy" (x_min, y_min, x_max, y_max).
        workers: number of processes that read samples, for a dataset with random access; 0: read in this process.
        interrupted: as in dlpipe.Writer. A dataset that has changed in between is refused if that can be detected.
        progress: called as progress(done, total), total None if unknown. True or dlpipe.TqdmProgress() for a bar.
        {storing}

    Returns:
        What `dlpipe ingest --json` prints, as a dict.

    Raises:
        dlpipe.Error: a subclass that fits. If the dataset or `sample` raises, that exception is the `__cause__` of an Error
            that names the sample.
    """
    if workers < 0:
        _refuse(f"workers is {workers}; give a number of processes of at least 0")
    if arrow.fits(dataset):
        dataset = arrow.parts(arrow.files(dataset))
    parts = dataset if isinstance(dataset, dict) else {"": dataset}
    if not parts:
        _refuse("no dataset: the dict is empty")
    sources = sample_sources.by_split(parts, boxes)
    first_source = next(iter(sources.values()))
    told_by_first, is_inferred = False, fields is None
    if fields is None and sample is None:
        fields = first_source.fields
    if fields is None:
        samples = _first_samples(sources, sample)
        if not samples:
            _refuse("the dataset is empty")
        told_by_first = True
        fields = _infer(samples)
        _warn_of_one_number(_filled(samples[0], samples))
    if classes is None and sample is None:
        classes = first_source.classes
    lengths = [_length(source) for source in sources.values()]
    total = None if None in lengths else sum(lengths)
    name = "; ".join(f"{split} {source.name()}".strip() for split, source in sources.items())
    with contextlib.ExitStack() as stack:
        call = stack.enter_context(Reporter(progress, lambda bar, done, total: bar.update(done, total, "img")))
        max_pixels = storing.get("max_pixels", MAX_PIXELS)
        skips = storing.get("on_error", "stop") != "stop"
        converters = {split: _Converter(split, source, sample, fields, told_by_first, max_pixels, skips) for split, source in sources.items()}
        pools = {}
        for split, converter in converters.items():
            if workers > 0 and _length(converter.source):
                pools[split] = stack.enter_context(contextlib.closing(Workers(workers, converter)))
        writer = stack.enter_context(
            Writer(dst, fields=fields, classes=classes, source=name, interrupted=interrupted, **storing)
        )
        for field in writer._fields:
            field.is_finite |= told_by_first  # a column of numbers has NaN for what is missing
        _write(writer, converters, pools, call, total, is_inferred)
    assert writer.report is not None  # the block is left
    return writer.report


def _warn_of_draws(split, number):
    logging.getLogger("dlpipe").warning(
        "[from_dataset] %s has a different image each time it is read: the dataset, or sample=, is random, and one draw is stored "
        "for all epochs; leave random transforms out and give them to dlpipe.Loader as augment=", _place(split, number))  # fmt: skip


def _stream(writer, converter, number):
    """Yields the samples of a stream, None for each that the writer already has."""
    looks = 0 if converter.sample is None else _LOOKS  # the stream itself can't be read again
    for i, item in converter.items():
        if number + i < writer.position:
            yield None
            continue
        values = converter.one(item, i)
        if looks > 0:
            looks -= 1
            if converter.is_drawn(values, lambda item=item, i=i: converter.one(item, i)):
                looks = 0
                _warn_of_draws(converter.split, i)
        yield values


def _indexed(writer, converter, number, workers):
    length = len(converter.source)
    begin = min(length, max(0, writer.position - number))
    looked_at = min(begin + _LOOKS, length)

    def take(begin, end, read):
        return map(getattr(converter, read), range(begin, end)) if workers is None else workers.samples(begin, end, read)

    yield from itertools.repeat(None, begin)
    are_drawn = False
    for i, (values, is_drawn) in enumerate(take(begin, looked_at, "twice"), begin):
        if is_drawn and not are_drawn:
            _warn_of_draws(converter.split, i)
        are_drawn = are_drawn or is_drawn
        yield values
    yield from take(looked_at, length, "at")


def _warn_of_one_number(first):
    """Warns about arrays of one number, which PyTorch's default_collate turns into [batch, 1]."""
    for name, value in first.items():
        if getattr(value, "shape", None) == (1,):
            logging.getLogger("dlpipe").warning(
                "[from_dataset] %r is an array of one number, which is stored as a number: a batch of them has the shape [batch]; if a loss needs "
                "[batch, 1], pass it batch.%s[:, None]", name, name)  # fmt: skip


def _warn_of_multi_hot(samples):
    """Warns about fields of numbers that hold vectors of 0 and 1 only. `samples`: their values in the first samples."""
    import numpy as np

    for name in samples[0] if samples else ():
        vectors = [np.asarray(without_bfloat16(values[name])) for values in samples]
        length = vectors[0].size
        if length > 1 and all(one.shape == (length,) and np.isin(one, (0, 1)).all() for one in vectors):
            logging.getLogger("dlpipe").warning(
                "[from_dataset] %r holds vectors of 0 and 1, which are stored as numbers: a model learns them by regression. If they are "
                "labels, give fields= with %r: 'multi-hot', and classes= with %d names", name, name, length)  # fmt: skip


def _write(writer, converters, pools, call, total, is_inferred):
    number, is_whole = 0, writer.position == 0
    missing = {field.name for field in writer._fields}
    numbers = [field.name for field in writer._fields if is_inferred and field.kind == "tensor" and not field.of]
    looked_at: list[dict[str, Any]] = []
    for split, converter in converters.items():
        if _length(converter.source) is None:
            samples = _stream(writer, converter, number)
        else:
            samples = _indexed(writer, converter, number, pools.get(split))
        for values in samples:
            number += 1
            if values is None:
                continue
            absent = values.pop(_ABSENT)
            missing &= set(absent)
            values = {name: value for name, value in values.items() if name not in absent}
            writer.write(values, split=split)
            if len(looked_at) < _LOOKS_AT_NUMBERS:
                looked_at.append({name: values.get(name) for name in numbers})
                if len(looked_at) == _LOOKS_AT_NUMBERS:
                    _warn_of_multi_hot(looked_at)
            if call is not None:
                call(number, total)
    if len(looked_at) < _LOOKS_AT_NUMBERS:
        _warn_of_multi_hot(looked_at)
    if missing and is_whole and number > 0:
        known = next((", ".join(map(repr, one.names)) for one in converters.values() if one.names), "")
        _refuse(f"no sample has {', '.join(map(repr, sorted(missing)))}, which fields= names" + f"; samples have {known}" * bool(known)
                + "; the parts of a tuple are called 'image' and 'label': give fields= with these names, or sample=, a function from "
                  "the dataset's item to a dict of values")  # fmt: skip
