"""What a loader's iterator gives: a tuple of the dataset's fields, with names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dlpipe.tuples import Named, named_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Ragged:
    """A field of which each sample has any number of rows: the rows of all samples below each other, and where each begins.

    `values` is [rows, ...], `offsets` int64 [samples + 1]; sample i has values[offsets[i]:offsets[i + 1]], which is also
    ragged[i]. Both lie in the batch's memory.
    """

    __slots__ = ("values", "offsets")

    def __init__(self, values: Any, offsets: Any) -> None:
        self.values = values
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Any:
        samples = len(self)
        if not -samples <= i < samples:
            raise IndexError(f"sample {i} of {samples}")
        i %= samples
        return self.values[int(self.offsets[i]):int(self.offsets[i + 1])]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def texts(self) -> list[str]:
        """list of str, of a field of bytes."""
        return [os.fsdecode(bytes(memoryview(rows.numpy() if hasattr(rows, "numpy") else rows))) for rows in self]

    def __reduce__(self) -> Any:
        return Ragged, (self.values, self.offsets)

    def __repr__(self) -> str:
        return f"Ragged({len(self)} samples, values {tuple(self.values.shape)})"


class Batch(Named):
    """A batch: the dataset's fields as arrays, and what is known of it beside them. Fields of these names are
    under batch["epoch"] and batch.epoch_.

    A copy (pickled, or made by another library on a device of its own) has the fields alone.
    """

    __slots__ = ()
    _advice = ("take them by name (batch.image), or give dlpipe.Loader fields=[...] with the names of those that the loop takes")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name == "_lent" or isinstance(getattr(type(self), name, None), property):
                raise AttributeError("this is a copy of a batch, which has its fields alone: take sample_ids, weight and "
                                     "the like from the loader's own batch")
            raise AttributeError(f"a batch has no {name!r}; its fields are {', '.join(self._fields)}")

    @property
    def sample_ids(self) -> npt.NDArray[np.int64]:
        """numpy int64 [count]: which samples of the dataset these are."""
        return self._lent.sample_ids

    @property
    def weight(self) -> npt.NDArray[np.float32]:
        """numpy float32 [count]: 1, or 0 for a sample that was dropped because it is damaged."""
        return self._lent.weight

    @property
    def path(self) -> list[str]:
        """list of str: the files that the samples came from, below the folder that was ingested. Read from the dataset once
        more, unless the loader's `fields` name it."""
        if "path" in self._names:
            return self["path"].texts()
        data, offsets = self._lent.ragged("path")
        return [os.fsdecode(data[begin:end]) for begin, end in zip(offsets, offsets[1:])]

    def ragged(self, field: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """A field without a fixed size as the dataset has it, no augmentation applied: (bytes, offsets), numpy uint8 [total]
        and int64 [count + 1]; sample i has bytes[offsets[i]:offsets[i + 1]]. Read from the dataset once more."""
        import numpy as np

        data, offsets = self._lent.ragged(field)
        return np.frombuffer(data, np.uint8), np.array(offsets, np.int64)

    @property
    def epoch(self) -> int:
        """The epoch, from 0."""
        return self._lent.epoch

    @property
    def index(self) -> int:  # type: ignore[override]
        """The batch's number within the epoch, from 0."""
        return self._lent.index

    @property
    def last_in_epoch(self) -> bool:
        """Whether the epoch ends with it."""
        return self._lent.last_in_epoch

    @property
    def substitutions(self) -> list[dict[str, Any]]:
        """Damaged samples and what stood in for them: dicts of position, bad_sample, used_sample (-1: none), reason."""
        return self._lent.substitutions


def batch_type(fields):
    """The class of batches with these fields. Copies and unpickled ones are plain: their memory is their own."""
    return named_type(Batch, fields)


def lend(kind, lent):
    """The tuple over the memory of a lent batch."""
    batch = tuple.__new__(kind, (Ragged(*one) if isinstance(one, tuple) else one for one in lent.arrays()))
    batch._lent = lent
    return batch
