"""Sources of from_dataset's samples: other libraries' datasets, with random access or as streams."""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import itertools
import logging
import os
from typing import Any

from dlpipe import arrow, images
from dlpipe.arrow import IMAGE_NAMES, LABEL_NAMES
from dlpipe.errors import MisuseError
from dlpipe.images import in_mode, read_image, size_of


# ---- Hugging Face's `datasets`: the bytes of image columns unchanged, and a field for every column


_BOX_FORMS = {"xywh": "boxes-xywh", "xyxy": "boxes"}


def _is_hugging_face(dataset):
    """Whether this is a dataset of Hugging Face's `datasets`."""
    return type(dataset).__module__.split(".")[0] == "datasets" and getattr(dataset, "features", None) is not None


@dataclasses.dataclass
class _Column:
    """What becomes a field: a column, or a part of the dicts in a column, called "column.part"."""

    path: tuple[str, ...]
    feature: Any
    is_listed: bool = False  # the dicts are in a list, one per object

    @property
    def name(self):
        return ".".join(self.path)

    @property
    def inner(self):
        """The feature of a list's values; None if this is not a list."""
        return self.feature if self.is_listed else getattr(self.feature, "feature", None)

    @property
    def is_boxes(self):
        length = getattr(self.inner, "length", None)
        number = getattr(getattr(self.inner, "feature", None), "dtype", "")
        return self.path[-1].lower() in images.BOX_NAMES and length in (4, -1) and number.startswith(("float", "int"))

    @property
    def numbers(self):
        """(shape, dtype) if the column holds numbers, with None for variable sides; else None."""
        feature, shape = self.feature, (None,) if self.is_listed else ()
        while (inner := getattr(feature, "feature", None)) is not None:
            length = getattr(feature, "length", -1)
            feature, shape = inner, (*shape, length if length > 0 else None)
        dtype = str(getattr(feature, "dtype", ""))
        shape = (*shape, *(getattr(feature, "shape", None) or ()))
        return (shape, dtype) if dtype.startswith(("int", "uint", "float", "bool")) else None

    def value(self, row):
        """The value of this field in a row."""
        for depth, key in enumerate(self.path):
            if isinstance(row, list):
                return [self._below(one, depth) for one in row]
            if row is None:
                return None
            row = row[key]
        return row

    def _below(self, row, depth):
        for key in self.path[depth:]:
            row = row[key]
        return row


def _columns(features, path=(), is_listed=False):
    """All columns; a column of dicts becomes one per entry."""
    for name, feature in features.items():
        inner = getattr(feature, "feature", None)
        if isinstance(feature, dict):
            yield from _columns(feature, (*path, name), is_listed)
        elif isinstance(inner, dict) and not is_listed:
            yield from _columns(inner, (*path, name), True)
        else:
            yield _Column((*path, name), feature, is_listed)


