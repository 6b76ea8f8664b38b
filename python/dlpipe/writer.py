"""Datasets of samples that Python code makes."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dlpipe import _dlpipe
from dlpipe.errors import MisuseError
from dlpipe.fields import Field, FieldKind, is_of_torchvision, refuse
from dlpipe.kinds import kinds_checked
from dlpipe.paths import Path
from dlpipe.pictures import size_of
from dlpipe.storing import StoringOptions, check_names, documented

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_FIELDS = {"image": "image", "label": "label", "path": "text"}


@documented
class Writer:
    """Makes a dataset of samples that your code has.

        with dlpipe.Writer("data", classes=["cat", "dog"]) as writer:
            for name in names:
                writer.write(image=open(name, "rb").read(), label="cat", path=name)

    Leaving the block, as close(), makes "data" appear, by one rename. Samples are committed every 16,384 or 32 MiB: an
    exception in the block, or a kill, leaves those in "data.partial", and nothing where none were. A writer with
    interrupted="resume" goes on behind them: it has `position` samples, yours go on from that number, in the same order, and the
    dataset is the same, byte for byte. Every picture is decoded before it is stored, by threads of the
    writer: what is wrong with one is raised by a later write or at the block's end, with the sample's number and path.
    A writer is of the process that opened it: a forked child that ends leaves it alone, and its writes are refused.

    A value of each field:

    - "image": bytes of a JPEG or PNG file, which stay as they are (or become coefficients, as by ingest; export gives the
      same bytes back); or pixels, stored raw (store="jpeg": as a JPEG of `quality`): numpy uint8 [height, width] or
      [height, width, 1 or 3], a PIL.Image (turned as its EXIF orientation says), a torch uint8 tensor
      [channels, height, width]
    - "label": an int, the class' name, or None. "labels": a list of these, of any length; classes are shared by all fields
    - "boxes": any number of [x_min, y_min, x_max, y_max], "boxes-xywh" of [x_min, y_min, width, height] (stored as "boxes"),
      in pixels of the picture as seen. torchvision's BoundingBoxes are converted from their own format, with either kind
    - "mask": a class number for each pixel of the picture: a uint8 array [height, width] (numpy, torch), a PIL.Image of mode "L",
      "P" (the palette's numbers) or "1", or bytes of such a PNG. None: the sample has none
    - "points": any number of [x, y, visible], visible 1 or 0
    - "number" or "f32" (or "f64", "f16", "u8", "i32", "i64" or a numpy dtype): a number. ("i32", shape): an array of this
      shape. "numbers", ("i32", None): any number of them. What the dtype can't hold is refused, whole numbers in floats too
    - "text": str or a path. "bytes": bytes
    - "labels:NAME", "number:NAME", "i64:NAME" and the like, NAME a field of boxes: one for each box; ("points:NAME", k): k key
      points for each box. They go with their boxes where an augmentation moves or drops these

    Args:
        dst: the dataset to make. Must not exist.
        fields: {name: kind}, kinds as above. Default: {"image": "image", "label": "label", "path": "text"}.
        classes: names by label. Default: names in the order in which they come, or the numbers themselves.
        source: what the samples are, in your words; interrupted="resume" refuses to go on with others.
        interrupted: what to do about what an interrupted writer left: "refuse" (an error that says so), "resume" or
            "restart" (remove it).
        {storing}

    Raises:
        dlpipe.Error: of the kind that fits. After dlpipe.MisuseError of one write() the writer takes other samples.
    """

    _is_open = False  # where __init__ raises, too

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
        self._fields = [Field(name, kind) for name, kind in fields.items()]
        self._kinds = [field.kind for field in self._fields]
        self._names = dict.fromkeys(field.name for field in self._fields)
        self._labels = [i for i, kind in enumerate(self._kinds) if kind == "label"]
        self._without_class = 0  # of the samples that this object wrote
        self._writer = _dlpipe.Writer(
            destination=os.fsencode(dst),
            fields=[field.schema() for field in self._fields],
            classes=list(classes or ()),
            source=source,
            interrupted=interrupted,
            storing={**storing},
        )
        self._report: dict[str, Any] | None = None
        self._is_open = True

    def write(self, sample: Mapping[str, Any] | None = None, /, *, split: str = "", **values: Any) -> None:
        """Adds one sample: a dict of its values, or keyword arguments. A missing label is None; what has any number of
        values has none, a text is empty.

        Args:
            split: "train", "val", ...; of all samples or of none.
        """
        if not isinstance(split, str):
            refuse(f"split is {split!r}; give a text, such as 'train'")
        if sample is not None:
            values = {**sample, **values}
        unknown = values.keys() - self._names.keys()
        if unknown:
            refuse(f"no field {', '.join(map(repr, sorted(map(str, unknown))))}; the dataset has {', '.join(self._names)}: give "
                   "fields={name: kind} to have others")  # fmt: skip
        try:
            row = [field.value(values.get(field.name)) for field in self._fields]
            self._check_canvases(values)
        except MisuseError as error:
            raise MisuseError(f"{error} (sample {self.position})") from None
        self._writer.write(row, split, self._kinds)
        self._without_class += any(row[i] is None for i in self._labels)

    def _check_canvases(self, values):
        moved = [field for field in self._fields if field.kind in ("boxes", "points") and is_of_torchvision(values.get(field.name))]
        image = next((field.name for field in self._fields if field.kind == "image"), None)
        if moved and image is not None:
            size = size_of(values[image])
            for field in moved:
                field.check_canvas(values[field.name], image, size)

    @property
    def position(self) -> int:
        """The number of the next sample: how many were written, those of an interrupted writer included."""
        return self._writer.position

    def finish(self) -> dict[str, Any]:
        """Makes the dataset. Called by close() and at the end of a `with` block that raised nothing.

        Returns:
            What `dlpipe ingest --json` prints, as a dict; also `report` afterwards.
        """
        self._report = self._writer.finish()
        self._is_open = False
        if 0 < self._without_class < self.position:
            warning = f"[writer] {self._without_class} of {self.position} samples have no class: their label is -1"
            self._report["warnings"].append(warning)
            logging.getLogger("dlpipe").warning(warning)
        return self._report

    def close(self) -> None:
        """Makes the dataset, as finish() does; nothing where finish(), close() or abandon() came before. Where it can't be
        made, this raises why and leaves what abandon() leaves.
        """
        try:
            if self._is_open:
                self.finish()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Stops without making the dataset. What is committed stays for interrupted="resume"; where nothing is, nothing
        stays.
        """
        self._is_open = False
        self._writer.close()

    @property
    def report(self) -> dict[str, Any] | None:
        """What finish() answered; None before."""
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
                f"a dlpipe.Writer goes with {self._writer.position} samples and no dataset; call close(), or abandon() to drop"
                " them",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
        self.abandon()
