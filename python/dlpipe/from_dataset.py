"""Other libraries' datasets as dlpipe's."""

from __future__ import annotations

import collections.abc
import contextlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dlpipe import arrow, picture_annotations, sample_sources
from dlpipe.errors import Error, MisuseError
from dlpipe.fields import FieldKind
from dlpipe.kinds import kinds_checked
from dlpipe.paths import Path
from dlpipe.pictures import picture, size_of
from dlpipe.progress import Progress, Reporter
from dlpipe.storing import StoringOptions, documented
from dlpipe.workers import Workers
from dlpipe.writer import Writer

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LABEL_NAMES = ("label", "labels", "cls", "class", "target", "fine_label")
_IMAGE_ENDINGS = ("jpg", "jpeg", "png", "ppm", "img", "image")
_LOOKS = 8  # so many samples are read twice: a flip with p=0.5 shows in 255 of 256 datasets


def _refuse(*words):
    raise MisuseError("[from_dataset] " + "".join(map(str, words)))


def _is_picture(value):
    kind = type(value)
    if kind.__module__.split(".")[0] == "PIL":
        return True
    shape = getattr(value, "shape", None)
    return shape is not None and str(value.dtype).endswith("uint8") and len(shape) in (2, 3)


def _is_one_whole_number(value):
    """Whether it is an array of one whole number, as some datasets have labels."""
    return getattr(value, "shape", None) == (1,) and "int" in str(value.dtype)


def _ending(name):
    return name.rsplit(".", 1)[-1].lower()


def _kind_of(name, value):
    """The kind of field that holds such values; None: none does."""
    ending = _ending(name)
    if _is_picture(value) or (ending in _IMAGE_ENDINGS and (isinstance(value, bytes) or hasattr(value, "shape"))):
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
        return str(value.dtype).removeprefix("torch."), tuple(value.shape) or (1,)
    return None


def _infer(first):
    """Fields of samples like this one."""
    fields: dict[str, Any] = {}
    for name, value in first.items():
        if _ending(name) in _IMAGE_ENDINGS and isinstance(value, (str, os.PathLike)):
            _refuse(f"{name!r} is {value!r}, a text; give the picture or the bytes of its file: sample=, a function from the "
                    "dataset's item to a dict of values; or fields= where a text is meant")  # fmt: skip
        fields[name] = _kind_of(name, value)
    images = [name for name, kind in fields.items() if kind == "image"]
    if images == ["label"] and "image" in fields:
        _refuse("the label is an image, and the value before it is none, as if they were (label, image); give sample=, a function "
                "from the dataset's item to a dict such as {'image': ..., 'label': ...}")
    if images:
        image = next((name for name in images if picture_annotations.kind_of(name, first[name]) is None), images[0])
        _refuse_annotations(first, image)
        for name in images:
            if name != image:
                _refuse(f"{name!r} is a second image; give fields= with one of them, and with {name!r}: 'mask' where it holds the "
                        "class of each pixel")
    for name, kind in fields.items():
        if kind is None:
            _refuse(f"{name!r} is {type(first[name]).__name__}, and no field holds that; give fields= without it, or sample=, a "
                    "function from the dataset's item to a dict of values")
    return fields


def _refuse_annotations(first, image):
    """Boxes, key points and masks beside a picture, those in dicts too, want fields= to move with it."""
    values: dict[str, Any] = {}
    for name, value in first.items():
        if picture_annotations.are_in(value):
            values |= {part if name == "label" else f"{name}.{part}": one for part, one in value.items()}
        else:
            values[name] = value
    size = size_of(first[image])
    fields = {name: _kind_of(name, value) for name, value in values.items()}
    meant = {}
    for name, value in values.items():
        # an array of uint8 that isn't called a mask may be a second picture
        kind = picture_annotations.kind_of(name, value, None if fields[name] == "image" else size)
        if name != image and kind is not None:
            meant[name] = kind
    for name, value in values.items():
        key = picture_annotations.key_within(value) if fields[name] in ("text", None) else None
        if key is not None and not meant:
            _refuse(f"{name!r} has {key!r} in it, which no augmentation moves with the picture from there; give sample=, a "
                    "function from the dataset's item to a dict of values, with fields= that say 'boxes', 'points' or 'mask'; or "
                    f"fields= with {name!r}: 'text' to keep it as JSON. Files of VOC and COCO dlpipe.ingest reads")  # fmt: skip
    if meant:
        told = {name: kind for name, kind in fields.items() if kind != "image" or name == image or name in meant}
        picture_annotations.refuse(told, meant, values)


