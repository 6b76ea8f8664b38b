"""The options that ingest, Writer and from_dataset share: how pictures are stored. storing.cpp reads them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

_Documented = TypeVar("_Documented")

_DOCUMENTATION = """\
on_error: what to do about a bad picture: "auto" (skip it and list it in the report, but stop at an archive that is cut
            short), "skip" or "stop". Default: "auto"; of samples that Python code makes "stop".
        store: "auto" (the file's own bytes; pixels stay raw), "jpeg", "raw", or, of ingest, "link": pictures stay in their
            files or tar archives, and are read from there.
        jpeg: layout of JPEGs: "auto", "coefficients", "coefficients-dense", "restart" or "standard".
        trust: don't compare the pixels of that layout with the file's.
        resize_max: scale longer sides down to so many pixels; 0: don't.
        background: colour behind transparent pixels of PNG and WebP: "white", "black" or "#rrggbb"; such pictures are stored
            anew, as PNG. Without it alpha is left out.
        quality: of JPEGs that are coded anew, 1 to 100. Default: 90.
        zstd: compress each record; pays for raw pixels.
        threads: 0: as many as the process may use.
        map_size: most bytes of a dataset, a number or a text such as "1TiB"; 0: 16 GiB and eight times the estimate, where nobody
            knows what comes 1 TiB. Address space only.
        max_pixels: larger pictures are bad ones."""


class StoringOptions(TypedDict, total=False):
    """How pictures are stored: options of dlpipe.ingest, dlpipe.Writer and dlpipe.from_dataset."""

    on_error: str
    store: str
    jpeg: str
    trust: bool
    resize_max: int
    background: str
    quality: int
    zstd: bool
    threads: int
    map_size: int | str
    max_pixels: int


def check_names(storing: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Raises TypeError for what is no option, with the nearest of all that `function` takes."""
    known = [*(name for name, one in inspect.signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY),
             *StoringOptions.__annotations__]  # fmt: skip
    for name in storing:
        if name not in StoringOptions.__annotations__:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"no option {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"))


def documented(what: _Documented) -> _Documented:
    """Puts the options' documentation where "{storing}" stands in that of a function or a class."""
    if what.__doc__ is not None:  # python -OO
        what.__doc__ = what.__doc__.replace("{storing}", _DOCUMENTATION)
    return what
