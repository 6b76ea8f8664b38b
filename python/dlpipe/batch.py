"""Batches as a loader returns them: named tuples of the dataset's fields, also with several views of each sample."""

from __future__ import annotations

import collections
import dis
import functools
import itertools
import keyword
import math
import operator
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dlpipe.errors import MisuseError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


# ---- named tuples with a dataset's field names, which may be any strings


class Named(tuple[Any, ...]):
    """A tuple of a dataset's fields. Access them by position, by attribute or by the dataset's name: batch[0], batch.image,
    batch["image"].

    A field name that is not a valid attribute is changed: every character other than letters, digits and underscores becomes
    an underscore. A name that Python or the tuple itself uses ("class", "count") gets a trailing underscore: sample.class_.
    """

    __slots__ = ()
    _base: type
    _names: tuple[str, ...] = ()
    _fields: tuple[str, ...] = ()
    _image: str = ""  # name of the field that is an image; for samples only
    _advice: str = ""  # ends the error of an assignment with the wrong number of names

    if TYPE_CHECKING:  # the fields

        def __getattr__(self, name: str) -> Any: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                key = self._names.index(key)
            except ValueError:
                raise KeyError(f"no field {key!r}; the fields are {', '.join(self._names)}") from None
        return tuple.__getitem__(self, key)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        names = _names_unpacked_into(frame)
        if names is not None and names != len(self) and _is_what_is_unpacked(self, frame):
            pythons = f"too many values to unpack (expected {names})" if names < len(self) else \
                f"not enough values to unpack (expected {names}, got {len(self)})"  # fmt: skip
            raise ValueError(f"{pythons}: a {type(self).__name__} here has {', '.join(self._names)}; {self._advice}")
        return tuple.__iter__(self)

    def __repr__(self) -> str:
        values = (f"{name}={_shown(value)}" for name, value in zip(self._names, self))
        return f"{type(self).__name__}({', '.join(values)})"

    def _asdict(self) -> dict[str, Any]:
        """A dict of the fields, by the dataset's names."""
        return dict(zip(self._names, self))

    def __reduce__(self) -> Any:
        return _make, (self._base, self._names, tuple(self), self._image)


def _names_unpacked_into(frame):
    """The number of names on the left of the `a, b = ...` or `for a, b in ...` that the frame executes; None if it executes neither.
    Needed for a better error: Python's own doesn't name the fields."""
    code = frame.f_code.co_code
    at = frame.f_lasti
    return code[at + 1] if 0 <= at < len(code) - 1 and code[at] == dis.opmap["UNPACK_SEQUENCE"] else None


def _is_what_is_unpacked(value, frame):
    """Whether the frame itself unpacks this value. In `a, b, c = map(list, three_batches)`, map iterates over it instead. The
    previous instruction decides: it must load a variable or an item, or be a loop. The result of a call may be anything."""
    instructions = list(dis.get_instructions(frame.f_code))
    at = next(i for i, instruction in enumerate(instructions) if instruction.offset == frame.f_lasti)
    before = instructions[at - 1]
    if "LOAD" in before.opname:
        name = before.argval[-1] if isinstance(before.argval, tuple) else before.argval  # since 3.13 one may load two
        return frame.f_locals.get(name, frame.f_globals.get(name)) is value
    return before.opname.startswith(("FOR_ITER", "BINARY_", "UNPACK_SEQUENCE", "STORE_"))


def _shown(value):
    """A value in a repr. Large arrays, such as images, are shown as dtype and shape."""
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    shape = getattr(value, "shape", None)
    if shape is None or math.prod(shape) <= 16:
        return repr(value)
    return f"<{value.dtype} {' x '.join(map(str, shape))}>"


def _make(base, names, values, image=""):
    return named_type(base, names, image)(*values)


def _attribute(name, taken):
    """The attribute name for a field, other than those in `taken`."""
    attribute = re.sub(r"\W", "_", name).lstrip("_")
    if not attribute.isidentifier():
        attribute = "field_" + attribute
    while attribute in taken or keyword.iskeyword(attribute):
        attribute += "_"
    return attribute


