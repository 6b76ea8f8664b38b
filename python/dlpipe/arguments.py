"""Arguments that many functions share: type checks by annotation, paths, and progress."""

from __future__ import annotations

import difflib
import errno
import functools
import inspect
import operator
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Union

from dlpipe import _dlpipe
from dlpipe.errors import IoError, MisuseError, NotFoundError, PermissionDeniedError, UnsupportedError

#: The default of `max_pixels` everywhere.
MAX_PIXELS: int = _dlpipe.max_pixels


# ---- types of options, from the function's annotations: checked before the library is called


_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Options that are 64-bit integers; all others have 32 bits.
_WIDE = ("batch", "global_batch", "views", "seed", "epochs", "limit", "length", "max_bad", "max_pixels", "memory", "cache_size",
         "top", "epoch")  # fmt: skip
#: The unsigned ones of them.
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
        raise MisuseError(f"{name} is {value}; give a number of at least 0")
    if not -(2**bits) <= number < 2**bits:
        raise MisuseError(f"{name} is {value}; give a number below 2**{bits}")
    return number


def _number(name, value):
    if isinstance(value, (bool, str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise MisuseError(f"{name} is {value!r}; give a number")
    return float(value)


def encoded(name: str, value: str) -> bytes:
    """The bytes of a text. Those that os.fsdecode could not decode are unchanged. `name` says in the error what the text is."""
    try:
        return value.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise MisuseError(f"{name} is {value!r}; it has a lone surrogate at {error.start}, which UTF-8 can't encode: remove it") from None


def _text(name, value):
    if not isinstance(value, str):
        raise MisuseError(f"{name} is {value!r}; give a string")
    encoded(name, value)
    return value


def _path(name, value):
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise MisuseError(f"{name} is {value!r}; give a path")
    path = os.fspath(value)
    if isinstance(path, str):
        encoded(name, path)
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
        return value  # the function reports this with an example
    if not hasattr(value, "__iter__"):
        raise MisuseError(f"{name} is {value!r}; give a list of strings")
    return [_text(f"{name}[{i}]", one) for i, one in enumerate(value)]


def _numbers(name, value):
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise MisuseError(f"{name} is {value!r}; give a number for each channel, such as [0.5, 0.5, 0.5]")
    return [_number(f"{name}[{i}]", one) for i, one in enumerate(value)]


def _chain(name, value):
    if isinstance(value, str):
        return _text(name, value)
    from dlpipe.recipes import chain_of

    return chain_of(name, value)


#: A chain as a string, or transforms of another library that convert to one.
Augment = Any
_KINDS = {"bool": _switch, "int": _whole, "float": _number, "str": _text, "Path": _path, "Augment": _chain, "Callable": _function, "Mapping": _by_name,
          "Literal": _text,
          "Iterable[str]": _texts, "Sequence[str]": _texts, "Sequence[float]": _numbers}  # fmt: skip


def _check_of(annotation):
    """(check, may be None) of an annotation. The check is None for an annotation that has none."""
    *others, kind = sorted(str(annotation).split(" | "), key=lambda one: one != "None")
    check = _KINDS.get(kind) or _KINDS.get(kind.split("[")[0])
    return (None if others and others != ["None"] else check), bool(others)


def checked(function: Callable[..., Any], given: Mapping[str, Any], examples: Mapping[str, str | None]) -> dict[str, Any]:
    """The given arguments, each checked against its annotation; arguments with other annotations are unchanged. `examples` maps
    an argument to an example for its message; None: the function checks that argument itself."""
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


#: Other libraries' names of arguments, which are too far from ours for an edit distance.
_OTHER_NAMES = {"batch_size": "batch", "num_workers": "threads", "checkpoint": "ckpt", "weights": "ckpt", "dataset": "data",
                "transform": "val_augment", "callbacks": "progress", "k": "top", "topk": "top"}  # fmt: skip


def _refuse_unknown(options, places, given):
    """Refuses unknown options with a suggestion. Python's own error doesn't list the options that exist."""
    for name in given:
        if name not in options and name not in places:
            other, options = _OTHER_NAMES.get(name), [one for one in options if not one.startswith("_")]
            near = [other] if other in options or other in places else difflib.get_close_matches(name, options, 1, 0.75)
            raise TypeError(f"no option {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(options)}"))


def kinds_checked(area: str, **examples: str | None) -> Callable[[_Function], _Function]:
    """A decorator that refuses arguments of the wrong type, naming the argument. `area` begins the message."""

    def decorate(function: _Function) -> _Function:
        parameters = inspect.signature(function).parameters.values()
        options = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        places = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        named = {one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)}
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)

        @functools.wraps(function)
        def with_kinds(*args: Any, **given: Any) -> Any:
            if not takes_any:
                _refuse_unknown(options, places, given)
            try:
                by_place = checked(function, dict(zip(places, args)), examples)
                given |= checked(function, {name: value for name, value in given.items() if name in named}, examples)
            except MisuseError as error:
                raise MisuseError(f"[{area}] {error}") from None
            return function(*by_place.values(), *args[len(places):], **given)

        return with_kinds  # type: ignore[return-value]

    return decorate


