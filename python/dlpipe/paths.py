"""What a path may be, and the bytes of a file at one."""

import errno
import os
import stat
from typing import Union

from dlpipe.errors import IoError, MisuseError, NotFoundError, PermissionDeniedError, UnsupportedError

#: As Python's own functions take it. What is no text is taken as bytes.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def paths_as_bytes(area, name, given):
    """Of a path or several, what the library takes."""
    given = [given] if isinstance(given, (str, bytes, os.PathLike)) else given
    if not hasattr(given, "__iter__"):
        raise MisuseError(f"[{area}] {name} is {given!r}; give a path or several")
    given = list(given)
    for path in given:
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise MisuseError(f"[{area}] {name} holds {type(path).__name__}; give paths")
        if b"\0" in os.fsencode(path):
            raise MisuseError(f"[{area}] {name} holds {path!r}, which has a zero byte, and no file is called so")
    return [os.fsencode(path) for path in given]


_OF_THE_SYSTEM = {FileNotFoundError: NotFoundError, PermissionError: PermissionDeniedError}
_MOST_BYTES = 1 << 30


class NotRegular(OSError):
    """A pipe or a device, of which reading may never end, more bytes than an image has, or a path that no file has."""


def regular_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Raises OSError, for a pipe or a device before it is opened."""
    if b"\0" in os.fsencode(path):
        raise NotRegular(errno.EINVAL, "has a zero byte, and no file is called so")
    kind = os.stat(path).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISREG(kind):
        # Without waiting: something else may be there by now.
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
    """regular_bytes with this package's exceptions."""
    shown = repr(os.fsdecode(path))
    try:
        return regular_bytes(path)
    except NotRegular as error:
        raise UnsupportedError(f"[{area}] {shown} {error.strerror}") from error
    except OSError as error:
        raised = next((ours for system, ours in _OF_THE_SYSTEM.items() if isinstance(error, system)), IoError)
        raise raised(f"[{area}] cannot read {shown}: {error.strerror}") from error
