"""Datasets with random access to their samples."""

from __future__ import annotations

import difflib
import functools
import operator
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union, overload

from dlpipe import _dlpipe
from dlpipe.errors import ChangedError, MisuseError
from dlpipe.arguments import MAX_PIXELS, Path, Progress, Reporter, kinds_checked
from dlpipe.batch import Named, named_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL.Image import Image

    #: Samples by number or by mask; also the tuple that np.where returns.
    Chosen: TypeAlias = Union[slice, Sequence[int], npt.NDArray[np.integer[Any] | np.bool_], tuple[npt.NDArray[np.integer[Any]], ...]]


class Sample(Named):
    """A sample: the dataset's fields."""

    __slots__ = ()
    _advice = "access them by name: sample.image"

    def to_pil(self) -> Image:
        """The image as a PIL.Image (needs Pillow)."""
        from PIL import Image

        pixels = self._pixels()
        return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)

    def _pixels(self):
        """The image, numpy uint8 [height, width, channels]."""
        if not self._image:
            raise MisuseError(f"[dataset] the sample has no image; its fields are {', '.join(self._names)}")
        return self[self._image]


def check_unchanged(area, directory, found, expected):
    """Refuses a directory that now holds a different dataset: sample numbers would refer to other samples."""
    if found != expected:
        raise ChangedError(f"[{area}] {os.fsdecode(directory)} now holds another dataset: its id is {found}, and was {expected}; "
                           "open it as a new dlpipe.Dataset, or restore the former one")  # fmt: skip


def _open(directory, split, max_pixels, numbers, expected=None):
    dataset = Dataset(directory, split=split, max_pixels=max_pixels)
    if expected is not None:  # pickles of earlier versions have no id
        check_unchanged("dataset", directory, dataset.id, expected)
    dataset._numbers = numbers
    return dataset


def _listed(index, length):
    """The sample numbers that a list, an array or a mask selects."""
    if isinstance(index, tuple) and len(index) == 1 and getattr(index[0], "ndim", 0) == 1:
        (index,) = index  # as np.where and torch.where return it
    if isinstance(index, (str, bytes)) or not hasattr(index, "__iter__"):
        field = f"; for a field of a sample use dataset[number][{index!r}]" if isinstance(index, str) else ""
        raise MisuseError(f"[dataset] the index is {index!r}; give a number, a slice, a list of numbers or a mask{field}")
    if getattr(index, "ndim", 1) != 1:
        raise MisuseError(f"[dataset] the index is an array with {index.ndim} axes; give a 1-D array of numbers, or a mask")
    items = index.tolist() if hasattr(index, "tolist") else list(index)
    bools = sum(type(item).__name__ in ("bool", "bool_") for item in items)  # Python's and NumPy's
    if bools == 0:
        return items
    if bools < len(items) or len(items) != length:
        raise MisuseError(f"[dataset] the index has {bools} bools among {len(items)} items; a mask has one bool for each of the "
                          f"{length} samples, a list of numbers has none")  # fmt: skip
    return [i for i, is_taken in enumerate(items) if is_taken]


