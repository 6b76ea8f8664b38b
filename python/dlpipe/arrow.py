"""Reads Parquet and Arrow files for from_dataset, with pyarrow: Hugging Face's layout (image columns of bytes and path, class
names in the schema's metadata), or columns by their types. Files or folders named train, val or test become splits."""

from __future__ import annotations

import array
import bisect
import glob
import hashlib
import json
import logging
import math
import os
import re
from typing import Any

from dlpipe import _dlpipe, images
from dlpipe.errors import Error, MisuseError, NotFoundError
from dlpipe.arguments import paths_as_bytes
from dlpipe.images import Unreadable, read_image

_ENDINGS = (".parquet", ".arrow")
_ENDINGS_OF_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
_IMAGES = (*_ENDINGS_OF_IMAGES, ".tar")
#: Our names of splits, by the names that files, folders and other libraries use.
SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test",
          "testing": "test"}  # fmt: skip
#: Columns of bytes with these names hold images.
IMAGE_NAMES = ("image", "img", "jpg", "jpeg", "png", "picture")
#: Columns of whole numbers or texts with these names are classes.
LABEL_NAMES = ("label", "class", "target", "fine_label", "category")


def _refuse(*words):
    raise MisuseError("[from_dataset] " + "".join(map(str, words)))


def has_name(path):
    """Whether a path has the name of a Parquet or Arrow file."""
    return os.fsdecode(path).lower().endswith(_ENDINGS)


def fits(given):
    """Whether `given` is a path, or several."""
    several = given if isinstance(given, (list, tuple)) and given else [given]
    return all(isinstance(one, (str, os.PathLike)) for one in several)


def _walk(folder, alone):
    """The files in a folder, in order. With `alone`: none if the folder also contains images."""
    found = []
    for below, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if alone and any(name.lower().endswith(_IMAGES) for name in names):
            return []
        found += sorted(os.path.join(below, name) for name in names if has_name(name) and not name.startswith("."))
    return found


def _found(path, alone=False):
    """The files of a path: itself, a pattern's matches, or those in a folder, as downloaded from the Hugging Face hub."""
    if os.path.isdir(path):
        return _walk(path, alone)
    return [file for file in ([path] if os.path.exists(path) else sorted(glob.glob(path))) if has_name(file)]


def _several(given):
    return [os.fsdecode(path) for path in paths_as_bytes("from_dataset", "dataset", given)]


def source(given):
    """All Parquet or Arrow files of a path or several; None if one of the paths has none, or has images, too."""
    found = [_found(path, alone=True) for path in _several(given)]
    return [file for some in found for file in some] if found and all(found) else None


def files(given):
    """All Parquet or Arrow files of a path or several. Refuses paths without any."""
    found = {path: _found(path) for path in _several(given)}
    for path, some in found.items():
        if not some:
            _refuse(f"{path} is not a Parquet or Arrow file (.parquet, .arrow), and contains or matches none")
    return [file for some in found.values() for file in some]


def _split_of(name):
    words = re.split("[^a-z]+", name.lower())
    named = {SPLITS[word] for word in words if word in SPLITS}
    return named.pop() if len(named) == 1 else ""


def _by_split(found, name_of):
    """{split: files} if every file's name contains a split's name and there are at least two splits; else {}."""
    by_split: dict[str, list[str]] = {}
    for file in found:
        by_split.setdefault(_split_of(name_of(file)), []).append(file)
    return {} if "" in by_split or len(by_split) == 1 else by_split


def _folder(path):
    return os.path.basename(os.path.dirname(path))


def parts(found, no_splits=False):
    """{split: Table} of files, by their names or those of their folders."""
    by_split = {} if no_splits else _by_split(found, os.path.basename) or _by_split(found, _folder)
    return {split: Table(some) for split, some in (by_split or {"": found}).items()}


