"""Named tuples whose fields have a dataset's names, whatever these are."""

import collections
import dis
import functools
import keyword
import math
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dlpipe.errors import MisuseError


class Named(tuple[Any, ...]):
    """A tuple of a dataset's fields: by place, by attribute, and by the dataset's own name: batch[0], batch.image,
    batch["image"].

    A field whose name can't be an attribute has another attribute: what is no letter, digit or underscore becomes an
    underscore, and a name that Python or the tuple itself uses ("class", "count") gets one behind it: sample.class_.
    """

    __slots__ = ()
    _base: type
    _names: tuple[str, ...] = ()
    _fields: tuple[str, ...] = ()
    _picture: str = ""  # the field that is one; of samples
    _advice: str = ""  # where a `for` or an assignment takes another number of fields

    if TYPE_CHECKING:  # the fields

        def __getattr__(self, name: str) -> Any: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                key = self._names.index(key)
            except ValueError:
                raise KeyError(f"no field {key!r}; there are {', '.join(self._names)}") from None
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
        return _make, (self._base, self._names, tuple(self), self._picture)


def _names_unpacked_into(frame):
    """How many names stand on the left of the `a, b = ...` or `for a, b in ...` that the frame is at; None: it is at none.
    Python's own error there says nothing of the fields."""
    code = frame.f_code.co_code
    at = frame.f_lasti
    return code[at + 1] if 0 <= at < len(code) - 1 and code[at] == dis.opmap["UNPACK_SEQUENCE"] else None


def _is_what_is_unpacked(value, frame):
    """Whether the frame unpacks this, and not something that takes it apart on the way: `a, b, c = map(list, three_batches)`. Told
    by the instruction before, which has to be a variable's, an item's or a loop's; of what a call answers nobody knows."""
    instructions = list(dis.get_instructions(frame.f_code))
    at = next(i for i, instruction in enumerate(instructions) if instruction.offset == frame.f_lasti)
    before = instructions[at - 1]
    if "LOAD" in before.opname:
        name = before.argval[-1] if isinstance(before.argval, tuple) else before.argval  # from 3.13 on one may load two
        return frame.f_locals.get(name, frame.f_globals.get(name)) is value
    return before.opname.startswith(("FOR_ITER", "BINARY_", "UNPACK_SEQUENCE", "STORE_"))


def _shown(value):
    """A value in a repr; of an array with many elements, as a picture's, dtype and shape."""
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    shape = getattr(value, "shape", None)
    if shape is None or math.prod(shape) <= 16:
        return repr(value)
    return f"<{value.dtype} {' x '.join(map(str, shape))}>"


def _make(base, names, values, picture=""):
    return named_type(base, names, picture)(*values)


def _attribute(name, taken):
    """The attribute of a field."""
    attribute = re.sub(r"\W", "_", name).lstrip("_")
    if not attribute.isidentifier():
        attribute = "field_" + attribute
    while attribute in taken or keyword.iskeyword(attribute):
        attribute += "_"
    return attribute


@functools.cache
def named_type(base, names, picture=""):
    """The class of tuples of these fields, of which `picture` is one, or "": a subclass of `base`, which is a Named."""
    taken = set(dir(base))
    attributes = []
    for name in names:
        if names.count(name) > 1:
            raise MisuseError(f"[dataset] two fields are called {name!r}; make the dataset with another name for one")
        attributes.append(_attribute(name, taken))
        taken.add(attributes[-1])
    fields = collections.namedtuple(base.__name__, attributes)  # type: ignore[misc]
    body = {"_base": base, "_names": names, "_fields": fields._fields, "_picture": picture, "__module__": "dlpipe"}
    return type(base.__name__, (base, fields), body)
