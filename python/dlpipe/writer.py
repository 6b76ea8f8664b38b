"""Datasets of samples that Python code makes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from dlpipe import _dlpipe
from dlpipe.errors import MisuseError
from dlpipe.paths import Path
from dlpipe.pictures import picture
from dlpipe.storing import StoringOptions, documented

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: What a field holds: "image", "label", "text", ...; a dtype; or (dtype, shape).
FieldKind = Union[str, type, "tuple[Any, Any]", Any]

DEFAULT_FIELDS = {"image": "image", "label": "label", "path": "text"}
_DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "uint8": "u8", "int32": "i32", "int64": "i64",
    "f32": "f32", "f64": "f64", "f16": "f16", "u8": "u8", "i32": "i32", "i64": "i64",
}  # fmt: skip
_NUMPY = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "u8": "|u1", "i32": "<i4", "i64": "<i8"}


def _refuse(*words):
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
        _refuse(f"field {name!r} is {dtype!r}; give 'image', 'label', 'text', 'bytes', a dtype ({', '.join(_NUMPY)}) or "
                "(dtype, shape)")
    return found


class Field:
    """One field: how a value becomes what the library takes."""

    def __init__(self, name, kind):
        self.name = name
        self.dtype = "u8"
        self.shape: tuple[int, ...] = ()
        if kind in ("image", "label", "text", "bytes"):
            self.kind = kind
            self.dtype = "i64" if kind == "label" else "u8"
            return
        self.kind = "tensor"
        shape: Any
        dtype, shape = kind if isinstance(kind, (tuple, list)) and len(kind) == 2 else (kind, (1,))
        self.dtype = _dtype_name(name, dtype)
        self.shape = tuple(shape) if hasattr(shape, "__iter__") else (int(shape),)
        if not self.shape or any(int(side) < 1 for side in self.shape):
            _refuse(f"field {name!r} has the shape {shape!r}; give sizes of at least 1")

    def schema(self):
        kind = "bytes" if self.kind == "text" else self.kind
        return self.name, kind, self.dtype, [int(side) for side in self.shape]

    def buffer(self, value):
        """What is no image and no label, as bytes."""
        if self.kind == "text":
            if isinstance(value, os.PathLike):
                value = os.fspath(value)
            if isinstance(value, str):
                return os.fsencode(value)
        if self.kind in ("text", "bytes"):
            if isinstance(value, (bytes, bytearray, memoryview)):
                return bytes(value)
            _refuse(f"field {self.name!r} is {type(value).__name__}; it takes {'str or ' * (self.kind == 'text')}bytes")
        return self._tensor(value)

    def _tensor(self, value):
        import numpy as np

        try:
            array = np.asarray(value)
            wanted = np.dtype(_NUMPY[self.dtype])
            if array.shape != self.shape and not (array.shape == () and self.shape == (1,)):
                _refuse(f"field {self.name!r} has the shape {array.shape}, the dataset's is {self.shape}")
            cast = array.astype(wanted, casting="unsafe")
            exact = wanted.kind == "f" or array.dtype == wanted or np.array_equal(cast, array)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, MisuseError):
                raise
            _refuse(f"field {self.name!r} is {value!r}: {error}")
        if not exact or array.dtype.kind not in "biuf":
            _refuse(f"field {self.name!r} is {value!r}, which is no {self.dtype}")
        return np.ascontiguousarray(cast).tobytes()


def _label(value):
    if value is None or isinstance(value, str):
        return value
    try:
        return value.__index__() if hasattr(value, "__index__") else value.item().__index__()
    except (AttributeError, TypeError, ValueError):
        _refuse(f"the label is {value!r}; give an int, a str (the class' name) or None")


@documented
class Writer:
    """Makes a dataset of samples that your code has.

        with dlpipe.Writer("data", classes=["cat", "dog"]) as writer:
            for name in names:
                writer.write(image=open(name, "rb").read(), label="cat", path=name)

    Leaving the block makes "data" appear, by one rename; an exception in it, or a kill, leaves "data.partial", from which a
    writer with interrupted="resume" goes on: it has `position` samples, yours go on behind them, in the same order, and the
    dataset is the same, byte for byte. Every picture is decoded before it is stored, by threads of the writer: what is
    wrong with one is raised by a later write or at the block's end, with the sample's number and path.

    A value of each field:

    - "image": bytes of a JPEG or PNG file, which stay as they are (or become coefficients, as by ingest; export gives the
      same bytes back); or pixels, stored raw (store="jpeg": as a JPEG of `quality`): numpy uint8 [height, width] or
      [height, width, 1 or 3], a PIL.Image, a torch uint8 tensor [channels, height, width]
    - "label": an int, the class' name, or None
    - "text": str or a path. "bytes": bytes
    - "f32" (or "f64", "f16", "u8", "i32", "i64" or a numpy dtype): a number. ("i32", shape): an array of this shape

    Args:
        dst: the dataset to make. Must not exist.
        fields: {name: kind}. Default: {"image": "image", "label": "label", "path": "text"}.
        classes: names by label. Default: names in the order in which they come, or the numbers themselves.
        source: what the samples are, in your words; interrupted="resume" refuses to go on with others.
        interrupted: what to do about what an interrupted writer left: "refuse" (an error that says so), "resume" or
            "restart" (remove it).
        {storing}

    Raises:
        dlpipe.Error: of the kind that fits. After dlpipe.MisuseError of one write() the writer takes other samples.
    """

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
        fields = DEFAULT_FIELDS if fields is None else fields
        if not fields:
            _refuse("no fields; give {name: kind}, or leave them out for image, label and path")
        self._fields = [Field(name, kind) for name, kind in fields.items()]
        self._kinds = [field.kind for field in self._fields]
        self._names = dict.fromkeys(field.name for field in self._fields)
        self._writer = _dlpipe.Writer(
            destination=os.fsencode(dst),
            fields=[field.schema() for field in self._fields],
            classes=list(classes or ()),
            source=source,
            interrupted=interrupted,
            storing={**storing},
        )
        self._report: dict[str, Any] | None = None

    def write(self, sample: Mapping[str, Any] | None = None, /, *, split: str = "", **values: Any) -> None:
        """Adds one sample: a dict of its values, or keyword arguments. A missing label is None, a missing text empty.

        Args:
            split: "train", "val", ...; of all samples or of none.
        """
        if sample is not None:
            values = {**sample, **values}
        unknown = values.keys() - self._names.keys()
        if unknown:
            _refuse(f"no field {', '.join(map(repr, sorted(map(str, unknown))))}; the dataset has {', '.join(self._names)}")
        image = label = None
        others = []
        for field in self._fields:
            value = values.get(field.name)
            if field.kind == "label":
                label = _label(value)
            elif value is None:
                if field.kind not in ("text", "bytes"):
                    _refuse(f"the sample has no {field.name!r}")
                others.append(b"")
            elif field.kind == "image":
                image = picture(value)
            else:
                others.append(field.buffer(value))
        self._writer.write(image, label, others, split, self._kinds)

    @property
    def position(self) -> int:
        """The number of the next sample: how many were written, those of an interrupted writer included."""
        return self._writer.position

    def finish(self) -> dict[str, Any]:
        """Makes the dataset. Called at the end of a `with` block that raised nothing.

        Returns:
            What `dlpipe ingest --json` prints, as a dict; also `report` afterwards.
        """
        self._report = self._writer.finish()
        return self._report

    def close(self) -> None:
        """Stops. What is committed stays for interrupted="resume"; where nothing is, nothing stays."""
        self._writer.close()

    @property
    def report(self) -> dict[str, Any] | None:
        """What finish() answered; None before."""
        return self._report

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._report is None:
                self.finish()
        finally:
            self.close()