def draw(tables, limit, split, seed):
    """{split: Table} after `limit`, divided into splits by `split`, as `dlpipe ingest` does with files."""
    if split and len(tables) > 1:
        raise MisuseError(f"[ingest] split is given, but the files have splits already: {', '.join(map(repr, sorted(tables)))}; leave "
                          "split out, or give no_splits=True, too")  # fmt: skip
    names = [name for table in tables.values() for name in table.row_names()]
    labels = [label for table in tables.values() for label in table.labels()]
    numbers: dict[Any, int] = {}
    classes = [numbers.setdefault(label, len(numbers)) for label in labels]
    drawn = iter(_dlpipe.draw(names, classes, limit, split, seed))
    rows: dict[str, dict[str, list[int]]] = {}  # split: {table: rows}
    for own, table in tables.items():
        for i, chosen in zip(range(len(table)), drawn):
            if chosen is not None:
                rows.setdefault(chosen or own, {}).setdefault(own, []).append(i)
    for lost in tables.keys() - rows.keys() if not split else ():
        logging.getLogger("dlpipe").warning("[ingest] limit leaves no rows for %s; this split is not created", lost)
    return {name: tables[own].part(some) for name, of_tables in rows.items() for own, some in of_tables.items()}


class _File:
    """The row groups of one file. A group is read when it is needed."""

    def __init__(self, path):
        self.path = path
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise Error(f"[from_dataset] reading {path} needs pyarrow: pip install pyarrow") from error
        try:
            if path.lower().endswith(".parquet"):
                file = pyarrow.parquet.ParquetFile(path)
                self.schema = file.schema_arrow
                self.rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
                self.read = lambda number, columns: file.read_row_group(number, columns=columns)
                return
            source = pyarrow.memory_map(path)
            try:
                table = pyarrow.ipc.open_stream(source).read_all()
            except pyarrow.ArrowInvalid:
                table = pyarrow.ipc.open_file(source).read_all()
            batches = table.to_batches()
            self.schema, self.rows = table.schema, [batch.num_rows for batch in batches]
            self.read = lambda number, columns: batches[number] if columns is None else batches[number].select(columns)
        except (pyarrow.ArrowException, OSError) as error:
            raise Error(f"[from_dataset] {path} can't be read: {error}; download or create it again") from error


