"""Datasets written from Python: how images are stored, what fields hold, and the writer."""

from __future__ import annotations

import difflib
import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, TypedDict, Union

from dlpipe import _dlpipe
from dlpipe.arguments import MAX_PIXELS, Path, encoded, kinds_checked
from dlpipe.errors import MisuseError
from dlpipe.images import Unreadable, as_image, is_of_torchvision, mask, oversized, size_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


# ---- options that ingest, Writer and from_dataset share: how images are stored. ingest.cpp reads them


_Documented = TypeVar("_Documented")

_DOCUMENTATION = """\
on_error: what to do about a bad image: "auto" (skip it and list it in the report, but stop at a truncated archive),
            "skip" or "stop". Default: "auto"; "stop" for samples from Python code.
        store: "auto" (the file's own bytes; pixels stay raw), "jpeg", "raw", or, for ingest only, "link": images stay in their
            files or tar archives, and are read from there.
        jpeg: layout of JPEGs: "auto", "coefficients", "coefficients-dense", "restart" or "standard".
        trust: don't compare the pixels of that layout with the file's.
        resize_max: scale images down so that the longer side has at most this many pixels; 0: don't.
        background: colour behind transparent pixels of PNG and WebP: "white", "black" or "#rrggbb". Such images are encoded
            again, as PNG. Default: alpha is dropped.
        quality: of JPEGs that are encoded again, 1 to 100. Default: 90.
        zstd: compress each record; worthwhile for raw pixels.
        threads: 0: as many as the process may use.
        map_size: maximum bytes of a dataset, a number or a string such as "1TiB". 0: 16 GiB plus eight times the estimated size,
            or 1 TiB if there is no estimate. Reserves address space only.
        max_pixels: larger images count as bad."""


class StoringOptions(TypedDict, total=False):
    """How images are stored: options of dlpipe.ingest, dlpipe.Writer and dlpipe.from_dataset."""

    on_error: str
    store: str
    jpeg: str
    trust: bool
    resize_max: int
    background: str
    quality: int
    zstd: bool
    threads: int
    map_size: int | str
    max_pixels: int