def _value(name, kind, value):
    """Plain values, which travel between processes: pictures as bytes or arrays, texts as str."""
    if kind == "image":
        if value is None:
            _refuse(f"a sample has no picture {name!r}; filter such samples out, Hugging Face's with dataset.filter(...)")
        return picture(value)
    if kind == "label" and isinstance(value, bytes):
        text = os.fsdecode(value).strip()
        return int(text) if text.removeprefix("-").isdecimal() else text
    if kind == "label" and _is_one_whole_number(value):
        return value.item()
    if kind in ("boxes", "boxes-xywh") and value is not None and picture_annotations.is_one_box(value):
        return [value]
    if kind == "text" and not isinstance(value, (str, bytes, os.PathLike)) and value is not None:
        try:
            return json.dumps(value)
        except (TypeError, ValueError) as error:
            _refuse(f"{name!r} is {type(value).__name__}, stored as JSON, and that fails: {error}; give fields= with its parts, "
                    f"such as {name + '.part'!r}, or sample=, a function from the dataset's item to a dict of values")
    return value


def _part(values, name):
    """A sample's value; also a part of a dict, "objects.bbox", and of the dict beside a picture, as torchvision has targets of
    detection, by its own name."""
    if name in values:
        return values[name]
    first, _, rest = name.partition(".")
    if rest and isinstance(values.get(first), collections.abc.Mapping):
        return _part(values[first], rest)
    target = values.get("label")
    return target.get(name) if isinstance(target, collections.abc.Mapping) else None


def _as_dict(item):
    """A sample of any library as a dict."""
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
    """Which sample it is, by its number in its split, and by its key or path where it has one."""
    key = next((item[name] for name in ("__key__", "path") if isinstance(item, collections.abc.Mapping) and name in item), None)
    return f"sample {number}" + (f" of {split!r}" if split else "") + (f" ({key})" if key else "")


@contextlib.contextmanager
def _naming(split, number, item=None):
    """An exception of the dataset, or of `sample`, becomes the cause of one that names the sample."""
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


class _Converter:
    """From a source's item to the values of a sample; goes to the worker processes."""

    def __init__(self, split, source, sample, fields, told_by_first):
        self.split, self.source, self.sample = split, source, sample
        self.fields, self.told_by_first = fields, told_by_first

    def dict_of(self, item, number):
        """The sample's values as the dataset, or `sample`, has them."""
        with _naming(self.split, number, item):
            return _as_dict(item if self.sample is None else self.sample(item))

    def at(self, number):
        """The sample with this number of a source that has numbers."""
        with _naming(self.split, number):
            item = self.source[number]
        return self.one(item, number)

    def twice(self, number):
        """The sample, and whether it has another image when it is read again."""
        values = self.at(number)
        return values, self.is_drawn(values, lambda: self.at(number))

    def is_drawn(self, values, read_again):
        images = [name for name, kind in self.fields.items() if kind == "image"]
        with contextlib.suppress(Exception):  # `sample` may have changed the item itself
            again = read_again()
            return not all(_is_same(values[name], again[name]) for name in images)
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
        more = [name for name in values if name not in self.fields] if self.told_by_first else ()
        if more:
            _refuse(f"sample {number} has {', '.join(map(repr, more))}, which the first one, that the fields are told by, has not; "
                    "give fields={name: kind} of what to store")
        try:
            with _naming(self.split, number, values):  # a PIL.Image may read its file only now
                return {name: _value(name, kind, _part(values, name)) for name, kind in self.fields.items()}
        except MisuseError as error:
            advice = ""
            if getattr(getattr(self.source, "dataset", None), "transform", None) is not None:
                advice = ("; the dataset has a transform: leave it out (transform=None), what it does in training is dlpipe.Loader's "
                          "augment")  # fmt: skip
            raise MisuseError(f"{error}{advice} ({_place(self.split, number, values)})") from None


def _length(source):
    return len(source) if getattr(source, "__len__", None) is not None else None


def _first(source):
    """An item to tell fields by, and the source again (an iterator's first item is not lost)."""
    if _length(source) == 0:
        return None
    if _length(source) is not None:
        return source[0]
    iterator = iter(source)
    first = next(iterator, None)
    is_used_up = iterator is getattr(source, "dataset", None)  # it can't be begun again
    if is_used_up and first is not None:
        source.dataset = itertools.chain([first], iterator)
    return first