class _Rows:
    """datasets.Dataset, with random access."""

    def __init__(self, dataset, boxes):
        import datasets

        self._datasets = datasets
        self._boxes = boxes
        if boxes is not None and boxes not in _BOX_FORMS:
            _refuse(f"boxes={boxes!r}; give 'xywh' (x_min, y_min, width, height, as in COCO) or 'xyxy' (x_min, y_min, "
                    "x_max, y_max)")
        self._columns = list(_columns(dataset.features))
        self._images = [c.name for c in self._columns if isinstance(c.feature, datasets.Image)] or \
                       [c.name for c in self._columns if self._holds_files(c)]  # fmt: skip
        self._images.sort(key=images.is_called_mask)  # the image first
        self._modes = {c.name: c.feature.mode for c in self._columns
                       if len(c.path) == 1 and getattr(c.feature, "mode", None) is not None}  # fmt: skip
        if (getattr(dataset, "format", None) or {}).get("type") == "custom":
            logging.getLogger("dlpipe").warning("[from_dataset] the dataset's with_transform is ignored, and columns are stored "
                                                "unchanged; give sample=, a function from a row to a dict, or dlpipe.Loader's augment")
        for name in self._images:
            if isinstance(dataset.features.get(name), datasets.Image):
                dataset = dataset.cast_column(name, datasets.Image(decode=False))
        self.dataset = dataset.with_format(None)
        self.classes = next((names for names in map(self._names, self._columns) if names is not None), None)

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        return self._row(self.dataset[i])

    def name(self):
        """Identifies the dataset."""
        kind = f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__}"
        return f"{kind} of {len(self)}, {self.dataset._fingerprint}"

    @property
    def fields(self):
        """The fields that the columns become."""
        boxes_of = {c.path[:-1]: c.name for c in self._columns if c.is_boxes}
        fields: dict[str, Any] = {}
        for column in self._columns:
            kind = self._kind(column, boxes_of.get(column.path[:-1], ""))
            if kind == "label" and "label" in fields.values():
                kind = "i64" if self._names(column) is not None else self._dtype(column.feature)
            fields[column.name] = kind
        self._refuse_annotations(fields)
        for column in self._columns:
            if fields[column.name] is None:
                _refuse(f"column {column.name!r} is {column.feature}, which no field can hold; leave it out: "
                        f"dataset.remove_columns({column.path[0]!r})")
        if list(fields.values()).count("image") > 1:
            _refuse(f"columns {' and '.join(map(repr, self._images))} are images, but a dataset has one; use dataset.remove_columns("
                    f"{self._images[1]!r}), or fields= with {self._images[1]!r}: 'mask' if it holds the class of each pixel")
        numbers = [c.name for c in self._columns if c.name.lower() in LABEL_NAMES and fields[c.name] in ("f32", "f64")]
        if numbers and "label" not in fields.values():
            logging.getLogger("dlpipe").warning("[from_dataset] column %r has a name that usually means classes, but its type is %s: it is stored as numbers, "
                                                "and the dataset has no classes; cast it to datasets.ClassLabel or int64 if it "
                                                "holds classes", numbers[0], dict(self.dataset.features)[numbers[0]])  # fmt: skip
        if self._images and "path" not in fields:
            fields["path"] = "text"
        return fields

    def _refuse_annotations(self, fields):
        """Refuses boxes, key points and masks that need fields= to move with the image; boxes= declares boxes in lists."""
        if not self._images:
            return
        first: dict[str, Any] = next(iter(self), {})
        size = size_of(first.get(self._images[0]))
        kinds = {c.name: self._meant(c, first.get(c.name), size) for c in self._columns if not c.is_boxes}
        meant = {name: kind for name, kind in kinds.items() if kind is not None and name != self._images[0]}
        if meant:
            told = {name: kind for name, kind in fields.items() if kind != "image" or name == self._images[0] or name in meant}
            images.refuse_annotations(told, meant, first)

    @staticmethod
    def _meant(column, value, size):
        """The kind that a column certainly has, for an image of this size. `value`, the first row's, decides if the shape varies."""
        if column.numbers is None:
            is_file = str(getattr(column.feature, "dtype", "")) in ("PIL.Image.Image", "binary")
            return "mask" if is_file and images.is_called_mask(column.name) else None
        shape, dtype = column.numbers
        if None in shape:
            return images.kind_of(column.name, value, size)
        return images.kind_of_numbers(column.name, shape, dtype, size)

    def _holds_files(self, column):
        """Whether the column has a name of images and holds bytes, which are files then."""
        return len(column.path) == 1 and column.name.lower() in IMAGE_NAMES and self._dtype(column.feature) == "bytes"

    @staticmethod
    def _is_called_label(column):
        """Whether the column has a name of classes and holds whole numbers or texts; for datasets without ClassLabel."""
        is_class = str(getattr(column.feature, "dtype", "")).startswith(("int", "uint", "string", "large_string"))
        return is_class and len(column.path) == 1 and column.name.lower() in LABEL_NAMES

    def _names(self, column):
        for feature in (column.feature, column.inner):
            if isinstance(feature, self._datasets.ClassLabel):
                return list(feature.names)
        return None

    def _kind(self, column, boxes):
        """A field's kind. `boxes` is the field of boxes that the column belongs to."""
        if column.is_boxes:
            if self._boxes is None:
                _refuse(f"column {column.name!r} holds boxes; give their format: boxes='xywh' (x_min, y_min, width, height, as "
                        "in COCO) or boxes='xyxy' (x_min, y_min, x_max, y_max)")
            return _BOX_FORMS[self._boxes]
        if column.inner is not None:
            return self._kind_of_list(column, boxes)
        dtype = self._dtype(column.feature)
        if dtype == "text" and not self._images and len(column.path) == 1 and column.name.lower() in IMAGE_NAMES:
            _refuse(f"column {column.name!r} holds texts; turn paths into images with dataset.cast_column({column.name!r}, "
                    "datasets.Image()), or give fields= if a text is meant")
        if isinstance(column.feature, self._datasets.Image) or column.name in self._images:
            return "image" if len(column.path) == 1 else None
        if isinstance(column.feature, self._datasets.ClassLabel):
            return "label" if self._names(column) == self.classes else "i64"
        if self.classes is None and self._is_called_label(column):
            return "label"
        shape = getattr(column.feature, "shape", None)
        return (dtype, tuple(shape)) if dtype in ("i64", "f32", "f64") and shape and None not in shape else dtype

    def _kind_of_list(self, column, boxes):
        is_class = isinstance(column.inner, self._datasets.ClassLabel)
        if is_class and self._names(column) == self.classes:
            return f"labels:{boxes}" if boxes else "labels"
        dtype = "i64" if is_class else self._dtype(column.inner) if isinstance(column.inner, self._datasets.Value) else None
        if dtype in ("i64", "f32", "f64"):
            length = -1 if column.is_listed else getattr(column.feature, "length", -1)
            any_number = f"{dtype}:{boxes}" if boxes else (dtype, None)
            return (dtype, (length,)) if length > 0 else any_number
        return "text" if dtype == "text" and not boxes else None

    @staticmethod
    def _dtype(feature):
        dtype = str(getattr(feature, "dtype", ""))
        if dtype.startswith(("int", "uint", "bool")):
            return "i64"
        return {"float16": "f32", "float32": "f32", "float64": "f64", "string": "text", "large_string": "text",
                "string_view": "text", "binary": "bytes", "large_binary": "bytes", "binary_view": "bytes"}.get(dtype)  # fmt: skip

    def _row(self, row):
        values = {column.name: column.value(row) for column in self._columns}
        if not self._images:
            return values
        image = values[self._images[0]]
        path = image["path"] if isinstance(image, dict) else None
        return {"path": os.path.basename(path or ""), **values, **{name: self._file(name, values[name]) for name in self._images}}

    def _file(self, name, image):
        """The bytes of an image's file, or the image in its column's mode; None if there is no image."""
        data = image["bytes"] if isinstance(image, dict) else image
        if data is None and image is not None:
            data = read_image(image["path"], f"column {name!r}: ")
        return in_mode(data, self._modes[name]) if isinstance(data, bytes) and name in self._modes else data