class Table:
    """Rows of several files with random access: all of them, or those with these numbers."""

    def __init__(self, paths, rows=None):
        self.paths = paths
        self._rows = rows
        self._open()

    def _open(self):
        self._files = [_File(path) for path in self.paths]
        self._schema = schema = self._files[0].schema
        for path, file in zip(self.paths, self._files):
            if _kinds_of(file.schema) != _kinds_of(schema):
                _refuse(f"{path} and {self.paths[0]} have different columns")
        self._groups = [(file, i) for file in self._files for i in range(len(file.rows))]
        self._begins = [0]
        for file, i in self._groups:
            self._begins.append(self._begins[-1] + file.rows[i])
        self._current: Any = (-1, None)
        self._columns = {column.name: column for column in map(_column, schema, [_features(schema)] * len(schema))}
        self._left_aside = [name for name, column in self._columns.items() if column.kind is None]
        found = [name for name, column in self._columns.items() if column.kind == "image"]
        labels = [name for name, column in self._columns.items() if column.kind == "label"]
        self._left_aside += found[1:]
        for name in labels[1:]:  # the classes are the first one's
            self._columns[name] = _Column(name, _kind("", schema.field(name).type))
        for name in self._left_aside:  # they stay in the rows, for callers that name them in fields=
            del self._columns[name]
        self.image = found[0] if found else None

    def __reduce__(self):
        return type(self), (self.paths, self._rows)  # a worker process opens the files again

    def __len__(self):
        return self._begins[-1] if self._rows is None else len(self._rows)

    def part(self, rows):
        """A table of the rows with these numbers."""
        return type(self)(self.paths, array.array("q", rows))

    def row_names(self):
        """For each row, the name of its file and its number there."""
        return [f"{os.path.basename(path)}:{i}" for path, file in zip(self.paths, self._files) for i in range(sum(file.rows))]

    def labels(self):
        """The label of each row; None for all rows if there is no such column."""
        name = next((name for name, column in self._columns.items() if column.kind == "label"), None)
        if name is None:
            return [None] * len(self)
        every = [label for group in range(len(self._groups)) for label in self._read(group, [name])[name].to_pylist()]
        return every if self._rows is None else [every[i] for i in self._rows]

    def lacks_some_labels(self):
        """Whether some rows have a label and others don't. A table without any is a published test split."""
        missing = sum(is_no_label(label) for label in self.labels())
        return 0 < missing < len(self)

    def __getitem__(self, i):
        if self._rows is not None:
            i = self._rows[i]
        group = bisect.bisect_right(self._begins, i) - 1
        if self._current[0] != group:
            self._current = (group, self._read(group))
        row = self._current[1].slice(i - self._begins[group], 1).to_pylist()[0]
        values = {name: self._value(column, row[name], i) for name, column in self._columns.items()}
        values |= {name: self._mask(name, row[name], i) if _is_file(row[name]) else row[name] for name in self._left_aside}
        if self.image is not None:
            image = row[self.image]
            path = image.get("path") if isinstance(image, dict) else None
            return {"path": os.path.basename(path or "") or f"{i:08d}", **values, self.image: self._bytes(self.image, image, i)}
        return values

    def _value(self, column, value, i):
        """A missing value in a column of floating-point numbers is NaN; in a column of whole numbers it is an error."""
        if value is None and column.kind in ("f32", "f64"):
            return math.nan
        if value is None and column.kind == "i64":
            _refuse(f"{self._place(i)} has no {column.name!r}, and whole numbers can't represent a missing value: store the column "
                    "as floating-point numbers (NaN), fill it, or leave it out of the file")
        return column.value(value)

    def _read(self, group, columns=None):
        file, number = self._groups[group]
        try:
            return file.read(number, columns)
        except Exception as error:
            raise Error(f"[from_dataset] rows {self._begins[group]} to {self._begins[group + 1] - 1} of "
                        f"{', '.join(self.paths)} can't be read: {error}; download or create the file again") from error  # fmt: skip

    def _place(self, i):
        """Names row `i` by its number and its file."""
        file, number = self._groups[group := bisect.bisect_right(self._begins, i) - 1]
        return f"row {i - self._begins[group - number]} of {file.path}"

    def _bytes(self, name, image, i):
        """The bytes of an image's file. If there are only paths, they are relative to the Parquet file's folder."""
        data = image.get("bytes") if isinstance(image, dict) else image
        if data is None and isinstance(image, dict) and image.get("path"):
            file, _ = self._groups[bisect.bisect_right(self._begins, i) - 1]
            return read_image(os.path.join(os.path.dirname(os.path.abspath(file.path)), image["path"]),
                              f"{self._place(i)}, column {name!r}: ",
                              "; paths there are relative to the file's folder: put the image there, or store its bytes")  # fmt: skip
        return b"" if data is None else data  # b"" counts as an image that can't be decoded, so on_error applies

    def _mask(self, name, image, i):
        data = self._bytes(name, image, i)
        if isinstance(data, Unreadable):
            raise NotFoundError(f"[from_dataset] {data}")
        return data

    def _refuse_paths(self):
        """Refuses a column of image paths, which would become a dataset of texts without images."""
        for name in [name for name, column in self._columns.items() if column.kind == "text"]:
            some = self._read(0, [name])[name].slice(0, 100).to_pylist() if self._groups else []
            values = [value for value in some if value]
            ends_so = [value.lower().endswith(_ENDINGS_OF_IMAGES) for value in values]
            if 2 * sum(ends_so) > len(values):
                _refuse(f"the column {name!r} of {self.paths[0]} has paths of images, such as {values[ends_so.index(True)]!r}, and no column has "
                        f"their bytes; write a CSV for ingest: pandas.read_parquet(FILE).rename(columns={{{name!r}: 'path'}})."
                        "to_csv('list.csv', index=False), then dlpipe.ingest('list.csv', ..., images=FOLDER). If texts are "
                        "meant, give from_dataset fields={name: kind}")  # fmt: skip

    def _look_for_classes(self):
        """For a dataset without labels: reports a column with a label's name but another type."""
        for name in [name for name in self._schema.names if name.lower() in LABEL_NAMES]:
            said = f"the column {name!r} of {self.paths[0]} has a name that usually means classes, but its type is {self._schema.field(name).type}"
            if name in self._left_aside:
                _refuse(f"{said}; store it as texts or whole numbers, or give from_dataset fields={{name: kind}} with what to "
                        "store")
            logging.getLogger("dlpipe").warning("[from_dataset] %s: it is stored as numbers, and the dataset has no classes; store it as "
                                                "whole numbers or texts if it holds classes", said)  # fmt: skip

    def _refuse_annotations(self, fields):
        """Refuses boxes and masks that would be stored as plain numbers; they need fields= to move with the image."""
        if self.image is None or len(self) == 0:
            return
        first = self[0]
        kinds = {name: images.kind_of(name, first[name]) for name in fields if name != self.image}
        if meant := {name: kind for name, kind in kinds.items() if kind is not None}:
            images.refuse_annotations(fields, meant, first)

    @property
    def fields(self):
        """The fields that the columns become."""
        if self.image is None:
            self._refuse_paths()
        fields = {name: column.kind for name, column in self._columns.items()}
        self._refuse_annotations(fields)
        if "label" not in fields.values():
            self._look_for_classes()
        if self._left_aside:
            logging.getLogger("dlpipe").warning("[from_dataset] %s: columns ignored, because no field can hold them: %s; to store them, "
                                                "give from_dataset fields=", self.paths[0], ", ".join(self._left_aside))  # fmt: skip
        return {"path": "text", **fields} if self.image is not None else fields

    @property
    def classes(self):
        """Class names by label, if the metadata has them; else None."""
        return next((column.names for column in self._columns.values() if column.names is not None), None)

    def name(self):
        """Identifies the files: their names, sizes and times."""
        stamps = [(os.path.basename(path), os.path.getsize(path), os.stat(path).st_mtime_ns) for path in self.paths]
        drawn = "" if self._rows is None else f", drawn {hashlib.sha256(self._rows).hexdigest()[:16]}"
        return f"{len(self)} rows of {stamps}{drawn}"