def check_names(storing: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Raises TypeError for an unknown option, and suggests the nearest one of `function`."""
    known = [*(name for name, one in inspect.signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY),
             *StoringOptions.__annotations__]  # fmt: skip
    for name in storing:
        if name not in StoringOptions.__annotations__:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"no option {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"))


def documented(what: _Documented) -> _Documented:
    """Replaces "{storing}" in a docstring with the documentation of the storing options."""
    if what.__doc__ is not None:  # python -OO
        what.__doc__ = what.__doc__.replace("{storing}", _DOCUMENTATION)
    return what


# ---- fields: what they hold, and how a value becomes the bytes of a record


#: What a field holds; see dlpipe.Writer.
FieldKind = Union[str, type, "tuple[Any, Any]", Any]

#: Name: (stored kind, dtype, shape of a value or of one of its rows).
_KINDS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "image": ("image", "u8", ()),
    "label": ("label", "i64", ()),
    "labels": ("labels", "i64", ()),
    "multi-hot": ("labels", "i64", ()),
    "boxes": ("boxes", "f32", (4,)),
    "boxes-xywh": ("boxes", "f32", (4,)),
    "points": ("points", "f32", (3,)),
    "mask": ("mask", "u8", ()),
    "number": ("tensor", "f32", (1,)),
    "numbers": ("tensor", "f32", ()),
    "text": ("bytes", "u8", ()),
    "bytes": ("bytes", "u8", ()),
}
_DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "uint8": "u8", "int32": "i32", "int64": "i64",
    "f32": "f32", "f64": "f64", "f16": "f16", "u8": "u8", "i32": "i32", "i64": "i64",
}  # fmt: skip
_NUMPY = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "u8": "|u1", "i32": "<i4", "i64": "<i8"}


def refuse(*words):
    """Raises MisuseError."""
    raise MisuseError("[writer] " + "".join(map(str, words)))


def _dtype_name(name, dtype):
    if isinstance(dtype, str) and dtype in _DTYPES:
        return _DTYPES[dtype]
    import numpy as np

    try:
        given = np.dtype(dtype).name
        found = _DTYPES.get(given)
    except TypeError:
        given = found = None
    if given is not None and found is None and np.dtype(dtype).kind in "biuf":
        refuse(f"field {name!r} has the dtype {given}, which a dataset can't store; give {'f64' if given[0] == 'f' else 'i64'!r}, or another of ",
               ", ".join(_NUMPY))
    if found is None:
        refuse(f"field {name!r} is {dtype!r}; give {', '.join(map(repr, _KINDS))}, a dtype ({', '.join(_NUMPY)}) or "
               "(dtype, shape)")
    return found


def _label(name, value):
    if value is None:
        return None
    said = f"the label is {value!r}" if name is None else f"field {name!r} holds the label {value!r}"
    try:
        if isinstance(value, str):
            return encoded("[writer] the label" if name is None else f"[writer] a label of field {name!r}", value)
        number = value.__index__() if hasattr(value, "__index__") else value.item().__index__()
    except MisuseError:
        raise
    except (AttributeError, TypeError, ValueError):
        number = "; a number that isn't a class has the kind 'number' in fields=" if hasattr(value, "__float__") else ""
        refuse(said, "; give an int or a str (the class name)", " or None" if name is None else "", number)
    if not -(2**63) <= number < 2**63:
        refuse(said, "; give a 64-bit number")
    return number


def _ones(name, value, length):
    """The places of the ones in a vector of `length` zeros and ones."""
    import numpy as np

    array = np.asarray(value)
    if array.shape != (length,) or array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        refuse(f"field {name!r} is {value!r}; a multi-hot field has {length} numbers, one for each class, all 0 or 1")
    return np.flatnonzero(array).tolist()


class _Ones:
    """Finds a field of labels whose samples have a 0 or 1 for each class: as labels they would be the classes 0 and 1."""

    LEAST = 3  # numbers of a sample, so that one of them is repeated
    ENOUGH = 16  # samples

    def __init__(self, name: str, classes: int) -> None:
        self.name = name
        self.length = classes  # 0: not known
        self.samples: int | None = 0  # None: the field has labels

    def see(self, labels):
        if self.samples is None:
            return
        self.length = self.length or len(labels)
        if not self.LEAST <= len(labels) == self.length or any(one not in (0, 1) for one in labels):
            self.samples = None
            return
        self.samples += 1
        if self.samples == self.ENOUGH:
            self.check()

    def check(self):
        """Raises MisuseError if all samples so far look like this."""
        if self.samples is not None and self.samples > 1:
            refuse(f"field {self.name!r} has a 0 or 1 for each of {self.length} labels in every sample, but 'labels' takes the numbers or names "
                   f"of those that apply; give fields= with {self.name!r}: 'multi-hot', and classes= with {self.length} names")


def without_bfloat16(value):
    """The value; as f32 if it is bfloat16, which NumPy lacks."""
    if not str(getattr(value, "dtype", "")).endswith("bfloat16"):
        return value
    return value.float() if hasattr(value, "float") else value.astype("float32")


def _is_near(cast, array):
    """Whether floats represent numbers: integers exactly, fractions up to rounding. Rounding to infinity doesn't count."""
    import numpy as np

    if array.dtype.kind == "f":
        return not np.any(np.isinf(cast) & np.isfinite(array))
    if array.dtype.kind not in "iu" or array.size == 0:
        return True
    most = 2 ** (np.finfo(cast.dtype).nmant + 1)  # up to here every whole number is a float
    if -most <= array.min() and array.max() <= most:
        return True
    return bool(np.all(np.isfinite(cast))) and [*map(int, cast.flat)] == [*map(int, array.flat)]


def _corners(name, boxes):
    """torchvision's BoundingBoxes of any format as rows of x_min, y_min, x_max, y_max."""
    import numpy as np

    rows = np.asarray(boxes, np.float64)
    form = getattr(boxes.format, "name", str(boxes.format))
    if form == "XYXY":
        return rows
    if form == "XYWH":
        return np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:]], 1)
    if form == "CXCYWH":
        return np.concatenate([rows[:, :2] - rows[:, 2:] / 2, rows[:, :2] + rows[:, 2:] / 2], 1)
    refuse(f"field {name!r} holds BoundingBoxes of the format {form}, but dlpipe's boxes have no angle; give axis-aligned boxes, or "
           "keep plain numbers, which no augmentation transforms: one list of numbers per sample, ('f32', None) in fields=")


