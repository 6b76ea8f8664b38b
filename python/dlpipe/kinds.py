"""What kind of value an option has, by the annotations of the function that takes it: told in words before the library is called."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dlpipe.errors import MisuseError

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Whole numbers of 64 bits; all others have 32.
_WIDE = ("batch", "global_batch", "views", "seed", "epochs", "limit", "length", "max_bad", "max_pixels", "memory", "cache_size",
         "top")  # fmt: skip
#: Of these those without a sign.
_FROM_ZERO = ("seed", "cache_size")


def _switch(name, value):
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # NumPy's
        return bool(value)
    raise MisuseError(f"{name} is {value!r}; give True or False")


def _whole(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise MisuseError(f"{name} is {value!r}; give a whole number")
    number = operator.index(value)
    bits = 64 if name in _FROM_ZERO else 63 if name in _WIDE else 31
    if number < 0 and name in _FROM_ZERO:
        raise MisuseError(f"{name} is {value}; give a number from 0 on")
    if not -(2**bits) <= number < 2**bits:
        raise MisuseError(f"{name} is {value}; give a number below 2**{bits}")
    return number


def _number(name, value):
    if isinstance(value, (bool, str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise MisuseError(f"{name} is {value!r}; give a number")
    return float(value)


def _text(name, value):
    if not isinstance(value, str):
        raise MisuseError(f"{name} is {value!r}; give a text")
    return value


def _path(name, value):
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise MisuseError(f"{name} is {value!r}; give a path")
    return value


_KINDS = {"bool": _switch, "int": _whole, "float": _number, "str": _text, "Path": _path}


def checked(function: Callable[..., Any], given: Mapping[str, Any], examples: Mapping[str, str]) -> dict[str, Any]:
    """The given options, each keyword of the kind that the annotation says; of other annotations as they are. `examples` are
    those of a text, by its name."""
    taken = dict(given)
    for name, value in given.items():
        if name not in (function.__kwdefaults__ or ()):
            continue
        *others, kind = sorted(str(function.__annotations__.get(name, "")).split(" | "), key=lambda one: one != "None")
        if kind not in _KINDS or (others and others != ["None"]) or (others and value is None):
            continue
        try:
            taken[name] = _KINDS[kind](name, value)
        except MisuseError as error:
            raise MisuseError(f"{error}{examples.get(name, '')}") from None
    return taken


def kinds_checked(area: str, **examples: str) -> Callable[[_Function], _Function]:
    """A decorator: values of another kind than an option has are refused, by the option's name. `area` begins the message."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def with_kinds(*args: Any, **given: Any) -> Any:
            try:
                given = checked(function, given, examples)
            except MisuseError as error:
                raise MisuseError(f"[{area}] {error}") from None
            return function(*args, **given)

        return with_kinds  # type: ignore[return-value]

    return decorate