def _features(schema):
    """Hugging Face's description of each column, from the metadata; {} if there is none."""
    try:
        return json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"] or {}
    except (KeyError, TypeError, ValueError):
        return {}


class _Column:
    def __init__(self, name, kind, names=None):
        self.name, self.kind, self.names = name, kind, names

    def value(self, value):
        """The value in the form that Writer takes."""
        if self.kind == "label" and is_no_label(value):
            return None
        return value


def _column(field, features):
    spec = features.get(field.name) or {}
    inner = spec[0] if isinstance(spec, list) and spec else spec.get("feature") if isinstance(spec, dict) else None
    kind = spec.get("_type") if isinstance(spec, dict) else None
    if kind == "ClassLabel":
        return _Column(field.name, "label", spec.get("names"))
    if isinstance(inner, dict) and inner.get("_type") == "ClassLabel":
        return _Column(field.name, "labels", inner.get("names"))
    if kind == "Image" or _is_image(field):
        return _Column(field.name, "image")
    return _Column(field.name, _kind(field.name, field.type))


def is_no_label(value):
    """Whether a label means that there is none: null, "", or Hugging Face's -1."""
    return value is None or value == -1 or value == ""


def _is_file(value):
    """Whether the value is an image's bytes and path, as in Hugging Face's datasets."""
    return isinstance(value, dict) and value.keys() >= {"bytes", "path"}


def _is_image(field):
    import pyarrow

    if pyarrow.types.is_struct(field.type):
        return {field.type.field(i).name for i in range(field.type.num_fields)} >= {"bytes", "path"}
    return _kind("", field.type) == "bytes" and field.name.lower() in IMAGE_NAMES


def _kinds_of(schema):
    """The name and kind of each column, regardless of its encoding in the file."""
    return [(field.name, _kind("", field.type) or field.type) for field in schema]


def _is(type, *names):
    """Whether `type` is one of these. An older pyarrow may not know all of them."""
    from pyarrow import types

    return any(getattr(types, f"is_{name}", lambda _: False)(type) for name in names)


def _kind(name, type):
    while _is(type, "dictionary", "run_end_encoded"):
        type = type.value_type
    if _is(type, "string", "large_string", "string_view"):
        return "label" if name.lower() in LABEL_NAMES else "text"
    if _is(type, "binary", "large_binary", "binary_view", "fixed_size_binary"):
        return "bytes"
    if _is(type, "integer", "boolean"):
        return "label" if name.lower() in LABEL_NAMES else "i64"
    if _is(type, "floating"):
        return "f64" if _is(type, "float64") else "f32"
    if _is(type, "list", "large_list", "list_view", "large_list_view", "fixed_size_list"):
        inner = _kind("", type.value_type)
        if inner in ("i64", "f32", "f64"):
            return inner, (type.list_size,) if _is(type, "fixed_size_list") else None
    return None