class Field:
    """One field, as declared in dlpipe.Writer's `fields`."""

    def __init__(self, name: str, kind: FieldKind, classes: int, max_pixels: int = MAX_PIXELS) -> None:
        if not isinstance(name, str):
            refuse(f"a field is called {name!r}; give its name as a string")
        encoded("[writer] the name of a field", name)
        self.name = name
        self.length = classes
        self.max_pixels = max_pixels
        self.of = ""
        shape: Any = ...  # not given
        if isinstance(kind, (tuple, list)) and len(kind) == 2:
            kind, shape = kind
        if isinstance(kind, str):
            encoded(f"[writer] the kind of field {name!r}", kind)
            kind, _, self.of = kind.partition(":")
        self.given = kind
        if isinstance(kind, str) and kind in _KINDS:
            self.kind, self.dtype, self.shape = _KINDS[kind]
        else:
            self.kind, self.dtype, self.shape = "tensor", _dtype_name(name, kind), (1,)
        if self.of and self.kind == "tensor":
            self.shape = ()
        self.ones = _Ones(name, classes) if kind == "labels" and not self.of else None
        self.is_finite = kind in ("number", "numbers")  # refuse NaN and infinity, which no training can use
        if kind == "multi-hot" and not classes:
            refuse(f"field {name!r} is multi-hot; give classes=, a name for each of its numbers")
        if shape is not ...:
            self._set_shape(shape)

    def _set_shape(self, shape):
        if self.kind not in ("tensor", "points"):
            refuse(f"field {self.name!r} is ({self.given!r}, {shape!r}); {self.given} has no shape")
        sides = () if shape is None else tuple(shape) if hasattr(shape, "__iter__") else (shape,)
        if (shape is not None and not sides) or any(not hasattr(side, "__index__") or int(side) < 1 for side in sides):
            refuse(f"field {self.name!r} has the shape {shape!r}; give sizes of at least 1")
        self.shape = (*map(int, sides), 3) if self.kind == "points" else tuple(map(int, sides))

    def schema(self):
        """The field in the library's form: name, kind, dtype, shape, and the field of boxes that it belongs to."""
        return self.name, self.kind, self.dtype, list(self.shape), self.of

    def value(self, value, is_given=True):
        """A sample's value in the library's form. `value` None: the sample has none; `is_given`: it says so."""
        if self.kind == "label":
            return _label(None, value)
        if value is None:
            if is_given and self.kind == "tensor" and self.shape:
                keep = "f32" if self.shape == (1,) else ("f32", self.shape)
                refuse(f"field {self.name!r} is None, which isn't a number; leave the sample out, or give NaN, which fields= with "
                       f"{self.name!r}: {keep!r} stores")
            if self.kind == "image" or (self.kind == "tensor" and self.shape):
                refuse(f"the sample has no {self.name!r}; give a value, or fields= without it")
            return [] if self.kind == "labels" else b""
        if self.kind == "image":
            return oversized(value, self.max_pixels) or as_image(value)
        if self.kind == "mask":
            return oversized(value, self.max_pixels) or mask(self.name, value)
        if self.given == "multi-hot":
            return _ones(self.name, value, self.length)
        if self.kind == "labels":
            if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
                refuse(f"field {self.name!r} is {value!r}; give a list of classes")
            labels = [_label(self.name, one) for one in value]
            if self.ones is not None:
                self.ones.see(labels)
            return labels
        return self._bytes(value) if self.kind == "bytes" else self._numbers(value)

    def _bytes(self, value):
        is_text = self.given == "text"
        if is_text and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if is_text and isinstance(value, str):
            return encoded(f"[writer] field {self.name!r}", value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        refuse(f"field {self.name!r} is {type(value).__name__}; give {'str or ' * is_text}bytes")

    def _numbers(self, value):
        import numpy as np

        value = without_bfloat16(value)
        are_torchvisions = self.kind == "boxes" and is_of_torchvision(value) and hasattr(value, "format")
        try:
            array = _corners(self.name, value) if are_torchvisions else np.asarray(value)
            if array.size == 0 and self._has_rows:
                return b""
            if not self._fits(array.shape):
                boxes = array.ndim == 2 and (self.kind, array.shape[1:], self.shape[1:]) == ("tensor", (4,), (4,))
                refuse(f"field {self.name!r} has the shape {array.shape}, the dataset's is {self._shape_text}",
                       "; give 'boxes' or 'boxes-xywh' in fields= for any number of boxes" * boxes)
            wanted = np.dtype(_NUMPY[self.dtype])
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                cast = array.astype(wanted, casting="unsafe")
            exact = _is_near(cast, array) if wanted.kind == "f" else array.dtype == wanted or np.array_equal(cast, array)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, MisuseError):
                raise
            refuse(f"field {self.name!r} is {value!r}: {error}")
        if not exact or array.dtype.kind not in "biuf":
            wider = "; give 'i64' for whole numbers of any size" if cast.dtype.kind == "f" and array.dtype.kind in "iu" else ""
            refuse(f"field {self.name!r} is {value!r}, which is not a valid {self.dtype}{wider}")
        if self.is_finite and cast.dtype.kind == "f" and not np.isfinite(cast).all():
            keep = self.dtype if self.shape == (1,) else (self.dtype, self.shape)
            refuse(f"field {self.name!r} is {value!r}: a model can't be trained on NaN or infinity; leave the sample out",
                   "" if self._has_rows else f", or give {keep!r} in fields= to keep them")  # fmt: skip
        data = np.ascontiguousarray(cast).tobytes()
        return _dlpipe.boxes_of_xywh(self.name, data) if self.given == "boxes-xywh" and not are_torchvisions else data

    def check_canvas(self, value, image, size):
        """Refuses torchvision's boxes and points if their canvas_size is not the `size`, (height, width), of the field `image`."""
        canvas = getattr(value, "canvas_size", None) if is_of_torchvision(value) else None
        if canvas is not None and size is not None and tuple(canvas) != tuple(size):
            refuse(f"field {self.name!r} has coordinates for an image of {canvas[0]} x {canvas[1]} (canvas_size), but {image!r} is "
                   f"{size[0]} x {size[1]} as displayed; give both for the same image, after applying its EXIF orientation")

    @property
    def _has_rows(self):
        return self.kind != "tensor" or not self.shape

    @property
    def _shape_text(self):
        return f"(any, {', '.join(map(str, self.shape))})" if self._has_rows else self.shape

    def _fits(self, shape):
        if self._has_rows:
            return len(shape) > 0 and shape[1:] == self.shape
        return shape == self.shape or (shape == () and self.shape == (1,))