class Dataset:
    """Random access to the samples of a dataset that `dlpipe ingest`, dlpipe.Writer or dlpipe.from_dataset created.

        images = dlpipe.Dataset("data/val")
        image, label, path = images[0]     # a named tuple: the image, the label, then the dataset's other fields
        images[0].to_pil().show()
        images[::100]                      # every hundredth, as a Dataset
        images[images.labels == 3]       # the samples of a class, as a Dataset

    A Dataset is a sequence, so torch's DataLoader accepts it, also with workers; dlpipe.Loader is many times faster. Fields:

    - image: numpy uint8 [height, width, channels], as displayed (EXIF orientation applied), 1 or 3 channels
    - label: int, an index into `classes`; -1: none
    - path, and every other field of bytes: str (decoded as by os.fsdecode: os.fsencode returns bytes that are not UTF-8)
    - numbers: NumPy scalars of the field's dtype; tensors: numpy arrays of the field's dtype and shape; several labels: int64 [n]; boxes and points: float32 [n, 4], [n, 3]

    Any number of threads may read at once. Unpickling opens the dataset again; if its directory then holds another one, it
    raises dlpipe.ChangedError.

    Args:
        data: the dataset's directory. str or os.PathLike.
        split: the split to open, if data holds several ("train", "val").
        max_pixels: larger images are an error.

    Raises:
        dlpipe.Error: a subclass that fits; dlpipe.CorruptError for a corrupt sample, when it is read.
    """

    @kinds_checked("dataset")
    def __init__(self, data: Path, *, split: str = "", max_pixels: int = MAX_PIXELS) -> None:
        self._arguments = (data, split, max_pixels)
        self._opened = _dlpipe.Dataset(os.fsencode(data), split, max_pixels)
        self._type = named_type(Sample, tuple(self._opened.fields), self._opened.image)
        self._numbers: Sequence[int] = range(self._opened.size)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Sample: ...

    @overload
    def __getitem__(self, index: Chosen) -> Dataset: ...

    def __getitem__(self, index: Any) -> Sample | Dataset:
        """A number returns one sample (negative numbers count from the end). A slice, a list or an array of numbers, or a mask
        with a bool for each sample returns a Dataset of those samples, without reading them."""
        if isinstance(index, slice):
            return self._of(self._numbers[index])
        if hasattr(index, "__index__") and getattr(index, "ndim", 0) == 0:
            return self._type._make(self._opened.values(self._number(index)))
        return self._of([self._number(i) for i in _listed(index, len(self))])

    def choose(self, subset: Chosen | Sequence[str] | npt.NDArray[np.str_]) -> Dataset:
        """A Dataset of some samples: those of a slice, of numbers or of a mask, as in dataset[...], or those of the classes with
        these names (a list or an array)."""
        if isinstance(subset, slice):
            return self[subset]
        if isinstance(subset, str):
            raise MisuseError(f"[dataset] the index is {subset!r}; give a list of class names, such as [{subset!r}], a list of numbers, "
                              "a slice or a mask")  # fmt: skip
        is_array = getattr(subset, "ndim", 0) == 1 and getattr(getattr(subset, "dtype", None), "kind", "") in ("U", "O")
        subset = subset.tolist() if is_array else subset  # type: ignore[union-attr]
        names = list(subset) if isinstance(subset, (list, tuple, set, frozenset)) else []
        if not names or not all(isinstance(name, str) for name in names):
            return self._of([self._number(i) for i in _listed(subset, len(self))])
        labels = {name: label for label, name in enumerate(self.classes)}
        for name in names:
            if name not in labels:
                near = difflib.get_close_matches(name, labels, 1)
                raise MisuseError(f"[dataset] no class {name!r} among {len(labels)}" + (f"; did you mean {near[0]!r}?" if near else ""))
        wanted = {labels[name] for name in names}
        return self._of([number for number, label in zip(self._numbers, self.labels.tolist()) if label in wanted])

    def _number(self, index):
        """The number in the whole dataset of this part's sample `index`."""
        try:
            return self._numbers[operator.index(index)]
        except IndexError:
            raise IndexError(f"sample {index} of a dataset of {len(self)}") from None
        except TypeError:
            raise MisuseError(f"[dataset] sample {index!r}; give a whole number") from None

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def _of(self, numbers):
        part = object.__new__(Dataset)
        part.__dict__.update(self.__dict__)
        part._numbers = numbers
        return part

    def _pick(self, column):
        return column if self._numbers == range(len(column)) else column[list(self._numbers)]

    def __reduce__(self) -> Any:
        return _open, (*self._arguments, self._numbers, self.id)

    def __repr__(self) -> str:
        return f"dlpipe.Dataset({os.fsdecode(self.directory)!r}): {len(self)} samples, {len(self.classes)} classes"

    def to_pil(self, index: int) -> Image:
        """The image of one sample as a PIL.Image (needs Pillow)."""
        return self[index].to_pil()

    def file(self, index: int) -> bytes:
        """One sample's image as the bytes of a file: the stored JPEG or PNG, byte for byte, or a PNG of stored raw pixels. (A
        progressive JPEG stored as coefficients is returned as a baseline JPEG with the same pixels.)"""
        return self._opened.file(self._number(index))

    def class_name(self, label: int) -> str | None:
        """The name of a label; None for -1."""
        if label == -1:
            return None
        if not 0 <= label < len(self.classes):
            raise IndexError(f"label {label} of {len(self.classes)} classes")
        return self.classes[label]

    @kinds_checked("dataset")
    def export(self, directory: Path, *, limit: int = -1, progress: Progress = None) -> dict[str, Any]:
        """Writes all samples (or the first `limit`) back to files, DIRECTORY/CLASS/..., as `dlpipe export` does. `directory` appears
        once it is complete. `progress(done, total)`, or True for a tqdm bar. A part of a dataset can't be exported.

        Returns:
            A dict: files, rewritten (JPEGs with the source's pixels in other bytes), renamed (samples with a name that no file
            can have), bytes, directory.
        """
        if self._numbers != range(self._opened.size):
            raise MisuseError("[dataset] export writes a whole dataset, but this is a part of one; write file(i) of its "
                              "samples instead")  # fmt: skip
        with Reporter(progress, lambda bar, done, total: bar.update(done, total, "img")) as call:
            return self._opened.export(os.fsencode(directory), limit, call)

    @property
    def directory(self) -> bytes:
        """The dataset's path, as bytes."""
        return self._opened.directory

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of a sample's fields, for sample[name]: the image, the label, then the others in the dataset's order."""
        return self._type._names

    @functools.cached_property
    def classes(self) -> list[str]:
        """Names of the classes, by label."""
        return self._opened.classes

    @property
    def class_counts(self) -> list[int]:
        """Number of samples per class, in the whole dataset."""
        return self._opened.class_counts

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """numpy int64 [len(self)]: all labels. Reads no samples."""
        return self._pick(self._opened.labels())

    @property
    def sizes(self) -> npt.NDArray[np.int32]:
        """numpy int32 [len(self), 2]: height and width of all images. Reads no samples."""
        return self._pick(self._opened.sizes())

    @property
    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the dataset's pixels, scaled to [0, 1]: a tuple each, one value per channel."""
        return self._opened.mean_std

    @property
    def id(self) -> str:
        """A hash of the contents: equal datasets have equal ids, wherever they are."""
        return self._opened.id

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """(path, reason) of each file that was skipped when the dataset was created."""
        return self._opened.skipped()
