"""The fields of samples that Python code makes: what they hold, and how a value becomes what the library takes."""

from __future__ import annotations

import os
from typing import Any, Union

from dlpipe import _dlpipe
from dlpipe.errors import MisuseError
from dlpipe.pictures import mask, picture

#: What a field holds, as dlpipe.Writer lists it.
FieldKind = Union[str, type, "tuple[Any, Any]", Any]

#: Name: kind at rest, dtype, and the shape of a value, or of one of its rows.
_KINDS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "image": ("image", "u8", ()),
    "label": ("label", "i64", ()),
    "labels": ("labels", "i64", ()),
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
        found = _DTYPES.get(np.dtype(dtype).name)
    except TypeError:
        found = None
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
            return value.encode(errors="surrogateescape")
        number = value.__index__() if hasattr(value, "__index__") else value.item().__index__()
    except (AttributeError, TypeError, ValueError):
        number = "; a number that isn't a class has the kind 'number' in fields=" if hasattr(value, "__float__") else ""
        refuse(said, "; give an int or a str (the class' name)", " or None" if name is None else "", number)
    if not -(2**63) <= number < 2**63:
        refuse(said, "; give a number of 64 bits")
    return number


def _is_near(cast, array):
    """Whether floats hold numbers: whole ones exactly, fractions but for their rounding. Infinity is no rounding."""
    import numpy as np

    if array.dtype.kind == "f":
        return not np.any(np.isinf(cast) & np.isfinite(array))
    if array.dtype.kind not in "iu" or array.size == 0:
        return True
    most = 2 ** (np.finfo(cast.dtype).nmant + 1)  # up to here each whole number is a float
    if -most <= array.min() and array.max() <= most:
        return True
    return bool(np.all(np.isfinite(cast))) and [*map(int, cast.flat)] == [*map(int, array.flat)]


def is_of_torchvision(value):
    """Whether it is one of torchvision's tensors that say what they hold: BoundingBoxes, KeyPoints, Mask."""
    return type(value).__module__.startswith("torchvision.tv_tensors")


def _corners(name, boxes):
    """torchvision's BoundingBoxes, of whatever format, as rows of x_min, y_min, x_max, y_max."""
    import numpy as np

    rows = np.asarray(boxes, np.float64)
    form = getattr(boxes.format, "name", str(boxes.format))
    if form == "XYXY":
        return rows
    if form == "XYWH":
        return np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:]], 1)
    if form == "CXCYWH":
        return np.concatenate([rows[:, :2] - rows[:, 2:] / 2, rows[:, :2] + rows[:, 2:] / 2], 1)
    refuse(f"field {name!r} holds BoundingBoxes of the format {form}, and boxes here have no angle; give their upright boxes, or "
           f"keep the numbers, which no augmentation moves: ('f32', {tuple(rows.shape[1:])}) in fields=")


class Field:
    """One field, by what dlpipe.Writer's `fields` says of it."""

    def __init__(self, name: str, kind: FieldKind) -> None:
        if not isinstance(name, str):
            refuse(f"a field is called {name!r}; give its name as a text")
        self.name = name
        self.of = ""
        shape: Any = ...  # not given
        if isinstance(kind, (tuple, list)) and len(kind) == 2:
            kind, shape = kind
        if isinstance(kind, str):
            kind, _, self.of = kind.partition(":")
        self.given = kind
        if isinstance(kind, str) and kind in _KINDS:
            self.kind, self.dtype, self.shape = _KINDS[kind]
        else:
            self.kind, self.dtype, self.shape = "tensor", _dtype_name(name, kind), (1,)
        if self.of and self.kind == "tensor":
            self.shape = ()
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
        """What the library takes: name, kind, dtype, shape, the boxes that it is of."""
        return self.name, self.kind, self.dtype, list(self.shape), self.of

    def value(self, value):
        """A sample's value as the library takes it; None: it has none."""
        if self.kind == "label":
            return _label(None, value)
        if value is None:
            if self.kind == "image" or (self.kind == "tensor" and self.shape):
                refuse(f"the sample has no {self.name!r}; give a value, or fields= without it")
            return [] if self.kind == "labels" else b""
        if self.kind == "image":
            return picture(value)
        if self.kind == "mask":
            return mask(self.name, value)
        if self.kind == "labels":
            if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
                refuse(f"field {self.name!r} is {value!r}; give a list of classes")
            return [_label(self.name, one) for one in value]
        return self._bytes(value) if self.kind == "bytes" else self._numbers(value)

    def _bytes(self, value):
        is_text = self.given == "text"
        if is_text and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if is_text and isinstance(value, str):
            return os.fsencode(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        refuse(f"field {self.name!r} is {type(value).__name__}; it takes {'str or ' * is_text}bytes")

    def _numbers(self, value):
        import numpy as np

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
            with np.errstate(over="ignore", invalid="ignore"):  # they are looked for below
                cast = array.astype(wanted, casting="unsafe")
            exact = _is_near(cast, array) if wanted.kind == "f" else array.dtype == wanted or np.array_equal(cast, array)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, MisuseError):
                raise
            refuse(f"field {self.name!r} is {value!r}: {error}")
        if not exact or array.dtype.kind not in "biuf":
            wider = "; give 'i64' for whole numbers of any size" if cast.dtype.kind == "f" and array.dtype.kind in "iu" else ""
            refuse(f"field {self.name!r} is {value!r}, which is no {self.dtype}{wider}")
        data = np.ascontiguousarray(cast).tobytes()
        return _dlpipe.boxes_of_xywh(self.name, data) if self.given == "boxes-xywh" and not are_torchvisions else data

    def check_canvas(self, value, image, size):
        """Refuses boxes and points of torchvision's that are of an image of another `size`, (height, width), than the field
        `image` has."""
        canvas = getattr(value, "canvas_size", None) if is_of_torchvision(value) else None
        if canvas is not None and size is not None and tuple(canvas) != tuple(size):
            refuse(f"field {self.name!r} has places in an image of {canvas[0]} x {canvas[1]} (canvas_size), and {image!r} is "
                   f"{size[0]} x {size[1]} as it is seen; give both of the same image, turned as its EXIF orientation says")

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