# ---- the writer


DEFAULT_FIELDS = {"image": "image", "label": "label", "path": "text"}


@documented
class Writer:
    """Creates a dataset from samples that your code provides.

        with dlpipe.Writer("data", classes=["cat", "dog"]) as writer:
            for name in names:
                writer.write(image=open(name, "rb").read(), label="cat", path=name)

    "data" appears when the block ends or close() is called, by one rename. Samples are committed every 16,384 samples or 32 MiB.
    After an exception in the block, or a kill, the committed samples are in "data.partial"; without any, nothing is left.
    A writer with interrupted="resume" continues after them: its `position` is their number. Write your samples from that
    number on, in the same order; the dataset is the same, byte for byte. The writer's threads decode every image before it
    is stored. An error in an image is raised by a later write or at the block's end, with the sample's number and path.
    A writer belongs to the process that opened it: a forked child can't write, and its exit doesn't affect the writer.

    Kinds of fields and their values:

    - "image": bytes of a JPEG or PNG file, stored unchanged (or as coefficients, as by ingest; export returns the
      same bytes); or pixels, stored raw (store="jpeg": as a JPEG of `quality`): numpy uint8 [height, width] or
      [height, width, 1 or 3], a PIL.Image (its EXIF orientation is applied), a torch uint8 tensor
      [channels, height, width]
    - "label": an int, the class name, or None. "labels": a list of these, of any length; all fields share the classes. Vectors of a
      0 or 1 for each class are refused: they are "multi-hot"
    - "multi-hot": a 0 or 1 for each of `classes`, stored as "labels"
    - "boxes": any number of [x_min, y_min, x_max, y_max], "boxes-xywh" of [x_min, y_min, width, height] (stored as "boxes"),
      in pixels of the image as displayed. Both kinds convert torchvision's BoundingBoxes from their own format
    - "mask": a class number for each pixel of the image: a uint8 array [height, width] (numpy, torch), a PIL.Image of mode "L",
      "P" (the palette's numbers) or "1", or bytes of such a PNG. None: the sample has no mask
    - "points": any number of [x, y, visible]. visible 0: the point is unknown; other numbers, such as COCO's 1 (hidden) and 2, are
      stored unchanged
    - "f32" (or "f64", "f16", "u8", "i32", "i64", or one of these as a numpy dtype): a number. ("i32", shape): an array of this shape. ("i32", None):
      any number of them. Values that the dtype can't hold are an error, also integers that are not exact as floats. "number" and
      "numbers" are "f32" and ("f32", None), but refuse NaN and infinity, which no model can be trained on
    - "text": str or a path. "bytes": bytes
    - "labels:NAME", "number:NAME", "i64:NAME" and so on, NAME a field of boxes: one value per box; ("points:NAME", k): k key
      points per box. When an augmentation drops or moves a box, its values follow

    Args:
        dst: the dataset to create. Must not exist.
        fields: {name: kind}, kinds as above. Default: {"image": "image", "label": "label", "path": "text"}.
        classes: names by label. Default: names in the order in which they first appear, or the numbers themselves.
        source: a description of the samples; interrupted="resume" refuses to continue a dataset of another source.
        interrupted: what to do if an interrupted writer left samples: "refuse" (raise an error), "resume" or
            "restart" (remove them).
        {storing}

    Raises:
        dlpipe.Error: a subclass that fits. After dlpipe.MisuseError from a write() you can write other samples.
    """

    _is_open = False  # also if __init__ raises

    @kinds_checked("writer")
    def __init__(
        self,
        dst: Path,
        *,
        fields: Mapping[str, FieldKind] | None = None,
        classes: Iterable[str] | None = None,
        source: str = "",
        interrupted: str = "refuse",
        **storing: Unpack[StoringOptions],
    ) -> None:
        check_names(storing, Writer.__init__)
        fields = DEFAULT_FIELDS if fields is None else fields
        if isinstance(classes, (str, bytes)):
            refuse(f"classes is {classes!r}; give a list of names, such as [{classes!r}]")
        if not fields:
            refuse("no fields; give {name: kind}, or leave them out for image, label and path")
        classes = list(classes or ())
        self._fields = [Field(name, kind, len(classes), storing.get("max_pixels", MAX_PIXELS)) for name, kind in fields.items()]
        self._kinds = [field.kind for field in self._fields]
        self._names = dict.fromkeys(field.name for field in self._fields)
        self._labels = [i for i, kind in enumerate(self._kinds) if kind == "label"]
        self._without_class = 0  # of the samples that this object wrote
        self._with_box_outside: list[tuple[int, str, tuple[int, int]]] = []  # of these, too: sample, field, (height, width)
        self._writer = _dlpipe.Writer(
            destination=os.fsencode(dst),
            fields=[field.schema() for field in self._fields],
            classes=classes,
            source=source,
            interrupted=interrupted,
            storing={**storing},
        )
        self._report: dict[str, Any] | None = None
        self._is_open = True

    def write(self, sample: Mapping[str, Any] | None = None, /, *, split: str = "", **values: Any) -> None:
        """Adds one sample: a dict of its values, or keyword arguments. A missing label is None, a missing text is empty, and a
        missing variable-length field has no values.

        Args:
            split: "train", "val", ... Give it for all samples or for none.
        """
        if not isinstance(split, str):
            refuse(f"split is {split!r}; give a string, such as 'train'")
        encoded("[writer] split", split)
        if sample is not None:
            values = {**sample, **values}
        unknown = values.keys() - self._names.keys()
        if unknown:
            refuse(f"no field {', '.join(map(repr, sorted(map(str, unknown))))}; the dataset has {', '.join(self._names)}: to have "
                   "others, give fields={name: kind}")  # fmt: skip
        try:
            row = [field.value(values.get(field.name), field.name in values) for field in self._fields]
            self._check_canvases(values)
            self._look_at_boxes(values, row)
        except MisuseError as error:
            raise MisuseError(f"{error} (sample {self.position})") from None
        self._writer.write(row, split, self._kinds)
        is_stored = not any(isinstance(value, Unreadable) for value in row)
        self._without_class += is_stored and any(row[i] is None for i in self._labels)

    def _check_canvases(self, values):
        moved = [field for field in self._fields if field.kind in ("boxes", "points") and is_of_torchvision(values.get(field.name))]
        image = next((field.name for field in self._fields if field.kind == "image"), None)
        if moved and image is not None:
            size = size_of(values[image])
            for field in moved:
                field.check_canvas(values[field.name], image, size)

    def _look_at_boxes(self, values, row):
        """Notes the sample if a box is outside its image."""
        image = next((values.get(field.name) for field in self._fields if field.kind == "image"), None)
        size = size_of(image) if any(field.kind == "boxes" and data for field, data in zip(self._fields, row)) else None
        if size is None:
            return
        import numpy as np

        for field, data in zip(self._fields, row):
            if field.kind == "boxes":
                x0, y0, x1, y1 = np.frombuffer(data, "<f4").reshape(-1, 4).T
                if np.any((x1 > x0) & (y1 > y0) & ((x0 >= size[1]) | (y0 >= size[0]) | (x1 <= 0) | (y1 <= 0))):
                    self._with_box_outside.append((self.position, field.name, size))
                    return

    @property
    def position(self) -> int:
        """The number of samples written so far, including those of an interrupted writer. Also the next sample's number."""
        return self._writer.position

    def finish(self) -> dict[str, Any]:
        """Completes the dataset. close() calls it, and so does the end of a `with` block that didn't raise.

        Returns:
            What `dlpipe ingest --json` prints, as a dict. Afterwards also in `report`.
        """
        for field in self._fields:
            if field.ones is not None:
                field.ones.check()
        self._report = self._writer.finish()
        self._is_open = False
        if 0 < self._without_class < self.position:
            self._warn(f"{self._without_class} of {self.position} samples have no class: their label is -1")
        if self._with_box_outside:
            sample, name, (height, width) = self._with_box_outside[0]
            self._warn(f"{len(self._with_box_outside)} of {self.position} samples have a box outside the image, first sample {sample}, field "
                       f"{name!r}, whose image is {width} x {height}; boxes are in pixels of the image as displayed")
        return self._report

    def _warn(self, words):
        assert self._report is not None
        self._report["warnings"].append(f"[writer] {words}")
        logging.getLogger("dlpipe").warning("[writer] %s", words)

    def close(self) -> None:
        """Completes the dataset, as finish() does. Does nothing after finish(), close() or abandon(). If the dataset can't be
        completed, raises the reason and leaves what abandon() leaves.
        """
        try:
            if self._is_open:
                self.finish()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Stops without completing the dataset. Committed samples stay for interrupted="resume"; without any, nothing is
        left.
        """
        self._is_open = False
        self._writer.close()

    @property
    def report(self) -> dict[str, Any] | None:
        """What finish() returned; None before."""
        return self._report

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        if not self._is_open or self._writer.is_forked:
            return
        if self._writer.position > 0:
            warnings.warn(
                f"a dlpipe.Writer with {self._writer.position} samples was destroyed before its dataset was completed; call close(), or "
                "abandon() to drop them",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
        self.abandon()