@functools.cache
def named_type(base, names, image=""):
    """A class of tuples with these fields, derived from `base`, a subclass of Named. `image`: the field that is an image, or ""."""
    taken = set(dir(base))
    attributes = []
    for name in names:
        if names.count(name) > 1:
            raise MisuseError(f"[dataset] two fields are called {name!r}; create the dataset again with another name for one")
        attributes.append(_attribute(name, taken))
        taken.add(attributes[-1])
    fields = collections.namedtuple(base.__name__, attributes)  # type: ignore[misc]
    body = {"_base": base, "_names": names, "_fields": fields._fields, "_image": image, "__module__": "dlpipe"}
    return type(base.__name__, (base, fields), body)


# ---- batches


class Ragged:
    """A variable-length field: the rows of all samples concatenated, and the offset at which each sample begins.

    `values` is [rows, ...], `offsets` int64 [samples + 1]. The rows of sample i are values[offsets[i]:offsets[i + 1]], or
    ragged[i]. ragged[2:5] is a Ragged of these samples. Both arrays are in the batch's memory, on the host also with device="cuda".
    """

    __slots__ = ("values", "offsets")

    def __init__(self, values: Any, offsets: Any) -> None:
        self.values = values
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int | slice) -> Any:
        samples = len(self)
        if isinstance(i, slice):
            begin, end, step = i.indices(samples)
            if step != 1:
                raise MisuseError(f"[batch] the step of a slice is {step}; give 1, or take single samples: [ragged[i] for i in ...]")
            offsets = self.offsets[begin:max(begin, end) + 1]
            return Ragged(self.values[int(offsets[0]):int(offsets[-1])], offsets - offsets[0])
        if not hasattr(i, "__index__"):
            raise MisuseError(f"[batch] the index is {i!r}; give the number of a sample, or a slice")
        i = operator.index(i)
        if not -samples <= i < samples:
            raise IndexError(f"sample {i} of {samples}")
        i %= samples
        return self.values[int(self.offsets[i]):int(self.offsets[i + 1])]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def to(self, device: Any, *, non_blocking: bool = False) -> Ragged:
        """A Ragged on another device, as torch.Tensor.to makes it. For PyTorch only."""
        self._refuse_unless(hasattr(self.values, "new_zeros"), "to", "is for PyTorch's tensors")
        return Ragged(self.values.to(device, non_blocking=non_blocking), self.offsets.to(device, non_blocking=non_blocking))

    def texts(self) -> list[str]:
        """A field of texts or bytes as a list of str."""
        self._refuse_unless(self._dtype == "uint8" and self.values.ndim == 1, "texts", "is for fields of texts or bytes")
        values = self.values.cpu().numpy() if hasattr(self.values, "new_zeros") else self.values
        data, offsets = bytes(memoryview(values)), self.offsets.tolist()
        return [os.fsdecode(data[begin:end]) for begin, end in zip(offsets, offsets[1:])]

    def multi_hot(self, classes: int) -> Any:
        """A field of labels as float32 [samples, classes], of the same framework: 1 for each label that the sample has, else 0.

        `classes` is their number, such as len(loader.classes).
        """
        are_labels = self._dtype in ("int64", "int32") and self.values.ndim == 1  # int32: JAX's
        self._refuse_unless(are_labels, "multi_hot", "is for fields of labels")
        is_torch = hasattr(self.values, "new_zeros")
        # On a GPU, the check would wait for the values.
        if len(self.values) > 0 and (not is_torch or self.values.device.type == "cpu"):
            least, most = int(self.values.min()), int(self.values.max())
            if least < 0 or most >= classes:
                raise IndexError(f"[batch] a sample has the label {least if least < 0 else most}, but multi_hot got {classes} classes; give it "
                                 "len(loader.classes)")  # fmt: skip
        if is_torch:
            import torch

            rows = torch.repeat_interleave(self.offsets.diff()).to(self.values.device)
            dense = self.values.new_zeros((len(self), classes), dtype=torch.float32)
            dense[rows, self.values] = 1
            return dense
        import numpy as np

        dense = np.zeros((len(self), classes), np.float32)
        dense[np.repeat(np.arange(len(self)), np.diff(np.asarray(self.offsets))), np.asarray(self.values)] = 1
        if isinstance(self.values, np.ndarray):
            return dense
        import jax.numpy as jnp

        return jnp.asarray(dense)

    @property
    def _dtype(self):
        return str(self.values.dtype).removeprefix("torch.")

    def _refuse_unless(self, is_fit, method, purpose):
        if not is_fit:
            shape = ", ".join(["rows", *map(str, self.values.shape[1:])])
            raise MisuseError(f"[batch] {method}() {purpose}, but this field holds {self._dtype} [{shape}] of "
                              f"{type(self.values).__module__.split('.')[0]}; use ragged[i] or ragged.values")  # fmt: skip

    def __reduce__(self) -> Any:
        return Ragged, (self.values, self.offsets)

    def __repr__(self) -> str:
        return f"Ragged({len(self)} samples, values {tuple(self.values.shape)})"