# ---- paths, and reading the file at a path


#: As Python's own functions accept it. Paths that are not valid text are passed as bytes.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def paths_as_bytes(area, name, given):
    """One path or several, as the list of bytes that the library takes."""
    given = [given] if isinstance(given, (str, bytes, os.PathLike)) else given
    if not hasattr(given, "__iter__"):
        raise MisuseError(f"[{area}] {name} is {given!r}; give a path or several")
    given = list(given)
    for path in given:
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise MisuseError(f"[{area}] {name} holds {type(path).__name__}; give paths")
        _path(f"[{area}] {name}", path)
        if b"\0" in os.fsencode(path):
            raise MisuseError(f"[{area}] {name} holds {path!r}; a path can't contain a zero byte")
    return [os.fsencode(path) for path in given]


_OF_THE_SYSTEM = {FileNotFoundError: NotFoundError, PermissionError: PermissionDeniedError}
_MOST_BYTES = 1 << 30


class NotRegular(OSError):
    """The path is a pipe or a device (reading it may never end), is too large for an image, or contains a zero byte."""


def regular_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Raises OSError; a pipe or a device is refused before it is opened."""
    if b"\0" in os.fsencode(path):
        raise NotRegular(errno.EINVAL, "contains a zero byte, which no path can")
    kind = os.stat(path).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISREG(kind):
        # Don't block: the file may have been replaced by a pipe since stat().
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            kind = os.fstat(file.fileno()).st_mode
            data = file.read(_MOST_BYTES + 1) if stat.S_ISREG(kind) else b""
    if not stat.S_ISREG(kind):
        name = "a pipe" if stat.S_ISFIFO(kind) else "a device"
        raise NotRegular(errno.EINVAL, f"is {name}, not a regular file; give the path of a file")
    if len(data) > _MOST_BYTES:
        raise NotRegular(errno.EFBIG, "is larger than 1 GiB; give the path of an image")
    return data


def read_file(area: str, path: Path) -> bytes:
    """Like regular_bytes, but raises this package's exceptions."""
    shown = repr(os.fsdecode(path))
    try:
        return regular_bytes(path)
    except NotRegular as error:
        raise UnsupportedError(f"[{area}] {shown} {error.strerror}") from error
    except OSError as error:
        raised = next((ours for system, ours in _OF_THE_SYSTEM.items() if isinstance(error, system)), IoError)
        raise raised(f"[{area}] cannot read {shown}: {error.strerror}") from error


# ---- progress


class TqdmProgress:
    """A tqdm bar, for any `progress=` argument. `progress=True` is the same as `progress=dlpipe.TqdmProgress()`.

    Args:
        **options: passed to tqdm, such as desc="val" or file=sys.stdout.
    """

    def __init__(self, **options: Any) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise MisuseError("[progress] a progress bar needs tqdm: pip install tqdm, or give progress= a function") from error

        self._make = lambda total, unit: tqdm(**{"total": total, "unit": unit, **options})
        self._bar: Any = None

    def update(self, done: int, total: int | None, unit: str, **shown: object) -> None:
        """Moves the bar to `done` of `total` (None: unknown) and shows the other values after it."""
        if self._bar is None:
            self._bar = self._make(total, unit)
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Ends the bar where it is. Called at the end of the work, also after an error."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


#: Accepted as `progress=`.
Progress = Union[None, bool, TqdmProgress, Callable[..., object]]


class Reporter:
    """Turns a `progress=` argument into `call`: None, the caller's function, or one that moves a bar. A context manager."""

    def __init__(self, progress, show):
        """`show(bar, *arguments)` moves a bar; it gets the arguments that a progress function would be called with."""
        if progress is None or progress is False:
            self.call = None
        elif progress is True or isinstance(progress, TqdmProgress):
            self._bar = TqdmProgress() if progress is True else progress
            self.call = lambda *arguments: show(self._bar, *arguments)
        elif callable(progress):
            self.call = progress
        else:
            raise TypeError(f"progress={progress!r}; give a function, True for a tqdm bar, or dlpipe.TqdmProgress()")

    _bar: TqdmProgress | None = None

    def __enter__(self):
        return self.call

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