def _first_values(sources, sample):
    """The values of the first sample there is; None: there is none."""
    for split, source in sources.items():
        with _naming(split, 0):
            item = _first(source)
        if item is not None:
            return _Converter(split, source, sample, {}, False).dict_of(item, 0)
    return None


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
    """Makes a dataset of another library's dataset.

        dlpipe.from_dataset(datasets.load_dataset("beans"), "data/beans")              # Hugging Face: all its splits
        dlpipe.from_dataset(torchvision.datasets.ImageFolder("pictures"), "data")      # the files, as ingest takes them
        dlpipe.from_dataset(my_dataset, "data", workers=8, progress=True)              # 8 processes run my_dataset[i]
        dlpipe.from_dataset({"train": a, "val": b}, "data")                            # splits
        dlpipe.from_dataset("data/*.parquet", "data")                                  # Parquet or Arrow files, by pyarrow

    Killed or stopped by Ctrl-C and called again, it goes on behind what was committed, which happens every 16,384 samples or
    32 MiB; before the first time nothing is left. Image columns of Hugging Face's datasets, undecoded WebDataset samples and
    torchvision's folders without a transform keep their JPEG and PNG bytes; decoded pictures, and those of Image(mode=...) with
    another mode, are stored as raw pixels (a PIL.Image turned as its EXIF orientation says), or with store="jpeg" as JPEGs.
    WebDataset's shards are also read by dlpipe.ingest("shards-{000..127}.tar", dst), without Python.

    Columns of Hugging Face's datasets become fields: a ClassLabel "label", a list of them "labels", numbers and lists of
    numbers of theirs, texts "text". Dicts are taken apart: "objects" with "bbox" and "category" becomes "objects.bbox"
    (boxes) and "objects.category", of which each box has one.

    Args:
        dataset: one of Hugging Face's `datasets` (a DatasetDict too, and streams), a torch dataset (by number or iterable),
            a WebDataset, anything else with samples by number or an iterator; or a dict of several, by split. A path of
            Parquet or Arrow files, a pattern, a folder or several: files, or their folders, called train, val and test make
            splits. A split that is called "validation" or "valid" becomes "val". torch's Subset, as random_split makes it, of
            one of these is taken as that one is, and so is ConcatDataset, with the names of its classes where its parts have
            the same. Leave transforms out: they are applied once, and belong to training, where dlpipe.Loader's `augment` is.
            A warning says so where some of the first samples, which are read twice, have other images then.
        dst: the dataset to make. Must not exist: whether it holds these samples can't be told.
        fields: {name: kind} as in dlpipe.Writer; a part of a dict is called "name.part", one of the dict beside a picture, as in
            torchvision's detection, "part". Default: told by the columns, or by the first sample. Boxes, key points and masks
            are refused there with the fields that they want, since plain numbers would not move with their picture.
        classes: names by label. Default: what the dataset says, or as in dlpipe.Writer.
        sample: a function from the dataset's item to a dict of values. Default: items that are dicts, or (image, label).
        boxes: the form of the boxes in a column "bbox" of Hugging Face's: "xywh" (x_min, y_min, width, height, as COCO has
            them) or "xyxy" (x_min, y_min, x_max, y_max).
        workers: processes that take samples of a dataset with numbers; 0: this one does.
        interrupted: as in dlpipe.Writer; a dataset that has changed meanwhile is refused where that can be told.
        progress: called as progress(done, total) (total None where nobody knows); True, or dlpipe.TqdmProgress(), for a bar.
        {storing}

    Returns:
        What `dlpipe ingest --json` prints, as a dict.

    Raises:
        dlpipe.Error: of the kind that fits. An exception of the dataset, or of `sample`, is the `__cause__` of one that names
            the sample.
    """
    if workers < 0:
        _refuse(f"workers is {workers}; give a number of processes, or 0 for none")
    if arrow.fits(dataset):
        dataset = arrow.parts(arrow.files(dataset))
    parts = dataset if isinstance(dataset, dict) else {"": dataset}
    if not parts:
        _refuse("no dataset: the dict is empty")
    sources = sample_sources.by_split(parts, boxes)
    first_source = next(iter(sources.values()))
    told_by_first = False
    if fields is None and sample is None:
        fields = first_source.fields
    if fields is None:
        first = _first_values(sources, sample)
        if first is None:
            _refuse("the dataset is empty")
        told_by_first = True
        fields = _infer(first)
    if classes is None and sample is None:
        classes = first_source.classes
    lengths = [_length(source) for source in sources.values()]
    total = None if None in lengths else sum(lengths)
    name = "; ".join(f"{split} {source.name()}".strip() for split, source in sources.items())
    with contextlib.ExitStack() as stack:
        call = stack.enter_context(Reporter(progress, lambda bar, done, total: bar.update(done, total, "img")))
        converters = {split: _Converter(split, source, sample, fields, told_by_first) for split, source in sources.items()}
        pools = {}
        for split, converter in converters.items():
            if workers > 0 and _length(converter.source):
                pools[split] = stack.enter_context(contextlib.closing(Workers(workers, converter)))
        writer = stack.enter_context(
            Writer(dst, fields=fields, classes=classes, source=name, interrupted=interrupted, **storing)
        )
        _write(writer, converters, pools, call, total)
    assert writer.report is not None  # the block is left
    return writer.report


def _warn_of_draws(split, number):
    logging.getLogger("dlpipe").warning(
        "[from_dataset] %s has another image each time it is read: the dataset, or sample=, draws at random, and one draw is stored for "
        "all epochs; leave random transforms out and give them to dlpipe.Loader as augment=", _place(split, number))  # fmt: skip


def _stream(writer, converter, number):
    """Yields the samples that the writer hasn't; a stream's length is known at its end."""
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


def _write(writer, converters, pools, call, total):
    number = 0
    for split, converter in converters.items():
        if _length(converter.source) is None:
            samples = _stream(writer, converter, number)
        else:
            samples = _indexed(writer, converter, number, pools.get(split))
        for values in samples:
            number += 1
            if values is None:
                continue
            writer.write(values, split=split)
            if call is not None:
                call(number, total)
