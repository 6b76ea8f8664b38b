"""What a path may be."""

import os
from typing import Union

from dlpipe.errors import MisuseError

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
    return [os.fsencode(path) for path in given]