class _Stream(_Rows):
    """datasets.IterableDataset."""

    __len__ = None  # type: ignore[assignment]

    def __iter__(self):
        return map(self._row, self.dataset)

    def name(self):
        return type(self.dataset).__name__


# ---- torch, torchvision, WebDataset, and all others


def _refuse(*words):
    raise MisuseError("[from_dataset] " + "".join(map(str, words)))


def _warn(*words):
    logging.getLogger("dlpipe").warning("[from_dataset] " + "".join(map(str, words)))


def _is_transformed(dataset):
    """Whether the dataset transforms its images. torchvision's have `transforms` also if they only transform labels."""
    transform, both, target = (getattr(dataset, name, None) for name in ("transform", "transforms", "target_transform"))
    return callable(transform) or (callable(both) and target is None)


def _class_names(dataset):
    """The dataset's class names by label, if it has them."""
    classes = getattr(dataset, "classes", None)
    if not isinstance(classes, (list, tuple)):
        return None
    if getattr(dataset, "target_transform", None) is not None:
        _warn("the dataset has a target_transform, so its labels may not match its class names: the names are left out, and "
              "images are stored as pixels; give classes=, or leave the transform out (target_transform=None)")
        return None
    if all(isinstance(name, str) for name in classes):
        return list(classes)
    # torchvision's ImageNet has tuples of words, not all distinct, as classes; its folders are named by `wnids`
    return list(getattr(dataset, "wnids", None) or map(str, classes))


class _Indexed:
    """Any object with a length and random access: torch's map-style datasets, lists."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.classes = _class_names(dataset)
        if _is_transformed(dataset):
            _warn("the dataset's transform is applied once and its result stored: random changes are the same in every "
                  "epoch, and the files' bytes are not kept; leave it out (transform=None), and give dlpipe.Loader "
                  "augment instead")

    @property
    def fields(self):
        """The fields of the samples; None: infer them from the first sample."""
        return None

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        return self.dataset[i]

    def name(self):
        return f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__} of {len(self)}"


class _Files(_Indexed):
    """torchvision's folders without a transform. Reads the files' bytes instead of decoded images."""

    @property
    def fields(self):
        return {"image": "image", "label": "label", "path": "text"}

    @staticmethod
    def fits(dataset):
        from_torchvision = any(kind.__module__ == "torchvision.datasets.folder" for kind in type(dataset).__mro__)
        plain = all(getattr(dataset, name, None) is None for name in ("transform", "target_transform", "transforms"))
        own = type(dataset).__getitem__.__module__ == "torchvision.datasets.folder" if from_torchvision else False
        return own and plain and dataset.loader.__module__ == "torchvision.datasets.folder"

    def __getitem__(self, i):
        path, label = self.dataset.samples[i]
        return {"image": read_image(path), "label": label, "path": os.path.relpath(path, self.dataset.root)}


class _Subset(_Indexed):
    """torch's Subset (random_split returns it): some samples of another source, unchanged."""

    def __init__(self, subset, source):
        super().__init__(subset)
        self.source = source
        self.classes = source.classes

    @property
    def fields(self):
        return self.source.fields

    @staticmethod
    def fits(dataset):
        return type(dataset).__module__ == "torch.utils.data.dataset" and type(dataset).__name__ == "Subset"

    def __getitem__(self, i):
        return self.source[int(self.dataset.indices[i])]

    def name(self):
        numbers = hashlib.sha256(repr([int(i) for i in self.dataset.indices]).encode()).hexdigest()[:16]
        return f"{numbers} of {self.source.name()}"


