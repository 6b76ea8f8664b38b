"""What kind of value an option has, by the annotations of the function that takes it: told in words before the library is called."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dlpipe.errors import MisuseError

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Whole numbers of 64 bits; all others have 32.
_WIDE = ("batch", "global_batch", "views", "seed", "epochs", "limit", "length", "max_bad", "max_pixels", "memory", "cache_size",
         "top", "epoch")  # fmt: skip
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


def _function(name, value):
    if not callable(value):
        raise MisuseError(f"{name} is {value!r}; give a function")
    return value


def _by_name(name, value):
    if not isinstance(value, Mapping):
        raise MisuseError(f"{name} is {value!r}; give a dict")
    return value


def _texts(name, value):
    if isinstance(value, (str, bytes)):
        return value  # the function has an example for that
    if not hasattr(value, "__iter__"):
        raise MisuseError(f"{name} is {value!r}; give a list of texts")
    return [_text(f"{name}[{i}]", one) for i, one in enumerate(value)]


def _numbers(name, value):
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise MisuseError(f"{name} is {value!r}; give a number for each channel, such as [0.5, 0.5, 0.5]")
    return [_number(f"{name}[{i}]", one) for i, one in enumerate(value)]


def _chain(name, value):
    if isinstance(value, str):
        return value
    from dlpipe.recipes import chain_of

    return chain_of(name, value)


#: A chain's text, or transforms of another library that mean one.
Augment = Any
_KINDS = {"bool": _switch, "int": _whole, "float": _number, "str": _text, "Path": _path, "Augment": _chain, "Callable": _function, "Mapping": _by_name,
          "Literal": _text,
          "Iterable[str]": _texts, "Sequence[str]": _texts, "Sequence[float]": _numbers}  # fmt: skip


def _check_of(annotation):
    """The check of an annotation's kind, and whether None is one of its values; the check is None where there is none."""
    *others, kind = sorted(str(annotation).split(" | "), key=lambda one: one != "None")
    check = _KINDS.get(kind) or _KINDS.get(kind.split("[")[0])
    return (None if others and others != ["None"] else check), bool(others)


def checked(function: Callable[..., Any], given: Mapping[str, Any], examples: Mapping[str, str | None]) -> dict[str, Any]:
    """The given arguments, each of the kind that the annotation says; of other annotations as they are. `examples` are those of
    a text, by its name; None: the function says itself what is wrong."""
    taken = dict(given)
    for name, value in given.items():
        check, may_be_none = _check_of(function.__annotations__.get(name, ""))
        if check is None or (may_be_none and value is None) or examples.get(name, "") is None:
            continue
        try:
            taken[name] = check(name, value)
        except MisuseError as error:
            raise MisuseError(f"{error}{examples.get(name, '')}") from None
    return taken


def _refuse_unknown(options, given):
    """Python's own error of an option that there isn't says nothing of those that there are."""
    for name in given:
        if name not in options:
            near = difflib.get_close_matches(name, options, 1, 0.75)
            raise TypeError(f"no option {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(options)}"))


def kinds_checked(area: str, **examples: str | None) -> Callable[[_Function], _Function]:
    """A decorator: values of another kind than an argument has are refused, by its name. `area` begins the message."""

    def decorate(function: _Function) -> _Function:
        parameters = inspect.signature(function).parameters.values()
        options = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        places = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        named = {one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)}
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)

        @functools.wraps(function)
        def with_kinds(*args: Any, **given: Any) -> Any:
            if not takes_any:
                _refuse_unknown(options, given.keys() - set(places))
            try:
                by_place = checked(function, dict(zip(places, args)), examples)
                given |= checked(function, {name: value for name, value in given.items() if name in named}, examples)
            except MisuseError as error:
                raise MisuseError(f"[{area}] {error}") from None
            return function(*by_place.values(), *args[len(places):], **given)

        return with_kinds  # type: ignore[return-value]

    return decorate
