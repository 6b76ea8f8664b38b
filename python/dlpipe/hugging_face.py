"""Hugging Face's `datasets` as from_dataset reads them: the bytes of image columns as they are, and a field for every column."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Any

from dlpipe.arrow import IMAGE_NAMES, LABEL_NAMES
from dlpipe.errors import MisuseError

_BOX_NAMES = ("bbox", "bboxes", "box", "boxes", "bounding_box", "bounding_boxes")
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
        return self.path[-1].lower() in _BOX_NAMES and length in (4, -1) and number.startswith(("float", "int"))

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
            if kind is None:
                _refuse(f"column {column.name!r} is {column.feature}, and no field holds that; leave it out: "
                        f"dataset.remove_columns({column.path[0]!r})")
            if kind == "image" and len(self._images) > 1:
                _refuse(f"columns {' and '.join(map(repr, self._images))} are images; a dataset has one: "
                        f"dataset.remove_columns({self._images[1]!r})")
            if kind == "label" and "label" in fields.values():
                kind = "i64" if self._names(column) is not None else self._dtype(column.feature)
            fields[column.name] = kind
        if self._images and "path" not in fields:
            fields["path"] = "text"
        return fields

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
        if isinstance(column.feature, self._datasets.Image) or column.name in self._images:
            return "image" if len(column.path) == 1 else None
        if isinstance(column.feature, self._datasets.ClassLabel):
            return "label" if self._names(column) == self.classes else "i64"
        if self.classes is None and self._is_called_label(column):
            return "label"
        shape = getattr(column.feature, "shape", None)
        dtype = self._dtype(column.feature)
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
                "binary": "bytes"}.get(dtype)  # fmt: skip

    def _row(self, row):
        values = {column.name: column.value(row) for column in self._columns}
        if not self._images:
            return values
        image = values[self._images[0]]
        if image is None:
            _refuse("a row has no image; filter such rows out: dataset.filter(...)")
        data, path = (image, "") if isinstance(image, bytes) else (image["bytes"], image["path"])
        if data is None:
            with open(path, "rb") as file:
                data = file.read()
        return {"path": os.path.basename(path or ""), **values, self._images[0]: data}


class Stream(Rows):
    """datasets.IterableDataset."""

    __len__ = None  # type: ignore[assignment]

    def __iter__(self):
        return map(self._row, self.dataset)

    def name(self):
        return type(self.dataset).__name__
