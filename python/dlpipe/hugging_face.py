"""Hugging Face's `datasets` as from_dataset reads them: the bytes of image columns as they are, and a field for every column."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Any

from dlpipe import picture_annotations
from dlpipe.arrow import IMAGE_NAMES, LABEL_NAMES
from dlpipe.errors import MisuseError
from dlpipe.pictures import in_mode, read_image, size_of

_BOX_FORMS = {"xywh": "boxes-xywh", "xyxy": "boxes"}


def fits(dataset):
    """Whether it is one of these."""
    return type(dataset).__module__.split(".")[0] == "datasets" and getattr(dataset, "features", None) is not None


def _refuse(*words):
    raise MisuseError("[from_dataset] " + "".join(map(str, words)))


@dataclasses.dataclass
class _Column:
    """What becomes a field: a column, or a part of the dicts in one, under the name "column.part"."""

    path: tuple[str, ...]
    feature: Any
    is_listed: bool = False  # the dicts stand in a list, one for each object

    @property
    def name(self):
        return ".".join(self.path)

    @property
    def inner(self):
        """The feature of one of a list's values; None where it is no list."""
        return self.feature if self.is_listed else getattr(self.feature, "feature", None)

    @property
    def is_boxes(self):
        length = getattr(self.inner, "length", None)
        number = getattr(getattr(self.inner, "feature", None), "dtype", "")
        return self.path[-1].lower() in picture_annotations.BOX_NAMES and length in (4, -1) and number.startswith(("float", "int"))

    @property
    def numbers(self):
        """Shape (None: a side that varies) and dtype of the numbers there; None where there are others."""
        feature, shape = self.feature, (None,) if self.is_listed else ()
        while (inner := getattr(feature, "feature", None)) is not None:
            length = getattr(feature, "length", -1)
            feature, shape = inner, (*shape, length if length > 0 else None)
        dtype = str(getattr(feature, "dtype", ""))
        shape = (*shape, *(getattr(feature, "shape", None) or ()))
        return (shape, dtype) if dtype.startswith(("int", "uint", "float", "bool")) else None

    def value(self, row):
        """What stands there."""
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
    """All columns, those of dicts taken apart."""
    for name, feature in features.items():
        inner = getattr(feature, "feature", None)
        if isinstance(feature, dict):
            yield from _columns(feature, (*path, name), is_listed)
        elif isinstance(inner, dict) and not is_listed:
            yield from _columns(inner, (*path, name), True)
        else:
            yield _Column((*path, name), feature, is_listed)