class _Concatenated(_Indexed):
    """torch's ConcatDataset: the samples of several sources, one source after another, unchanged."""

    def __init__(self, dataset, sources):
        self.dataset, self.sources = dataset, sources
        self._are_alike = len({_form(source) for source in sources}) == 1
        self._ends = list(itertools.accumulate(map(len, sources)))
        same = all(source.classes == sources[0].classes for source in sources)
        self.classes = sources[0].classes if same else None
        if not same:
            _warn("the parts of the ConcatDataset have different classes, so a label may mean another class in each part: the names "
                  "are left out; give classes=, and sample= to convert labels that mean different classes")

    @property
    def fields(self):
        return self.sources[0].fields if self._are_alike else None

    @staticmethod
    def fits(dataset):
        return type(dataset).__module__ == "torch.utils.data.dataset" and type(dataset).__name__ == "ConcatDataset"

    def __getitem__(self, i):
        if not self._are_alike:  # the datasets' own items are alike, since PyTorch's loop needs that
            return self.dataset[i]
        part = bisect.bisect_right(self._ends, i)
        return self.sources[part][i - (self._ends[part - 1] if part else 0)]

    def name(self):
        return f"{len(self)} of {', '.join(source.name() for source in self.sources)}"


def _form(source):
    """The type that determines the form of a source's items."""
    inner = source.source if isinstance(source, _Subset) else source.sources[0] if isinstance(source, _Concatenated) else None
    return type(source) if inner is None else _form(inner)


class _Iterable:
    """WebDataset, torch's IterableDataset, generators."""

    fields = classes = None

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return iter(self.dataset)

    def name(self):
        return f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__}"


def _has_class(dataset, module, name):
    """Whether the dataset is an instance of that class or of a subclass."""
    return any((kind.__module__, kind.__name__) == (module, name) for kind in type(dataset).__mro__)


def _adapt(dataset, boxes):
    if arrow.fits(dataset):
        dataset = arrow.Table(arrow.files(dataset))
    if isinstance(dataset, arrow.Table):
        if boxes is not None:
            _refuse("boxes= is for Hugging Face's datasets; for Parquet files give fields= with 'boxes' or 'boxes-xywh'")
        return dataset
    if _has_class(dataset, "torch.utils.data.dataloader", "DataLoader"):
        _refuse("this is a DataLoader, which yields batches; give its dataset: from_dataset(loader.dataset, ...)")
    # torch's IterableDataset has a __getitem__ that raises
    is_stream = _has_class(dataset, "torch.utils.data.dataset", "IterableDataset")
    has_number = not is_stream and hasattr(type(dataset), "__getitem__") and hasattr(type(dataset), "__len__")
    if _is_hugging_face(dataset):
        return (_Rows if has_number else _Stream)(dataset, boxes)
    if boxes is not None and not _Subset.fits(dataset) and not _Concatenated.fits(dataset):
        _refuse("boxes= is for Hugging Face's datasets; for others give fields= with 'boxes' or 'boxes-xywh'")
    if _Subset.fits(dataset):
        return _Subset(dataset, _adapt(dataset.dataset, boxes))
    if _Concatenated.fits(dataset):
        return _Concatenated(dataset, [_adapt(part, boxes) for part in dataset.datasets])
    if has_number:
        return _Files(dataset) if _Files.fits(dataset) else _Indexed(dataset)
    if hasattr(dataset, "__iter__"):
        return _Iterable(dataset)
    _refuse(f"{type(dataset).__name__} is not a dataset: it has neither a length and indexed samples nor an iterator")


def by_split(parts, boxes):
    """{split: source}. Hugging Face's "validation" becomes val, as with files."""
    sources: dict[str, Any] = {}
    for split, part in parts.items():
        name = arrow.SPLITS.get(str(split).lower(), str(split))
        if name in sources:
            _refuse(f"{list(parts)} name the split {name!r} twice; give each split its own name")
        sources[name] = _adapt(part, boxes)
    return sources
