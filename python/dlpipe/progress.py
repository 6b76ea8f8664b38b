"""Progress of long work: any function of your own, or tqdm's bar ready-made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from dlpipe.errors import MisuseError


class TqdmProgress:
    """A tqdm bar. Give one as `progress=` to whatever takes a progress function, or `progress=True` for the same.

    Args:
        **options: tqdm's own, such as desc="val" or file=sys.stdout.
    """

    def __init__(self, **options: Any) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise MisuseError("[progress] a bar wants tqdm: pip install tqdm, or give progress= a function") from error

        self._make = lambda total, unit: tqdm(**{"total": total, "unit": unit, **options})
        self._bar: Any = None

    def update(self, done: int, total: int | None, unit: str, **shown: object) -> None:
        """Moves the bar to `done` of `total` (None: nobody knows) and shows the rest behind it."""
        if self._bar is None:
            self._bar = self._make(total, unit)
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leaves the bar as it is. Called at the end of the work, whatever the end was."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


#: What `progress=` may be.
Progress = Union[None, bool, TqdmProgress, Callable[..., object]]


class Reporter:
    """What `progress=` means: nothing, a function of the work's own arguments, or a bar. A context manager."""

    def __init__(self, progress, show):
        """`show(bar, *arguments)` moves a bar by what a function would be called with."""
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