class Batch(Named):
    """A batch: the dataset's fields as arrays, plus the properties below. A field with the name of a property, such as
    "epoch", is batch["epoch"] or batch.epoch_.

    A copy (pickled, or made by another library on a device of its own) has the fields only.
    """

    __slots__ = ()
    _advice = ("access them by name (batch.image), or give dlpipe.Loader fields=[...] with the names that the loop unpacks")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name == "_lent" or isinstance(getattr(type(self), name, None), property):
                raise AttributeError("this is a copy of a batch, which has the fields only; read sample_ids, weight and the "
                                     "other properties from the loader's own batch")
            raise AttributeError(f"the batch has no {name!r}; its fields are {', '.join(self._fields)}")

    @property
    def sample_ids(self) -> Any:
        """int64 [count]: each sample's number in the dataset. A tensor on the CPU with as_="torch", else a NumPy array."""
        return self._lent.sample_ids

    @property
    def weight(self) -> Any:
        """float32 [count]: 1, or 0 for a sample that was dropped because it is corrupt, or that repeats another rank's
        (pad_last). A tensor on the CPU with as_="torch", else a NumPy array."""
        return self._lent.weight

    @property
    def path(self) -> list[str]:
        """list of str: the files that the samples came from, relative to the folder that was ingested. Read from the dataset
        again, unless it is one of the loader's `fields`."""
        if "path" in self._names:
            return self["path"].texts()
        data, offsets = self._lent.ragged("path")
        return [os.fsdecode(data[begin:end]) for begin, end in zip(offsets, offsets[1:])]

    def ragged(self, field: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """A field without a fixed size, as stored in the dataset and without augmentation: (bytes, offsets), numpy uint8 [total]
        and int64 [count + 1]. Sample i is bytes[offsets[i]:offsets[i + 1]]. Read from the dataset again."""
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
        """Whether this is the epoch's last batch."""
        return self._lent.last_in_epoch

    @property
    def substitutions(self) -> list[dict[str, Any]]:
        """Corrupt samples and their replacements: dicts of position, bad_sample, used_sample (-1: none), reason."""
        return self._lent.substitutions


def batch_type(fields):
    """The class of batches with these fields. Copied and unpickled batches own their memory."""
    return named_type(Batch, fields)


def lend(kind, lent):
    """A batch of type `kind` over memory that is borrowed from the library."""
    batch = tuple.__new__(kind, (Ragged(*one) if isinstance(one, tuple) else one for one in lent.arrays()))
    batch._lent = lent
    return batch


# ---- batches with several views of each sample: lists of arrays, one per view


class LentViews:
    """Presents a borrowed batch of views as a batch of samples. In it, the `views` views of a sample are adjacent."""

    def __init__(self, lent, views):
        self._lent = lent
        self._views = views

    def __getattr__(self, name):
        return getattr(self._lent, name)

    @property
    def count(self):
        return self._lent.count // self._views

    @property
    def sample_ids(self):
        return self._lent.sample_ids[:: self._views]

    @property
    def weight(self):
        """0 for a sample if any of its views was dropped."""
        return self._lent.weight.reshape(-1, self._views).prod(1)

    def ragged(self, field):
        data, offsets = self._lent.ragged(field)
        rows = [data[offsets[i] : offsets[i + 1]] for i in range(0, self._lent.count, self._views)]
        return b"".join(rows), list(itertools.accumulate(map(len, rows), initial=0))


def lend_views(views, moved, kind, lent):
    """Like lend(), for several views. `moved`: names of the fields that differ between the views of a sample."""
    batch = tuple.__new__(kind, ([array[view::views] for view in range(views)] if name in moved else array[::views]
                                 for array, name in zip(lent.arrays(), kind._names)))  # fmt: skip
    batch._lent = LentViews(lent, views)
    return batch