class Rows:
    """datasets.Dataset, by number."""

    def __init__(self, dataset, boxes):
        import datasets

        self._datasets = datasets
        self._boxes = boxes
        if boxes is not None and boxes not in _BOX_FORMS:
            _refuse(f"boxes={boxes!r}; give 'xywh' (x_min, y_min, width, height, as COCO has them) or 'xyxy' (x_min, y_min, "
                    "x_max, y_max)")
        self._columns = list(_columns(dataset.features))
        self._images = [c.name for c in self._columns if isinstance(c.feature, datasets.Image)] or \
                       [c.name for c in self._columns if self._holds_files(c)]  # fmt: skip
        self._images.sort(key=picture_annotations.is_called_mask)  # the picture first
        self._modes = {c.name: c.feature.mode for c in self._columns
                       if len(c.path) == 1 and getattr(c.feature, "mode", None) is not None}  # fmt: skip
        if (getattr(dataset, "format", None) or {}).get("type") == "custom":
            logging.getLogger("dlpipe").warning("[from_dataset] the dataset's with_transform is left out: columns are stored as they "
                                                "are; give sample=, a function from a row to a dict, or dlpipe.Loader's augment")
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
        """Which dataset it is."""
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
                _refuse(f"column {column.name!r} is {column.feature}, and no field holds that; leave it out: "
                        f"dataset.remove_columns({column.path[0]!r})")
        if list(fields.values()).count("image") > 1:
            _refuse(f"columns {' and '.join(map(repr, self._images))} are images; a dataset has one: dataset.remove_columns("
                    f"{self._images[1]!r}), or fields= with {self._images[1]!r}: 'mask' where it holds the class of each pixel")
        numbers = [c.name for c in self._columns if c.name.lower() in LABEL_NAMES and fields[c.name] in ("f32", "f64")]
        if numbers and "label" not in fields.values():
            logging.getLogger("dlpipe").warning("[from_dataset] column %r is called as classes are, and is %s: it is stored as numbers, "
                                                "and the dataset has no classes; cast it to datasets.ClassLabel or int64 where it "
                                                "holds classes", numbers[0], dict(self.dataset.features)[numbers[0]])  # fmt: skip
        if self._images and "path" not in fields:
            fields["path"] = "text"
        return fields

    def _refuse_annotations(self, fields):
        """Boxes, key points and masks beside a picture want fields= to move with it; boxes= says it of those in lists."""
        if not self._images:
            return
        first: dict[str, Any] = next(iter(self), {})
        size = size_of(first.get(self._images[0]))
        kinds = {c.name: self._meant(c, first.get(c.name), size) for c in self._columns if not c.is_boxes}
        meant = {name: kind for name, kind in kinds.items() if kind is not None and name != self._images[0]}
        if meant:
            told = {name: kind for name, kind in fields.items() if kind != "image" or name == self._images[0] or name in meant}
            picture_annotations.refuse(told, meant, first)

    @staticmethod
    def _meant(column, value, size):
        """What a column beside a picture of this size holds for certain; by the first row's value where its shape varies."""
        if column.numbers is None:
            is_file = str(getattr(column.feature, "dtype", "")) in ("PIL.Image.Image", "binary")
            return "mask" if is_file and picture_annotations.is_called_mask(column.name) else None
        shape, dtype = column.numbers
        if None in shape:
            return picture_annotations.kind_of(column.name, value, size)
        return picture_annotations.kind_of_numbers(column.name, shape, dtype, size)

    def _holds_files(self, column):
        """Whether it is called as a picture and holds bytes, those of files then."""
        return len(column.path) == 1 and column.name.lower() in IMAGE_NAMES and self._dtype(column.feature) == "bytes"

    @staticmethod
    def _is_called_label(column):
        """Whether it is called as classes are, and holds whole numbers or texts; for datasets that know no ClassLabel."""
        is_class = str(getattr(column.feature, "dtype", "")).startswith(("int", "uint", "string", "large_string"))
        return is_class and len(column.path) == 1 and column.name.lower() in LABEL_NAMES

    def _names(self, column):
        for feature in (column.feature, column.inner):
            if isinstance(feature, self._datasets.ClassLabel):
                return list(feature.names)
        return None

    def _kind(self, column, boxes):
        """A field's kind; `boxes` is the field of the boxes that stand beside it."""
        if column.is_boxes:
            if self._boxes is None:
                _refuse(f"column {column.name!r} holds boxes; say of which form: boxes='xywh' (x_min, y_min, width, height, as "
                        "COCO has them) or boxes='xyxy' (x_min, y_min, x_max, y_max)")
            return _BOX_FORMS[self._boxes]
        if column.inner is not None:
            return self._kind_of_list(column, boxes)
        dtype = self._dtype(column.feature)
        if dtype == "text" and not self._images and len(column.path) == 1 and column.name.lower() in IMAGE_NAMES:
            _refuse(f"column {column.name!r} holds texts; make pictures of paths, dataset.cast_column({column.name!r}, "
                    "datasets.Image()), or give fields= where a text is meant")
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
        """The bytes of a picture's file, or the picture in the mode that its column asks for; None where there is none."""
        data = image["bytes"] if isinstance(image, dict) else image
        if data is None and image is not None:
            data = read_image(image["path"], f"column {name!r}: ")
        return in_mode(data, self._modes[name]) if isinstance(data, bytes) and name in self._modes else data


class Stream(Rows):
    """datasets.IterableDataset."""

    __len__ = None  # type: ignore[assignment]

    def __iter__(self):
        return map(self._row, self.dataset)

    def name(self):
        return type(self.dataset).__name__
